//! A port of a bridge in the host.

use model::{
    Attached, Attachment, Bridge, Error, Fact, Family, Gateway, IfName, Interface,
    InterfaceAddress, InterfaceNamespace, IpNet, Link, Network, Result, Route, Runtime,
};

use super::{BridgeFacts, Facts, PeerPlacement, Plan, Step, Veth, port};
use crate::identity::{Identity, bridge_mac};

/// Where the container's interface stands in the result: after the bridge and the host's end.
const CONTAINER: usize = 2;

pub(super) fn plan(
    attachment: &Attachment,
    link: &Link,
    bridge: &Bridge,
    facts: &Facts,
) -> Result<Plan> {
    let addresses = with_gateways(attachment, bridge);
    let routes = with_default(attachment, bridge, &addresses);
    let veth = veth(attachment, link, bridge)?;
    let mut host = ensure(bridge, link, attachment.runtime, facts)?;
    let bridge_mac = facts.bridge.as_ref().and_then(|there| there.mac);
    let peer_placement = PeerPlacement::of(attachment)?;
    let sandbox = match peer_placement.place {
        InterfaceNamespace::Sandbox => {
            complete(attachment, bridge, &veth.peer, &addresses, &routes)?
        }
        InterfaceNamespace::Host => Vec::new(),
    };
    let place =
        if bridge.port.tap.is_some() { InterfaceNamespace::Sandbox } else { peer_placement.place };
    let mut interfaces = interfaces(bridge, &veth, bridge_mac, place);
    if bridge.gateway != Gateway::None {
        host.extend(port::gateway(bridge, link, facts)?);
        interfaces.extend(vlan_gateway(bridge, facts)?);
        let is_led = |held: &&InterfaceAddress| bridge.is_gateway_of(Family::of(&held.address));
        let led: Vec<_> = addresses.iter().filter(is_led).cloned().collect();
        host.extend(gateway_addresses(attachment, bridge, facts, &led)?);
        let held: Vec<IpNet> = led.iter().map(|held| held.address).collect();
        host.extend(super::forwarding(&held));
    }
    let filtered = port::is_filtered(&attachment.wiring);
    let port = port::steps(&veth.host, &bridge.port, filtered);
    match &bridge.port.tap {
        Some(tap) => host.extend(super::guest::steps(attachment, bridge, tap, &veth, facts)),
        None => host.extend(super::pair(veth, &peer_placement, attachment, facts)?),
    }
    host.extend(port);
    let attached = Attached {
        interfaces,
        addresses,
        routes,
        dns: attachment.resolves_with(),
        ..Attached::default()
    };
    Ok(Plan { host, sandbox, after: Vec::new(), attached })
}

/// What the network's attachments share: the bridge, with a gateway on each subnet. The host forwards from the first
/// attachment on: at boot networks are made before dockerd starts, which drops what goes to its containers unasked
/// only where no program turned forwarding on before it.
pub(super) fn up(
    network: &Network,
    link: &Link,
    bridge: &Bridge,
    facts: &Facts,
) -> Result<Vec<Step>> {
    let mut steps = ensure(bridge, link, network.runtime, facts)?;
    if bridge.gateway == Gateway::None {
        return Ok(steps);
    }
    steps.extend(port::gateway(bridge, link, facts)?);
    let holder = port::gateway_device(bridge)?;
    let there = port::holder(bridge, facts).map_or(&[][..], |there| &there.addresses);
    let mut gateways = super::gateways(&network.ipam);
    gateways.retain(|gateway| bridge.is_gateway_of(Family::of(gateway)));
    for gateway in gateways.iter().filter(|gateway| !there.contains(gateway)) {
        steps.extend(with_ipv6(bridge, gateway, facts));
        steps.push(Step::Gateway(holder.clone(), *gateway));
    }
    Ok(steps)
}

/// The container's steps: none where its interface is to stay down.
fn complete(
    attachment: &Attachment,
    bridge: &Bridge,
    device: &IfName,
    addresses: &[InterfaceAddress],
    routes: &[Route],
) -> Result<Vec<Step>> {
    if bridge.port.left_down {
        return match addresses.is_empty() {
            true => Ok(Vec::new()),
            false => Err(Error::invalid(format!(
                "{device} is to stay down and has addresses: it can have only one of both"
            ))),
        };
    }
    let steps = super::complete(attachment, device, addresses, routes);
    match bridge.port.duplicate_detection {
        true => Ok(port::detected(steps, device, addresses)),
        false => Ok(steps),
    }
}

