//! Address spaces.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::by_text;
use crate::{Error, NetworkName, Result};

/// Within one space no address is held twice, whichever network or runtime asks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Space {
    /// Everything that this host routes: one space for all networks.
    Host,
    /// The address space that the hosts of a cluster share. Each host takes the same address from
    /// its own [`Space::Host`] too when it uses it.
    Global,
    /// One network by itself: a link-layer segment that this host does not route.
    Network(NetworkName),
    /// The networks of one tenant, none of which this host routes (libnetwork's named address spaces).
    Named(AddressSpace),
}

/// The name of a tenant's address space: a network's name but `host` and `global`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AddressSpace {
    /// The name, behind the mark that no network's name begins with.
    label: String,
}

/// What the label of a space begins with that is no network's.
const MARK: char = '@';
const HOST: &str = "host";
const GLOBAL: &str = "global";
/// No name is longer. In bytes.
const LONGEST: usize = 64;

impl AddressSpace {
    /// As it was given.
    pub fn as_str(&self) -> &str {
        self.label.strip_prefix(MARK).unwrap_or(&self.label)
    }
}

impl FromStr for AddressSpace {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let is_named = name.parse::<NetworkName>().is_ok() && name.len() <= LONGEST;
        match is_named && name != HOST && name != GLOBAL {
            true => Ok(Self { label: format!("{MARK}{name}") }),
            false => Err(Error::invalid(format!(
                "address space {name:?}: its name has at most {LONGEST} letters, digits, dots, \
                 underscores and dashes, begins with a letter or digit, and is neither {HOST} nor \
                 {GLOBAL}"
            ))),
        }
    }
}

by_text!(AddressSpace);

impl fmt::Display for AddressSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl Space {
    /// A name that no other space has: a network's begins with a letter or digit.
    pub fn label(&self) -> &str {
        match self {
            Space::Host => "@host",
            Space::Global => "@global",
            Space::Network(name) => name.as_str(),
            Space::Named(name) => &name.label,
        }
    }

    /// The space of this label. Fails with `Invalid` where it is none.
    pub fn of_label(label: &str) -> Result<Self> {
        Ok(match label.strip_prefix(MARK) {
            Some(HOST) => Space::Host,
            Some(GLOBAL) => Space::Global,
            Some(name) => Space::Named(name.parse()?),
            None => Space::Network(label.parse()?),
        })
    }

    /// The space of the networks of this host that a user means: the tenant's, or else the host's own.
    pub fn of_networks(name: Option<&AddressSpace>) -> Self {
        name.map_or(Space::Host, |name| Space::Named(name.clone()))
    }

    /// Whether several networks share it, each with subnets of its own.
    pub fn has_networks(&self) -> bool {
        match self {
            Space::Host | Space::Named(_) => true,
            Space::Global | Space::Network(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_apart() {
        let named = Space::Named("tenant".parse().unwrap());
        let network = Space::Network("tenant".parse().unwrap());
        for space in [Space::Host, Space::Global, named, network] {
            assert_eq!(Space::of_label(space.label()).unwrap(), space);
        }
    }

    #[test]
    fn refuses_what_would_be_another_space() {
        let long = "a".repeat(LONGEST + 1);
        for name in ["", "host", "global", "@a", "a/b", "a,b", ".a", &long] {
            assert!(name.parse::<AddressSpace>().is_err(), "{name}");
            assert!(AddressSpace::try_from(name.to_owned()).is_err(), "{name}");
        }
    }
}
