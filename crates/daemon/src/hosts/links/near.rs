//! Which hosts share a segment with this one: a network between them needs no encapsulation.

use cluster::book::{self, Subnets};
use cluster::{Cluster, View};
use host::hosts::SharedNetworkSpec;
use model::{Error, Result, Transport, TransportChoice};
use netlink::Socket;

use crate::hosts::member::Member;

/// Tells the others by what this host is known on its segment, where the cluster has a routed network.
///
/// # Errors
/// As the cluster's.
pub(in crate::hosts) fn report(
    etcd: &impl Cluster,
    view: &mut View,
    member: &Member,
) -> Result<()> {
    if !view.networks.values().any(|it| it.transport == Transport::Route) {
        return Ok(());
    }
    let underlay = overlay::underlay(member.address, &mut Socket::route()?)?;
    // Without its device the host is not reached anyway; the others keep what they know.
    let Some(link) = underlay.and_then(|underlay| underlay.shared()) else { return Ok(()) };
    let Some(host) = view.hosts.get_mut(&member.name) else { return Ok(()) };
    if host.link == Some(link) {
        return Ok(());
    }
    book::change_host(etcd, &member.name, |host| {
        host.link = Some(link);
        Ok(())
    })?;
    host.link = Some(link);
    Ok(())
}

/// How packets of a network that is to be declared go from host to host. That is decided once: all hosts have one MTU.
///
/// # Errors
/// `Invalid` where routes are asked for, and cannot be.
pub(in crate::hosts) fn transport(
    view: &View,
    member: &Member,
    (wanted, subnets): (&SharedNetworkSpec, &Subnets),
) -> Result<Transport> {
    let choice = wanted.transport;
    if wanted.encrypt && choice == TransportChoice::Route {
        return Err(Error::invalid(format!(
            "network {}: packets that are routed as they are cannot be encrypted; leave out --transport route or \
             --encrypt",
            wanted.name
        )));
    }
    if wanted.rules.need_vxlan() && choice == TransportChoice::Route {
        return Err(Error::invalid(format!(
            "network {}: an internal network, and one with egress rules, is not routed between hosts; leave out the \
             transport, or choose vxlan",
            wanted.name
        )));
    }
    if wanted.encrypt || wanted.rules.need_vxlan() || choice == TransportChoice::Vxlan {
        return Ok(Transport::Vxlan);
    }
    let far = match no_hop(member, subnets) {
        Some(why) => Some(why),
        None => far(view, member, wanted)?,
    };
    match (far, choice) {
        (None, _) => Ok(Transport::Route),
        (Some(_), TransportChoice::Auto) => Ok(Transport::Vxlan),
        (Some(why), _) => Err(Error::invalid(format!(
            "network {}: {why}; only hosts of one segment can do without VXLAN (--transport vxlan)",
            wanted.name
        ))),
    }
}

/// Why packets of the network have no next hop, where they have none: its addresses are of IPv4, those of the hosts not.
fn no_hop(member: &Member, subnets: &Subnets) -> Option<String> {
    let has_v4 = !matches!(subnets, Subnets::V6(_));
    (has_v4 && member.address.is_ipv6())
        .then(|| format!("it has addresses of IPv4, and {} is none", member.address))
}

/// Why a host of the network is not on the segment of this one, if there is such a host.
fn far(view: &View, member: &Member, wanted: &SharedNetworkSpec) -> Result<Option<String>> {
    let gone = || Error::not_found(format!("no device of this host has {}", member.address));
    let underlay = overlay::underlay(member.address, &mut Socket::route()?)?.ok_or_else(gone)?;
    let mut others = view.hosts.iter().filter(|(name, host)| {
        **name != member.name && wanted.hosts.has(name, host) && !underlay.has(host.address)
    });
    Ok(others.next().map(|(name, host)| {
        format!(
            "host {name} ({}) is not on the segment of {} ({})",
            host.address,
            underlay.name,
            underlay.net.trunc()
        )
    }))
}