/// The pair; the container's end comes into being under its own name, unless the runtime moves and
/// names it.
fn veth(attachment: &Attachment, link: &Link, bridge: &Bridge) -> Result<Veth> {
    let identity = Identity::of(&attachment.id);
    let peer = match &bridge.port.tap {
        // A machine names its interface as it likes.
        Some(_) => attachment.id.ifname.clone(),
        None => PeerPlacement::of(attachment)?.name,
    };
    Ok(Veth {
        host: identity.host_link()?,
        host_mac: Some(identity.host_mac()),
        peer,
        peer_mac: super::container_mac(attachment, link),
        mtu: link.mtu,
        master: Some(bridge.name.clone()),
        hairpin: bridge.hairpin,
        alias: None,
    })
}

/// The gateway of the container's VLAN, as the result names it.
fn vlan_gateway(bridge: &Bridge, facts: &Facts) -> Result<Option<Interface>> {
    if port::vlan_of_gateway(bridge).is_none() {
        return Ok(None);
    }
    let name = port::gateway_device(bridge)?;
    let there = facts.gateway.as_ref().and_then(|there| there.mac);
    let mac = Some(there.unwrap_or_else(|| bridge_mac(&name)));
    Ok(Some(Interface { name, mac, mtu: None, place: InterfaceNamespace::Host }))
}

fn interfaces(
    bridge: &Bridge,
    veth: &Veth,
    mac: Option<model::Mac>,
    peer: InterfaceNamespace,
) -> Vec<Interface> {
    let interface =
        |name: &model::IfName, mac, place| Interface { name: name.clone(), mac, mtu: None, place };
    let mac = mac.unwrap_or_else(|| bridge_mac(&bridge.name));
    vec![
        interface(&bridge.name, Some(mac), InterfaceNamespace::Host),
        interface(&veth.host, veth.host_mac, InterfaceNamespace::Host),
        interface(&veth.peer, Some(veth.peer_mac), peer),
    ]
}

/// Makes the bridge, or brings an existing one into the state that is asked for.
fn ensure(bridge: &Bridge, link: &Link, runtime: Runtime, facts: &Facts) -> Result<Vec<Step>> {
    let name = &bridge.name;
    let mut steps = Vec::new();
    match &facts.bridge {
        Some(BridgeFacts { is_bridge: false, .. }) => {
            let what = format!("{:?} already exists but is not a bridge", name.as_str());
            let words = format!("failed to create bridge {:?}: {what}", name.as_str());
            return Err(Error::invalid(what).about(Fact::Words(words)));
        }
        Some(there) if !there.is_up => steps.push(Step::Up(name.clone())),
        Some(_) => {}
        None => {
            let mac = bridge_mac(name);
            steps.push(Step::Bridge { name: name.clone(), mac, mtu: link.mtu });
        }
    }
    if let Some(BridgeFacts { follows: true, mac: Some(mac), .. }) = facts.bridge {
        steps.push(Step::Mac(name.clone(), mac));
    }
    if is_led_by_host(runtime, facts) {
        steps.push(super::refuse_router_advertisements(name));
    }
    steps.extend(without_ipv6(bridge, facts));
    if bridge.promiscuous && !facts.bridge.as_ref().is_some_and(|there| there.promiscuous) {
        steps.push(Step::Promiscuous(name.clone()));
    }
    if !bridge.port.vlans.is_empty() {
        steps.push(Step::FilterVlans(name.clone()));
    }
    Ok(steps)
}

/// Whether no router on the bridge may give the host a route. On a bridge of its administrator's there may be
/// the host's own router, behind a port to the LAN. The reference's plugin `bridge` refuses that one too.
fn is_led_by_host(runtime: Runtime, facts: &Facts) -> bool {
    runtime == Runtime::Cni || facts.bridge.as_ref().is_none_or(|there| there.is_ours)
}

/// Without an address of IPv6 not even a link-local one leads to the host. A bridge that Spoke has not made
/// stays as its user has set it.
fn without_ipv6(bridge: &Bridge, facts: &Facts) -> Option<Step> {
    let is_absent = bridge.host_absent.is_in(Family::V6)
        && facts.bridge.as_ref().is_none_or(|there| {
            let is_routed =
                |net: &&IpNet| matches!(net, IpNet::V6(net) if !net.addr().is_unicast_link_local());
            there.is_ours && !there.addresses.iter().any(|net| is_routed(&net))
        });
    is_absent.then(|| super::improve(disable_ipv6(&bridge.name), "1"))
}

