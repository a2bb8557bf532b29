//! The engines of a host in which a network of many hosts is made.

use std::collections::BTreeSet;
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

impl EngineKind {
    /// Reads a list such as `podman,cni`, as engines' options have it; `own`, which was asked, is one of them.
    ///
    /// # Errors
    /// For a word that is none.
    pub fn with_own(list: &str, own: Self) -> Result<BTreeSet<Self>> {
        let named = list.split(',').filter(|word| !word.is_empty()).map(str::parse);
        named.chain([Ok(own)]).collect()
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

/// In which engines a network is made. Those that only later versions know are kept, and it is not made in them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeSet<String>", into = "BTreeSet<String>")]
pub struct Engines {
    /// Those that this version knows.
    pub known: BTreeSet<EngineKind>,
    /// The others, by their names.
    pub others: BTreeSet<String>,
}

impl Engines {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty() && self.others.is_empty()
    }
}

impl From<BTreeSet<EngineKind>> for Engines {
    fn from(known: BTreeSet<EngineKind>) -> Self {
        Self { known, others: BTreeSet::new() }
    }
}

impl From<BTreeSet<String>> for Engines {
    fn from(names: BTreeSet<String>) -> Self {
        let mut engines = Self::default();
        for name in names {
            match name.parse() {
                Ok(kind) => drop(engines.known.insert(kind)),
                Err(_) => drop(engines.others.insert(name)),
            }
        }
        engines
    }
}

impl From<Engines> for BTreeSet<String> {
    fn from(engines: Engines) -> Self {
        let known = engines.known.iter().map(ToString::to_string);
        known.chain(engines.others).collect()
    }
}
