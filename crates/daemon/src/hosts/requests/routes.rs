//! `spoke host routes`: which host has which addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;

use cluster::View;
use host::hosts::{HostRoute, Reply};
use model::{HostLink, HostName, IfName, IpNet, Result, Transport};
use netlink::Socket;

use crate::hosts::Hosts;

impl Hosts {
    pub(in crate::hosts) fn routes(&self) -> Result<Reply> {
        let (member, view, gone) = {
            let state = self.lock();
            let member = state.member.clone().ok_or_else(super::no_member)?;
            (member, state.view.clone().unwrap_or_default(), state.gone.clone())
        };
        let underlay = overlay::underlay(member.address, &mut Socket::route()?)?;
        let device = underlay.map(|underlay| underlay.name);
        let mut routes = Vec::new();
        for host in view.hosts.keys().filter(|host| !gone.contains(*host)) {
            routes.extend(of_host(&view, host, device.as_ref()));
        }
        routes.sort_by(|one, other| (&one.network, one.net).cmp(&(&other.network, other.net)));
        Ok(Reply::Routes(routes))
    }
}

/// The blocks of a host, and the addresses in use that it has outside of them.
fn of_host(view: &View, host: &HostName, device: Option<&IfName>) -> Vec<HostRoute> {
    let mut routes = Vec::new();
    let Some(member) = view.hosts.get(host) else { return routes };
    for (name, network) in view.networks_of(host) {
        let blocks = view.blocks_of(name, host);
        let blocks = blocks.flat_map(|block| network.parts(&block));
        let is_used =
            |address: &IpAddr| view.endpoints.contains_key(&(host.clone(), name.clone(), *address));
        let apart = view.apart(name, host).into_iter().filter(is_used).map(IpNet::from);
        let is_routed = network.transport == Transport::Route;
        let link =
            member.link.and_then(HostLink::checked).and_then(|link| link.v6).filter(|_| is_routed);
        let nets: BTreeSet<IpNet> = blocks.chain(apart).collect();
        routes.extend(nets.into_iter().map(|net| {
            let is_of_family = net.addr().is_ipv4() == member.address.is_ipv4();
            let linked = link.filter(|_| !is_of_family && net.addr().is_ipv6() && device.is_some());
            let via = is_of_family.then_some(member.address).or(linked.map(IpAddr::V6));
            let is_linked = linked.is_some();
            HostRoute {
                network: name.clone(),
                net,
                host: host.clone(),
                via,
                device: device.filter(|_| is_linked).cloned(),
            }
        }));
    }
    routes
}
