//! Networks, subnets and subnet pools.

use std::net::IpAddr;

use ipnet::IpNet;
use model::ResourceId;
use serde::{Deserialize, Serialize};

/// A network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkResource {
    /// Its id.
    pub id: ResourceId,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Whether other projects see it.
    #[serde(default)]
    pub shared: bool,
    /// In bytes; 0 where Neutron does not know it.
    #[serde(default)]
    pub mtu: u32,
    /// Its subnets.
    #[serde(default)]
    pub subnets: Vec<ResourceId>,
    /// Its tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Free text.
    #[serde(default)]
    pub description: String,
    /// Whether ports check senders unless they say otherwise; `true` where Neutron does not say.
    #[serde(default)]
    pub port_security_enabled: Option<bool>,
    /// The project that it belongs to.
    #[serde(default)]
    pub project_id: String,
    /// Its revision.
    #[serde(default)]
    pub revision_number: Option<u64>,
}

/// A network that is to be.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NewNetwork {
    /// Its name.
    pub name: String,
    /// Whether it forwards.
    pub admin_state_up: bool,
    /// Whether other projects see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<bool>,
    /// Our mark.
    pub description: String,
}

/// A subnet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubnetResource {
    /// Its id.
    pub id: ResourceId,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its network.
    pub network_id: ResourceId,
    /// Its addresses.
    pub cidr: IpNet,
    /// Its gateway.
    #[serde(default)]
    pub gateway_ip: Option<IpAddr>,
    /// The pool that it was taken from.
    #[serde(default)]
    pub subnetpool_id: Option<ResourceId>,
    /// Routes that its ports should have.
    #[serde(default)]
    pub host_routes: Vec<HostRoute>,
    /// Resolvers that its ports should use.
    #[serde(default)]
    pub dns_nameservers: Vec<IpAddr>,
    /// Its tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Free text.
    #[serde(default)]
    pub description: String,
    /// Its revision.
    #[serde(default)]
    pub revision_number: Option<u64>,
}

/// A route that a subnet's ports should have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRoute {
    /// Where to.
    pub destination: IpNet,
    /// Through which router.
    pub nexthop: IpAddr,
}

/// A subnet that is to be.
#[derive(Clone, Debug, Serialize)]
pub struct NewSubnet {
    /// Its name.
    pub name: String,
    /// Its network.
    pub network_id: ResourceId,
    /// 4 or 6.
    pub ip_version: u8,
    /// Its addresses.
    pub cidr: IpNet,
    /// Its gateway; Neutron's choice where none is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway_ip: Option<IpAddr>,
    /// The pool that it is taken from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnetpool_id: Option<ResourceId>,
    /// Whether Neutron answers DHCP there.
    pub enable_dhcp: bool,
    /// The parts from which any address is chosen; all of it where none is given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocation_pools: Vec<AllocationPool>,
    /// Our mark.
    pub description: String,
}

/// Consecutive addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AllocationPool {
    /// The first.
    pub start: IpAddr,
    /// The last.
    pub end: IpAddr,
}

/// A subnet pool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SubnetPool {
    /// Its id.
    pub id: ResourceId,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// From which subnets are taken.
    #[serde(default)]
    pub prefixes: Vec<IpNet>,
    /// How long a subnet's prefix is where none is given.
    #[serde(default, deserialize_with = "super::call::number")]
    pub default_prefixlen: u8,
    /// Whether other projects see it.
    #[serde(default)]
    pub shared: bool,
    /// Its tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Free text.
    #[serde(default)]
    pub description: String,
    /// Its revision.
    #[serde(default)]
    pub revision_number: Option<u64>,
}

/// A subnet pool that is to be.
#[derive(Clone, Debug, Serialize)]
pub struct NewPool {
    /// Its name.
    pub name: String,
    /// From which subnets are taken.
    pub prefixes: Vec<IpNet>,
    /// How long a subnet's prefix is where none is given.
    pub default_prefixlen: u8,
    /// How short a subnet's prefix may be; 8 or 64 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_prefixlen: Option<u8>,
    /// Whether other projects see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<bool>,
    /// The scope in which addresses are unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address_scope_id: Option<ResourceId>,
    /// Our mark.
    pub description: String,
}
