//! The rules and the routing table of a network with a way out.

use model::{Family, IfName, IpNet, Result, WAY_MARK, way_table};
use netlink::route::{MAIN, Routes};
use netlink::wire::Batch;
use netlink::{At, Errno, Existing, Led, Link, Links, Route, Socket, Then, WayRule};

use super::hop::{Hop, Hops};
use super::{BACK, END, LEAD, WayOut};
use crate::identity::GROUP;

/// Those that this host has: it may be booted without IPv6.
fn families() -> impl Iterator<Item = Family> {
    [Family::V4, Family::V6].into_iter().filter(|family| netlink::probe::has_family(*family))
}

fn rules_of(bridge: &IfName) -> Vec<WayRule> {
    let table = way_table(bridge);
    let mut all = Vec::new();
    for family in families() {
        for led in [Led::From(bridge.clone()), Led::Marked(table)] {
            for (priority, then) in [(END, Then::Unreachable), (LEAD, Then::Table(table))] {
                all.push(WayRule { family, priority, led: led.clone(), then });
            }
        }
    }
    all
}

/// Of all networks.
fn back() -> impl Iterator<Item = WayRule> {
    families().map(|family| WayRule {
        family,
        priority: BACK,
        led: Led::Marked(WAY_MARK),
        then: Then::Table(MAIN),
    })
}

fn all_rules(socket: &mut Socket) -> Result<Vec<WayRule>> {
    let mut all = Vec::new();
    for family in families() {
        all.extend(socket.way_rules(family)?);
    }
    Ok(all)
}

fn wanted_rules(way: &WayOut) -> Vec<WayRule> {
    rules_of(&way.bridge).into_iter().chain(back()).collect()
}

/// Whether all rules are there, each once.
pub(super) fn is_led(socket: &mut Socket, way: &WayOut) -> Result<bool> {
    let there = all_rules(socket)?;
    Ok(wanted_rules(way).iter().all(|rule| there.contains(rule)))
}

/// The bridges that rules lead.
pub(super) fn led(socket: &mut Socket) -> Result<Vec<IfName>> {
    let mut all: Vec<IfName> = all_rules(socket)?.into_iter().filter_map(bridge_of).collect();
    all.sort();
    all.dedup();
    Ok(all)
}

fn bridge_of(rule: WayRule) -> Option<IfName> {
    match rule.led {
        Led::From(name) if [LEAD, END].contains(&rule.priority) => Some(name),
        Led::From(_) | Led::Marked(_) => None,
    }
}

/// Another bridge that has the same routing table, and so the same mark.
fn sharing<'a>(there: &'a [WayRule], bridge: &IfName) -> Option<&'a IfName> {
    let table = Then::Table(way_table(bridge));
    there.iter().find_map(|rule| match &rule.led {
        Led::From(other) if rule.then == table && other != bridge => Some(other),
        Led::From(_) | Led::Marked(_) => None,
    })
}

/// Comes before the first change: what is marked is of both.
///
/// # Errors
/// [`model::Kind::Conflict`] where another network's bridge has the same table.
pub(super) fn refuse_shared(socket: &mut Socket, way: &WayOut) -> Result<()> {
    match sharing(&all_rules(socket)?, &way.bridge) {
        None => Ok(()),
        Some(other) => Err(model::Error::conflict(format!(
            "network {}: bridge {} would have the routing table of bridge {other} ({}); give it another \
             name with --bridge",
            way.network,
            way.bridge,
            way.table()
        ))),
    }
}

/// Adds the rules that are missing: the end before what leads elsewhere. Whether any was.
pub(super) fn lead(socket: &mut Socket, way: &WayOut) -> Result<bool> {
    let there = all_rules(socket)?;
    let mut batch = Batch::new();
    let missing = wanted_rules(way).into_iter().filter(|rule| !there.contains(rule));
    for rule in missing {
        batch.add_way_rule(&rule);
    }
    if batch.is_empty() {
        return Ok(false);
    }
    carry_out(socket, batch, &[Errno::EXIST])?;
    Ok(true)
}

/// The routes that the table should have, where those are `connected`.
fn wanted(way: &WayOut, hops: &Hops, connected: &[Route]) -> Vec<Route> {
    let mut all = Vec::new();
    for (family, hop) in hops.all() {
        let any = IpNet::new_assert(unspecified(family), 0);
        all.push(Route {
            table: way.table(),
            gateway_on_link: hop.gateway.is_some_and(|it| it.is_ipv4()),
            source: hop.source,
            ..Route::new(any, hop.gateway, Some(hop.link))
        });
    }
    let led = each_once(connected.to_vec());
    all.extend(led.map(|route| Route { table: way.table(), priority: None, ..route }));
    all
}

