//! Who may send by the port of an attachment.

use std::net::IpAddr;

use model::{
    Attachment, Backend, Bridge, Family, Gateway, IngressPolicy, InterfaceAddress, IpNet, Result,
};
use netlink::{At, Socket};

use super::{Bound, Sender};
use crate::identity::{Identity, bridge_mac, link_local};
use crate::plan::container_mac;
use crate::plan::port::gateway_device;

/// The sender that may use the container's port, where that is checked.
pub(crate) fn sender(attachment: &Attachment) -> Result<Option<Sender>> {
    let Some(link) = &attachment.wiring.link else { return Ok(None) };
    let Some(bridge) = link.kind.bridge() else { return Ok(None) };
    let (bound, is_apart) = (bound(attachment), is_apart(attachment));
    let is_checked = bridge.port.spoof_check || bound != Bound::No;
    if !is_checked && !is_apart {
        return Ok(None);
    }
    let identity = Identity::of(&attachment.id);
    let tuned = attachment.wiring.tuning.as_ref().and_then(|tuning| tuning.mac);
    let own = |held: &InterfaceAddress| {
        let is_led = bridge.is_gateway_of(Family::of(&held.address));
        model::first_host(&held.address).filter(|_| is_led)
    };
    let held = || attachment.addresses.iter();
    // Of a network that is reached by routes this host may know a part on other hosts, which it looks for nowhere.
    let is_on_link = |net: &IpNet| {
        attachment.wiring.fence.is_some() || !attachment.wiring.is_direct(Family::of(net))
    };
    let gateway = |held: &InterfaceAddress| held.gateway.or_else(|| own(held));
    Ok(Some(Sender {
        owner: identity.mark(attachment.layer).parse()?,
        port: identity.host_link()?,
        bridge: bridge.name.clone(),
        mac: tuned.unwrap_or_else(|| container_mac(attachment, link)),
        addresses: held().map(|held| held.address.addr()).collect(),
        of_link: attachment.link_local.iter().map(|address| IpAddr::from(*address)).collect(),
        gateways: held().filter_map(gateway).chain(of_router(bridge)?).collect(),
        subnets: held().map(|held| held.address.trunc()).filter(is_on_link).collect(),
        bound,
        is_checked,
        is_apart,
        is_machine: attachment.tap().is_some(),
    }))
}

/// From which addresses the container may send: a virtual machine from what it has alone, and who has rules in no
/// name of others, for which other rules hold.
pub(crate) fn bound(attachment: &Attachment) -> Bound {
    let wiring = &attachment.wiring;
    match (&wiring.own_fence, attachment.tap(), &wiring.fence) {
        (Some(_), ..) | (None, Some(_), _) => Bound::ToOwn,
        (None, None, Some(_)) => Bound::ToOwnAndLink,
        (None, None, None) => Bound::No,
    }
}

/// Whether the container is one that others do not reach, by a host that leads to it. A packet in a neighbour's name
/// would be answered to that by those. Who is a tenant's is led nowhere by this host.
pub(crate) fn is_apart(attachment: &Attachment) -> bool {
    let wiring = &attachment.wiring;
    let Some(firewall) = &wiring.firewall else { return false };
    let is_closed = firewall.ingress != IngressPolicy::Open || !wiring.passage().is_unjudged();
    let is_led = wiring.bridge().is_some_and(|bridge| bridge.gateway != Gateway::None);
    firewall.backend == Backend::Nftables && wiring.address_space.is_none() && is_led && is_closed
}

/// The addresses of the link that the gateway has: the one that Spoke gives it, and on a bridge of others the
/// one of its hardware address.
fn of_router(bridge: &Bridge) -> Result<Vec<IpAddr>> {
    if bridge.gateway == Gateway::None {
        return Ok(Vec::new());
    }
    let device = gateway_device(bridge)?;
    let given = bridge_mac(&device);
    let there = Socket::route()?.link(At::Name(&device))?.and_then(|link| link.mac);
    let other = there.filter(|mac| *mac != given);
    Ok([given].into_iter().chain(other).map(|mac| IpAddr::V6(link_local(mac))).collect())
}
