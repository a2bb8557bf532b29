//! The table that leads queries for names to Spoke, which the daemon keeps as long as there are networks
//! whose names it answers for.
//!
//! `names.nft` is what is to be read. What is asked at a network's gateway, or of a server elsewhere, comes
//! to the socket of that network; what one container asks another one stays between them. The socket gets
//! nothing but that, so that it says on which network the asker is.

use std::borrow::Cow;
use std::net::IpAddr;

use model::{IfName, IpNet, Result};
use netlink::Socket;
use netlink::nft::{
    self, Base, ChainKind, Element, Expression, Field, Hook, Interval, Meta, Policy, Set, Table,
    Transaction, Tuple, Verdict,
};

use super::lan::interval;
use super::rules::{ACCEPT, DROP, Ip, R, RETURN, Steps, ending};
use super::ruleset::{ADDRESSES, Ruleset, TARGETS, map, set, subnets};

/// The table.
const TABLE: Table<'static> = Table { family: nft::Family::Inet, name: "spoke_names" };
/// The version, as in `inet spoke`.
const STAMP: &str = "names_2";
const ASKED: Set<'static> = set("asked", &[Field::Protocol, Field::Service]);
const ANSWERED: Set<'static> = set("answered", &[Field::Protocol, Field::Service]);
const SOCKETS: [Set<'static>; 2] = [set("sockets4", ADDRESSES[0]), set("sockets6", ADDRESSES[1])];
const SERVERS: [Set<'static>; 2] = [
    map("servers4", &[Field::Interface], TARGETS[0]),
    map("servers6", &[Field::Interface], TARGETS[1]),
];
const WITHIN: [Set<'static>; 2] =
    [subnets("within4", ADDRESSES[0]), subnets("within6", ADDRESSES[1])];

/// UDP and TCP (IANA protocol numbers).
pub(super) const PROTOCOLS: [u8; 2] = [17, 6];
/// Where servers are asked.
pub(super) const DOMAIN: u16 = 53;

/// A gateway at which names are asked for, with the length of its subnet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameServer {
    /// The network's bridge.
    pub bridge: IfName,
    /// The gateway.
    pub address: IpNet,
}

/// Leads queries for names to the sockets at `port` of these gateways, and those of no other network. Where
/// it is so already, nothing is changed; where there are none, there is no table.
///
/// # Errors
/// Where the kernel lacks something, or the process may not change it.
pub fn keep(socket: &mut Socket, servers: &[NameServer], port: u16) -> Result<()> {
    if servers.is_empty() {
        return unload(socket);
    }
    let ruleset = ruleset();
    if is_loaded(socket, servers, port)? {
        return Ok(());
    }
    ruleset.ensure(socket)?;
    let mut transaction = Transaction::new();
    for name in [ASKED, ANSWERED].iter().chain(&SOCKETS).chain(&SERVERS).chain(&WITHIN) {
        transaction.clear_set(TABLE, name.name);
    }
    for (name, element) in elements(servers, port) {
        let about = format!("leading queries for names to port {port} ({name} of {TABLE})");
        transaction.add_element(TABLE, name, &element, about);
    }
    for (set, family) in WITHIN.iter().zip([true, false]) {
        for interval in within(servers, family) {
            let about = format!("leaving queries within {} alone ({TABLE})", interval.first);
            transaction.add_interval(TABLE, set.name, &interval, about);
        }
    }
    transaction.apply(socket)
}

/// Removes the table: queries go where they went before. A missing table is done.
///
/// # Errors
/// Where the process may not change it.
pub fn unload(socket: &mut Socket) -> Result<()> {
    if !nft::chain_exists(socket, TABLE, STAMP)? {
        return Ok(());
    }
    nft::remove_table(socket, TABLE)
}

fn is_loaded(socket: &mut Socket, servers: &[NameServer], port: u16) -> Result<bool> {
    if !nft::chain_exists(socket, TABLE, STAMP)? {
        return Ok(false);
    }
    let wanted = elements(servers, port);
    for set in [ASKED, ANSWERED].iter().chain(&SOCKETS).chain(&SERVERS) {
        let of = wanted.iter().filter(|(name, _)| *name == set.name).map(|(_, element)| element);
        let mut of: Vec<&Element> = of.collect();
        let there = nft::elements(socket, TABLE, set.name)?;
        of.retain(|element| !there.contains(element));
        if !of.is_empty() || there.len() != wanted.iter().filter(|(n, _)| *n == set.name).count() {
            return Ok(false);
        }
    }
    for (set, family) in WITHIN.iter().zip([true, false]) {
        if nft::intervals(socket, TABLE, set.name)? != within(servers, family) {
            return Ok(false);
        }
    }
    match ruleset().verify(socket) {
        Err(error) if error.kind() == model::Kind::NotFound => {
            ruleset().reload(socket).map(|()| true)
        }
        verified => verified.map(|()| true),
    }
}

fn within(servers: &[NameServer], is_v4: bool) -> Vec<Interval> {
    let of_family = servers.iter().filter(|server| server.address.addr().is_ipv4() == is_v4);
    Interval::merge(of_family.map(|server| interval(&server.address)).collect())
}

/// The elements of all sets but [`WITHIN`]. Of several gateways behind one bridge the first is asked.
fn elements(servers: &[NameServer], port: u16) -> Vec<(&'static str, Element)> {
    let element = |key, data| Element { key, data, comment: None, counter: None };
    let mut all = Vec::new();
    for protocol in PROTOCOLS {
        let of = |port| Tuple::new().protocol(protocol).service(port);
        all.push((ASKED.name, element(of(DOMAIN), None)));
        all.push((ANSWERED.name, element(of(port), None)));
    }
    let mut seen = std::collections::BTreeSet::new();
    for NameServer { bridge, address } in servers {
        let address: IpAddr = address.addr();
        let family = usize::from(address.is_ipv6());
        if let Some(set) = SOCKETS.get(family) {
            all.push((set.name, element(Tuple::new().address(address), None)));
        }
        if let Some(set) = SERVERS.get(family).filter(|_| seen.insert((bridge, family))) {
            let data = Tuple::new().address(address).service(port);
            all.push((set.name, element(Tuple::new().interface(bridge), Some(data))));
        }
    }
    all
}

fn ruleset() -> Ruleset {
    let base =
        |kind, priority| Base { kind, hook: Hook::Prerouting, priority, policy: Policy::Accept };
    Ruleset {
        table: TABLE,
        stamp: STAMP,
        sets: [ASKED, ANSWERED].into_iter().chain(SOCKETS).chain(SERVERS).chain(WITHIN).collect(),
        chains: vec![
            (STAMP, None),
            // Before everything else translates.
            ("sockets", Some(base(ChainKind::Filter, -150))),
            ("queries", Some(base(ChainKind::Nat, -101))),
            ("servers", None),
        ],
        rules: rules(),
    }
}

fn rules() -> Vec<(&'static str, Steps)> {
    let port = |set: Set<'static>| {
        vec![
            Expression::Meta(Meta::Protocol, R),
            Expression::DestinationPort(R.behind(1)),
            Expression::In(set.name, R),
        ]
    };
    let unasked = |ip: Ip| {
        let mut steps = ip.alone(ip.destination(), &SOCKETS);
        steps.extend(port(ANSWERED));
        ("sockets", ending(steps, DROP))
    };
    let lead = |ip: Ip, guard: Steps, protocol: u8| {
        let mut steps = guard;
        steps.extend([
            Expression::Meta(Meta::Protocol, R),
            Expression::Equal(R, vec![protocol].into()),
            Expression::Meta(Meta::InputName, R),
            Expression::Map { name: ip.of(&SERVERS), key: R, into: R },
        ]);
        let port = R.behind(ip.words());
        let nat = Expression::DestinationNat { family: ip.family(), address: R, port };
        ("servers", ending(steps, nat))
    };
    let at_gateway =
        |ip: Ip| PROTOCOLS.map(|protocol| lead(ip, ip.alone(ip.destination(), &SOCKETS), protocol));
    let between = |ip: Ip| ("servers", ending(ip.alone(ip.destination(), &WITHIN), RETURN));
    let elsewhere = |ip: Ip| PROTOCOLS.map(|protocol| lead(ip, ip.only().to_vec(), protocol));
    let from_host = vec![
        Expression::Meta(Meta::InputName, R),
        Expression::Equal(R, Cow::Borrowed(b"lo\0\0\0\0\0\0\0\0\0\0\0\0\0\0")),
    ];
    let first = vec![
        ("sockets", ending(from_host, ACCEPT)),
        unasked(Ip::V4),
        unasked(Ip::V6),
        ("queries", ending(port(ASKED), Expression::Verdict(Verdict::Jump("servers")))),
    ];
    let mut all = first;
    all.extend(at_gateway(Ip::V4).into_iter().chain(at_gateway(Ip::V6)));
    all.extend([between(Ip::V4), between(Ip::V6)]);
    all.extend(elsewhere(Ip::V4).into_iter().chain(elsewhere(Ip::V6)));
    all
}
