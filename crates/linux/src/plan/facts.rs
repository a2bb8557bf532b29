//! The facts that a plan needs.

use std::collections::BTreeSet;

use model::{IfName, InterfaceNamespace, IpNet, Mac};

/// The facts about the host for planning an attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The device that has the bridge's name, if there is one.
    pub bridge: Option<BridgeFacts>,
    /// The gateway of the bridge's VLAN, if there is one.
    pub gateway: Option<BridgeFacts>,
    /// The device below, of links that have one.
    pub parent: Option<ParentFacts>,
    /// Whether the network's device for the host is there.
    pub shim: bool,
    /// The device of the host that the container is to have.
    pub device: Option<DeviceFacts>,
    /// The third party's interface for the container.
    pub external: Option<ExternalFacts>,
    /// The attachment's own link, where it was made before.
    pub connected: Option<Connected>,
}

/// A third party's interface for a container, and conflicts with it there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExternalFacts {
    /// The interface; `None` where it is neither in the host nor in the container.
    pub link: Option<ExternalLink>,
    /// The names of the container's other interfaces.
    pub taken: BTreeSet<IfName>,
    /// The destinations of these interfaces' routes.
    pub routes: Vec<IpNet>,
}

/// A third party's interface for a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalLink {
    /// Its name where it is.
    pub name: IfName,
    /// Where it is.
    pub place: InterfaceNamespace,
    /// Its hardware address.
    pub mac: Option<Mac>,
    /// The alias that it needs to be moved back (`origin_alias.rs`), unless it has it already.
    pub mark: Option<String>,
}

/// A device that others are made on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentFacts {
    /// Its name.
    pub name: IfName,
    /// Where it is missing, the device that it is a VLAN of; the rest is that one's.
    pub base: Option<IfName>,
    /// Whether we made it, for all who use it.
    pub is_ours: bool,
    /// Free text about it.
    pub alias: Option<String>,
    /// Its hardware address.
    pub mac: Option<Mac>,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Its addresses, where they matter.
    pub addresses: Vec<IpNet>,
}

/// A device of the host that a container is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceFacts {
    /// The interface is in the host.
    Host {
        /// Its name.
        name: IfName,
        /// Its hardware address.
        mac: Option<Mac>,
    },
    /// The container has it already.
    There {
        /// Its hardware address.
        mac: Option<Mac>,
    },
    /// A program drives it by itself (DPDK): the kernel has no interface of it.
    Program,
}

/// An attachment's link that was made before the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connected {
    /// Where the container's end is.
    pub place: InterfaceNamespace,
    /// Its hardware address, where that may have to change.
    pub mac: Option<Mac>,
}

/// An existing device with the name of a wanted bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeFacts {
    /// Whether it is a bridge at all.
    pub is_bridge: bool,
    /// Whether it is up.
    pub is_up: bool,
    /// Whether it is promiscuous.
    pub promiscuous: bool,
    /// Whether Spoke has made it.
    pub is_ours: bool,
    /// Its hardware address.
    pub mac: Option<Mac>,
    /// Whether that is the lowest of its ports', and changes with them.
    pub follows: bool,
    /// Its addresses.
    pub addresses: Vec<IpNet>,
}
