//! The packet filter before the VXLAN port: `table ip spoke_overlay`.
//!
//! ```text
//! set members { type ipv4_addr }
//! chain input {
//!     type filter hook input priority -150; policy accept;
//!     meta l4proto udp udp dport 4789 ip saddr != @members drop
//!     meta l4proto udp udp dport 4794 iifgroup != TUNNELS drop
//!     iifgroup TUNNELS meta l4proto != udp drop
//!     iifgroup TUNNELS udp dport != 4794 drop
//! }
//! chain forward {
//!     type filter hook forward priority -150; policy accept;
//!     meta l4proto udp udp dport 4789 ip daddr @members drop
//!     iifgroup TUNNELS drop
//!     oifgroup TUNNELS drop
//! }
//! chain output {
//!     type filter hook output priority -150; policy accept;
//!     meta l4proto udp udp dport 4789 ip daddr @members meta skuid != 0 drop
//!     meta l4proto udp udp dport 4794 oifgroup != TUNNELS drop
//!     oifgroup TUNNELS meta skuid != 0 drop
//! }
//! ```
//!
//! A member takes what has a member's address, and what a container sends has its host's: so each host lets
//! neither its containers nor its users send to the port. The kernel's own packets have no user.
//!
//! Packets of encrypted networks come and leave through a tunnel only, also while there is none, and nothing else
//! comes or leaves through one.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use model::{Kind, Result};
use netlink::nft::{
    self, Base, ChainKind, Element, Expression, Family, Field, Hook, Lookup, Meta, Place, Policy,
    Register, Set, Table, Transaction, Tuple, Verdict,
};
use netlink::{Errno, Socket};

use crate::tunnel::GROUP;
use crate::{ENCRYPTED_PORT, PORT};

const TABLE: Table<'static> = Table { family: Family::Ipv4, name: "spoke_overlay" };
const MEMBERS: Set<'static> =
    Set { name: "members", key: &[Field::Ipv4], data: &[], objects: None, lookup: Lookup::Exact };
/// Before connection tracking's users, and before Spoke's own chains.
const PRIORITY: i32 = -150;
/// `IPPROTO_UDP`.
const UDP: u8 = 17;
/// Where addresses are in the header of IPv4 (RFC 791 §3.1).
const SOURCE: u32 = 12;
const DESTINATION: u32 = 16;

/// Each chain, and where it is.
const CHAINS: [(&str, Hook); 3] =
    [("input", Hook::Input), ("forward", Hook::Forward), ("output", Hook::Output)];

/// Whether this is the table, or that of routed networks.
pub fn is_guard(family: Family, name: &str) -> bool {
    (family, name) == (TABLE.family, TABLE.name) || crate::route::is_ours(family, name)
}

/// Takes VXLAN packets from `members` only, where that is not so; whether anything had to be changed.
///
/// # Errors
/// Where the kernel refuses it.
pub fn guard(members: &BTreeSet<Ipv4Addr>) -> Result<bool> {
    ensure(&mut Socket::netfilter()?, members)
}

/// Takes VXLAN packets from `members` only; whether anything had to be changed.
pub(crate) fn ensure(socket: &mut Socket, members: &BTreeSet<Ipv4Addr>) -> Result<bool> {
    if !is_whole(socket)? {
        make(members).apply(socket)?;
        return Ok(true);
    }
    let wanted: Vec<Element> = members.iter().map(|member| element(*member)).collect();
    let there = nft::elements(socket, TABLE, MEMBERS.name)?;
    let mut transaction = Transaction::new();
    for gone in there.iter().filter(|element| !wanted.contains(element)) {
        transaction.delete_element(TABLE, MEMBERS.name, gone, "forgetting a host".to_owned());
    }
    for new in wanted.iter().filter(|element| !there.contains(element)) {
        transaction.ensure_element(TABLE, MEMBERS.name, new, "adding a host".to_owned());
    }
    if transaction.is_empty() {
        return Ok(false);
    }
    transaction.apply(socket).map(|()| true)
}

/// Removes it.
pub(crate) fn remove(socket: &mut Socket) -> Result<()> {
    let mut transaction = Transaction::new();
    transaction.delete_table(TABLE);
    transaction.commit(socket)?.except(Errno::NOENT).into_result()
}

/// Whether the chains are there as this program makes them.
fn is_whole(socket: &mut Socket) -> Result<bool> {
    let chains = CHAINS.map(|(name, hook)| (name, Some(base(hook)), rules(hook)));
    is_as_made(nft::verify(socket, TABLE, &chains))
}

