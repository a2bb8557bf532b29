//! The wanted links between this host and the others, from the records of the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use cluster::View;
use linux::identity::mac_of;
use model::{HostName, IpNet, NamedElsewhere, NetworkName, Result, SharedEndpoint, Transport};
use overlay::{Overlay, OverlayNetwork, RoutedNetwork, Routes, gateway_mac};

use super::closed;
use crate::hosts::Attached;
use crate::hosts::local::Local;
use crate::hosts::member::Member;

/// Hosts whose lease has ended, and since when as far as this daemon knows.
#[derive(Debug, Default)]
pub(in crate::hosts) struct Silent(BTreeMap<HostName, Instant>);

impl Silent {
    /// Those whose entries are withdrawn, and whose addresses may be taken over: their lease has ended for
    /// at least `grace`, or another host has taken an address of theirs over.
    pub(in crate::hosts) fn gone(
        &mut self,
        view: &View,
        (now, grace): (Instant, Duration),
    ) -> BTreeSet<HostName> {
        let members: BTreeSet<HostName> =
            view.hosts.keys().cloned().chain(view.damaged_hosts()).collect();
        self.0.retain(|host, _| members.contains(host) && !view.alive.contains(host));
        for host in members.into_iter().filter(|host| !view.alive.contains(host)) {
            self.0.entry(host).or_insert(now);
        }
        let is_over = |since: &Instant| now.saturating_duration_since(*since) >= grace;
        let is_gone = |host: &HostName, since| is_over(since) || view.is_taken_over(host);
        let gone = self.0.iter().filter(|(host, since)| is_gone(host, since));
        gone.map(|(host, _)| host.clone()).collect()
    }

    /// How long it takes until [`Silent::gone`] has one more; the longest time where none is on its way.
    pub(in crate::hosts) fn next(&self, now: Instant, grace: Duration) -> Duration {
        let left = self.0.values().map(|since| (*since + grace).saturating_duration_since(now));
        left.filter(|left| !left.is_zero()).min().unwrap_or(Duration::MAX)
    }
}

/// What there should be.
pub(in crate::hosts) struct ExpectedOverlay {
    /// In the kernel.
    pub(in crate::hosts) overlay: Overlay,
    /// What containers of other hosts are called.
    pub(in crate::hosts) names: Vec<NamedElsewhere>,
    /// What others say that cannot be so.
    pub(in crate::hosts) refused: Vec<String>,
}

/// What there should be by what the cluster says. What a host sends that is in `gone` is not
/// taken any more: another one may have its addresses. Hosts in `isolated` hold this one for gone.
pub(in crate::hosts) fn wanted(
    view: &View,
    member: &Member,
    (gone, isolated): (&BTreeSet<HostName>, &BTreeSet<HostName>),
    made: &BTreeMap<NetworkName, Local>,
) -> Result<ExpectedOverlay> {
    let others =
        view.hosts.iter().filter(|(host, _)| **host != member.name && !gone.contains(*host));
    let links = others.clone();
    let links = links.filter_map(|(_, host)| Some((host.address, host.link?.checked()?))).collect();
    let members = others.map(|(_, host)| host.address).collect();
    let (mut networks, mut refused, mut names) = (Vec::new(), Vec::new(), Vec::new());
    let mut routes = Routes { networks: Vec::new(), links, closed: BTreeMap::new() };
    for (name, network) in view.networks_of(&member.name) {
        if !made.get(name).is_some_and(|made| is_here(view, member, name, made)) {
            continue;
        }
        let reached = view.reached(name, &member.name, (gone, isolated), mac_of);
        refused.extend(reached.refused);
        names.extend(reached.names);
        if network.transport == Transport::Route {
            let block = made.get(name).map(|made| made.block);
            let gateways = block.map(|block| network.gateways(&block).collect());
            routes.networks.push(RoutedNetwork {
                name: name.clone(),
                bridge: model::bridge_name(name)?,
                mac: gateway_mac(name, &member.name),
                subnets: network.nets().collect(),
                mtu: network.mtu,
                gateways: gateways.unwrap_or_default(),
                nets: view.routed(name, &member.name, (gone, isolated), &reached.endpoints),
                own: view.apart(name, &member.name),
                elsewhere: reached.endpoints.into_keys().collect(),
            });
            continue;
        }
        networks.push(OverlayNetwork {
            name: name.clone(),
            vni: network.vni,
            bridge: model::bridge_name(name)?,
            mac: gateway_mac(name, &member.name),
            subnets: network.nets().collect(),
            mtu: network.mtu,
            encrypted: network.encrypted,
            endpoints: reached.endpoints,
        });
    }
    routes.closed = closed::closed(made, &routes.networks)?;
    let tunnels = Vec::new();
    let overlay = Overlay { local: member.address, members, networks, tunnels, routes };
    Ok(ExpectedOverlay { overlay, names, refused })
}

