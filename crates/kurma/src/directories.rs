//! Where everything is on disk. No daemon is needed: what any process has to know is in here.

use std::path::PathBuf;

use crate::{Name, PodId};

/// The directories of the networking pod and of the pods that it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directories {
    /// Plugin containers and the records of pods; for root alone. A reboot may empty it.
    pub runtime: PathBuf,
    /// The files that keep the pods' network namespaces; at the same path in every plugin.
    pub netns: PathBuf,
}

impl Directories {
    /// Of one plugin container.
    pub fn plugin(&self, name: &Name) -> PathBuf {
        self.plugins().join(name.as_str())
    }

    /// Of all plugin containers.
    pub fn plugins(&self) -> PathBuf {
        self.runtime.join("plugins")
    }

    /// Of the pods' records.
    pub fn pods(&self) -> PathBuf {
        self.runtime.join("pods")
    }

    /// The file that keeps a pod's network namespace.
    pub fn netns_of(&self, pod: &PodId) -> PathBuf {
        self.netns.join(pod.as_str())
    }
}
