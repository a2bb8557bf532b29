//! How the plugin containers are.

use model::Result;
use serde_json::{Value, json};

use super::state::{State, now};
use super::{Key, NetworkingPod};
use crate::config::{PodNetworks, Refused};
use crate::disk;

/// What is said of a container that was started from other namespaces than the host's.
const ELSEWHERE: &str =
    "it is not in the host's network and mount namespace: its next call starts it anew";

/// A plugin container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its network, or whose it is else.
    pub name: String,
    /// Its image, as it was asked for.
    pub image: String,
    /// Where it stands.
    pub standing: Standing,
    /// How often it was started again because it had ended.
    pub restarts: u32,
    /// What went wrong the last time.
    pub error: Option<String>,
    /// Whether it has other namespaces than the host, and so cannot serve.
    pub is_elsewhere: bool,
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
    /// As a document: `name`, `image`, `state`, `pid`, `restarts`, `error`.
    pub fn to_value(&self) -> Value {
        let mut value = json!({"name": self.name, "image": self.image,
            "state": self.standing.word(), "restarts": self.restarts});
        if let Standing::Running { pid } = self.standing {
            value["pid"] = json!(pid);
        }
        if let Some(error) = &self.error {
            value["error"] = json!(error);
        }
        value
    }

    fn refused(refused: &Refused) -> Self {
        Self {
            name: refused.name.clone().unwrap_or_default(),
            image: String::new(),
            standing: Standing::Refused,
            restarts: 0,
            error: Some(refused.error.to_string()),
            is_elsewhere: false,
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
            let mut status = self.status_of(&key)?;
            status.image = network.image.to_string();
            known.push(key);
            all.push(status);
        }
        for key in self.keys()? {
            let status = self.status_of(&key)?;
            if !known.contains(&key) && matches!(status.standing, Standing::Running { .. }) {
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

    fn status_of(&self, key: &Key) -> Result<Status> {
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
            is_elsewhere,
        })
    }
}
