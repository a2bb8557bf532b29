//! Which plugins there are, and what is particular to each.

use model::Layer;

use crate::wire::Command;

/// A plugin type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plugin {
    /// Limits of what is sent and received (chained).
    Bandwidth,
    /// A port of a bridge.
    Bridge,
    /// Addresses from a server on the segment (IPAM).
    Dhcp,
    /// An interface with nothing behind it.
    Dummy,
    /// Packet filtering (chained).
    Firewall,
    /// A device of the host.
    HostDevice,
    /// Addresses from ranges (IPAM).
    HostLocal,
    /// A device that shares its parent's hardware address.
    Ipvlan,
    /// The container's own loopback interface.
    Loopback,
    /// A device with a hardware address of its own on its parent's segment.
    Macvlan,
    /// Published ports (chained).
    Portmap,
    /// A routed pair of interfaces.
    Ptp,
    /// Routing by source address (chained).
    Sbr,
    /// Our own: everything in one.
    Spoke,
    /// Addresses from the configuration (IPAM).
    Static,
    /// A device of a program in the container.
    Tap,
    /// Sysctls and attributes of the interface (chained).
    Tuning,
    /// One VLAN of its parent's segment.
    Vlan,
    /// A routing table of its own (chained).
    Vrf,
}

impl Plugin {
    /// Every plugin.
    pub const ALL: [Plugin; 19] = [
        Plugin::Bandwidth,
        Plugin::Bridge,
        Plugin::Dhcp,
        Plugin::Dummy,
        Plugin::Firewall,
        Plugin::HostDevice,
        Plugin::HostLocal,
        Plugin::Ipvlan,
        Plugin::Loopback,
        Plugin::Macvlan,
        Plugin::Portmap,
        Plugin::Ptp,
        Plugin::Sbr,
        Plugin::Spoke,
        Plugin::Static,
        Plugin::Tap,
        Plugin::Tuning,
        Plugin::Vlan,
        Plugin::Vrf,
    ];

    /// The `type` in a configuration, and the name of the executable.
    pub const fn name(self) -> &'static str {
        match self {
            Plugin::Bandwidth => "bandwidth",
            Plugin::Bridge => "bridge",
            Plugin::Dhcp => "dhcp",
            Plugin::Dummy => "dummy",
            Plugin::Firewall => "firewall",
            Plugin::HostDevice => "host-device",
            Plugin::HostLocal => "host-local",
            Plugin::Ipvlan => "ipvlan",
            Plugin::Loopback => "loopback",
            Plugin::Macvlan => "macvlan",
            Plugin::Portmap => "portmap",
            Plugin::Ptp => "ptp",
            Plugin::Sbr => "sbr",
            Plugin::Spoke => "spoke",
            Plugin::Static => "static",
            Plugin::Tap => "tap",
            Plugin::Tuning => "tuning",
            Plugin::Vlan => "vlan",
            Plugin::Vrf => "vrf",
        }
    }

    /// The plugin of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|plugin| plugin.name() == name)
    }

    /// Which part of an attachment the plugin makes.
    pub const fn layer(self) -> Layer {
        match self {
            Plugin::Bridge
            | Plugin::Dummy
            | Plugin::HostDevice
            | Plugin::Ipvlan
            | Plugin::Loopback
            | Plugin::Macvlan
            | Plugin::Ptp
            | Plugin::Spoke
            | Plugin::Tap
            | Plugin::Vlan => Layer::Link,
            Plugin::Dhcp | Plugin::HostLocal | Plugin::Static => Layer::Address,
            Plugin::Portmap => Layer::Publish,
            Plugin::Firewall => Layer::Firewall,
            Plugin::Tuning => Layer::Tuning,
            Plugin::Bandwidth => Layer::Bandwidth,
            Plugin::Vrf => Layer::Vrf,
            Plugin::Sbr => Layer::SourceRouting,
        }
    }

    /// The error where `command` needs the result of an earlier call and does not have it.
    pub(crate) const fn misses_previous(self, command: Command) -> Option<&'static str> {
        match (self, command) {
            (Plugin::Bandwidth | Plugin::Portmap, Command::Add) => {
                Some("must be called as chained plugin")
            }
            (Plugin::Bandwidth, Command::Check) => Some("must be called as a chained plugin"),
            (Plugin::Firewall | Plugin::Vrf, Command::Add | Command::Check) => {
                Some("missing prevResult from earlier plugin")
            }
            (Plugin::Sbr, Command::Add | Command::Check) => {
                Some("This plugin must be called as chained plugin")
            }
            (Plugin::Ptp, Command::Check) => Some("ptp: Required prevResult missing"),
            (Plugin::Vlan, Command::Check) => Some("vlan: Required prevResult missing"),
            (Plugin::Dummy, Command::Check) => Some("dummy: Required prevResult missing"),
            (Plugin::Macvlan, Command::Check) => Some("required prevResult missing"),
            (Plugin::Tuning, Command::Add)
            | (
                Plugin::Bridge
                | Plugin::HostDevice
                | Plugin::Ipvlan
                | Plugin::Portmap
                | Plugin::Spoke
                | Plugin::Static
                | Plugin::Tap
                | Plugin::Tuning,
                Command::Check,
            ) => Some("Required prevResult missing"),
            (_, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for plugin in Plugin::ALL {
            assert_eq!(Plugin::named(plugin.name()), Some(plugin));
        }
        assert_eq!(Plugin::named("../bridge"), None);
    }
}
