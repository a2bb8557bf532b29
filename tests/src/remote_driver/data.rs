//! What a driver remembers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::range::Range;

#[derive(Debug, Default)]
pub(super) struct Data {
    pub(super) networks: BTreeMap<String, Network>,
    pub(super) endpoints: BTreeMap<String, Endpoint>,
    pub(super) pools: BTreeMap<String, Pool>,
    pub(super) complaints: Vec<String>,
    /// How many pools were made up.
    pub(super) made_up: u16,
    /// How many addresses of its own were given.
    pub(super) own: usize,
}

#[derive(Debug, Default)]
pub(super) struct Network {
    /// Addresses of gateways, without lengths.
    pub(super) gateways: Vec<String>,
    /// In CIDR notation, IPv4 only.
    pub(super) subnets: Vec<String>,
    pub(super) internal: bool,
}

#[derive(Debug, Default)]
pub(super) struct Endpoint {
    pub(super) network: String,
    pub(super) joined: bool,
    /// IPv4, without a length.
    pub(super) address: Option<String>,
    pub(super) ports: Vec<Port>,
}

/// A port of the host that leads to an endpoint.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) protocol: &'static str,
    pub(super) host: Option<String>,
    pub(super) host_port: u64,
    pub(super) port: u64,
}

#[derive(Debug)]
pub(super) struct Pool {
    pub(super) range: Range,
    /// Where addresses are from.
    pub(super) part: Range,
    pub(super) references: usize,
    pub(super) taken: BTreeSet<IpAddr>,
}

impl Port {
    /// Whether both cannot be.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let is_same = (self.protocol, self.host_port) == (other.protocol, other.host_port);
        is_same && (self.host.is_none() || other.host.is_none() || self.host == other.host)
    }
}

impl Data {
    pub(super) fn complain(&mut self, what: String) {
        self.complaints.push(what);
    }

    pub(super) fn holds(&self) -> Vec<String> {
        let networks = self.networks.keys().map(|id| format!("network {id}"));
        let endpoints = self.endpoints.keys().map(|id| format!("endpoint {id}"));
        let pools = self.pools.iter().map(|(id, pool)| format!("pool {id} x{}", pool.references));
        let addresses = self.pools.iter().flat_map(|(id, pool)| {
            pool.taken.iter().map(move |address| format!("address {address} of {id}"))
        });
        networks.chain(endpoints).chain(pools).chain(addresses).collect()
    }
}
