//! The packet filter before the VXLAN port: `table ip spoke_overlay`, or `table ip6 spoke_overlay` where the hosts
//! reach each other by IPv6. The port is one of that family only.
//!
//! ```text
//! set members { type ipv4_addr } or { type ipv6_addr }
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
use std::net::IpAddr;

use model::Result;
use netlink::Socket;
use netlink::nft::{
    self, Element, Expression, Family, Field, Hook, Lookup, Meta, Register, RulePosition, Set,
    Table, Transaction, Tuple, Verdict,
};

use crate::packet_filter::{DESTINATION, SOURCE, address, base, is_as_made};
use crate::tunnel::GROUP;
use crate::{ENCRYPTED_PORT, PORT};

const NAME: &str = "spoke_overlay";
const TABLES: [Table<'static>; 2] =
    [Table { family: Family::Ipv4, name: NAME }, Table { family: Family::Ipv6, name: NAME }];
const MEMBERS: &str = "members";
/// `IPPROTO_UDP`.
const UDP: u8 = 17;

/// Each chain, and where it is.
const CHAINS: [(&str, Hook); 3] =
    [("input", Hook::Input), ("forward", Hook::Forward), ("output", Hook::Output)];

/// Whether this is one of the tables, or that of routed networks.
pub fn is_guard(family: Family, name: &str) -> bool {
    TABLES.iter().any(|table| (family, name) == (table.family, table.name))
        || crate::route::is_ours(family, name)
}

/// Who may send to the VXLAN port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The address of this host: the port is one of its family.
    pub local: IpAddr,
    /// The addresses of the other members.
    pub members: BTreeSet<IpAddr>,
}

impl Guard {
    /// Takes VXLAN packets from the members only, where that is not so; whether anything had to be changed.
    ///
    /// # Errors
    /// Where the kernel refuses it.
    pub fn ensure(&self) -> Result<bool> {
        let (socket, table) = (&mut Socket::netfilter()?, self.table());
        if !self.is_whole(socket)? {
            self.make().apply(socket)?;
            return Ok(true);
        }
        let wanted: Vec<Element> = self.elements().collect();
        let there = nft::elements(socket, table, MEMBERS)?;
        let mut transaction = Transaction::new();
        for gone in there.iter().filter(|element| !wanted.contains(element)) {
            transaction.delete_element(table, MEMBERS, gone, "forgetting a host".to_owned());
        }
        for new in wanted.iter().filter(|element| !there.contains(element)) {
            transaction.ensure_element(table, MEMBERS, new, "adding a host".to_owned());
        }
        if transaction.is_empty() {
            return Ok(false);
        }
        transaction.apply(socket).map(|()| true)
    }

    /// Which of both families it is.
    fn ip(&self) -> usize {
        usize::from(self.local.is_ipv6())
    }

    fn table(&self) -> Table<'static> {
        TABLES[self.ip()]
    }

    /// A member of the other family sends nothing to the port.
    fn elements(&self) -> impl Iterator<Item = Element> {
        let own = self.members.iter().filter(|member| member.is_ipv4() == self.local.is_ipv4());
        own.map(|member| element(*member))
    }

    /// Whether the chains are there as this program makes them.
    fn is_whole(&self, socket: &mut Socket) -> Result<bool> {
        let chains = CHAINS.map(|(name, hook)| (name, Some(base(hook)), rules(self.ip(), hook)));
        is_as_made(nft::verify(socket, self.table(), &chains))
    }

    fn make(&self) -> Transaction {
        let (mut transaction, table) = (Transaction::new(), self.table());
        transaction.replace_table(table, None);
        transaction.add_set(table, &members(self.ip()));
        for (chain, hook) in CHAINS {
            transaction.add_chain(table, chain, Some(&base(hook)), false);
            for rule in rules(self.ip(), hook) {
                transaction.add_rule(table, chain, RulePosition::Tail, &rule);
            }
        }
        for member in self.elements() {
            transaction.ensure_element(table, MEMBERS, &member, "adding a host".to_owned());
        }
        transaction
    }
}

fn members(ip: usize) -> Set<'static> {
    let key: &[Field] = if ip == 0 { &[Field::Ipv4] } else { &[Field::Ipv6] };
    Set { name: MEMBERS, key, data: &[], objects: None, lookup: Lookup::Exact }
}

/// Removes it.
pub(crate) fn remove(socket: &mut Socket) -> Result<()> {
    TABLES.into_iter().try_for_each(|table| nft::remove_table(socket, table))
}

const VALUE: Register = Register::FIRST;

fn rules(ip: usize, hook: Hook) -> Vec<Vec<Expression<'static>>> {
    let mut rules = vec![members_only(ip, hook)];
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

fn members_only(ip: usize, hook: Hook) -> Vec<Expression<'static>> {
    let mut steps = to_port(PORT);
    match hook {
        Hook::Input => {
            steps.extend([address(ip, SOURCE, VALUE), Expression::NotIn(MEMBERS, VALUE)]);
        }
        _ => steps.extend([address(ip, DESTINATION, VALUE), Expression::In(MEMBERS, VALUE)]),
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

fn element(member: IpAddr) -> Element {
    Element { key: Tuple::new().address(member), data: None, comment: None, counter: None }
}
