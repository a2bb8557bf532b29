//! Security groups and floating IP addresses.

use std::net::IpAddr;

use model::ResourceId;
use serde::{Deserialize, Serialize};

/// A security group.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SecurityGroup {
    /// Its id.
    pub id: ResourceId,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Free text.
    #[serde(default)]
    pub description: String,
    /// The traffic that it allows.
    #[serde(default, rename = "security_group_rules")]
    pub rules: Vec<RuleResource>,
}

/// A rule of a security group.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RuleResource {
    /// Its id.
    pub id: ResourceId,
    /// Which way.
    pub direction: Direction,
    /// `IPv4` or `IPv6`.
    #[serde(default)]
    pub ethertype: Option<String>,
    /// `tcp`, `udp`, `sctp`, …; all where none is named.
    #[serde(default)]
    pub protocol: Option<String>,
    /// The first port.
    #[serde(default)]
    pub port_range_min: Option<u16>,
    /// The last port.
    #[serde(default)]
    pub port_range_max: Option<u16>,
}

/// A security group that is to be.
#[derive(Clone, Debug, Serialize)]
pub struct NewGroup {
    /// Its name.
    pub name: String,
    /// Our mark.
    pub description: String,
}

/// Which way traffic goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// To the port.
    Ingress,
    /// From the port.
    Egress,
}

/// A rule that is to be: it lets traffic pass.
#[derive(Clone, Debug, Serialize)]
pub struct NewRule {
    /// Of which group.
    pub security_group_id: ResourceId,
    /// Which way.
    pub direction: Direction,
    /// `IPv4` or `IPv6`.
    pub ethertype: &'static str,
    /// `tcp`, `udp`, `sctp`, …
    pub protocol: String,
    /// The first port.
    pub port_range_min: u16,
    /// The last port.
    pub port_range_max: u16,
}

/// A floating IP address.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct FloatingIp {
    /// Its id.
    pub id: ResourceId,
    /// The address.
    pub floating_ip_address: IpAddr,
    /// The port that it belongs to.
    #[serde(default)]
    pub port_id: Option<ResourceId>,
    /// Free text.
    #[serde(default)]
    pub description: String,
}

/// A floating IP address that is to be.
#[derive(Clone, Debug, Serialize)]
pub struct NewFloatingIp {
    /// The external network.
    pub floating_network_id: ResourceId,
    /// The port that it is to belong to.
    pub port_id: ResourceId,
    /// Our mark.
    pub description: String,
}
