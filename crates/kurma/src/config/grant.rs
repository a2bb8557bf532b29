//! The rights that an operator grants to an image that asks for them.

use std::fmt;
use std::str::FromStr;

use container::Capability;
use model::{Error, text};

/// One item of `grant`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grant {
    /// A capability, such as `CAP_SYS_MODULE`.
    Capability(Capability),
    /// `spoke-runtime`: the part of the host's store that a reboot removes.
    Runtime,
    /// `spoke-state`: the part of the host's store that outlives it.
    State,
    /// `spoke-config`: the configuration of Spoke, to be read.
    Config,
}

impl Grant {
    /// The right that a mount point of this name asks for; `None` where it needs nothing of the
    /// host.
    pub(crate) fn of_mount_point(name: &str) -> Option<Self> {
        match name {
            "spoke-runtime" => Some(Self::Runtime),
            "spoke-state" => Some(Self::State),
            "spoke-config" => Some(Self::Config),
            _ => None,
        }
    }
}

impl FromStr for Grant {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Error> {
        let unknown = |_| {
            let shown = text::shown(word);
            let what = "spoke-runtime, spoke-state, spoke-config or a capability";
            Error::invalid(format!("{shown:?} cannot be granted: give {what}"))
        };
        match Self::of_mount_point(word) {
            Some(grant) => Ok(grant),
            None => word.parse().map(Self::Capability).map_err(unknown),
        }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capability(capability) => capability.fmt(f),
            Self::Runtime => f.write_str("spoke-runtime"),
            Self::State => f.write_str("spoke-state"),
            Self::Config => f.write_str("spoke-config"),
        }
    }
}
