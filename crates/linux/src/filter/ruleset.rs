//! The table `inet spoke`, statement for statement what `ruleset.nft` says.

use std::borrow::Cow;

use model::{Error, Kind, Result};
use netlink::nft::{
    self, Base, ChainKind, Comment, Conntrack, Expression, Family, Field, Hook, Meta, Nat, Place,
    Policy, Register, Set, Table, Transaction, Verdict,
};
use netlink::{Errno, Outcome, Socket};

/// The table.
pub(super) const TABLE: Table<'static> = Table { family: Family::Inet, name: "spoke" };
const COMMENT: &str = "made by Spoke";
/// An empty chain that tells which version of the chains is there. Whoever finds another one
/// replaces them all; a new version has a new name here and in `ruleset.nft`. The sets stay, with
/// their elements: a set of another type needs another name.
pub(super) const STAMP: &str = "ruleset_1";
/// Each attempt but the last one found that somebody else was replacing the chains.
const ATTEMPTS: usize = 16;

const ADDRESSES: [&[Field]; 2] = [&[Field::Ipv4], &[Field::Ipv6]];
const BEHIND: [&[Field]; 2] = [&[Field::Interface, Field::Ipv4], &[Field::Interface, Field::Ipv6]];
const TARGETS: [&[Field]; 2] = [&[Field::Ipv4, Field::Service], &[Field::Ipv6, Field::Service]];
const HOST_PORTS: [&[Field]; 2] = [
    &[Field::Ipv4, Field::Protocol, Field::Service],
    &[Field::Ipv6, Field::Protocol, Field::Service],
];
const PORTS: &[Field] = &[Field::Protocol, Field::Service];

const fn set(name: &'static str, key: &'static [Field]) -> Set<'static> {
    Set { name, key, data: &[] }
}

const fn pair(names: [&'static str; 2], keys: [&'static [Field]; 2]) -> [Set<'static>; 2] {
    [set(names[0], keys[0]), set(names[1], keys[1])]
}

