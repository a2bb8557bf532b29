//! What fences refused: one JSON object a line in a file beside that of the events.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ::names::Entry;
use model::Timestamp;
use serde::{Deserialize, Serialize};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// A name was not resolved.
    NameRefused,
    /// An address was taken out of the answer for a name.
    AddressDropped,
    /// A packet was dropped.
    PacketDropped,
    /// It would have been refused, and the network learns.
    Learned,
    /// Written by a later version.
    #[serde(other)]
    Other,
}

impl Act {
    /// As people read it.
    pub fn shown(self) -> &'static str {
        match self {
            Act::NameRefused => "name refused",
            Act::AddressDropped => "address dropped",
            Act::PacketDropped => "packet dropped",
            Act::Learned => "learned",
            Act::Other => "other",
        }
    }
}

/// One of them. These fields are a promise to scripts: some may be added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denied {
    /// Seconds since the Unix epoch.
    pub time: u64,
    /// On which network.
    pub network: String,
    /// Which container, by its name; absent where none has the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Its id in the book, where its name was not known yet: it is learned a moment after Docker's container starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Of which runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Its address.
    pub source: IpAddr,
    /// What happened.
    pub act: Act,
    /// The name, or the one that led to the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where the packet was going.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// To which port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// By which protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Whether rules of the container alone refused it, and not its network's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_own_rules: bool,
    /// Why.
    pub why: String,
}

impl Denied {
    /// Something that happened now on a network, by an address there.
    pub fn new(time: Timestamp, network: String, source: IpAddr, act: Act) -> Self {
        Self {
            time: time.0,
            network,
            container: None,
            id: None,
            runtime: None,
            source,
            act,
            name: None,
            address: None,
            port: None,
            protocol: None,
            by_own_rules: false,
            why: String::new(),
        }
    }

    /// It was this container's.
    pub fn of(&mut self, entry: &Entry) {
        self.runtime = Some(entry.runtime_name());
        match entry.name.is_empty() {
            true => self.id = entry.container().map(ToString::to_string),
            false => self.container = Some(entry.name.clone()),
        }
    }

    /// Where it was going, as people read it.
    pub fn target(&self) -> String {
        let Some(address) = self.address else { return self.name.clone().unwrap_or_default() };
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let at = match (address, self.port) {
            (IpAddr::V6(v6), Some(port)) => format!("[{v6}]:{port}/{protocol}"),
            (other, Some(port)) => format!("{other}:{port}/{protocol}"),
            (other, None) if protocol.is_empty() => other.to_string(),
            (other, None) => format!("{other} {protocol}"),
        };
        match &self.name {
            Some(name) => format!("{name} ({at})"),
            None => at,
        }
    }

    /// Whose it was.
    pub fn who(&self) -> String {
        match (&self.runtime, &self.container) {
            (Some(runtime), Some(container)) if !container.is_empty() => {
                format!("{runtime}/{container}")
            }
            _ => self.source.to_string(),
        }
    }
}

/// The file, beside that of the events.
pub fn path(events: &Path) -> PathBuf {
    events.with_file_name("denied")
}