/// The subnets that are in this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Connected {
    /// The routes to networks of Spoke's, which are reached as before: bridges, and containers with a link of their
    /// own.
    pub(super) ours: Vec<Route>,
    /// The subnets of other bridges that nothing leaves: Docker's, an operator's.
    others: Vec<IpNet>,
}

impl Connected {
    /// All of them, of which none is in another one. What is sent to them stays in this host.
    pub(super) fn inside(&self) -> Vec<IpNet> {
        let ours = self.ours.iter().map(|route| route.dst);
        IpNet::aggregate(&ours.chain(self.others.iter().copied()).collect())
    }
}

/// What the host is connected to, as its main table says.
pub(super) fn connected(socket: &mut Socket) -> Result<Connected> {
    let mut all = Connected::default();
    let links = socket.links(Links { kind: None, master: None })?;
    for family in families() {
        let is_net = |route: &Route| {
            let dst = route.dst;
            let is_subnet = dst.prefix_len() > 0 && !model::link_local(family).contains(&dst);
            is_subnet && route.gateway.is_none()
        };
        for route in socket.routes(Routes { family, table: Some(MAIN), link: None })? {
            let link = links.iter().find(|link| Some(link.index) == route.link);
            let Some(link) = link.filter(|_| is_net(&route)) else { continue };
            if is_ours(link) {
                all.ours.push(route);
            } else if is_closed(link, &links) {
                all.others.push(route.dst);
            }
        }
    }
    Ok(all)
}

/// The subnets that are reached by this bridge, as its addresses and the main table say.
pub(super) fn behind(socket: &mut Socket, bridge: &Link) -> Result<Vec<IpNet>> {
    let mut all: Vec<IpNet> =
        socket.addresses(Some(bridge.index))?.iter().map(|it| it.address.trunc()).collect();
    for family in families() {
        let there =
            socket.routes(Routes { family, table: Some(MAIN), link: Some(bridge.index) })?;
        all.extend(there.into_iter().map(|route| route.dst));
    }
    Ok(all)
}

fn is_ours(link: &Link) -> bool {
    let is_led = matches!(link.kind.as_deref(), Some("bridge" | "veth"));
    link.group == GROUP && link.master.is_none() && is_led
}

/// Whether this is a bridge that has no ports but those of network namespaces: none of a segment outside.
fn is_closed(link: &Link, links: &[Link]) -> bool {
    let is_port = |port: &&Link| port.master == Some(link.index);
    let is_inner = |port: &Link| port.kind.as_deref() == Some("veth");
    link.kind.as_deref() == Some("bridge") && links.iter().filter(is_port).all(is_inner)
}

/// Of several routes to one subnet that which the host prefers, and among equals that of the first link.
fn each_once(mut connected: Vec<Route>) -> impl Iterator<Item = Route> {
    connected.sort_by_key(|route| (route.dst, route.priority.unwrap_or(0), route.link));
    connected.dedup_by_key(|route| route.dst);
    connected.into_iter()
}

