//! The stored state of a plugin container.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::Result;
use serde_json::{Value, json};

use crate::disk;

/// A container that ran this long does not count as failing, in milliseconds.
const LONG_LIFE: u64 = 60_000;
/// The first pause before a restart, in milliseconds. Each further one is twice as long.
const FIRST_PAUSE: u64 = 100;
/// The longest pause, in milliseconds.
const LONGEST_PAUSE: u64 = 30_000;

/// A container that ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// Its first process, which identifies it.
    pub(super) pid: u32,
    /// How and why, in words.
    pub(super) why: String,
}

/// A container that was replaced, and may run still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Retired {
    /// Which.
    pub(super) generation: String,
    /// The id of its image; empty where an earlier version wrote the record.
    pub(super) image: String,
}

/// The last start, and its result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Digest of what was wanted.
    pub(super) settings: String,
    /// Which container: a digest of the settings and the image's content. Empty: none yet.
    pub(super) generation: String,
    /// The image, as it was asked for.
    pub(super) image: String,
    /// The id of that.
    pub(super) id: String,
    /// When it was started, in milliseconds since 1970.
    pub(super) started: u64,
    /// How many starts in a row ended soon.
    pub(super) failures: u32,
    /// How often it was started again because it had ended.
    pub(super) restarts: u32,
    /// Why it had to be started again the last time.
    pub(super) last_end: Option<Ended>,
    /// Whether it can be called: its one-time setup is done.
    pub(super) is_ready: bool,
    /// Whether it was stopped on purpose.
    pub(super) is_stopped: bool,
    /// The last error.
    pub(super) error: Option<String>,
    /// Containers that were replaced, and may run still.
    pub(super) retired: Vec<Retired>,
}

impl State {
    pub(super) fn path(plugin: &Path) -> PathBuf {
        plugin.join("state.json")
    }

    /// Of the plugin in this directory; as if there had been nothing where there is no record that
    /// can be read, because a container can always be started again.
    pub(super) fn read(plugin: &Path) -> Result<Self> {
        match disk::read(&Self::path(plugin)) {
            Ok(value) => Ok(value.as_ref().map(Self::from_value).unwrap_or_default()),
            Err(error) if error.kind() == model::Kind::Bug => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn write(&self, plugin: &Path) -> Result<()> {
        disk::write(&State::path(plugin), &self.to_value())
    }

    fn from_value(value: &Value) -> Self {
        let text =
            |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let number = |field: &str| value.get(field).and_then(Value::as_u64).unwrap_or_default();
        let flag = |field: &str| value.get(field).and_then(Value::as_bool).unwrap_or_default();
        let retired = value.get("retired").and_then(Value::as_array).into_iter().flatten();
        let images = value.get("retired_images");
        let retired_of = |generation: &str| Retired {
            generation: generation.to_owned(),
            image: images
                .and_then(|images| images.get(generation)?.as_str())
                .unwrap_or_default()
                .to_owned(),
        };
        let last_end = |end: &Value| {
            let pid = u32::try_from(end.get("pid")?.as_u64()?).ok()?;
            Some(Ended { pid, why: end.get("why")?.as_str()?.to_owned() })
        };
        // It becomes a part of a path.
        let is_digest = |text: &&str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        Self {
            settings: text("settings"),
            generation: Some(text("generation"))
                .filter(|it| is_digest(&it.as_str()))
                .unwrap_or_default(),
            image: text("image"),
            id: text("id"),
            started: number("started"),
            failures: u32::try_from(number("failures")).unwrap_or(u32::MAX),
            restarts: u32::try_from(number("restarts")).unwrap_or(u32::MAX),
            last_end: value.get("last_end").and_then(last_end),
            is_ready: flag("ready"),
            is_stopped: flag("stopped"),
            error: value.get("error").and_then(Value::as_str).map(str::to_owned),
            retired: retired.filter_map(Value::as_str).filter(is_digest).map(retired_of).collect(),
        }
    }

    fn to_value(&self) -> Value {
        let last_end = self.last_end.as_ref().map(|end| json!({"pid": end.pid, "why": end.why}));
        let retired: Vec<&String> = self.retired.iter().map(|past| &past.generation).collect();
        let images: BTreeMap<_, _> =
            self.retired.iter().map(|past| (&past.generation, &past.image)).collect();
        json!({
            "settings": self.settings, "generation": self.generation, "image": self.image,
            "id": self.id,  "started": self.started, "failures": self.failures,
            "restarts": self.restarts, "last_end": last_end, "ready": self.is_ready, "stopped": self.is_stopped,
            "error": self.error, "retired": retired, "retired_images": images,
        })
    }

    /// Whether a container was started and should be running.
    pub(super) fn should_run(&self) -> bool {
        !self.generation.is_empty() && !self.is_stopped
    }

    /// How long to wait with the next start, where the container has ended by itself.
    pub(super) fn pause(&self, now: u64) -> Duration {
        let lived = now.saturating_sub(self.started);
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(20)).min(LONGEST_PAUSE);
        Duration::from_millis(pause.saturating_sub(lived))
    }

    /// Counts a start after an unwanted end.
    pub(super) fn count_restart(&mut self, now: u64) {
        self.restarts = self.restarts.saturating_add(1);
        let is_well = now.saturating_sub(self.started) >= LONG_LIFE;
        self.failures = if is_well { 0 } else { self.failures.saturating_add(1) };
    }
}

/// Milliseconds since 1970.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_until_it_lives_long() {
        let mut state = State { started: 1000, ..State::default() };
        let mut pauses = Vec::new();
        for _ in 0..11 {
            pauses.push(state.pause(state.started).as_millis());
            state.count_restart(state.started + 1);
        }
        assert_eq!(pauses[..4], [100, 200, 400, 800]);
        assert_eq!(pauses[9..], [30_000, 30_000]);
        assert_eq!(state.pause(state.started + LONG_LIFE), Duration::ZERO);
        state.count_restart(state.started + LONG_LIFE);
        assert_eq!((state.failures, state.restarts), (0, 12));
    }

    #[test]
    fn reads_what_it_writes() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(State::read(directory.path()).unwrap(), State::default());
        let state = State {
            generation: "0a".into(),
            retired: vec![Retired { generation: "0b".into(), image: "sha256-0".into() }],
            error: Some("x".into()),
            is_ready: true,
            restarts: 3,
            last_end: Some(Ended { pid: 7, why: "exited 3".into() }),
            ..State::default()
        };
        state.write(directory.path()).unwrap();
        assert_eq!(State::read(directory.path()).unwrap(), state);
        std::fs::write(State::path(directory.path()), r#"{"generation": "../x"}"#).unwrap();
        assert_eq!(State::read(directory.path()).unwrap().generation, "");
        std::fs::write(State::path(directory.path()), "{").unwrap();
        assert_eq!(State::read(directory.path()).unwrap(), State::default());
    }
}
