//! Ports.

use std::net::IpAddr;

use ipnet::IpNet;
use model::{Mac, ResourceId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortResource {
    /// Its id.
    pub id: ResourceId,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its network.
    pub network_id: ResourceId,
    /// Its hardware address.
    pub mac_address: Mac,
    /// Its addresses.
    #[serde(default)]
    pub fixed_ips: Vec<FixedIp>,
    /// The id of the user, in a form that the user chooses.
    #[serde(default)]
    pub device_id: String,
    /// The kind of its user.
    #[serde(default)]
    pub device_owner: String,
    /// `ACTIVE`, `DOWN`, `BUILD`, …
    #[serde(default)]
    pub status: String,
    /// Whether it forwards.
    #[serde(default)]
    pub admin_state_up: bool,
    /// The project that it belongs to.
    #[serde(default)]
    pub project_id: String,
    /// Its tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Free text.
    #[serde(default)]
    pub description: String,
    /// Its security groups.
    #[serde(default)]
    pub security_groups: Vec<ResourceId>,
    /// Addresses that it may send from besides its own.
    #[serde(default)]
    pub allowed_address_pairs: Vec<Pair>,
    /// The host that it is bound to; empty where none.
    #[serde(default, rename = "binding:host_id")]
    pub host: Option<String>,
    /// How it is connected there. Absent in answers to an account that may not bind.
    #[serde(default, rename = "binding:vif_type")]
    pub vif_type: Option<String>,
    /// More about that.
    #[serde(default, rename = "binding:vif_details")]
    pub vif_details: Option<Value>,
    /// The kind of its interface: `normal`, `direct`, `macvtap`, `direct-physical`.
    #[serde(default, rename = "binding:vnic_type")]
    pub vnic_type: Option<String>,
    /// The host's settings.
    #[serde(default, rename = "binding:profile")]
    pub profile: Option<Profile>,
    /// Whether senders are checked; `None` where Neutron does not say.
    #[serde(default)]
    pub port_security_enabled: Option<bool>,
    /// Its QoS policy.
    #[serde(default)]
    pub qos_policy_id: Option<ResourceId>,
    /// Its name in Neutron's DNS; empty where it has none.
    #[serde(default)]
    pub dns_name: Option<String>,
    /// Its revision.
    #[serde(default)]
    pub revision_number: Option<u64>,
}

/// One address of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixedIp {
    /// Of which subnet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet_id: Option<ResourceId>,
    /// Which; any where none is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<IpAddr>,
}

/// The known part of `binding:profile`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// The PCI address of a virtual function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci_slot: Option<String>,
    /// The physical network, of a virtual function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_network: Option<String>,
}

/// An address that a port may send from besides its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// One address, or a prefix.
    pub ip_address: String,
    /// The port's own where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<Mac>,
}

/// A port that is to be. What is `None` is Neutron's choice.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NewPort {
    /// Whether no other port has its description.
    #[serde(skip)]
    pub is_unique: bool,
    /// Its name.
    pub name: String,
    /// Its network.
    pub network_id: Option<ResourceId>,
    /// Its addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed_ips: Option<Vec<FixedIp>>,
    /// Its hardware address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<Mac>,
    /// Whether it forwards.
    pub admin_state_up: bool,
    /// The id of the user.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub device_id: String,
    /// The kind of its user.
    pub device_owner: String,
    /// The host that it is bound to.
    #[serde(skip_serializing_if = "Option::is_none", rename = "binding:host_id")]
    pub host: Option<String>,
    /// Our mark.
    pub description: String,
    /// Only where Neutron takes tags here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Its security groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<Vec<ResourceId>>,
    /// Whether senders are checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_security_enabled: Option<bool>,
    /// Its QoS policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos_policy_id: Option<ResourceId>,
    /// Its name in Neutron's DNS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_name: Option<String>,
    /// Addresses that it may send from besides its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_address_pairs: Vec<Pair>,
}

/// The change of a port; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PortChange {
    /// The new name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed_ips: Option<Vec<FixedIp>>,
    /// Its hardware address; refused while it is bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<Mac>,
    /// Whether it forwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_state_up: Option<bool>,
    /// The new id of the user; an empty one frees the port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    /// The kind of its user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_owner: Option<String>,
    /// The host that it is bound to; unbound where empty.
    #[serde(skip_serializing_if = "Option::is_none", rename = "binding:host_id")]
    pub host: Option<String>,
    /// Our mark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its security groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<Vec<ResourceId>>,
    /// Whether senders are checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_security_enabled: Option<bool>,
    /// Its name in Neutron's DNS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_name: Option<String>,
    /// Its QoS policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos_policy_id: Option<ResourceId>,
    /// Addresses that it may send from besides its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_address_pairs: Option<Vec<Pair>>,
}

impl PortResource {
    /// Its first address in this subnet.
    pub fn address_in(&self, subnet: &ResourceId) -> Option<IpAddr> {
        let mut of = self.fixed_ips.iter().filter(|ip| ip.subnet_id.as_ref() == Some(subnet));
        of.find_map(|ip| ip.ip_address)
    }

    /// Whether it has this address.
    pub fn has(&self, address: IpAddr) -> bool {
        self.fixed_ips.iter().any(|ip| ip.ip_address == Some(address))
    }

    /// Whether it is bound to a host, and to which.
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref().filter(|host| !host.is_empty())
    }

    /// Whether it has this tag.
    pub fn is_tagged(&self, tag: &str) -> bool {
        self.tags.iter().any(|own| own == tag)
    }
}

impl Pair {
    /// Of one address or prefix, and perhaps a hardware address.
    pub fn new(net: &IpNet, mac: Option<Mac>) -> Self {
        let is_one = net.prefix_len() == net.max_prefix_len();
        let ip_address = if is_one { net.addr().to_string() } else { net.to_string() };
        Self { ip_address, mac_address: mac }
    }
}
