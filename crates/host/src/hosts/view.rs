//! What the daemon answers about hosts, as commands write it in JSON.

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::{HostName, IfName, IpNet, NetworkName, Timestamp};
use serde::{Deserialize, Serialize};

/// Where addresses of a network are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRoute {
    /// The network.
    pub network: NetworkName,
    /// A block, or an address that is elsewhere than its block.
    pub net: IpNet,
    /// The host on which they are.
    pub host: HostName,
    /// The next hop; none where others do not know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<IpAddr>,
    /// The device of the asked host that is on the segment, where the next hop is of that only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<IfName>,
}

/// The hosts, as this one sees them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct HostsView {
    /// Each of them.
    pub hosts: Vec<HostView>,
    /// Since when etcd does not answer, and what was said last.
    pub lost: Option<(Timestamp, String)>,
    /// What others wrote that is not used, and what does not work.
    pub notes: Vec<String>,
}

/// A host.
#[derive(Debug, Serialize, Deserialize)]
pub struct HostView {
    /// What it is called.
    pub name: String,
    /// Its address for other hosts.
    pub address: String,
    /// `up`, `draining` where it takes no more containers, or `lost` where its daemon does not renew its lease.
    pub state: String,
    /// Whether it takes no more containers.
    pub draining: bool,
    /// By which networks choose it.
    pub labels: BTreeMap<String, String>,
    /// Whether it is the one that is asked.
    pub own: bool,
    /// `server` where it runs one of the cluster's own etcd, `learns` until that has a vote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd: Option<String>,
    /// Its blocks.
    pub blocks: BTreeMap<String, String>,
    /// How many containers it has on networks of the cluster.
    pub containers: usize,
}

/// The cluster's authority.
#[derive(Debug, Serialize, Deserialize)]
pub struct AuthorityView {
    /// SHA-256 of its certificate, in hexadecimal digits.
    pub authority: String,
    /// How far the last change of it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// When that began, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// What each host says of it.
    pub hosts: Vec<HostAuthority>,
}

/// What a host says of the authorities that it knows.
#[derive(Debug, Serialize, Deserialize)]
pub struct HostAuthority {
    /// What the host is called.
    pub name: String,
    /// Which has signed its certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Which it trusts.
    pub trusted: Vec<String>,
    /// `ready`, `waited for`, `lost`, or `left out`.
    pub state: String,
}

/// What was found on the way to another host.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct HostCheck {
    /// What the host is called.
    pub name: String,
    /// Its address.
    pub address: String,
    /// By which it was asked.
    pub network: Option<String>,
    /// From a packet to its answer.
    pub microseconds: Option<u128>,
    /// The largest packet of the network that arrives and comes back, in bytes.
    pub mtu: Option<u32>,
    /// By how much its clock is ahead.
    pub clock_milliseconds: Option<i64>,
    /// What is wrong, in sentences.
    pub problems: Vec<String>,
}

/// How long another host takes to answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct HostRtt {
    /// What the host is called.
    pub name: String,
    /// Its address.
    pub address: String,
    /// From its own address to ours, in microseconds; the least of a few.
    pub host_microseconds: Option<u128>,
    /// The network by which it was asked too, and what that took.
    pub network: Option<String>,
    /// From its address on that network to ours, in microseconds.
    pub network_microseconds: Option<u128>,
}
