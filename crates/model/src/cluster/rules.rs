//! Who reaches the containers of a network of many hosts, and where these may go.

use serde::{Deserialize, Serialize};

use super::Unknown;
use crate::{Error, IngressPolicy, Result};

/// Who reaches the containers of a network of many hosts, and where these may go. Each host applies it to its own
/// containers, and to what it routes to those of others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedRules {
    /// From where its containers are reached, besides the network itself.
    #[serde(default = "open", skip_serializing_if = "is_open")]
    pub ingress: IngressPolicy,
    /// Whether it has a rule that only later versions know. Such a network is not used.
    #[serde(skip)]
    pub is_unknown: bool,
}

impl SharedRules {
    /// Those of a network of which containers are reached from everywhere.
    pub const OPEN: Self = Self { ingress: IngressPolicy::Open, is_unknown: false };

    /// Whether there are none: versions that know no rules use such a network as it is meant.
    pub fn is_open(&self) -> bool {
        *self == Self::OPEN
    }

    /// Whether this version cannot apply them.
    pub fn are_unknown(&self) -> bool {
        self.is_unknown || self.ingress == IngressPolicy::Isolated
    }

    /// Fails with `Unsupported` where a network of many hosts does not have them.
    pub fn check(&self) -> Result<()> {
        match self.ingress {
            IngressPolicy::Open | IngressPolicy::SameBridge => Ok(()),
            IngressPolicy::Isolated => Err(Error::unsupported(
                "containers of a network of many hosts reach each other: it is not isolated from itself; leave that \
                 out, or keep it from other networks alone (--ingress same-bridge, with Docker -o isolation=network)",
            )),
        }
    }
}

impl Default for SharedRules {
    fn default() -> Self {
        Self::OPEN
    }
}

impl Unknown for SharedRules {
    fn unknown() -> Self {
        Self { is_unknown: true, ..Self::OPEN }
    }
}

fn open() -> IngressPolicy {
    IngressPolicy::Open
}

fn is_open(policy: &IngressPolicy) -> bool {
    *policy == IngressPolicy::Open
}
