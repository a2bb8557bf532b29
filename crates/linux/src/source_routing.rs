//! Routing by source, as the reference plugin `sbr` sets it up: what leaves with an address of the
//! interface leaves through it.
//!
//! Each address has a table of its own, with a default route to its gateway and the routes of its
//! subnet, which the main table loses. Routes of no address's subnet are in every table. A given table belongs to its giver: only the rules lead
//! to it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{
    Attachment, Error, Fact, Family, IfName, InterfaceAddress, IpNet, Result, SourceRouting,
};
use netlink::route::{MAIN, Routes};
use netlink::wire::Batch;
use netlink::{At, Errno, Existing, NamespaceLock, Netns, Route, Rule, Socket, TIMEOUT};

use crate::plan;

/// The first table that is given away.
const FIRST: u32 = 100;
/// `RT_TABLE_DEFAULT`, `_MAIN` and `_LOCAL`: reserved.
const RESERVED: std::ops::RangeInclusive<u32> = 253..=255;

/// Sets up the rules and tables of the interface's addresses. Other processes of Spoke, and the
/// reference plugin, wait meanwhile: a free table is searched.
pub(crate) fn install(
    attachment: &Attachment,
    addresses: &[InterfaceAddress],
    sandbox: &Netns,
) -> Result<()> {
    let Some(wanted) = &attachment.wiring.source_routing else { return Ok(()) };
    let device = plan::device(attachment);
    let _lock = NamespaceLock::take(sandbox, TIMEOUT)?;
    sandbox.enter(|| {
        let mut socket = Socket::route()?;
        let there = View::gather(&mut socket, device, addresses, wanted)?;
        there.plan(wanted).carry_out(&mut socket)
    })?
}

/// Compares rules and tables with what they should be.
pub(crate) fn check(
    attachment: &Attachment,
    addresses: &[InterfaceAddress],
    sandbox: &Netns,
) -> Result<()> {
    let Some(wanted) = &attachment.wiring.source_routing else { return Ok(()) };
    let device = plan::device(attachment);
    sandbox.enter(|| {
        let there = View::gather(&mut Socket::route()?, device, addresses, wanted)?;
        there.verify(wanted, device)
    })?
}

/// Removes the rules of the attachment's addresses, and gives the main table back what an interface
/// that stays has lost. What is gone is done.
pub(crate) fn remove(attachment: &Attachment, sandbox: Option<&Netns>) -> Result<()> {
    let (Some(wanted), Some(sandbox)) = (&attachment.wiring.source_routing, sandbox) else {
        return Ok(());
    };
    let device = plan::device(attachment);
    let stays = attachment.wiring.link.is_none() && wanted.table.is_none();
    sandbox.enter(|| {
        let mut socket = Socket::route()?;
        let link = socket.link(At::Name(device))?.map(|link| link.index);
        let mut addresses: BTreeSet<IpAddr> =
            attachment.addresses.iter().map(|held| held.address.addr()).collect();
        if let Some(link) = link {
            let held = socket.addresses(Some(link))?;
            addresses.extend(held.iter().map(|held| held.address.addr()));
        }
        let rules = rules(&mut socket)?;
        let ours: Vec<Rule> = rules
            .into_iter()
            .filter(|rule| address_of(rule).is_some_and(|address| addresses.contains(&address)))
            .collect();
        let back = match link {
            Some(link) if stays => returning(&mut socket, link, &ours, &attachment.routes)?,
            Some(_) | None => Vec::new(),
        };
        undo(&mut socket, &ours, &back)
    })?
}

/// The state of the container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct View {
    link: u32,
    /// The interface's addresses that packets leave with, and their gateways.
    addresses: Vec<(IpNet, Option<IpAddr>)>,
    rules: Vec<Rule>,
    /// All routes.
    routes: Vec<Route>,
}

/// The changes, in this order: no packet is without a route in between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Plan {
    routes: Vec<Route>,
    rules: Vec<Rule>,
    dropped: Vec<Route>,
}

