//! Where the containers of a network ask for names, where Spoke itself answers.

use std::net::IpAddr;

use crate::{Attachment, Dns, Gateway, IpNet, Ipam, Wiring, first_host, name_domain};

impl Wiring {
    /// The addresses at which Spoke answers queries for names, with the lengths of their subnets. None
    /// where the network does not ask for it, or where no bridge of this host has its gateways.
    pub fn name_servers(&self, ipam: &Ipam) -> Vec<IpNet> {
        match self.bridge() {
            Some(bridge) if self.has_names() && bridge.gateway != Gateway::None => gateways(ipam),
            Some(_) | None => Vec::new(),
        }
    }
}

impl Attachment {
    /// What its container resolves names with: what was said for it, or Spoke at the network's
    /// gateways, which itself asks those that were said.
    pub fn resolves_with(&self) -> Dns {
        let servers = self.wiring.name_servers(&self.ipam);
        if servers.is_empty() {
            return self.dns.clone();
        }
        let mut dns = self.dns.clone();
        dns.nameservers = servers.iter().map(|server| server.addr().to_string()).collect();
        dns.search.insert(0, name_domain(self.network()));
        dns
    }
}

/// The gateways from which a network's addresses are leased. A bridge is the first host of a subnet that
/// names none.
fn gateways(ipam: &Ipam) -> Vec<IpNet> {
    let ranges = ipam.pools().iter().flat_map(|pool| &pool.ranges);
    let named = ranges.map(|range| (range.gateway.or(first_host(&range.subnet)), range.subnet));
    let fixed = ipam.fixed_addresses().iter().map(|lease| (lease.gateway, lease.address));
    let mut all: Vec<IpNet> = Vec::new();
    for (gateway, subnet) in named.chain(fixed) {
        let net = gateway.and_then(|it: IpAddr| IpNet::new(it, subnet.prefix_len()).ok());
        all.extend(net.filter(|net| !all.contains(net)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AttachmentId, Bridge, BridgePort, Layer, Link, LinkKind, NetworkName, Order, Phase, Pool,
        PoolId, Range, Runtime, Space, Timestamp,
    };

    fn attachment(names: bool, gateway: Gateway) -> Attachment {
        let network: NetworkName = "Front".parse().unwrap();
        let range = |subnet: &str| Range::of_hosts(subnet.parse().unwrap(), None, None).unwrap();
        let kind = LinkKind::Bridge(Bridge {
            name: "br0".parse().unwrap(),
            gateway,
            force_address: false,
            hairpin: false,
            host_absent: crate::Absence::default(),
            promiscuous: false,
            port: BridgePort::default(),
        });
        let id = AttachmentId {
            network: network.clone(),
            container: "c".parse().unwrap(),
            ifname: "eth0".parse().unwrap(),
        };
        let (since, runtime) = (Timestamp(0), Runtime::Spoke);
        let mut attachment = Attachment::new(id, Layer::Link, runtime, since, Phase::Reserved);
        attachment.wiring.link = Some(Link { kind, name: None, mac: None, mtu: None });
        attachment.wiring.names = names;
        attachment.dns = Dns { nameservers: vec!["192.0.2.1".into()], ..Dns::default() };
        attachment.dns.search.push("lan.example".into());
        attachment.ipam = Ipam::Book {
            pools: vec![Pool {
                id: PoolId { network, index: 0 },
                space: Space::Host,
                ranges: vec![range("10.1.2.0/24"), range("fd00::/64")],
                order: Order::NextAfterLast,
            }],
        };
        attachment
    }

    #[test]
    fn a_network_with_names_is_asked_at_its_gateways() {
        let dns = attachment(true, Gateway::Default).resolves_with();
        assert_eq!(dns.nameservers, ["10.1.2.1", "fd00::1"]);
        assert_eq!(dns.search, ["front.spoke", "lan.example"]);
    }

    #[test]
    fn without_them_what_was_said_holds() {
        for (names, gateway) in [(false, Gateway::Default), (true, Gateway::None)] {
            let attachment = attachment(names, gateway);
            assert_eq!(attachment.resolves_with(), attachment.dns);
        }
    }
}
