//! The drivers of networks.

use model::LinkKind;

/// A driver, by the name that options give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// A bridge of this host.
    Bridge,
    /// A routed pair of devices for each container.
    Ptp,
    /// The segment of a parent device, with a hardware address of its own.
    Macvlan,
    /// The segment of a parent device, with the parent's hardware address.
    Ipvlan,
    /// A VLAN of a parent device.
    Vlan,
    /// A device of the host, moved into the container.
    Device,
    /// A device without a peer.
    Dummy,
    /// A device whose packets a program reads.
    Tap,
    /// A port of OpenStack Neutron.
    Neutron,
    /// A segment of Open vSwitch.
    Ovs,
    /// A list of CNI plugins.
    Chain,
    /// A Docker network plugin.
    Plugin,
}

impl Driver {
    /// All of them.
    pub(crate) const ANY: &'static [Driver] = &[
        Driver::Bridge,
        Driver::Ptp,
        Driver::Macvlan,
        Driver::Ipvlan,
        Driver::Vlan,
        Driver::Device,
        Driver::Dummy,
        Driver::Tap,
        Driver::Neutron,
        Driver::Ovs,
        Driver::Chain,
        Driver::Plugin,
    ];

    /// Those that CNI's type `spoke` has.
    pub const CNI: &'static [Driver] = &[
        Driver::Bridge,
        Driver::Ptp,
        Driver::Macvlan,
        Driver::Ipvlan,
        Driver::Vlan,
        Driver::Device,
        Driver::Dummy,
        Driver::Tap,
        Driver::Neutron,
        Driver::Ovs,
    ];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Driver::Bridge => "bridge",
            Driver::Ptp => "ptp",
            Driver::Macvlan => "macvlan",
            Driver::Ipvlan => "ipvlan",
            Driver::Vlan => "vlan",
            Driver::Device => "host-device",
            Driver::Dummy => "dummy",
            Driver::Tap => "tap",
            Driver::Neutron => "neutron",
            Driver::Ovs => "ovs",
            Driver::Chain => "cni",
            Driver::Plugin => "plugin",
        }
    }

    /// The driver of a link; none where the runtime or a plugin on the host makes it.
    pub fn of_kind(kind: &LinkKind) -> Option<Self> {
        Some(match kind {
            LinkKind::Bridge(_) => Driver::Bridge,
            LinkKind::Ptp(_) => Driver::Ptp,
            LinkKind::Macvlan(_) => Driver::Macvlan,
            LinkKind::Ipvlan(_) => Driver::Ipvlan,
            LinkKind::Vlan(_) => Driver::Vlan,
            LinkKind::Device(_) => Driver::Device,
            LinkKind::Dummy => Driver::Dummy,
            LinkKind::Tap(_) => Driver::Tap,
            LinkKind::Neutron(_) => Driver::Neutron,
            LinkKind::Ovs(_) => Driver::Ovs,
            LinkKind::Chain(_) => Driver::Chain,
            LinkKind::Remote(_) => Driver::Plugin,
            LinkKind::Loopback | LinkKind::Plug(_) | LinkKind::ExternalInterface(_) => return None,
        })
    }

    /// Whether the container has an end in the host, where its packets can be filtered, limited and
    /// translated.
    pub fn is_pair(self) -> bool {
        matches!(self, Driver::Bridge | Driver::Ptp)
    }

    /// Whether containers are on the segment of a parent device.
    pub fn is_lan(self) -> bool {
        matches!(self, Driver::Macvlan | Driver::Ipvlan)
    }
}