/// Of IPv4 and of IPv6: see `ruleset.nft`.
pub(super) const DNAT_HOST: [Set<'static>; 2] = [
    Set { name: "dnat4_host", key: HOST_PORTS[0], data: TARGETS[0] },
    Set { name: "dnat6_host", key: HOST_PORTS[1], data: TARGETS[1] },
];
pub(super) const DNAT_ANY: [Set<'static>; 2] = [
    Set { name: "dnat4_any", key: PORTS, data: TARGETS[0] },
    Set { name: "dnat6_any", key: PORTS, data: TARGETS[1] },
];
pub(super) const HAIRPIN: [Set<'static>; 2] = pair(["hairpin4", "hairpin6"], BEHIND);
pub(super) const MASQUERADE_ALL: [Set<'static>; 2] = pair(["masqall4", "masqall6"], ADDRESSES);
pub(super) const HOME: [Set<'static>; 2] = pair(["home4", "home6"], BEHIND);
pub(super) const ROUTED: [Set<'static>; 2] = pair(["routed4", "routed6"], ADDRESSES);
pub(super) const MASQUERADE: [Set<'static>; 2] = pair(["masq4", "masq6"], ADDRESSES);
pub(super) const GUARDED: [Set<'static>; 2] = pair(["guarded4", "guarded6"], BEHIND);
pub(super) const ISOLATED: [Set<'static>; 2] = pair(["isolated4", "isolated6"], BEHIND);
pub(super) const POLICED: Set<'static> = set("policed", &[Field::Interface]);

/// The sets whose elements have owners, in the order of `ruleset.nft`.
pub(super) const OWNED: [[Set<'static>; 2]; 9] =
    [DNAT_HOST, DNAT_ANY, HAIRPIN, MASQUERADE_ALL, HOME, ROUTED, MASQUERADE, GUARDED, ISOLATED];

const fn filter(hook: Hook, priority: i32) -> Base {
    Base { kind: ChainKind::Filter, hook, priority, policy: Policy::Accept }
}

const fn nat(hook: Hook, priority: i32) -> Base {
    Base { kind: ChainKind::Nat, hook, priority, policy: Policy::Accept }
}

/// In the order of `ruleset.nft`.
const CHAINS: [(&str, Option<Base>); 8] = [
    (STAMP, None),
    ("loopback", Some(filter(Hook::Prerouting, -300))),
    ("prerouting", Some(nat(Hook::Prerouting, -100))),
    ("output", Some(nat(Hook::Output, -100))),
    ("publish", None),
    ("postrouting", Some(nat(Hook::Postrouting, 100))),
    ("published", None),
    ("forward", Some(filter(Hook::Forward, -10))),
];

/// Makes the table, or replaces the chains of another version, in one transaction; does nothing
/// where it is as it should be. However many processes do this at once, one of them does it.
///
/// # Errors
/// Where the kernel lacks something that the table needs, or the process may not change it;
/// [`Kind::TryAgain`] if others keep changing it.
pub fn ensure(socket: &mut Socket) -> Result<()> {
    for _ in 0..ATTEMPTS {
        if nft::chain_exists(socket, TABLE, STAMP)? {
            return Ok(());
        }
        // EEXIST: the stamp is there by now. ENOENT: the chains that were to go are gone.
        if settled(loading(socket)?.commit(socket), &[Errno::EXIST, Errno::NOENT])? {
            return Ok(());
        }
    }
    Err(Error::try_again(format!("{TABLE} keeps being changed by others")))
}

/// Whether a transaction was done; `false` where one has to look again and plan another, because
/// what it met was one of `surprises`, or because the kernel's answers did not all arrive.
pub(super) fn settled(outcome: Result<Outcome>, surprises: &[Errno]) -> Result<bool> {
    let outcome = match outcome {
        Err(error) if error.kind() == Kind::TryAgain => return Ok(false),
        other => other?,
    };
    match outcome.failures().first() {
        None => Ok(true),
        Some(first) if surprises.contains(&first.errno) => Ok(false),
        Some(_) => outcome.into_result().map(|()| true),
    }
}

fn loading(socket: &mut Socket) -> Result<Transaction> {
    let comment: Comment = COMMENT.parse()?;
    let mut transaction = Transaction::new();
    transaction.add_table(TABLE, Some(&comment));
    transaction.delete_rules(TABLE);
    for chain in nft::chains(socket, TABLE.family)? {
        if chain.table == TABLE.name {
            transaction.delete_chain(TABLE, &chain.name);
        }
    }
    for set in OWNED.iter().flatten().chain([&POLICED]) {
        transaction.add_set(TABLE, set);
    }
    for (name, base) in &CHAINS {
        transaction.add_chain(TABLE, name, base.as_ref(), *name == STAMP);
    }
    for (chain, rule) in rules() {
        transaction.add_rule(TABLE, chain, Place::Tail, &rule);
    }
    Ok(transaction)
}

/// A rule.
type Steps = Vec<Expression<'static>>;

fn rules() -> Vec<(&'static str, Steps)> {
    let chains = [
        ("loopback", loopback()),
        ("prerouting", vec![to_this_host()]),
        ("output", vec![to_this_host()]),
        ("publish", publish()),
        ("postrouting", postrouting()),
        ("published", published()),
        ("forward", forward()),
    ];
    let named = |(chain, rules): (&'static str, Vec<Steps>)| {
        rules.into_iter().map(move |rule| (chain, rule))
    };
    chains.into_iter().flat_map(named).collect()
}

fn loopback() -> Vec<Steps> {
    let from = |address: fn(Ip) -> Expression<'static>| {
        let mut steps = vec![
            Expression::Meta(Meta::InputName, R),
            Expression::Unequal(R, Cow::Borrowed(b"lo\0\0\0\0\0\0\0\0\0\0\0\0\0\0")),
        ];
        steps.extend(Ip::V4.only());
        steps.extend([address(Ip::V4), MASK_8, Expression::Equal(R, Cow::Borrowed(LOOPBACK))]);
        ending(steps, DROP)
    };
    vec![from(Ip::destination), from(Ip::source)]
}

/// `127.0.0.0`.
const LOOPBACK: &[u8] = &[127, 0, 0, 0];
const MASK_8: Expression<'static> = Expression::Mask(R, Cow::Borrowed(&[255, 0, 0, 0]));

fn to_this_host() -> Steps {
    vec![
        Expression::DestinationType(R),
        Expression::Equal(R, Cow::Owned(RTN_LOCAL.to_ne_bytes().to_vec())),
        Expression::Verdict(Verdict::Jump("publish")),
    ]
}

/// `RTN_LOCAL` (`linux/rtnetlink.h`).
const RTN_LOCAL: u32 = 2;

fn publish() -> Vec<Steps> {
    let on = |ip: Ip, map: &'static str, mut steps: Steps, protocol: Register| {
        steps.push(Expression::Meta(Meta::Protocol, protocol));
        steps.push(Expression::DestinationPort(protocol.behind(1)));
        steps.push(Expression::Map { name: map, key: R, into: R });
        let port = R.behind(ip.words());
        let nat = Expression::Nat { kind: Nat::Destination, family: ip.family(), address: R, port };
        ending(steps, nat)
    };
    let host = |ip: Ip| {
        let mut steps = ip.only().to_vec();
        steps.push(ip.destination());
        on(ip, ip.of(&DNAT_HOST), steps, R.behind(ip.words()))
    };
    let any = |ip: Ip| on(ip, ip.of(&DNAT_ANY), Vec::new(), R);
    vec![host(Ip::V4), host(Ip::V6), any(Ip::V4), any(Ip::V6)]
}

fn postrouting() -> Vec<Steps> {
    let published = vec![
        Expression::Conntrack(Conntrack::Status, R),
        Expression::Mask(R, Cow::Owned(IPS_DST_NAT.to_ne_bytes().to_vec())),
        Expression::Unequal(R, Cow::Borrowed(&[0; 4])),
        Expression::Verdict(Verdict::Jump("published")),
    ];
    let home = |ip: Ip| ending(ip.behind(Meta::OutputName, ip.source(), &HOME), RETURN);
    let routed = |ip: Ip| {
        let mut steps = ip.alone(ip.source(), &ROUTED);
        steps.extend([ip.destination(), Expression::In(ip.of(&ROUTED), R)]);
        ending(steps, RETURN)
    };
    let masquerade = |ip: Ip| {
        let mut steps = ip.alone(ip.source(), &MASQUERADE);
        steps.extend(ip.no_multicast());
        ending(steps, Expression::Masquerade)
    };
    vec![
        published,
        home(Ip::V4),
        home(Ip::V6),
        routed(Ip::V4),
        routed(Ip::V6),
        masquerade(Ip::V4),
        masquerade(Ip::V6),
    ]
}

/// `IPS_DST_NAT` (`linux/netfilter/nf_conntrack_common.h`).
const IPS_DST_NAT: u32 = 0x20;

fn published() -> Vec<Steps> {
    let called = |ip: Ip| ip.behind(Meta::InputName, ip.destination(), &HAIRPIN);
    let calling = |ip: Ip| ip.behind(Meta::OutputName, ip.source(), &HAIRPIN);
    let all = |ip: Ip| ip.alone(ip.destination(), &MASQUERADE_ALL);
    let mut local = Ip::V4.only().to_vec();
    local.extend([Ip::V4.source(), MASK_8, Expression::Equal(R, Cow::Borrowed(LOOPBACK))]);
    let rules = [
        called(Ip::V4),
        called(Ip::V6),
        calling(Ip::V4),
        calling(Ip::V6),
        local,
        all(Ip::V4),
        all(Ip::V6),
    ];
    rules.into_iter().map(|steps| ending(steps, Expression::Masquerade)).collect()
}

fn forward() -> Vec<Steps> {
    let known = vec![
        Expression::Conntrack(Conntrack::State, R),
        Expression::Mask(R, Cow::Owned(ESTABLISHED_RELATED.to_ne_bytes().to_vec())),
        Expression::Unequal(R, Cow::Borrowed(&[0; 4])),
        ACCEPT,
    ];
    let closed = |ip: Ip, sets: &[Set<'static>; 2]| {
        let policed = [Expression::Meta(Meta::InputName, R), Expression::In(POLICED.name, R)];
        let mut steps = policed.to_vec();
        steps.extend(ip.behind(Meta::OutputName, ip.destination(), sets));
        ending(steps, DROP)
    };
    let own = |ip: Ip| ending(ip.behind(Meta::InputName, ip.destination(), &GUARDED), ACCEPT);
    vec![
        known,
        closed(Ip::V4, &ISOLATED),
        closed(Ip::V6, &ISOLATED),
        own(Ip::V4),
        own(Ip::V6),
        closed(Ip::V4, &GUARDED),
        closed(Ip::V6, &GUARDED),
    ]
}

/// `NF_CT_STATE_BIT` of both.
const ESTABLISHED_RELATED: u32 = 2 | 4;

/// Where every rule begins.
const R: Register = Register::FIRST;
/// Words of an interface's name.
const NAME_WORDS: u8 = 4;
const ACCEPT: Expression<'static> = Expression::Verdict(Verdict::Accept);
const DROP: Expression<'static> = Expression::Verdict(Verdict::Drop);
const RETURN: Expression<'static> = Expression::Verdict(Verdict::Return);

fn ending(mut steps: Steps, last: Expression<'static>) -> Steps {
    steps.push(last);
    steps
}

/// The two kinds of packets, where their headers differ.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ip {
    V4,
    V6,
}

impl Ip {
    fn family(self) -> Family {
        match self {
            Ip::V4 => Family::Ipv4,
            Ip::V6 => Family::Ipv6,
        }
    }

    /// Of an address.
    fn words(self) -> u8 {
        match self {
            Ip::V4 => 1,
            Ip::V6 => 4,
        }
    }

    fn of(self, sets: &[Set<'static>; 2]) -> &'static str {
        let [v4, v6] = sets;
        match self {
            Ip::V4 => v4.name,
            Ip::V6 => v6.name,
        }
    }

    /// Matches its packets (`NFPROTO_*`).
    fn only(self) -> [Expression<'static>; 2] {
        let number: &'static [u8] = match self {
            Ip::V4 => &[2],
            Ip::V6 => &[10],
        };
        [Expression::Meta(Meta::Family, R), Expression::Equal(R, Cow::Borrowed(number))]
    }

    fn source(self) -> Expression<'static> {
        self.address(12, 8)
    }

    fn destination(self) -> Expression<'static> {
        self.address(16, 24)
    }

    fn address(self, v4: u32, v6: u32) -> Expression<'static> {
        match self {
            Ip::V4 => Expression::Network { offset: v4, length: 4, into: R },
            Ip::V6 => Expression::Network { offset: v6, length: 16, into: R },
        }
    }

    /// Matches if one of `sets` has the `address`.
    fn alone(self, address: Expression<'static>, sets: &[Set<'static>; 2]) -> Steps {
        let mut steps = self.only().to_vec();
        steps.extend([address, Expression::In(self.of(sets), R)]);
        steps
    }

    /// Matches if one of `sets` has the interface and `address`.
    fn behind(
        self,
        interface: Meta,
        address: Expression<'static>,
        sets: &[Set<'static>; 2],
    ) -> Steps {
        let mut steps = self.only().to_vec();
        steps.push(Expression::Meta(interface, R));
        steps.push(match address {
            Expression::Network { offset, length, .. } => {
                Expression::Network { offset, length, into: R.behind(NAME_WORDS) }
            }
            other => other,
        });
        steps.push(Expression::In(self.of(sets), R));
        steps
    }

    /// Matches what is not sent to `224.0.0.0/4` or `ff00::/8`.
    fn no_multicast(self) -> Steps {
        let (mask, prefix): (&'static [u8], &'static [u8]) = match self {
            Ip::V4 => (&[240, 0, 0, 0], &[224, 0, 0, 0]),
            Ip::V6 => (
                &[255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                &[255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            ),
        };
        vec![
            self.destination(),
            Expression::Mask(R, Cow::Borrowed(mask)),
            Expression::Unequal(R, Cow::Borrowed(prefix)),
        ]
    }
}
