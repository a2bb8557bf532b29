//! How a container is connected.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{IfName, Mac};

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
