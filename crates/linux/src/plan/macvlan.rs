//! A device with a hardware address of its own on the segment of its parent.

use model::{
    Error, IfName, InterfaceNamespace, IpNet, Macvlan, MacvlanMode, NetworkName, Result, Route,
    host_net,
};
use netlink::DeviceKind;

use super::single::{Bearing, Birth};
use super::{Facts, ParentFacts, Single, Step};
use crate::identity::{GROUP, shim_link, shim_mac};

pub(super) fn birth(bearing: &Bearing<'_>, macvlan: &Macvlan) -> Result<Birth> {
    let network = &bearing.attachment.id.network;
    let parent = &macvlan.parent;
    let (there, mut host) = bearing.above(parent)?;
    host.extend(shim(network, macvlan, there, bearing.facts)?);
    let (mode, broadcast_queue) = (macvlan.mode, macvlan.broadcast_queue);
    let mac = match mode {
        MacvlanMode::Passthru => None,
        MacvlanMode::Bridge | MacvlanMode::Private | MacvlanMode::Vepa => Some(bearing.own_mac()),
    };
    let kind = DeviceKind::Macvlan { mode, broadcast_queue };
    let born = bearing.born(kind, Some(super::parent::at(parent, there)), mac);
    host.extend(born.host);
    let after = match macvlan.host_access {
        true => reached(&shim_link(network)?, bearing, there),
        false => Vec::new(),
    };
    Ok(Birth { host, after, mac: mac.or(there.mac), ..born })
}

/// What the network's attachments share.
pub(super) fn up(network: &NetworkName, macvlan: &Macvlan, facts: &Facts) -> Result<Vec<Step>> {
    let (there, mut steps) =
        super::parent::ensured(network, &macvlan.parent, facts.parent.as_ref())?;
    steps.extend(shim(network, macvlan, there, facts)?);
    Ok(steps)
}

/// The host's own device on the segment. It has none of the host's IPv4 addresses: the kernel
/// answers for them on every device, here only to hosts to which it would send through it, so that
/// the rest of the segment sees one device only. In IPv6 it answers only for a device's own
/// addresses.
fn shim(
    network: &NetworkName,
    macvlan: &Macvlan,
    there: &ParentFacts,
    facts: &Facts,
) -> Result<Vec<Step>> {
    if !macvlan.host_access {
        return Ok(Vec::new());
    }
    if macvlan.mode != MacvlanMode::Bridge || macvlan.parent.place != InterfaceNamespace::Host {
        return Err(Error::invalid(format!(
            "network {network}: the host reaches only macvlans of mode bridge on a parent of its own"
        )));
    }
    let name = shim_link(network)?;
    let mut steps = Vec::new();
    if !facts.shim {
        steps.push(Step::Single(Single {
            name: name.clone(),
            kind: DeviceKind::Macvlan { mode: MacvlanMode::Bridge, broadcast_queue: None },
            parent: Some(there.name.clone()),
            mac: Some(shim_mac(network)),
            mtu: None,
            group: GROUP,
            away: false,
            shared: true,
        }));
    }
    steps.push(super::improve(format!("net/ipv4/conf/{name}/arp_filter"), "1"));
    steps.push(super::refuse_router_advertisements(&name));
    steps.push(Step::Up(name.clone()));
    let global = there.addresses.iter().filter(|net| is_global_v6(net));
    steps.extend(global.map(|net| Step::Address(name.clone(), host_net(net.addr()))));
    Ok(steps)
}

/// Routes to the container's addresses through the shim, from the host's address on the same
/// segment.
fn reached(shim: &IfName, bearing: &Bearing<'_>, there: &ParentFacts) -> Vec<Step> {
    let route = |address: IpNet| Step::Route {
        link: shim.clone(),
        route: Route::new(host_net(address.addr()), None),
        source: source(&there.addresses, &address),
    };
    bearing.attachment.addresses.iter().map(|held| route(held.address)).collect()
}

/// The host's address in the container's subnet, or any of its family.
fn source(addresses: &[IpNet], container: &IpNet) -> Option<std::net::IpAddr> {
    let same = || {
        addresses.iter().filter(|net| {
            model::Family::of(net) == model::Family::of(container)
                && (matches!(net, IpNet::V4(_)) || is_global_v6(net))
        })
    };
    let near = same().find(|net| net.contains(&container.addr()));
    near.or_else(|| same().next()).map(IpNet::addr)
}

fn is_global_v6(net: &IpNet) -> bool {
    matches!(net, IpNet::V6(net) if !net.addr().is_unicast_link_local())
}
