//! The names of containers on other hosts: the keeper of the cluster reports them, the server for names answers
//! with them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use config::Config;
use host::hosts;
use model::{Error, NamedElsewhere, Result};
use rustix::event::{EventfdFlags, eventfd};

/// The file is written no more often than this.
const REST: Duration = Duration::from_secs(1);
/// A longer file is none of ours, in bytes.
const LONGEST: u64 = 64 << 20;

/// All of them.
pub(super) type Names = Arc<Vec<NamedElsewhere>>;

/// What both threads share. The next life of the daemon begins with what this one has heard, because etcd may be away
/// then; a reboot forgets it.
pub(super) struct Elsewhere {
    known: Mutex<LearnedNames>,
    wakes: OwnedFd,
    path: PathBuf,
}

#[derive(Default)]
struct LearnedNames {
    names: Names,
    is_saved: bool,
    saved: Option<Instant>,
}

impl Elsewhere {
    /// With what an earlier life has heard.
    pub(super) fn new(config: &Config) -> Result<Self> {
        let wakes = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wakes = wakes.map_err(|cause| Error::os("making an event descriptor", cause.into()))?;
        let path = hosts::names(&config.store.runtime);
        let is_member = hosts::is_member(&hosts::place(&config.store.state));
        let names = Some(&path).filter(|_| is_member).and_then(|path| read(path));
        let names = Arc::new(names.unwrap_or_default());
        let known = Mutex::new(LearnedNames { names, is_saved: true, saved: None });
        Ok(Self { known, wakes, path })
    }

    /// These are all.
    pub(super) fn set(&self, names: Vec<NamedElsewhere>) {
        let mut known = self.lock();
        if *known.names != names {
            (known.names, known.is_saved) = (Arc::new(names), false);
            // A counter that is full wakes as well.
            let _ = rustix::io::write(&self.wakes, &1_u64.to_ne_bytes());
        }
        self.save(&mut known);
    }

    /// What is known now.
    pub(super) fn names(&self) -> Names {
        Arc::clone(&self.lock().names)
    }

    /// The same, for who was woken.
    pub(super) fn hear(&self) -> Names {
        let mut count = [0; 8];
        // Nothing to read: nothing has changed.
        let _ = rustix::io::read(&self.wakes, &mut count);
        self.names()
    }

    fn save(&self, known: &mut LearnedNames) {
        if known.is_saved || known.saved.is_some_and(|saved| saved.elapsed() < REST) {
            return;
        }
        // Without the file the next life waits for etcd.
        let written = write(&self.path, &known.names);
        (known.is_saved, known.saved) = (written.is_some(), Some(Instant::now()));
    }

    fn lock(&self) -> MutexGuard<'_, LearnedNames> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Elsewhere {
    /// Readable when something has changed since [`Elsewhere::hear`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakes.as_fd()
    }
}

fn read(path: &Path) -> Option<Vec<NamedElsewhere>> {
    serde_json::from_str(&file::text(path, LONGEST).ok()?).ok()
}

fn write(path: &Path, names: &[NamedElsewhere]) -> Option<()> {
    let bytes = serde_json::to_vec(names).ok()?;
    file::replace(path, &path.with_extension("new"), &bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> NamedElsewhere {
        NamedElsewhere {
            network: "front".parse().unwrap(),
            host: "b".parse().unwrap(),
            mac: "02:00:00:00:00:01".parse().unwrap(),
            addresses: vec!["10.64.1.2".parse().unwrap()],
            names: vec![name.parse().unwrap()],
            runtime: None,
        }
    }

    #[test]
    fn the_next_life_begins_with_what_this_one_has_heard() {
        let root = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.store.runtime = root.path().to_owned();
        config.store.state = root.path().to_owned();
        let elsewhere = Elsewhere::new(&config).unwrap();
        elsewhere.set(vec![named("web")]);
        assert_eq!(elsewhere.hear().len(), 1);
        // What comes soon after is written with the next comparison.
        elsewhere.set(Vec::new());
        assert!(!elsewhere.lock().is_saved && elsewhere.names().is_empty());
        assert_eq!(Elsewhere::new(&config).unwrap().names().len(), 0, "no member");
        let place = hosts::place(&config.store.state);
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join(hosts::MEMBER), "{}").unwrap();
        assert_eq!(*Elsewhere::new(&config).unwrap().names(), [named("web")]);
        std::fs::write(hosts::names(root.path()), r#"[{"names":["a b"]}]"#).unwrap();
        assert_eq!(*Elsewhere::new(&config).unwrap().names(), []);
    }
}
