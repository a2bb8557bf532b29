//! The host itself at the other end: no shared segment, everything is routed.

use model::{
    Attached, Attachment, Family, IfName, Interface, InterfaceAddress, InterfaceNamespace, IpNet,
    Ipv6Net, Link, Mac, Result, Route, host_net,
};

use super::{Facts, PeerPlacement, Plan, Step, Veth};
use crate::identity::{self, Identity};

/// Where the container's interface stands in the result: after the host's end.
const CONTAINER: usize = 1;

/// `RT_SCOPE_HOST`: as good as on this host.
const HOST: u8 = 254;

pub(super) fn plan(attachment: &Attachment, link: &Link, facts: &Facts) -> Result<Plan> {
    let identity = Identity::of(&attachment.id);
    let peer_placement = PeerPlacement::of(attachment)?;
    let veth = Veth {
        host: identity.host_link()?,
        host_mac: Some(identity.host_mac()),
        peer: peer_placement.name.clone(),
        peer_mac: super::container_mac(attachment, link),
        mtu: link.mtu,
        master: None,
        hairpin: false,
        alias: None,
    };
    let addresses: Vec<InterfaceAddress> = attachment.addresses.iter().map(with_gateway).collect();
    let interface =
        |name: &IfName, mac, place| Interface { name: name.clone(), mac, mtu: None, place };
    let interfaces = vec![
        interface(&veth.host, veth.host_mac, InterfaceNamespace::Host),
        interface(&veth.peer, Some(veth.peer_mac), peer_placement.place),
    ];
    let sandbox = match peer_placement.place {
        InterfaceNamespace::Sandbox => inside(attachment, &veth.peer, &addresses),
        InterfaceNamespace::Host => Vec::new(),
    };
    let has_v6 = addresses.iter().any(|held| Family::of(&held.address) == Family::V6);
    let own = has_v6.then(|| Step::Address(veth.host.clone(), link_local(identity.host_mac())));
    let mut after = Vec::from_iter(own);
    for held in &addresses {
        after.extend(host_side(&veth.host, held));
    }
    let held: Vec<IpNet> = addresses.iter().map(|held| held.address).collect();
    let end = veth.host.clone();
    let mut host = Vec::from_iter(super::pair(veth, &peer_placement, attachment, facts)?);
    host.extend(super::forwarding(&held));
    host.push(super::refuse_router_advertisements(&end));
    let attached = Attached {
        interfaces,
        addresses,
        routes: attachment.routes.clone(),
        dns: attachment.resolves_with(),
        ..Attached::default()
    };
    Ok(Plan { host, sandbox, after, attached })
}

fn inside(attachment: &Attachment, device: &IfName, addresses: &[InterfaceAddress]) -> Vec<Step> {
    let mut steps = super::ipv6(device, addresses);
    steps.extend(super::configure(attachment, device, addresses));
    for held in addresses {
        steps.extend(through_gateway(device, held));
    }
    steps.extend(super::route::steps(device, &attachment.routes, addresses));
    steps
}

/// Without an address on its link the kernel asks for no neighbour when it forwards what others sent.
fn link_local(mac: Mac) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(identity::link_local(mac), 64))
}

fn with_gateway(held: &InterfaceAddress) -> InterfaceAddress {
    InterfaceAddress {
        address: held.address,
        gateway: held.gateway.or_else(|| model::first_host(&held.address)),
        interface: Some(CONTAINER),
    }
}

/// The container keeps its prefix but reaches even its neighbours through the host.
fn through_gateway(ifname: &IfName, held: &InterfaceAddress) -> Vec<Step> {
    let Some(gateway) = held.gateway else { return Vec::new() };
    let subnet = held.address.trunc();
    let source = Some(held.address.addr());
    let step = |route| Step::Route { link: ifname.clone(), route, source };
    let mut steps = Vec::new();
    if subnet.prefix_len() < subnet.max_prefix_len() {
        steps.push(Step::DropRoute(ifname.clone(), subnet));
    }
    steps.push(step(Route { scope: Some(Route::ON_LINK), ..Route::new(host_net(gateway), None) }));
    if subnet.prefix_len() < subnet.max_prefix_len() {
        steps.push(step(Route::new(subnet, Some(gateway))));
    }
    steps
}

fn host_side(host: &IfName, held: &InterfaceAddress) -> Vec<Step> {
    let Some(gateway) = held.gateway else { return Vec::new() };
    let to_container: IpNet = host_net(held.address.addr());
    let route = Route { scope: Some(HOST), ..Route::new(to_container, None) };
    vec![
        Step::Address(host.clone(), host_net(gateway)),
        Step::Route { link: host.clone(), route, source: None },
    ]
}
