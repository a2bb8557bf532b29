//! The subnets of this host, and other users of subnets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use engine::port::Occupied;
use model::{Family, IfName, IpNet, Result};
use netlink::route::{MAIN, Routes};
use netlink::{Link, Links, Route, Socket};

use crate::identity::GROUP;

/// A shorter connected prefix is no subnet: it comes from a tunnel for most of the address space.
const SHORTEST: [u8; 2] = [8, 32];

/// The subnets that the host is directly connected to, its containers' included; those of its
/// loopback device and link-local ones are none.
pub(crate) fn connected(socket: &mut Socket) -> Result<Vec<IpNet>> {
    let host = Host::gather(socket)?;
    let addresses = host.addresses.iter().map(|(_, net)| *net);
    let routes = host.routes.iter().filter(|route| route.gateway.is_none()).map(|route| route.dst);
    let nets: BTreeSet<IpNet> = addresses.chain(routes.filter(is_subnet)).collect();
    Ok(nets.into_iter().filter(|net| !is_link_local(net)).collect())
}

/// The addresses of this host, and the subnets of its containers on Spoke's networks.
pub(crate) fn own(socket: &mut Socket) -> Result<Vec<IpNet>> {
    let host = Host::gather(socket)?;
    let is_ours = |link: &u32| host.links.get(link).is_some_and(|link| link.group == GROUP);
    let nets = host.addresses.iter().filter(|(link, _)| is_ours(link)).map(|(_, net)| *net);
    // The routes to containers without a bridge.
    let routes = host.routes.iter().filter(|route| route.link.is_some_and(|link| is_ours(&link)));
    let nets: Vec<IpNet> = nets.chain(routes.map(|route| route.dst)).collect();
    let addresses = socket.addresses(None)?.into_iter();
    let addresses = addresses.map(|held| IpNet::from(held.address.addr()));
    Ok(addresses.chain(nets).collect())
}

/// The subnets in use on this host outside Spoke, and the destinations of its routes, each once and
/// with its user. Default routes and link-local addresses use none.
///
/// # Errors
/// As [`Socket::dump`].
pub fn occupied() -> Result<Vec<Occupied>> {
    let host = Host::gather(&mut Socket::route()?)?;
    let mut found: BTreeMap<IpNet, String> = BTreeMap::new();
    for (link, net) in &host.addresses {
        if let Some(link) = host.links.get(link).filter(|link| link.group != GROUP) {
            found.entry(*net).or_insert_with(|| holder(link));
        }
    }
    for route in &host.routes {
        let link = route.link.and_then(|link| host.links.get(&link));
        if link.is_none_or(|link| link.group != GROUP) {
            let by = || by_route(route, link.map(|link| &link.name));
            found.entry(route.dst.trunc()).or_insert_with(by);
        }
    }
    let reported = found.into_iter().filter(|(net, _)| !is_link_local(net));
    Ok(reported.map(|(net, by)| Occupied { net, by }).collect())
}

/// The kernel's links, their addresses' subnets, and routes that are not default ones. Loopback
/// devices are left out.
struct Host {
    links: BTreeMap<u32, Link>,
    addresses: Vec<(u32, IpNet)>,
    routes: Vec<Route>,
}

impl Host {
    fn gather(socket: &mut Socket) -> Result<Self> {
        let links = socket.links(Links::default())?.into_iter();
        let links: BTreeMap<u32, Link> =
            links.filter(|link| !link.flags.is_loopback()).map(|link| (link.index, link)).collect();
        let addresses = socket.addresses(None)?.into_iter();
        let addresses = addresses
            .filter(|held| links.contains_key(&held.link))
            .map(|held| (held.link, held.address.trunc()))
            .collect();
        let mut routes = Vec::new();
        for family in [Family::V4, Family::V6] {
            let which = Routes { family, table: Some(MAIN), link: None };
            // Those between hosts of a cluster are part of Spoke's own networks.
            let there = socket.routes(which)?;
            let there = socket.besides_hosts(family, there)?.into_iter();
            routes.extend(there.filter(|route| is_meant(route, &links)));
        }
        Ok(Self { links, addresses, routes })
    }
}

/// A route of a prefix that means everything, or half of it, is a default route; so is `2000::/3`.
pub(crate) fn is_default(route: &Route) -> bool {
    route.dst.prefix_len() <= if route.dst.addr().is_ipv4() { 1 } else { 3 }
}

fn is_meant(route: &Route, links: &BTreeMap<u32, Link>) -> bool {
    let multicast = route.dst.addr().is_multicast();
    let through_loopback = route.link.is_some_and(|link| !links.contains_key(&link));
    !is_default(route) && !multicast && !through_loopback
}

fn is_subnet(net: &IpNet) -> bool {
    let [v4, v6] = SHORTEST;
    net.prefix_len() >= if net.addr().is_ipv4() { v4 } else { v6 }
}

fn is_link_local(net: &IpNet) -> bool {
    match net.addr() {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

fn by_route(route: &Route, link: Option<&IfName>) -> String {
    let link = link.map(|link| format!(" on {link}")).unwrap_or_default();
    match route.gateway {
        Some(gateway) => format!("the route through {gateway}{link}"),
        None => format!("the route{link}"),
    }
}

/// The owner of the link, by its name.
fn holder(link: &Link) -> String {
    let name = link.name.as_str();
    let is_bridge = link.kind.as_deref() == Some("bridge");
    let docker_id = |rest: &str| rest.len() == 12 && rest.bytes().all(|b| b.is_ascii_hexdigit());
    let docker = matches!(name, "docker0" | "docker_gwbridge")
        || name.strip_prefix("br-").is_some_and(docker_id);
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    match is_bridge {
        true if docker => format!("Docker's bridge {name}"),
        true if starts(&["podman", "cni-podman"]) => format!("Podman's bridge {name}"),
        true if starts(&["cni"]) => format!("the CNI bridge {name}"),
        true if starts(&["virbr"]) => format!("libvirt's bridge {name}"),
        true if starts(&["lxc", "lxd", "incus"]) => format!("LXC's bridge {name}"),
        true => format!("bridge {name}"),
        false => format!("interface {name}"),
    }
}
