//! Links that are ports of an OpenStack Neutron network.

use std::fmt;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{IpvlanMode, MacvlanMode, VlanId};
use crate::name::as_text;
use crate::{DeviceAddress, Error, IfName, Mac, Result};

/// A cloud's id of one of its resources: a UUID, mostly.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ResourceId(String);

impl ResourceId {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its first eleven characters: what Neutron's agents name devices after.
    pub fn short(&self) -> &str {
        self.0.get(..11).unwrap_or(&self.0)
    }
}

impl FromStr for ResourceId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        match (1..=64).contains(&text.len()) && text.bytes().all(is_plain) {
            true => Ok(Self(text.to_owned())),
            false => Err(Error::invalid(format!(
                "{text:?} is no id of a cloud's resource, such as \
                 0f2c8d5e-6a1b-4c3d-9e8f-7a6b5c4d3e2f"
            ))),
        }
    }
}

as_text!(ResourceId);

/// A resource's name: at most 255 printable characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ResourceName(String);

impl ResourceName {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ResourceName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match (1..=255).contains(&text.len()) && !text.chars().any(char::is_control) {
            true => Ok(Self(text.to_owned())),
            false => Err(Error::invalid(format!("{text:?} is no name of a cloud's resource"))),
        }
    }
}

as_text!(ResourceName);

/// Which of a cloud's resources is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceRef {
    /// The one with this id.
    Id(ResourceId),
    /// The only one of this name.
    Name(ResourceName),
}

impl FromStr for ResourceRef {
    type Err = Error;

    /// A UUID is an id; anything else is a name.
    fn from_str(text: &str) -> Result<Self> {
        let groups: Vec<usize> = text.split('-').map(str::len).collect();
        let is_hex = |c: char| c.is_ascii_hexdigit() || c == '-';
        match groups == [8, 4, 4, 4, 12] && text.chars().all(is_hex) {
            true => text.parse().map(Self::Id),
            false => text.parse().map(Self::Name),
        }
    }
}

impl fmt::Display for ResourceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResourceRef::Id(id) => id.fmt(f),
            ResourceRef::Name(name) => name.fmt(f),
        }
    }
}

/// A port of a Neutron network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeutronLink {
    /// The network: by id once it is known, in a network's template as it was described.
    pub network: ResourceRef,
    /// The subnets that addresses come from, one address of each; Neutron's choice where none is
    /// named.
    pub subnets: Vec<ResourceRef>,
    /// The requested properties of the port.
    #[serde(alias = "wish")]
    pub spec: PortSpec,
    /// The port, once there is one.
    pub binding: Option<Binding>,
}

/// The requested properties of a port. What is absent is Neutron's or the host's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortSpec {
    /// A port that exists already, to be used instead of a new one.
    pub port: Option<ResourceId>,
    /// Its security groups.
    pub security_groups: Option<Vec<ResourceRef>>,
    /// Whether senders are checked and security groups apply.
    pub port_security: Option<bool>,
    /// Its QoS policy.
    pub qos_policy: Option<ResourceRef>,
    /// Its name in Neutron's internal DNS.
    pub dns_name: Option<ResourceName>,
    /// Further addresses that it may send from.
    pub allowed_address_pairs: Vec<AddressPair>,
    /// How it is connected, where not as Neutron says.
    pub nesting: Option<Nesting>,
    /// The network from which it gets a floating IP address.
    pub floating_ip: Option<ResourceRef>,
}

/// An address that a port may send from besides its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressPair {
    /// The address or addresses.
    pub net: IpNet,
    /// With this hardware address; the port's own where none is given.
    pub mac: Option<Mac>,
}

/// How a container is connected in a machine that is itself an instance of the cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Nesting {
    /// A macvlan of the instance's interface; its address is allowed on the instance's port.
    Macvlan {
        /// The instance's interface.
        parent: IfName,
        /// Of the macvlan.
        mode: MacvlanMode,
    },
    /// An ipvlan of the instance's interface.
    Ipvlan {
        /// The instance's interface.
        parent: IfName,
        /// Of the ipvlan.
        mode: IpvlanMode,
    },
    /// A subport of the instance's trunk, and a VLAN of its interface.
    Trunk {
        /// The instance's interface.
        parent: IfName,
        /// The trunk; that of the instance's port where none is named.
        trunk: Option<ResourceRef>,
    },
}

