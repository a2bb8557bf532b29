//! The rules that lead queries to Spoke in the sandbox of a container whose runtime has a server there, which
//! is Docker's at 127.0.0.11.
//!
//! Docker's server asks the host's servers from the host, past every bridge, unless the container was given
//! others. So the container's queries come to Spoke first. `sandbox_names.nft` is what is to be read.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

use model::Result;
use netlink::Socket;
use netlink::nft::{
    self, Base, ChainKind, Element, Expression, Field, Hook, Meta, Policy, Set, Table, Transaction,
    Tuple,
};

use super::names::{DOMAIN, PROTOCOLS};
use super::rules::{DROP, Ip, R, Steps, ending};
use super::ruleset::{Ruleset, TARGETS, map, set};

/// Where Docker's server is asked in every sandbox.
pub const SANDBOX_SERVER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 11);

const TABLE: Table<'static> = Table { family: nft::Family::Inet, name: "spoke_names" };
const STAMP: &str = "sandbox_names_1";
const ANSWERED: Set<'static> = set("answered", &[Field::Protocol, Field::Service]);
const SERVERS: Set<'static> = map("servers", &[Field::Protocol, Field::Service], TARGETS[0]);

/// Spoke's sockets in a sandbox, at [`SANDBOX_SERVER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SandboxNames {
    /// The port for datagrams.
    pub udp: u16,
    /// The port for connections.
    pub tcp: u16,
    /// The mark of sockets that reach Docker's server; without one, none does.
    pub mark: Option<u32>,
}

/// Leads what Docker's server is asked to these sockets. `socket` is of the sandbox's namespace. Root in the
/// container changes the packet filter there as he likes, so nothing of it is read.
///
/// # Errors
/// Where the kernel lacks something, or the process may not change it.
pub fn lead(socket: &mut Socket, names: &SandboxNames) -> Result<()> {
    ruleset(names.mark).replace(socket, |transaction| add_elements(transaction, names))
}

fn add_elements(transaction: &mut Transaction, names: &SandboxNames) {
    for (protocol, port) in PROTOCOLS.into_iter().zip([names.udp, names.tcp]) {
        let of = |port| Tuple::new().protocol(protocol).service(port);
        let to = Tuple::new().address(IpAddr::V4(SANDBOX_SERVER)).service(port);
        let elements = [
            (ANSWERED, Element::of(of(port))),
            (SERVERS, Element { data: Some(to), ..Element::of(of(DOMAIN)) }),
        ];
        for (set, element) in elements {
            let about = format!("leading queries to port {port} ({} of {TABLE})", set.name);
            transaction.add_element(TABLE, set.name, &element, about);
        }
    }
}

/// As [`lead`]. Says whether what led was gone. That takes no time by what else is in the packet filter there.
///
/// # Errors
/// As [`lead`].
pub fn lead_again(socket: &mut Socket, names: &SandboxNames) -> Result<bool> {
    let was_there = nft::chain_exists(socket, TABLE, STAMP)?;
    lead(socket, names)?;
    Ok(!was_there)
}

/// Removes that: Docker's server is asked again. What is missing is done.
///
/// # Errors
/// Where the process may not change it.
pub fn unlead(socket: &mut Socket) -> Result<()> {
    nft::remove_table(socket, TABLE)
}

fn ruleset(mark: Option<u32>) -> Ruleset {
    let base = |kind, priority| Base { kind, hook: Hook::Output, priority, policy: Policy::Accept };
    Ruleset {
        table: TABLE,
        stamp: STAMP,
        sets: vec![ANSWERED, SERVERS],
        chains: vec![
            (STAMP, None),
            // Before Docker translates.
            ("queries", Some(base(ChainKind::Nat, -101))),
            ("others", Some(base(ChainKind::Filter, 0))),
        ],
        rules: rules(mark),
    }
}

fn rules(mark: Option<u32>) -> Vec<(&'static str, Steps)> {
    let to_server = || {
        let mut steps = Ip::V4.only().to_vec();
        let address = SANDBOX_SERVER.octets().to_vec();
        steps.extend([Ip::V4.destination(), Expression::Equal(R, Cow::Owned(address))]);
        steps
    };
    let port = [Expression::Meta(Meta::Protocol, R), Expression::DestinationPort(R.behind(1))];
    let mut queries = to_server();
    queries.extend(mark.into_iter().flat_map(|mark| {
        let mark = Expression::Unequal(R, Cow::Owned(mark.to_ne_bytes().to_vec()));
        [Expression::Meta(Meta::Mark, R), mark]
    }));
    queries.extend(port.clone());
    queries.push(Expression::Map { name: SERVERS.name, key: R, into: R });
    let nat = Expression::DestinationNat { family: Ip::V4.family(), address: R, port: R.behind(1) };
    let mut all = vec![("queries", ending(queries, nat))];
    if mark.is_none() {
        let mut others = to_server();
        others.extend(port);
        others.push(Expression::NotIn(ANSWERED.name, R));
        all.push(("others", ending(others, DROP)));
    }
    all
}