/// Whether what was made here is the network that the cluster has, in a block of this host: the bridge may still be that
/// of an earlier network of this name. One whose transport or rules this version does not know is not: a later version made it.
pub(in crate::hosts) fn is_here(
    view: &View,
    member: &Member,
    name: &NetworkName,
    made: &Local,
) -> bool {
    let mut blocks = view.blocks_of(name, &member.name);
    let network = view.networks.get(name).filter(|network| !network.is_unknown());
    network.is_some_and(|network| made.network.is_same(network))
        && blocks.any(|block| block == made.block)
}

/// What this host has to publish: its containers, and the bridges of networks in their blocks. By the bridge of a
/// network others see that this host has it: not of those in `held_back`, which its engines do not have yet.
pub(in crate::hosts) fn published(
    view: &View,
    member: &Member,
    attached: &Attached,
    made: &BTreeMap<NetworkName, IpNet>,
    held_back: &BTreeSet<NetworkName>,
) -> BTreeMap<(NetworkName, IpAddr), SharedEndpoint> {
    let own = attached.macs.iter().filter(|((name, address), _)| {
        made.contains_key(name) && view.may_have(name, &member.name, *address)
    });
    let described = |place, mac| match attached.names.get(place) {
        Some((names, runtime)) => {
            SharedEndpoint { mac, names: names.clone(), runtime: Some(*runtime) }
        }
        None => SharedEndpoint::unnamed(mac),
    };
    let mut all: BTreeMap<_, _> =
        own.map(|(place, mac)| (place.clone(), described(place, *mac))).collect();
    for (name, block) in made.iter().filter(|(name, _)| !held_back.contains(*name)) {
        let gateways = view.networks.get(name).into_iter().flat_map(|it| it.gateways(block));
        let bridge = SharedEndpoint::unnamed(gateway_mac(name, &member.name));
        all.extend(gateways.map(|address| ((name.clone(), address), bridge.clone())));
    }
    all
}

#[cfg(test)]
mod tests {
    use model::{ClusterHost, Timestamp};

    use super::*;

    #[test]
    fn a_silent_host_is_withdrawn_after_a_minute() {
        let (host, mut view): (HostName, _) = ("a".parse().unwrap(), View::default());
        let it = ClusterHost::new([192, 0, 2, 1].into(), Timestamp(1));
        view.hosts.insert(host.clone(), it);
        let (mut silent, begin) = (Silent::default(), Instant::now());
        let mut gone = |view: &View, seconds| {
            let now = begin + Duration::from_secs(seconds);
            silent.gone(view, (now, Duration::from_secs(60))).contains(&host)
        };
        assert!(!gone(&view, 0) && !gone(&view, 59) && gone(&view, 60));
        view.alive.insert(host.clone());
        assert!(!gone(&view, 61));
        view.alive.clear();
        assert!(!gone(&view, 62) && gone(&view, 122));
        let next =
            |seconds| silent.next(begin + Duration::from_secs(seconds), Duration::from_secs(60));
        assert_eq!([next(62), next(121)].map(|left| left.as_secs()), [60, 1]);
        assert_eq!(next(122), Duration::MAX);
    }

    /// It is a member: its time runs on as that of others does.
    #[test]
    fn a_silent_host_whose_record_cannot_be_read_has_a_minute_too() {
        let (host, mut view): (HostName, _) = ("a".parse().unwrap(), View::default());
        view.damaged.insert("/spoke/v1/host/a".to_owned(), "no record".to_owned());
        let (mut silent, begin) = (Silent::default(), Instant::now());
        let mut gone = |view: &View, seconds| {
            let now = begin + Duration::from_secs(seconds);
            silent.gone(view, (now, Duration::from_secs(60))).contains(&host)
        };
        assert!(!gone(&view, 0) && !gone(&view, 59) && gone(&view, 60));
        view.alive.insert("a".parse().unwrap());
        assert!(!gone(&view, 61));
    }
}