/// Before a bridge of Spoke's gets a gateway of IPv6: an isolated network may have switched IPv6 off there.
fn with_ipv6(bridge: &Bridge, gateway: &IpNet, facts: &Facts) -> Option<Step> {
    let is_ours = facts.bridge.as_ref().is_some_and(|there| there.is_ours);
    let is_needed = is_ours && Family::of(gateway) == Family::V6;
    is_needed.then(|| super::improve(disable_ipv6(&bridge.name), "0"))
}

fn disable_ipv6(bridge: &IfName) -> String {
    format!("net/ipv6/conf/{bridge}/disable_ipv6")
}

/// A bridge that is a gateway needs an address on each of its subnets.
fn with_gateways(attachment: &Attachment, bridge: &Bridge) -> Vec<InterfaceAddress> {
    let complete = |held: &InterfaceAddress| {
        let is_led = bridge.is_gateway_of(Family::of(&held.address));
        let own = is_led.then(|| model::first_host(&held.address)).flatten();
        InterfaceAddress {
            address: held.address,
            gateway: held.gateway.or(own),
            interface: Some(CONTAINER),
        }
    };
    attachment.addresses.iter().map(complete).collect()
}

/// The container's routes, with a default route through the bridge where that is requested and the
/// address source gave none. Docker chooses itself which of a container's networks has the default
/// route.
fn with_default(
    attachment: &Attachment,
    bridge: &Bridge,
    addresses: &[InterfaceAddress],
) -> Vec<Route> {
    let mut routes = attachment.routes.clone();
    if bridge.gateway != Gateway::Default || attachment.runtime == Runtime::Docker {
        return routes;
    }
    for family in [Family::V4, Family::V6] {
        let all = family.everything();
        let mut ours = addresses.iter().filter(|held| Family::of(&held.address) == family);
        let gateway = ours.find_map(|held| held.gateway);
        let has_default = routes.iter().any(|route| route.dst == all);
        if let (Some(gateway), false) = (gateway, has_default) {
            routes.push(Route::new(all, Some(gateway)));
        }
    }
    routes
}

/// Gives the bridge its gateway addresses. Another address of the same family is an error, unless
/// it may be replaced (or, in IPv6, is in another subnet), or is expected there.
fn gateway_addresses(
    attachment: &Attachment,
    bridge: &Bridge,
    facts: &Facts,
    addresses: &[InterfaceAddress],
) -> Result<Vec<Step>> {
    let holder = port::gateway_device(bridge)?;
    let there = port::holder(bridge, facts).map_or(&[][..], |there| &there.addresses);
    let mut steps = Vec::new();
    for held in addresses {
        let Some(gateway) = held.gateway else { continue };
        let wanted = IpNet::new(gateway, held.address.prefix_len())
            .map_err(|cause| Error::bug("gateway prefix").because(cause))?;
        if there.contains(&wanted) {
            continue;
        }
        let in_the_way =
            |other: &&IpNet| is_in_the_way(other, &wanted) && !is_expected(attachment, other);
        for other in there.iter().filter(in_the_way) {
            if !bridge.force_address {
                return Err(Error::conflict(format!(
                    "{:?} already has an IP address different from {wanted}: {other}; set forceAddress to replace it",
                    holder.as_str()
                ))
                .about(Fact::Words(format!(
                    "failed to set bridge addr: {:?} already has an IP address different from {wanted}",
                    holder.as_str()
                ))));
            }
            steps.push(Step::DropAddress(holder.clone(), *other));
        }
        steps.extend(with_ipv6(bridge, &wanted, facts));
        steps.push(Step::Address(holder.clone(), wanted));
    }
    Ok(steps)
}

/// Whether the bridge may have that address beside the wanted one: the gateway of another subnet of
/// the same network does no harm, and a user who gives Docker a bridge knows its addresses.
fn is_expected(attachment: &Attachment, there: &IpNet) -> bool {
    attachment.runtime == Runtime::Docker || super::gateways(&attachment.ipam).contains(there)
}

fn is_in_the_way(there: &IpNet, wanted: &IpNet) -> bool {
    match (there, wanted) {
        (IpNet::V4(_), IpNet::V4(_)) => true,
        (IpNet::V6(there), IpNet::V6(wanted)) => {
            there.contains(&wanted.addr()) || wanted.contains(&there.addr())
        }
        (IpNet::V4(_), IpNet::V6(_)) | (IpNet::V6(_), IpNet::V4(_)) => false,
    }
}
