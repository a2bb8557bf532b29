//! What a command changed of a network that is in use.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::by_text;
use crate::{Error, Mtu, Reach, Result, Via};

/// The settings that a command gave a network after it was made. They hold for every attachment of
/// the network, also for those that had others when they were made: until an attachment's record has
/// them too, they are still to be carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The MTU of its devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Mtu>,
    /// From where published ports are reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<Reach>,
    /// By what its packets leave this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<Way>,
}

/// By what a network's packets leave this host since a command said so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Way {
    /// As the host's own.
    Host,
    /// By a way of their own.
    Own(Via),
}

impl Way {
    /// The network's own way, where it has one.
    pub fn via(&self) -> Option<&Via> {
        match self {
            Way::Host => None,
            Way::Own(via) => Some(via),
        }
    }
}

impl FromStr for Way {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "none" => Ok(Way::Host),
            way => way.parse().map(Way::Own),
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Host => f.write_str("none"),
            Way::Own(via) => via.fmt(f),
        }
    }
}

by_text!(Way);

impl Settings {
    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