impl View {
    fn gather(
        socket: &mut Socket,
        device: &IfName,
        addresses: &[InterfaceAddress],
        wanted: &SourceRouting,
    ) -> Result<Self> {
        let Some(link) = socket.link(At::Name(device))? else {
            let what = format!("Cannot find network interface {device}");
            let words = format!("{what}: Link not found");
            return Err(Error::not_found(what).about(Fact::Words(words)));
        };
        let held: Vec<IpAddr> =
            socket.addresses(Some(link.index))?.iter().map(|held| held.address.addr()).collect();
        // A given table has rules only, which may precede the address.
        let is_own = |known: &&InterfaceAddress| {
            wanted.table.is_some() || held.contains(&known.address.addr())
        };
        let own = addresses.iter().filter(is_own);
        let addresses: Vec<_> = own.map(|known| (known.address, known.gateway)).collect();
        if addresses.is_empty() {
            let what = format!("No IP addresses supplied on interface: {device}");
            return Err(Error::invalid(what));
        }
        let mut routes = Vec::new();
        for family in [Family::V4, Family::V6] {
            routes.extend(socket.routes(Routes { family, table: None, link: None })?);
        }
        Ok(Self { link: link.index, addresses, rules: rules(socket)?, routes })
    }

    fn plan(&self, wanted: &SourceRouting) -> Plan {
        let mut plan = Plan::default();
        let mut taken = self.taken();
        for (subnet, own_gateway) in &self.addresses {
            let address = subnet.addr();
            let table = wanted.table.unwrap_or_else(|| self.table_for(address, &mut taken));
            let rule = Rule::from(address, table);
            if !self.rules.iter().any(|there| is_gateway(there, &rule)) {
                plan.rules.push(rule);
            }
            let gateway = gateway(wanted, address, *own_gateway);
            plan.routes.extend(self.routes_for(wanted, subnet, gateway, table));
        }
        if wanted.table.is_none() {
            plan.dropped = self.own_routes().copied().collect();
        }
        plan
    }

    fn taken(&self) -> BTreeSet<u32> {
        let ruled = self.rules.iter().map(|rule| rule.table);
        ruled.chain(self.routes.iter().map(|route| route.table)).chain(RESERVED).collect()
    }

    /// The table that the address has already, or the first free one.
    fn table_for(&self, address: IpAddr, taken: &mut BTreeSet<u32>) -> u32 {
        if let Some(table) = self.table_of(address) {
            return table;
        }
        let free = (FIRST..).find(|table| !taken.contains(table)).unwrap_or(FIRST);
        taken.insert(free);
        free
    }

    fn table_of(&self, address: IpAddr) -> Option<u32> {
        let own =
            |rule: &&Rule| address_of(rule) == Some(address) && !RESERVED.contains(&rule.table);
        self.rules.iter().find(own).map(|rule| rule.table)
    }

    /// A given table has its routes from its giver, unless gateways are given with it.
    fn routes_for(
        &self,
        wanted: &SourceRouting,
        subnet: &IpNet,
        gateway: Option<IpAddr>,
        table: u32,
    ) -> Vec<Route> {
        let address = subnet.addr();
        let family = family(address);
        let source = wanted.source_hints.then_some(address);
        let mut routes = Vec::new();
        if wanted.table.is_none() {
            let given = wanted.gateways.iter().any(|one| one.is_ipv4() == address.is_ipv4());
            let same = self.own_routes().filter(|route| {
                Family::of(&route.dst) == family
                    && !(given && route.dst.prefix_len() == 0)
                    && (is_of(route, subnet) || !self.is_of_any(route))
            });
            routes.extend(same.map(|route| {
                let source = source.or(route.source);
                Route { table, source, ..*route }
            }));
        }
        if wanted.table.is_none() || !wanted.gateways.is_empty() {
            routes.extend(gateway.map(|gateway| {
                let way = Route::new(everything(family), Some(gateway), Some(self.link));
                Route { table, source, ..way }
            }));
        }
        // Connected routes first: the gateways are there.
        routes.sort_by_key(|route| route.gateway.is_some());
        routes
    }

    fn is_of_any(&self, route: &Route) -> bool {
        self.addresses.iter().any(|(subnet, _)| is_of(route, subnet))
    }

    /// The main table's routes out of the interface. What is sent to a neighbour by its link-local
    /// address has no other address to be routed by.
    fn own_routes(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter().filter(|route| {
            route.table == MAIN && route.link == Some(self.link) && !is_link_local(&route.dst)
        })
    }