/// Of a table whether it was found as it is made.
pub(crate) fn is_as_made(verified: Result<()>) -> Result<bool> {
    match verified {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == Kind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn base(hook: Hook) -> Base {
    Base { kind: ChainKind::Filter, hook, priority: PRIORITY, policy: Policy::Accept }
}

fn make(members: &BTreeSet<Ipv4Addr>) -> Transaction {
    let mut transaction = Transaction::new();
    // To remove it, it has to be there.
    transaction.add_table(TABLE, None);
    transaction.delete_table(TABLE);
    transaction.add_table(TABLE, None);
    transaction.add_set(TABLE, &MEMBERS);
    for (chain, hook) in CHAINS {
        transaction.add_chain(TABLE, chain, Some(&base(hook)), false);
        for rule in rules(hook) {
            transaction.add_rule(TABLE, chain, Place::Tail, &rule);
        }
    }
    for member in members {
        let about = format!("adding host {member}");
        transaction.ensure_element(TABLE, MEMBERS.name, &element(*member), about);
    }
    transaction
}

const VALUE: Register = Register::FIRST;

fn rules(hook: Hook) -> Vec<Vec<Expression<'static>>> {
    let mut rules = vec![members_only(hook)];
    match hook {
        Hook::Input => rules.extend([
            [to_port(ENCRYPTED_PORT), outside(Meta::InputGroup)].concat(),
            [inside(Meta::InputGroup), not_udp()].concat(),
            [inside(Meta::InputGroup), not_to_port(ENCRYPTED_PORT)].concat(),
        ]),
        Hook::Output => rules.extend([
            [to_port(ENCRYPTED_PORT), outside(Meta::OutputGroup)].concat(),
            [inside(Meta::OutputGroup), of_a_user()].concat(),
        ]),
        _ => rules.extend([inside(Meta::InputGroup), inside(Meta::OutputGroup)]),
    }
    rules.iter_mut().for_each(|rule| rule.push(Expression::Verdict(Verdict::Drop)));
    rules
}

fn members_only(hook: Hook) -> Vec<Expression<'static>> {
    let address = |offset| Expression::Network { offset, length: 4, into: VALUE };
    let mut steps = to_port(PORT);
    match hook {
        Hook::Input => {
            steps.extend([address(SOURCE), Expression::NotIn(MEMBERS.name, VALUE)]);
        }
        _ => steps.extend([address(DESTINATION), Expression::In(MEMBERS.name, VALUE)]),
    }
    if hook == Hook::Output {
        steps.extend(of_a_user());
    }
    steps
}

fn to_port(port: u16) -> Vec<Expression<'static>> {
    vec![
        Expression::Meta(Meta::Protocol, VALUE),
        Expression::Equal(VALUE, Cow::Owned(vec![UDP])),
        Expression::DestinationPort(VALUE),
        Expression::Equal(VALUE, Cow::Owned(port.to_be_bytes().to_vec())),
    ]
}

fn not_udp() -> Vec<Expression<'static>> {
    vec![Expression::Meta(Meta::Protocol, VALUE), Expression::Unequal(VALUE, Cow::Owned(vec![UDP]))]
}

fn not_to_port(port: u16) -> Vec<Expression<'static>> {
    vec![
        Expression::DestinationPort(VALUE),
        Expression::Unequal(VALUE, Cow::Owned(port.to_be_bytes().to_vec())),
    ]
}

/// Root's sockets, and what the kernel sends, are no user's.
fn of_a_user() -> Vec<Expression<'static>> {
    let root = 0u32.to_ne_bytes().to_vec();
    vec![Expression::Meta(Meta::SocketUser, VALUE), Expression::Unequal(VALUE, Cow::Owned(root))]
}

fn inside(group: Meta) -> Vec<Expression<'static>> {
    let tunnels = Cow::Owned(GROUP.to_ne_bytes().to_vec());
    vec![Expression::Meta(group, VALUE), Expression::Equal(VALUE, tunnels)]
}

fn outside(group: Meta) -> Vec<Expression<'static>> {
    let tunnels = Cow::Owned(GROUP.to_ne_bytes().to_vec());
    vec![Expression::Meta(group, VALUE), Expression::Unequal(VALUE, tunnels)]
}

fn element(member: Ipv4Addr) -> Element {
    Element { key: Tuple::new().address(member.into()), data: None, comment: None, counter: None }
}
