//! The engines of a host in which a network of many hosts is made.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The label of Docker's and Podman's networks, and the key of CNI's lists, by which the daemon knows again what it
/// made in an engine. The network's name is its value.
pub const ENGINE_LABEL: &str = "spoke.cluster";

/// What starts containers, and has networks of its own that containers are put on by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    /// Docker: a network that `docker network ls` lists.
    Docker,
    /// Podman: a network that `podman network ls` lists.
    Podman,
    /// What reads CNI's network configuration lists.
    Cni,
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EngineKind::Docker => "docker",
            EngineKind::Podman => "podman",
            EngineKind::Cni => "cni",
        })
    }
}

impl FromStr for EngineKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        [EngineKind::Docker, EngineKind::Podman, EngineKind::Cni]
            .into_iter()
            .find(|kind| kind.to_string() == text)
            .ok_or_else(|| Error::invalid(format!("{text:?} is not docker, podman or cni")))
    }
}
