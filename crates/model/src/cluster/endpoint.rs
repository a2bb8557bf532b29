//! An address of a network of many hosts, and what the container is called that has it.

use std::net::IpAddr;
use std::str::FromStr;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use crate::name::as_text;
use crate::{Error, HostName, Mac, NetworkName, Result, Runtime, text};

/// An address that is used on a network of many hosts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SharedEndpoint {
    /// The hardware address that it is reached at.
    pub mac: Mac,
    /// What its container is called there, the first name first. None on networks without names, and of hosts
    /// whose programs do not know of names; those pass it over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<SharedName>,
    /// Whose container it is. A runtime that this program does not know is none.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "known")]
    pub runtime: Option<Runtime>,
}

/// A name of a container, as hosts tell it each other: 1 to 253 of `[a-z0-9_.-]`, the first a letter, a digit or `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SharedName(String);

/// A container of another host that has names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedElsewhere {
    /// On which network.
    pub network: NetworkName,
    /// The host.
    pub host: HostName,
    /// Its hardware address, which distinguishes it from others of that host.
    pub mac: Mac,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// What it is called, the first name first.
    pub names: Vec<SharedName>,
    /// Whose it is, where that is known.
    pub runtime: Option<Runtime>,
}

impl SharedEndpoint {
    /// A container has no more names than this for other hosts.
    pub const MOST_NAMES: usize = 32;

    /// One without names.
    pub fn unnamed(mac: Mac) -> Self {
        Self { mac, names: Vec::new(), runtime: None }
    }

    /// Fails with `Invalid` where it has too many names.
    pub fn check(&self) -> Result<()> {
        match self.names.len() > Self::MOST_NAMES {
            true => Err(Error::invalid(format!("it has more than {} names", Self::MOST_NAMES))),
            false => Ok(()),
        }
    }
}

fn known<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<Runtime>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Word {
        Known(Runtime),
        Other(IgnoredAny),
    }
    match Word::deserialize(from)? {
        Word::Known(runtime) => Ok(Some(runtime)),
        Word::Other(IgnoredAny) => Ok(None),
    }
}

impl SharedName {
    /// The longest, in bytes (RFC 1035 §2.3.4, as text).
    const LONGEST: usize = 253;

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SharedName {
    type Err = Error;

    fn from_str(source: &str) -> Result<Self> {
        let fits = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'.' | b'-')
        };
        let begins =
            source.bytes().next().is_some_and(|first| fits(first) && !b".-".contains(&first));
        match begins && source.len() <= Self::LONGEST && source.bytes().all(fits) {
            true => Ok(Self(source.to_owned())),
            false => Err(Error::invalid(format!(
                "'{}' is no name of a container: 1 to {} small letters, digits, '_', '.' and '-'",
                text::shown(source),
                Self::LONGEST
            ))),
        }
    }
}

as_text!(SharedName);