fn unspecified(family: Family) -> std::net::IpAddr {
    match family {
        Family::V4 => std::net::Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => std::net::Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn there(socket: &mut Socket, table: u32) -> Result<Vec<Route>> {
    let mut all = Vec::new();
    for family in families() {
        all.extend(socket.routes(Routes { family, table: Some(table), link: None })?);
    }
    Ok(all)
}

fn is_same(one: &Route, other: &Route) -> bool {
    (one.dst, one.gateway, one.link) == (other.dst, other.gateway, other.link)
}

/// Whether the table has these routes and no others.
pub(super) fn is_kept(socket: &mut Socket, way: &WayOut, hops: &Hops) -> Result<bool> {
    let wanted = wanted(way, hops, &connected(socket)?.ours);
    let there = there(socket, way.table())?;
    let is_in = |one: &Route, all: &[Route]| all.iter().any(|other| is_same(one, other));
    let neighbours = missing_neighbours(socket, hops)?.is_empty();
    Ok(neighbours
        && wanted.iter().all(|route| is_in(route, &there))
        && there.iter().all(|route| is_in(route, &wanted)))
}

/// Whether packets are led where they should leave. Routes are the last that a command changes: where these lead as they
/// should, it has done what comes before.
pub(super) fn leads_out(socket: &mut Socket, way: &WayOut, hops: &Hops) -> Result<bool> {
    let (wanted, mut there) = (wanted(way, hops, &[]), there(socket, way.table())?);
    there.retain(|route| route.dst.prefix_len() == 0);
    let is_in = |one: &Route, all: &[Route]| all.iter().any(|other| is_same(one, other));
    let is_led_there = wanted.iter().all(|route| is_in(route, &there))
        && there.iter().all(|route| is_in(route, &wanted));
    Ok(is_led_there && is_led(socket, way)?)
}

/// What became of the routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Routed {
    /// They were as they should be.
    Kept,
    /// They were not.
    Changed,
    /// The kernel takes some of them later only: of a device that is going, or has no address yet.
    Partly,
}

/// Makes the table's routes what they should be.
pub(super) fn keep(
    socket: &mut Socket,
    way: &WayOut,
    hops: &Hops,
    connected: &[Route],
) -> Result<Routed> {
    let (wanted, there) = (wanted(way, hops, connected), there(socket, way.table())?);
    let is_in = |one: &Route, all: &[Route]| all.iter().any(|other| is_same(one, other));
    let mut batch = Batch::new();
    // What leads elsewhere goes first, so that the kernel takes no old route for a new one.
    for route in there.iter().filter(|route| !is_in(route, &wanted)) {
        batch.delete_route(&Route { source: None, gateway_on_link: false, ..*route });
    }
    let was_led_elsewhere = !batch.is_empty();
    let gone = [Errno::SRCH, Errno::NODEV, Errno::NOENT];
    carry_out(socket, batch, &gone)?;
    let mut batch = Batch::new();
    for (hop, gateway, mac) in missing_neighbours(socket, hops)? {
        batch.set_neighbour(hop.link, gateway, mac);
    }
    for route in wanted.iter().filter(|route| !is_in(route, &there)) {
        batch.add_route(route, Existing::Replace);
    }
    let was_missing = !batch.is_empty();
    // A device that went meanwhile reports that, and is looked at again.
    let late = [Errno::NODEV, Errno::NETUNREACH, Errno::NETDOWN, Errno::HOSTUNREACH, Errno::INVAL];
    let is_whole = carry_out(socket, batch, &late)?;
    Ok(match was_led_elsewhere || was_missing {
        _ if !is_whole => Routed::Partly,
        true => Routed::Changed,
        false => Routed::Kept,
    })
}

/// Whether the kernel has done all of it: what it refuses for one of `except` is no failure.
fn carry_out(socket: &mut Socket, mut batch: Batch, except: &[Errno]) -> Result<bool> {
    if batch.is_empty() {
        return Ok(true);
    }
    let sent = socket.send(&mut batch)?;
    let is_whole = sent.failures().is_empty();
    except.iter().fold(sent, |sent, errno| sent.except(*errno)).into_result().map(|()| is_whole)
}

fn missing_neighbours<'a>(
    socket: &mut Socket,
    hops: &'a Hops,
) -> Result<Vec<(&'a Hop, std::net::IpAddr, model::Mac)>> {
    let mut missing = Vec::new();
    for (_, hop) in hops.all() {
        let (Some(gateway), Some(mac)) = (hop.gateway, hop.mac) else { continue };
        let there = socket.neighbours(hop.link)?;
        let is_set =
            |it: &netlink::Neighbour| it.address == gateway && it.permanent && it.mac == Some(mac);
        if !there.iter().any(is_set) {
            missing.push((hop, gateway, mac));
        }
    }
    Ok(missing)
}

/// Removes the rules and routes of a bridge, and with the last one what all share. What another bridge has by
/// the same number stays.
pub(super) fn forget(socket: &mut Socket, bridge: &IfName) -> Result<()> {
    let all = all_rules(socket)?;
    let mut own: Vec<WayRule> = rules_of(bridge);
    let is_shared = sharing(&all, bridge).is_some();
    if is_shared {
        own.retain(|rule| matches!(rule.led, Led::From(_)));
    }
    let is_last = !all.iter().any(|rule| {
        let other = bridge_of(rule.clone());
        other.is_some_and(|other| other != *bridge)
    });
    let table = way_table(bridge);
    let mut batch = Batch::new();
    let routes = if is_shared { Vec::new() } else { there(socket, table)? };
    for route in routes {
        // The hardware address of a container that forwards.
        if let (0, Some(gateway), Some(link)) = (route.dst.prefix_len(), route.gateway, route.link)
            && socket.link(At::Index(link))?.is_some_and(|link| link.group == GROUP)
        {
            batch.delete_neighbour(link, gateway);
        }
        batch.delete_route(&Route { source: None, gateway_on_link: false, ..route });
    }
    // The end of what comes in by the bridge goes last.
    for rule in own.iter().rev().filter(|rule| all.contains(rule)) {
        batch.delete_way_rule(rule);
    }
    if is_last {
        for rule in back().filter(|rule| all.contains(rule)) {
            batch.delete_way_rule(&rule);
        }
    }
    let gone = [Errno::SRCH, Errno::NODEV, Errno::NOENT];
    carry_out(socket, batch, &gone).map(drop)
}