/// A port that was made or found for an attachment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The port.
    pub port: ResourceId,
    /// How the port ends.
    #[serde(alias = "tenure")]
    pub ownership: Ownership,
    /// How it is connected on this host.
    pub vif: Vif,
    /// By which id Neutron, and the switch, know the port's user.
    #[serde(default, skip_serializing_if = "PortUser::is_container")]
    pub user: PortUser,
}

/// By which id Neutron knows a port's user (`device_id`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortUser {
    /// The container's, where that is 64 hexadecimal digits: the id of an endpoint of Docker's is
    /// unique. Earlier versions named every port so.
    #[default]
    Container,
    /// One of the attachment's own: other runtimes call a container alike on all its networks.
    Attachment,
}

impl PortUser {
    fn is_container(&self) -> bool {
        *self == Self::Container
    }
}

/// What becomes of a port when its attachment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ownership {
    /// It was made for the attachment, and is deleted with it.
    Own,
    /// It was requested with an address, and is deleted with that.
    Requested,
    /// It was there before, and stays: it is only unbound.
    Borrowed,
}

/// How a port is connected on the host that it is bound to (Neutron's `binding:vif_type`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Vif {
    /// A port of an Open vSwitch bridge.
    Ovs {
        /// The bridge.
        bridge: IfName,
        /// Whether the container may leave checksums to its interface, as [`Plug::offload`].
        offload: bool,
    },
    /// A port of an Open vSwitch bridge through a Linux bridge, where iptables filters.
    OvsHybrid {
        /// The Open vSwitch bridge.
        bridge: IfName,
        /// Whether the container may leave checksums to its interface, as [`Plug::offload`].
        offload: bool,
    },
    /// A port of a Linux bridge.
    Bridge {
        /// The bridge.
        bridge: IfName,
    },
    /// The host's end is taken by Neutron's agent.
    Tap,
    /// A program of the operator's connects it.
    Script {
        /// Its name in the directory of such programs: Neutron's VIF type.
        name: ScriptName,
        /// Neutron's `binding:vif_details`, as JSON.
        details: String,
    },
    /// A macvlan.
    Macvlan {
        /// The device below.
        parent: IfName,
        /// Of the macvlan.
        mode: MacvlanMode,
    },
    /// An ipvlan.
    Ipvlan {
        /// The device below.
        parent: IfName,
        /// Of the ipvlan.
        mode: IpvlanMode,
    },
    /// A VLAN, as subport of a trunk.
    Trunk {
        /// The device below.
        parent: IfName,
        /// The VLAN.
        vlan: VlanId,
        /// The trunk.
        trunk: ResourceId,
    },
    /// A virtual function of a network card.
    Function {
        /// On the PCI bus.
        slot: DeviceAddress,
        /// The VLAN that the card is to put it into.
        vlan: Option<VlanId>,
    },
}

/// The name of an operator's program for a VIF type, never a path: `[a-z0-9_-]+`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ScriptName(String);

impl ScriptName {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ScriptName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
        match (1..=64).contains(&text.len()) && text.bytes().all(is_plain) {
            true => Ok(Self(text.to_owned())),
            false => Err(Error::invalid(format!("VIF type {text:?} is none of Neutron's"))),
        }
    }
}

as_text!(ScriptName);

/// A pair whose end in the host a third party connects. That end has neither address nor master nor
/// route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plug {
    /// The name of the host's end.
    pub end: IfName,
    /// Whether the container leaves checksums to its interface. A switch that runs as a program
    /// takes frames as they are.
    pub offload: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_ids_and_the_rest_are_names() {
        let id = "0f2c8d5e-6a1b-4c3d-9e8f-7a6b5c4d3e2f";
        assert_eq!(id.parse::<ResourceRef>().unwrap(), ResourceRef::Id(id.parse().unwrap()));
        let name = "private-net-1-a-b";
        assert_eq!(name.parse::<ResourceRef>().unwrap(), ResourceRef::Name(name.parse().unwrap()));
        for bad in ["", "a\nb"] {
            let error = bad.parse::<ResourceRef>().unwrap_err();
            assert_eq!(error.kind(), crate::Kind::Invalid, "{bad:?}");
        }
        assert_eq!(id.parse::<ResourceId>().unwrap().short(), "0f2c8d5e-6a");
    }

    #[test]
    fn scripts_are_no_paths() {
        for bad in ["", "../ovs", "OVS", "a b"] {
            assert_eq!(
                ScriptName::try_from(bad.to_owned()).unwrap_err().kind(),
                crate::Kind::Invalid,
                "{bad}"
            );
        }
        assert_eq!(ScriptName::try_from("midonet".to_owned()).unwrap().as_str(), "midonet");
    }
}
