//! How a container is connected.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Error, IfName, Mac, NetworkName, Result};

/// A device's maximum transmission unit in bytes, at least 68 (RFC 791 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mtu(u32);

impl Mtu {
    /// The MTU, if the kernel would take it for a veth or bridge.
    pub fn new(bytes: u32) -> Option<Self> {
        (68..=65_535).contains(&bytes).then_some(Self(bytes))
    }

    /// In bytes.
    pub fn bytes(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Mtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The interface that an attachment gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// What is at its other end.
    pub kind: LinkKind,
    /// What the container's end is called; as the attachment says where none is given.
    #[serde(default)]
    pub name: Option<IfName>,
    /// The container end's address; derived from the attachment's identity where none is wanted.
    pub mac: Option<Mac>,
    /// Of both ends; the kernel's default where none is given.
    pub mtu: Option<Mtu>,
}

/// What is at the other end of a container's interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKind {
    /// A port of a bridge.
    Bridge(Bridge),
    /// The host itself, routed.
    Ptp(Ptp),
    /// The container's own loopback device.
    Loopback,
}

/// A bridge in the host's namespace, made when its first container comes and removed with its
/// network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bridge {
    /// The bridge's device.
    pub name: IfName,
    /// Whether the bridge holds the gateway address, and whether that is the default route.
    pub gateway: Gateway,
    /// Replace an address of the same family that the bridge already has.
    pub force_address: bool,
    /// Let a container reach itself through its bridge port.
    pub hairpin: bool,
    /// Put the bridge into promiscuous mode.
    pub promiscuous: bool,
}

/// What the bridge is to its containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gateway {
    /// A switch only.
    None,
    /// It holds the gateway address.
    Address,
    /// It holds the gateway address, and containers route everything through it.
    Default,
}

/// A pair of devices with routes at both ends and no shared segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ptp {}

/// What a network's bridge is called where nobody says: `sp-` and the network's name, or a hash of
/// it where that is too long for a device.
pub fn bridge_name(network: &NetworkName) -> Result<IfName> {
    format!("sp-{network}").parse().or_else(|_: Error| {
        let digest = Sha256::digest(network.as_str().as_bytes());
        let hex: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        format!("sp-{hex}").parse()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_makes_a_short_bridge() {
        let bridge = |network: &str| bridge_name(&network.parse().unwrap()).unwrap();
        assert_eq!(bridge("front").as_str(), "sp-front");
        let long = bridge(&"x".repeat(200));
        assert_eq!(long.as_str().len(), 15);
        assert_ne!(bridge("a-rather-long-name"), bridge("another-long-name"));
    }
}
