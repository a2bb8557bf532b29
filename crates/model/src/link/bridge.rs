//! Bridges and their ports.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Tap;
use crate::{Error, Family, IfName, Result};

/// A bridge in the host's namespace, made when its first container comes and removed with its
/// network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bridge {
    /// The bridge's device.
    pub name: IfName,
    /// Whether the bridge holds the gateway address, and whether that is the default route.
    pub gateway: Gateway,
    /// The families in which this host has no address on the segment, not even a link-local one
    /// (Docker's gateway mode `isolated`).
    #[serde(default, skip_serializing_if = "Absence::is_nowhere")]
    pub host_absent: Absence,
    /// Replace an address of the same family that the bridge already has.
    pub force_address: bool,
    /// Let a container reach itself through its bridge port.
    pub hairpin: bool,
    /// Put the bridge into promiscuous mode.
    pub promiscuous: bool,
    /// The settings of its ports.
    #[serde(default)]
    pub port: BridgePort,
}

/// The settings of a container's port of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgePort {
    /// Which VLANs it is in.
    #[serde(default)]
    pub vlans: Vlans,
    /// Drop what it sends from another hardware address than its own.
    #[serde(default)]
    pub spoof_check: bool,
    /// It exchanges nothing with other ports that are isolated (`IFLA_BRPORT_ISOLATED`).
    #[serde(default)]
    pub isolated: bool,
    /// Leave duplicate address detection of IPv6 switched on, and wait until it is over.
    #[serde(default)]
    pub duplicate_detection: bool,
    /// Others may reach it by a route through this host, which forwards because of us, without a
    /// published port.
    #[serde(default)]
    pub direct: bool,
    /// The only family in which that is so; both where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct_only: Option<Family>,
    /// Leave the container's interface down.
    #[serde(default)]
    pub left_down: bool,
    /// It is a tap device, whose packets a virtual machine sends and receives, instead of an end of a pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tap: Option<Tap>,
}

/// The VLANs of a port (IEEE 802.1Q). With any of them the bridge filters VLANs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vlans {
    /// Of what it sends and receives without a tag.
    pub untagged: Option<VlanId>,
    /// Those that it sends and receives with a tag.
    pub tagged: Vec<VlanRange>,
    /// Whether it stays in the bridge's default VLAN besides.
    pub keep_default: bool,
}

/// Families in which something is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absence {
    /// Not in IPv4.
    pub v4: bool,
    /// Not in IPv6.
    pub v6: bool,
}

impl Absence {
    /// In both families.
    pub const EVERYWHERE: Self = Self { v4: true, v6: true };

    /// In this family alone.
    pub fn only(family: Family) -> Self {
        Self { v4: family == Family::V4, v6: family == Family::V6 }
    }

    /// Whether it is in this family.
    pub fn is_in(self, family: Family) -> bool {
        match family {
            Family::V4 => self.v4,
            Family::V6 => self.v6,
        }
    }

    /// Whether it is in none.
    pub fn is_nowhere(&self) -> bool {
        *self == Self::default()
    }
}

impl Bridge {
    /// Whether it holds gateway addresses of this family.
    pub fn is_gateway_of(&self, family: Family) -> bool {
        self.gateway != Gateway::None && !self.host_absent.is_in(family)
    }
}

impl Vlans {
    /// Whether none is named.
    pub fn is_empty(&self) -> bool {
        self.untagged.is_none() && self.tagged.is_empty()
    }
}

/// A VLAN's number, 1 to 4094 (IEEE 802.1Q §9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct VlanId(u16);

impl VlanId {
    /// The VLAN of this number, if there is one.
    pub fn new(number: u16) -> Option<Self> {
        (1..=4094).contains(&number).then_some(Self(number))
    }

    /// Its number.
    pub fn number(self) -> u16 {
        self.0
    }
}

impl TryFrom<u16> for VlanId {
    type Error = Error;

    fn try_from(number: u16) -> Result<Self> {
        Self::new(number)
            .ok_or_else(|| Error::invalid(format!("VLAN {number} is not between 1 and 4094")))
    }
}

impl From<VlanId> for u16 {
    fn from(id: VlanId) -> u16 {
        id.0
    }
}

impl fmt::Display for VlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a `vlan` device writes into its frames: the number of a VLAN, or 0, which is a priority and no VLAN
/// (IEEE 802.1Q §9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct VlanTag(u16);

impl VlanTag {
    /// The tag of this number, 0 to 4094, if there is one.
    pub fn new(number: u16) -> Option<Self> {
        (number <= 4094).then_some(Self(number))
    }

    /// Its number.
    pub fn number(self) -> u16 {
        self.0
    }
}

impl From<VlanId> for VlanTag {
    fn from(id: VlanId) -> Self {
        Self(id.0)
    }
}

impl TryFrom<u16> for VlanTag {
    type Error = Error;

    fn try_from(number: u16) -> Result<Self> {
        Self::new(number)
            .ok_or_else(|| Error::invalid(format!("VLAN {number} is not between 0 and 4094")))
    }
}

impl From<VlanTag> for u16 {
    fn from(tag: VlanTag) -> u16 {
        tag.0
    }
}

/// Consecutive VLANs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VlanRange {
    /// The first; never after the last.
    pub first: VlanId,
    /// The last.
    pub last: VlanId,
}

/// The bridge's role as a gateway for its containers.
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
