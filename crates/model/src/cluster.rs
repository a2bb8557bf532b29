//! What the hosts of a cluster share: themselves, networks, blocks of addresses, endpoints.

mod endpoint;
mod engines;
mod lenient;
mod network;
mod rules;
mod transport;

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, HostName, Label, Labels, OwnerName, Result, Timestamp};

pub use endpoint::{NamedElsewhere, SharedEndpoint, SharedName};
pub use engines::{ENGINE_LABEL, EngineKind, Engines};
use lenient::{Unknown, lenient};
pub use network::SharedNetwork;
pub use rules::SharedRules;
pub use transport::{HostLink, Transport, TransportChoice};

/// A host of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterHost {
    /// Where the other hosts send to (the outer address of VXLAN packets): of IPv4 on all hosts, or of IPv6 on all.
    pub address: IpAddr,
    /// Since when it is a member.
    pub since: Timestamp,
    /// Whether it takes no more containers on networks of the cluster.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
    /// What its operator says of it; networks choose hosts by these.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// By what it is known on its segment; its own daemon writes it.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub link: Option<HostLink>,
}

impl ClusterHost {
    /// Fails with `Invalid` where its labels are none.
    pub fn check(&self) -> Result<()> {
        checked(&self.labels)
    }

    /// A member that takes containers, without labels.
    pub fn new(address: IpAddr, since: Timestamp) -> Self {
        Self { address, since, draining: false, labels: Labels::default(), link: None }
    }
}

/// On which hosts a network is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// On every host, also on those that join later.
    All,
    /// On these.
    Hosts(BTreeSet<HostName>),
    /// On those that have all of these labels, also on those that get them later.
    Labels(Labels),
    /// On hosts that only later versions can tell. It is on none of a host with this one.
    Other,
}

impl Unknown for Placement {
    fn unknown() -> Self {
        Placement::Other
    }
}

/// Labels that were read are not yet valid ones.
fn checked(labels: &Labels) -> Result<()> {
    let pairs = labels.pairs().iter().map(|(key, value)| (key.as_str(), value.as_str()));
    Labels::of_pairs(pairs).map(drop)
}

impl Placement {
    /// Fails with `Invalid` where its labels are none.
    pub fn check(&self) -> Result<()> {
        match self {
            Placement::All | Placement::Hosts(_) | Placement::Other => Ok(()),
            Placement::Labels(labels) => checked(labels),
        }
    }

    /// Whether the network is on the host of this name, which is described so.
    pub fn has(&self, name: &HostName, host: &ClusterHost) -> bool {
        match self {
            Placement::All => true,
            Placement::Other => false,
            Placement::Hosts(names) => names.contains(name),
            Placement::Labels(wanted) => {
                let all = host.labels.pairs();
                wanted.pairs().iter().all(|(key, value)| all.get(key) == Some(value))
            }
        }
    }
}

impl FromStr for Placement {
    type Err = Error;

    /// `all`, names of hosts between commas, or labels (`KEY=VALUE`) between commas.
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "all" => Ok(Self::All),
            labels if labels.contains('=') => {
                let labels: Result<Vec<Label>> = labels.split(',').map(label).collect();
                Labels::of(labels?).map(Self::Labels)
            }
            names => names.split(',').map(str::parse).collect::<Result<_>>().map(Self::Hosts),
        }
    }
}

fn label(text: &str) -> Result<Label> {
    match text.contains('=') {
        true => text.parse(),
        false => Err(Error::invalid(format!(
            "{:?} is no label of hosts: it is all, hosts between commas, or labels KEY=VALUE between commas",
            crate::text::shown(text)
        ))),
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::All => f.write_str("all"),
            Placement::Other => f.write_str("others"),
            Placement::Hosts(names) => {
                let names: Vec<&str> = names.iter().map(HostName::as_str).collect();
                f.write_str(&names.join(","))
            }
            Placement::Labels(labels) => {
                let labels: Vec<String> =
                    labels.pairs().iter().map(|(key, value)| format!("{key}={value}")).collect();
                f.write_str(&labels.join(","))
            }
        }
    }
}

/// An address that a host has, or asks for, apart from its blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressPin {
    /// Which host.
    pub host: HostName,
    /// What has it there, for sentences; at most 200 bytes.
    pub by: String,
    /// Whether the host has it.
    #[serde(deserialize_with = "lenient")]
    pub state: PinState,
    /// The host whose it was, where that was not heard of for so long that the address was taken over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<HostName>,
    /// Where it was answered: the revision of the request. What counts is whose it was then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<u64>,
    /// The name that keeps the address, also without a container, on networks whose names do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<OwnerName>,
    /// The host where a container of that name wants it: this one hands it over, or says no by taking that out again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<HostName>,
}

/// Whether an address was given to the host that asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PinState {
    /// It is in the block of another host, which has not answered yet.
    Asked,
    /// The host has it.
    Granted,
    /// It is in use on the host of its block: by what, for a sentence; at most 200 bytes.
    Held(String),
    /// What only later versions know: the host has it for all others.
    Other,
}

impl Unknown for PinState {
    fn unknown() -> Self {
        PinState::Other
    }
}

impl AddressPin {
    /// Longer descriptions are refused, in bytes.
    pub const LONGEST: usize = 200;

    /// Fails with `Invalid` where a description is too long.
    pub fn check(&self) -> Result<()> {
        let held = match &self.state {
            PinState::Held(by) => by.len(),
            PinState::Asked | PinState::Granted | PinState::Other => 0,
        };
        match self.by.len().max(held) > Self::LONGEST {
            true => {
                Err(Error::invalid(format!("its holder has more than {} bytes", Self::LONGEST)))
            }
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement_is_read() {
        let host = |labels: &str| {
            let labels = labels.split(',').filter(|label| !label.is_empty());
            let labels = Labels::of(labels.map(|label| label.parse().unwrap())).unwrap();
            ClusterHost { labels, ..ClusterHost::new([192, 0, 2, 1].into(), Timestamp(1)) }
        };
        let has = |placement: &str, labels: &str| {
            placement.parse::<Placement>().unwrap().has(&"a".parse().unwrap(), &host(labels))
        };
        assert!(has("all", "") && has("a,b", "") && !has("b", ""));
        assert!(has("zone=eu", "zone=eu,disk=ssd") && has("zone=eu,disk=ssd", "zone=eu,disk=ssd"));
        assert!(!has("zone=eu", "") && !has("zone=eu,disk=ssd", "zone=eu"));
        for bad in ["", "a,", "zone=eu,a", "=x"] {
            assert!(bad.parse::<Placement>().is_err(), "{bad}");
        }
        for text in ["all", "a,b", "zone=eu"] {
            assert_eq!(text.parse::<Placement>().unwrap().to_string(), text);
        }
    }
}
