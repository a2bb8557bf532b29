//! Link kinds: how a container is connected.

mod bridge;
mod neutron;
mod neutron_option;
mod ovs;
mod parent;
mod remote;
mod tap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Device, Error, Family, IfName, Mac, Mtu, NetworkName, Result};

pub use bridge::{Absence, Bridge, BridgePort, Gateway, VlanId, VlanRange, VlanTag, Vlans};
pub use neutron::{
    AddressPair, Binding, Nesting, NeutronLink, Ownership, Plug, PortSpec, PortUser, ResourceId,
    ResourceName, ResourceRef, ScriptName, Vif,
};
pub use neutron_option::NEUTRON_PREFIX;
pub use ovs::{Ovs, Tunnel};
pub use parent::{Ipvlan, IpvlanMode, Macvlan, MacvlanMode, Parent, Vlan};
pub use remote::{ExternalInterface, PluginChain, RemoteLink};
pub use tap::Tap;

/// The interface that an attachment gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The other end.
    pub kind: LinkKind,
    /// The name of the container's end. Without one, the attachment's.
    #[serde(default)]
    pub name: Option<IfName>,
    /// The container end's address; derived from the attachment's identity where none is wanted.
    pub mac: Option<Mac>,
    /// Of both ends; the kernel's default where none is given.
    pub mtu: Option<Mtu>,
}

/// The other end of a container's interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKind {
    /// A port of a bridge.
    Bridge(Bridge),
    /// The host itself, routed.
    Ptp(Ptp),
    /// The container's own loopback device.
    Loopback,
    /// The segment of a parent device, with a hardware address of its own.
    Macvlan(Macvlan),
    /// The segment of a parent device, with the hardware address of that.
    Ipvlan(Ipvlan),
    /// One VLAN of a parent device's segment.
    Vlan(Vlan),
    /// A device of the host, moved into the container.
    Device(Device),
    /// Nothing: what is sent there is lost.
    Dummy,
    /// A program in the container, such as a hypervisor.
    Tap(Tap),
    /// Whatever third-party plugins connect it to.
    Chain(PluginChain),
    /// A network of OpenStack Neutron.
    Neutron(Box<NeutronLink>),
    /// A segment of Open vSwitch.
    Ovs(Box<Ovs>),
    /// A host's end that a third party connects.
    Plug(Plug),
    /// A network of a Docker network third-party plugin.
    Remote(Box<RemoteLink>),
    /// Whatever the interface that is moved into the container is connected to.
    #[serde(alias = "ready")]
    ExternalInterface(ExternalInterface),
}

impl LinkKind {
    /// Whether others may reach the container by a route through this host, which forwards because
    /// of us, without a published port, by packets of this family.
    pub fn is_direct(&self, family: Family) -> bool {
        let is_of = |only: Option<Family>| only.is_none_or(|only| only == family);
        let is_direct = |bridge: &Bridge| bridge.port.direct && is_of(bridge.port.direct_only);
        self.bridge().is_some_and(is_direct) || matches!(self, LinkKind::Ptp(ptp) if ptp.direct)
    }

    /// Whether this host is the gateway of links of this kind.
    pub fn has_gateway(&self) -> bool {
        matches!(self, LinkKind::Ptp(_))
            || self.bridge().is_some_and(|bridge| bridge.gateway != Gateway::None)
    }

    /// The traits of the kind. This is the one place where every kind has a line.
    pub fn traits(&self) -> LinkTraits {
        let (name, form, device) = match self {
            LinkKind::Bridge(_) => ("bridge", Form::Pair, Some("veth")),
            LinkKind::Ptp(_) => ("ptp", Form::Pair, Some("veth")),
            LinkKind::Loopback => ("loopback", Form::Lent, None),
            LinkKind::Macvlan(_) => ("macvlan", Form::Single, Some("macvlan")),
            LinkKind::Ipvlan(_) => ("ipvlan", Form::Single, Some("ipvlan")),
            LinkKind::Vlan(_) => ("vlan", Form::Single, Some("vlan")),
            LinkKind::Device(_) => ("host-device", Form::Lent, None),
            LinkKind::Dummy => ("dummy", Form::Single, Some("dummy")),
            LinkKind::Tap(_) => ("tap", Form::Single, Some("tun")),
            LinkKind::Chain(_) => ("cni", Form::Foreign, None),
            LinkKind::Neutron(_) => ("neutron", Form::Foreign, None),
            LinkKind::Ovs(_) => ("ovs", Form::Foreign, None),
            LinkKind::Plug(_) => ("neutron", Form::Pair, Some("veth")),
            LinkKind::Remote(_) => ("remote", Form::Foreign, None),
            LinkKind::ExternalInterface(_) => ("remote", Form::Lent, None),
        };
        LinkTraits { name, form, device }
    }

    /// The bridge, where it is one's port.
    pub fn bridge(&self) -> Option<&Bridge> {
        match self {
            LinkKind::Bridge(bridge) => Some(bridge),
            _ => None,
        }
    }

    /// The device that it is made on, where there is one.
    pub fn parent(&self) -> Option<&Parent> {
        match self {
            LinkKind::Macvlan(Macvlan { parent, .. })
            | LinkKind::Ipvlan(Ipvlan { parent, .. })
            | LinkKind::Vlan(Vlan { parent, .. }) => Some(parent),
            _ => None,
        }
    }

    /// Whether ports of the host can lead to the container: through this host's packet filter,
    /// where the host has a route to the container, or through the maker of the link. Other
    /// containers are on a segment beyond the host, as those of Open vSwitch are.
    pub fn has_ports(&self) -> bool {
        match self.traits().form {
            Form::Pair => true,
            Form::Foreign => !matches!(self, LinkKind::Ovs(_)),
            Form::Single | Form::Lent => false,
        }
    }

    /// Whether the link is a pair, with one end in the host's namespace.
    pub fn is_pair(&self) -> bool {
        self.traits().form == Form::Pair
    }
}

/// The common properties of all links of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkTraits {
    /// Its name in lists.
    pub name: &'static str,
    /// Its form on this host.
    pub form: Form,
    /// The kernel's name of its device's driver; `None` where it makes no device.
    pub device: Option<&'static str>,
}

/// The form of a link on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A pair, with one end in the host's namespace.
    Pair,
    /// One device, made for the container, without an end in the host.
    Single,
    /// A device that exists before the container and stays after it.
    Lent,
    /// A link that CNI plugins, Neutron, a Docker plugin or Open vSwitch make.
    Foreign,
}

/// A pair of devices with routes at both ends and no shared segment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ptp {
    /// Others may reach the container by a route through this host, which forwards because of us,
    /// without a published port.
    #[serde(default)]
    pub direct: bool,
}

/// The name of a network's bridge where none is given: `sp-` and the network's name, or a hash of
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