    fn verify(&self, wanted: &SourceRouting, device: &IfName) -> Result<()> {
        for (subnet, own_gateway) in &self.addresses {
            let address = &subnet.addr();
            let table = match wanted.table {
                Some(table) => Some(table).filter(|table| {
                    let rule = Rule::from(*address, *table);
                    self.rules.iter().any(|there| is_gateway(there, &rule))
                }),
                None => self.table_of(*address),
            };
            let Some(table) = table else {
                return Err(Error::not_found(format!("the rule from {address} is missing")));
            };
            if wanted.table.is_some() && wanted.gateways.is_empty() {
                continue;
            }
            let Some(gateway) = gateway(wanted, *address, *own_gateway) else { continue };
            let all = everything(family(*address));
            let is_there = self.routes.iter().any(|route| {
                (route.table, route.dst, route.gateway, route.link)
                    == (table, all, Some(gateway), Some(self.link))
            });
            if !is_there {
                return Err(Error::not_found(format!(
                    "table {table} of {address} has no default route through {gateway} out of \
                     {device}"
                )));
            }
        }
        Ok(())
    }
}

/// Whether a route leaves with an address of the subnet, or by a gateway in it.
fn is_of(route: &Route, subnet: &IpNet) -> bool {
    let is_in = |address: &IpAddr| subnet.contains(address);
    route.source.as_ref().is_some_and(is_in) || route.gateway.as_ref().is_some_and(is_in)
}

impl Plan {
    fn carry_out(&self, socket: &mut Socket) -> Result<()> {
        let mut batch = Batch::new();
        for route in &self.routes {
            batch.add_route(route, Existing::Refuse);
        }
        for rule in &self.rules {
            batch.add_rule(rule);
        }
        socket.send(&mut batch)?.except(Errno::EXIST).into_result()?;
        let mut batch = Batch::new();
        for route in &self.dropped {
            batch.delete_route(route);
        }
        socket.send(&mut batch)?.except(Errno::SRCH).into_result()
    }
}

/// The routes of the rules' tables, and whether the main table gets them: a default route only if
/// the container was given one.
fn returning(
    socket: &mut Socket,
    link: u32,
    rules: &[Rule],
    given: &[model::Route],
) -> Result<Vec<(Route, bool)>> {
    let tables: BTreeSet<u32> = rules.iter().map(|rule| rule.table).collect();
    let mut found = Vec::new();
    for family in [Family::V4, Family::V6] {
        let routes = socket.routes(Routes { family, table: None, link: Some(link) })?;
        let moved = routes
            .into_iter()
            .filter(|route| tables.contains(&route.table) && !RESERVED.contains(&route.table));
        found.extend(moved.map(|route| {
            let was_main = given.iter().any(|one| one.dst == route.dst && one.table.is_none());
            (route, was_main || route.dst.prefix_len() > 0)
        }));
    }
    found.sort_by_key(|(route, _)| route.gateway.is_some());
    Ok(found)
}

fn undo(socket: &mut Socket, rules: &[Rule], back: &[(Route, bool)]) -> Result<()> {
    let mut batch = Batch::new();
    for (route, _) in back.iter().filter(|(_, returns)| *returns) {
        batch.add_route(&Route { table: MAIN, ..*route }, Existing::Refuse);
    }
    for rule in rules {
        batch.delete_rule(rule);
    }
    for (route, _) in back {
        batch.delete_route(route);
    }
    let gone = [Errno::EXIST, Errno::NOENT, Errno::SRCH, Errno::NODEV, Errno::NETUNREACH];
    let sent = socket.send(&mut batch)?;
    gone.into_iter().fold(sent, netlink::Outcome::except).into_result()
}

fn rules(socket: &mut Socket) -> Result<Vec<Rule>> {
    let mut rules = socket.rules(Family::V4)?;
    rules.extend(socket.rules(Family::V6)?);
    Ok(rules)
}

/// The one address that a rule is about.
fn address_of(rule: &Rule) -> Option<IpAddr> {
    let source = rule.source?;
    (source.prefix_len() == source.max_prefix_len()).then(|| source.addr())
}

fn is_gateway(there: &Rule, wanted: &Rule) -> bool {
    (there.source, there.table) == (wanted.source, wanted.table)
}

/// The gateway that is given for the address's family, or else its own.
fn gateway(wanted: &SourceRouting, address: IpAddr, own: Option<IpAddr>) -> Option<IpAddr> {
    let mut given = wanted.gateways.iter().copied();
    given.find(|gateway| gateway.is_ipv4() == address.is_ipv4()).or(own)
}

fn family(address: IpAddr) -> Family {
    Family::of(&IpNet::from(address))
}

fn everything(family: Family) -> IpNet {
    match family {
        Family::V4 => IpNet::V4(model::Ipv4Net::default()),
        Family::V6 => IpNet::V6(model::Ipv6Net::default()),
    }
}

fn is_link_local(dst: &IpNet) -> bool {
    match dst.addr() {
        IpAddr::V4(_) => false,
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests;
