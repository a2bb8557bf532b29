//! Links that share the segment of a parent device.

use serde::{Deserialize, Serialize};

use crate::{IfName, InterfaceNamespace, VlanId, VlanTag};

/// A device that others are made on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The device; where none is named, the one of the host's default route.
    pub name: Option<IfName>,
    /// Where it is.
    pub place: InterfaceNamespace,
    /// A VLAN of it instead of itself: a device `parent.VLAN` in the host, made when its first
    /// container comes and removed with its network. One that exists already is taken as it is.
    pub vlan: Option<VlanId>,
}

/// A device with a hardware address of its own on the parent's segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Macvlan {
    /// The device below.
    pub parent: Parent,
    /// Which other macvlans of the parent it reaches.
    pub mode: MacvlanMode,
    /// How many received broadcasts may wait, in packets; the kernel's default where none is given
    /// (`IFLA_MACVLAN_BC_QUEUE_LEN`).
    pub broadcast_queue: Option<u32>,
    /// Whether the host gets a device of its own on the segment, so that it and the containers
    /// reach each other. The parent itself does not exchange packets with what is made on it.
    pub host_access: bool,
    /// Whether an address is used only after no host on the segment answered for it (RFC 5227).
    pub probe: bool,
}

/// Which other macvlans of its parent a macvlan reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MacvlanMode {
    /// The others of this mode, directly.
    #[default]
    Bridge,
    /// None of them.
    Private,
    /// Those to which the external switch sends its packets back.
    Vepa,
    /// It is alone on its parent and has all of it.
    Passthru,
}

impl MacvlanMode {
    /// The modes by name.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("bridge", Self::Bridge),
        ("private", Self::Private),
        ("vepa", Self::Vepa),
        ("passthru", Self::Passthru),
    ];
}

impl IpvlanMode {
    /// The modes by name.
    pub const WORDS: [(&'static str, Self); 3] =
        [("l2", Self::L2), ("l3", Self::L3), ("l3s", Self::L3s)];
}

/// A device that shares its parent's hardware address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ipvlan {
    /// The device below.
    pub parent: Parent,
    /// The layer on which packets pass.
    pub mode: IpvlanMode,
}

/// The layer on which an ipvlan passes packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IpvlanMode {
    /// Switched, by address.
    #[default]
    L2,
    /// Routed by the host, without broadcasts.
    L3,
    /// The same, through the host's packet filter.
    L3s,
}

/// A device for one VLAN of its parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vlan {
    /// The device below.
    pub parent: Parent,
    /// The VLAN, or none but a priority.
    pub id: VlanTag,
}
