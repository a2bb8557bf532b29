//! The status of plugin containers.

use std::path::PathBuf;

use image::{ImageId, Locator};
use model::Result;
use serde_json::{Value, json};

use super::state::{State, now};
use super::{Key, NetworkingPod};
use crate::config::{PodNetworks, Refused};
use crate::disk;

/// The warning about a container that was started from other namespaces than the host's.
const ELSEWHERE: &str =
    "it is not in the host's network and mount namespace: its next call starts it anew";

/// How much of an image's id people are shown, in characters.
const SHORT: usize = 19;

/// A plugin container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its network, or whose it is else.
    pub name: String,
    /// Its image, as it was asked for.
    pub image: String,
    /// Its state.
    pub standing: Standing,
    /// How often it was started again because it had ended.
    pub restarts: u32,
    /// The last error.
    pub error: Option<String>,
    /// Why it had to be started again the last time, where it had to.
    pub last_end: Option<String>,
    /// Whether it has other namespaces than the host, and so cannot serve.
    pub is_elsewhere: bool,
    /// The id of the image that runs, where one does.
    pub id: Option<String>,
    /// The id of the image that was fetched since, which the next start takes, where it is another one.
    pub pulled: Option<String>,
    /// How many containers were replaced and have a call still, or could not be ended.
    pub retired: usize,
}

/// Where a plugin container stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It runs.
    Running {
        /// Its first process.
        pid: u32,
    },
    /// It was not started, or stopped on purpose.
    Stopped,
    /// It has ended, and is started again after a pause.
    Waiting,
    /// It could not be started, or has ended; the next call starts it again.
    Failed,
    /// Its configuration is wrong.
    Refused,
}

impl Standing {
    /// One word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running { .. } => "running",
            Self::Stopped => "stopped",
            Self::Waiting => "waiting",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }
}

impl Status {
    /// As a document: `name`, `image`, `state`, `pid`, `restarts`, `error`, `last_end`, `id`, `pulled`,
    /// `retired`.
    pub fn to_value(&self) -> Value {
        let mut value = json!({"name": self.name, "image": self.image,
            "state": self.standing.word(), "restarts": self.restarts});
        if let Standing::Running { pid } = self.standing {
            value["pid"] = json!(pid);
        }
        if self.retired > 0 {
            value["retired"] = json!(self.retired);
        }
        let texts = [
            ("error", &self.error),
            ("last_end", &self.last_end),
            ("id", &self.id),
            ("pulled", &self.pulled),
        ];
        for (field, text) in texts {
            if let Some(text) = text {
                value[field] = json!(text);
            }
        }
        value
    }

    /// The warning about an image that was fetched since this was started.
    pub fn outdated(&self) -> Option<String> {
        let short = |id: &String| id.chars().take(SHORT).collect::<String>();
        let (running, pulled) = (short(self.id.as_ref()?), short(self.pulled.as_ref()?));
        Some(format!("running {running}, pulled {pulled}"))
    }

    /// The note on containers that were replaced, and do not end because of a call.
    pub fn former(&self) -> Option<String> {
        let count = self.retired;
        (count > 0).then(|| format!("{count} replaced, not ended: a call is in it still"))
    }

    fn refused(refused: &Refused) -> Self {
        Self {
            name: refused.name.clone().unwrap_or_default(),
            image: String::new(),
            standing: Standing::Refused,
            restarts: 0,
            error: Some(refused.error.to_string()),
            last_end: None,
            is_elsewhere: false,
            id: None,
            pulled: None,
            retired: 0,
        }
    }
}

impl NetworkingPod {
    /// Every configured network's plugin, in order, then others that run.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub fn status(&self, networks: &PodNetworks) -> Result<Vec<Status>> {
        let mut all = Vec::new();
        let mut known = Vec::new();
        for network in networks.networks() {
            let key = Key::Network(network.name.clone());
            let mut status = self.status_of(&key, &network.keys)?;
            status.image = network.image.to_string();
            known.push(key);
            all.push(status);
        }
        for key in self.keys()? {
            let status = self.status_of(&key, &[])?;
            let is_there =
                matches!(status.standing, Standing::Running { .. }) || status.retired > 0;
            if !known.contains(&key) && is_there {
                all.push(status);
            }
        }
        all.extend(networks.refused().map(Status::refused));
        Ok(all)
    }

    /// All plugin containers that there are records of.
    pub(super) fn keys(&self) -> Result<Vec<Key>> {
        let names = disk::names(&self.directories.plugins(), "")?;
        Ok(names.iter().filter_map(|name| Key::read(name)).collect())
    }

    pub(super) fn status_of(&self, key: &Key, keys: &[PathBuf]) -> Result<Status> {
        let directory = self.plugin(key);
        let state = State::read(&directory)?;
        let running = match state.should_run() {
            true => self.engine.adopt(&directory.join(&state.generation))?,
            false => None,
        };
        let standing = match &running {
            Some(running) => Standing::Running { pid: running.process().pid },
            None if state.is_stopped => Standing::Stopped,
            None if state.should_run() && !state.pause(now()).is_zero() => Standing::Waiting,
            None if state.should_run() || state.error.is_some() => Standing::Failed,
            None => Standing::Stopped,
        };
        let is_elsewhere = running.as_ref().is_some_and(|running| self.is_elsewhere(running));
        let id = running.as_ref().and_then(|_| state.id.parse::<ImageId>().ok());
        let locator = state.image.parse::<Locator>().ok().filter(|_| id.is_some());
        let pulled = match locator {
            Some(locator) => {
                self.images.cached(&locator, keys)?.filter(|now| Some(now) != id.as_ref())
            }
            None => None,
        };
        let error = match standing {
            Standing::Running { .. } if is_elsewhere => Some(ELSEWHERE.to_owned()),
            Standing::Waiting | Standing::Failed => self.last_words(&directory),
            _ => state.error,
        };
        Ok(Status {
            name: key.to_string(),
            image: state.image,
            standing,
            restarts: state.restarts,
            error,
            last_end: state.last_end.map(|end| end.why),
            is_elsewhere,
            id: id.map(|id| id.to_string()),
            pulled: pulled.map(|id| id.to_string()),
            retired: state.retired.len(),
        })
    }
}
