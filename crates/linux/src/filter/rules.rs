//! The rules of the table, statement for statement what `ruleset.nft` says.

mod connection;
mod unknown;

use std::borrow::Cow;
use std::net::Ipv6Addr;

use netlink::nft::{Expression, Family, Meta, Register, Set, Verdict};

use crate::identity::{GROUP, VLAN_GATEWAY};

pub(super) use connection::{
    ESTABLISHED, NEW, RELATED, in_frames_to_all, meant_for_all, of_state, of_status,
};

use super::ruleset::{
    BOUNDED_BRIDGES, CLOSED, DNAT_ANY, DNAT_HOST, GUARDED, GUARDED_BRIDGES, HAIRPIN, HOME, INSIDE,
    INTERNAL, ISOLATED, LAN, LAN_ONLY, LOCAL_ONLY, MASQUERADE, MASQUERADE_ALL, POLICED, SERVED,
    SERVING, SOURCE, SWITCHED, TRUSTED, UNJUDGED,
};

/// A rule.
pub(super) type Steps = Vec<Expression<'static>>;

/// Every rule with its chain, in the order of `ruleset.nft`.
pub(super) fn rules() -> Vec<(&'static str, Steps)> {
    let chains = [
        ("reserved", connection::reserved()),
        ("for_all", connection::for_all()),
        ("beginning", connection::beginning()),
        ("loopback", loopback()),
        ("prerouting", vec![to_this_host()]),
        ("output", vec![to_loopback(), to_this_host()]),
        ("publish", publish()),
        ("postrouting", postrouting()),
        ("published", published()),
        ("forward", forward()),
        ("known", connection::known()),
        ("unknown", unknown::rules()),
        ("guarded", guarded()),
        ("passing", passing()),
        ("direct", direct()),
        ("served", served()),
        ("internals", internals()),
        ("reach", reach()),
    ];
    let named = |(chain, rules): (&'static str, Vec<Steps>)| {
        rules.into_iter().map(move |rule| (chain, rule))
    };
    chains.into_iter().flat_map(named).collect()
}

/// Before the kernel puts fragments together (`NF_IP_PRI_CONNTRACK_DEFRAG` is -400).
pub(crate) const BEFORE_FRAGMENTS: i32 = -450;

/// Drops what is sent to an address of the link's own protocols (IEEE 802.1Q, table 8-1), which no packet of IP has. A
/// bridge hands that to the host in the name of the port, and not in its own, by which all rules know a network.
pub(super) fn reserved() -> Steps {
    vec![
        Expression::Meta(Meta::InputType, R),
        Expression::Equal(R, Cow::Owned(ARPHRD_ETHER.to_ne_bytes().to_vec())),
        Expression::EthernetDestination(R),
        Expression::Mask(R, Cow::Borrowed(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xf0])),
        Expression::Equal(R, Cow::Borrowed(&[0x01, 0x80, 0xc2, 0, 0, 0])),
        DROP,
    ]
}

/// `linux/if_arp.h`.
const ARPHRD_ETHER: u16 = 1;

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
    let switched = |ip: Ip, address: fn(Ip) -> Expression<'static>| {
        ending(ip.behind(Meta::InputName, address(ip), &SWITCHED), Expression::NotTracked)
    };
    vec![
        from(Ip::destination),
        from(Ip::source),
        switched(Ip::V4, Ip::source),
        switched(Ip::V6, Ip::source),
        switched(Ip::V4, Ip::destination),
        switched(Ip::V6, Ip::destination),
        connection::internal(),
    ]
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

fn to_loopback() -> Steps {
    let mut steps = Ip::V6.only().to_vec();
    let address = Ipv6Addr::LOCALHOST.octets().to_vec();
    steps.extend([Ip::V6.destination(), Expression::Equal(R, Cow::Owned(address))]);
    ending(steps, RETURN)
}

/// `RTN_LOCAL` (`linux/rtnetlink.h`).
const RTN_LOCAL: u32 = 2;

fn publish() -> Vec<Steps> {
    let on = |ip: Ip, map: &'static str, mut steps: Steps, protocol: Register| {
        steps.push(Expression::Meta(Meta::Protocol, protocol));
        steps.push(Expression::DestinationPort(protocol.behind(1)));
        steps.push(Expression::Map { name: map, key: R, into: R });
        let port = R.behind(ip.words());
        let nat = Expression::DestinationNat { family: ip.family(), address: R, port };
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
    let masquerade = |ip: Ip| {
        let mut steps = ip.alone(ip.source(), &MASQUERADE);
        steps.extend(ip.no_multicast());
        ending(steps, Expression::Masquerade)
    };
    vec![
        translated(Expression::Verdict(Verdict::Jump("published"))),
        unknown::stays_behind(Ip::V4),
        unknown::stays_behind(Ip::V6),
        unknown::stays_among(Ip::V4),
        unknown::stays_among(Ip::V6),
        source(Ip::V4),
        source(Ip::V6),
        masquerade(Ip::V4),
        masquerade(Ip::V6),
    ]
}

/// Gives what a container sends the host's address that its network names.
fn source(ip: Ip) -> Steps {
    let mut steps = ip.only().to_vec();
    steps.extend(ip.no_multicast());
    steps.extend([ip.source(), Expression::Map { name: ip.of(&SOURCE), key: R, into: R }]);
    ending(steps, Expression::SourceNat { family: ip.family(), address: R })
}

/// Matches packets to a published port.
pub(super) fn translated(then: Expression<'static>) -> Steps {
    ending(of_status(IPS_DST_NAT), then)
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

/// Answers, and what belongs to a connection that is known.
pub(super) fn known() -> Steps {
    ending(of_state(ESTABLISHED | RELATED), ACCEPT)
}

fn forward() -> Vec<Steps> {
    let closed = |from: Steps, ip: Ip, sets: &[Set<'static>; 2]| {
        let mut steps = from;
        steps.extend(ip.behind(Meta::OutputName, ip.destination(), sets));
        ending(steps, DROP)
    };
    let own = |ip: Ip| ending(ip.behind(Meta::InputName, ip.destination(), &GUARDED), ACCEPT);
    let internal = |interface: Meta| {
        let steps = vec![Expression::Meta(interface, R), Expression::In(INTERNAL.name, R)];
        ending(steps, Expression::Verdict(Verdict::Jump("internals")))
    };
    let closed_network = vec![
        Expression::Meta(Meta::OutputName, R),
        Expression::In(CLOSED.name, R),
        Expression::Verdict(Verdict::Jump("direct")),
    ];
    let of_many = |interface: Meta, bridges: &Set<'static>, chain: &'static str| {
        vec![
            Expression::Meta(interface, R),
            Expression::In(bridges.name, R),
            Expression::Verdict(Verdict::Jump(chain)),
        ]
    };
    vec![
        internal(Meta::InputName),
        internal(Meta::OutputName),
        connection::related(),
        connection::established(),
        unknown::of_ours(),
        translated(Expression::Verdict(Verdict::Jump("reach"))),
        closed(policed(), Ip::V4, &ISOLATED),
        closed(policed(), Ip::V6, &ISOLATED),
        translated(ACCEPT),
        of_many(Meta::InputName, &BOUNDED_BRIDGES, "passing"),
        closed_network,
        of_many(Meta::OutputName, &GUARDED_BRIDGES, "guarded"),
        own(Ip::V4),
        own(Ip::V6),
        closed(policed(), Ip::V4, &GUARDED),
        closed(policed(), Ip::V6, &GUARDED),
        closed(other_bridge(), Ip::V4, &ISOLATED),
        closed(other_bridge(), Ip::V6, &ISOLATED),
        closed(other_bridge(), Ip::V4, &GUARDED),
        closed(other_bridge(), Ip::V6, &GUARDED),
    ]
}

fn guarded() -> Vec<Steps> {
    vec![ending(between(&INSIDE), ACCEPT), ending(policed(), DROP), ending(other_bridge(), DROP)]
}

fn passing() -> Vec<Steps> {
    let at_home = |ip: Ip| ending(ip.behind(Meta::InputName, ip.source(), &HOME), RETURN);
    vec![ending(between(&INSIDE), RETURN), at_home(Ip::V4), at_home(Ip::V6), vec![DROP]]
}

/// Matches packets that arrived by an interface with an ingress policy.
fn policed() -> Steps {
    vec![Expression::Meta(Meta::InputName, R), Expression::In(POLICED.name, R)]
}

/// Matches packets that arrived by a bridge of other programs.
fn other_bridge() -> Steps {
    let kind = Expression::Equal(R, Cow::Borrowed(b"bridge\0\0\0\0\0\0\0\0\0\0"));
    let mut steps = vec![Expression::Meta(Meta::InputKind, R), kind];
    steps.extend(not_ours());
    steps
}

/// Matches packets that arrived by an interface of other programs.
fn not_ours() -> [Expression<'static>; 2] {
    let ours = Expression::Unequal(R, Cow::Owned(GROUP.to_ne_bytes().to_vec()));
    [Expression::Meta(Meta::InputGroup, R), ours]
}

fn internals() -> Vec<Steps> {
    vec![ending(between(&INSIDE), RETURN), vec![DROP]]
}

fn direct() -> Vec<Steps> {
    let of_group = |group: u32| {
        let is_it = Expression::Equal(R, Cow::Owned(group.to_ne_bytes().to_vec()));
        vec![Expression::Meta(Meta::InputGroup, R), is_it, RETURN]
    };
    let serving = || vec![Expression::Meta(Meta::OutputName, R), Expression::In(SERVING.name, R)];
    let messages = |protocol: u8| {
        let is_it = Expression::Equal(R, Cow::Owned(vec![protocol]));
        let message = [Expression::Meta(Meta::Protocol, R), is_it, ACCEPT];
        [serving(), message.to_vec()].concat()
    };
    let jump = Expression::Verdict(Verdict::Jump("served"));
    vec![
        ending(to_in_family(&UNJUDGED), RETURN),
        ending(between(&INSIDE), RETURN),
        of_group(GROUP),
        of_group(VLAN_GATEWAY),
        ending(between(&TRUSTED), jump.clone()),
        ending(serving(), jump),
        messages(IPPROTO_ICMP),
        messages(IPPROTO_ICMPV6),
        vec![DROP],
    ]
}

/// RFC 792, RFC 4443.
const IPPROTO_ICMP: u8 = 1;
const IPPROTO_ICMPV6: u8 = 58;

fn served() -> Vec<Steps> {
    let of = |ip: Ip| {
        let mut steps = ip.only().to_vec();
        let protocol = R.behind(ip.words());
        steps.extend([
            ip.destination(),
            Expression::Meta(Meta::Protocol, protocol),
            Expression::DestinationPort(protocol.behind(1)),
            Expression::In(ip.of(&SERVED), R),
        ]);
        ending(steps, ACCEPT)
    };
    vec![of(Ip::V4), of(Ip::V6)]
}

/// Matches what comes in by the first interface of a pair and leaves by the second.
pub(super) fn between(pairs: &Set<'static>) -> Steps {
    vec![
        Expression::Meta(Meta::InputName, R),
        Expression::Meta(Meta::OutputName, R.behind(NAME_WORDS)),
        Expression::In(pairs.name, R),
    ]
}

/// Matches what leaves by an interface, in a family, that are in the set.
pub(super) fn to_in_family(set: &Set<'static>) -> Steps {
    vec![
        Expression::Meta(Meta::OutputName, R),
        Expression::Meta(Meta::Family, R.behind(NAME_WORDS)),
        Expression::In(set.name, R),
    ]
}

fn reach() -> Vec<Steps> {
    let neighbour = |ip: Ip| ending(ip.behind(Meta::InputName, ip.destination(), &HAIRPIN), RETURN);
    let lan = |ip: Ip| {
        let mut steps = ip.alone(ip.destination(), &LAN_ONLY);
        steps.extend([ip.source(), Expression::NotIn(ip.of(&LAN), R)]);
        ending(steps, DROP)
    };
    let local = |ip: Ip| {
        let mut steps = ip.alone(ip.destination(), &LOCAL_ONLY);
        steps.extend(not_ours());
        ending(steps, DROP)
    };
    vec![
        neighbour(Ip::V4),
        neighbour(Ip::V6),
        lan(Ip::V4),
        lan(Ip::V6),
        local(Ip::V4),
        local(Ip::V6),
    ]
}

/// Where every rule begins.
pub(super) const R: Register = Register::FIRST;
/// Words of an interface's name.
pub(super) const NAME_WORDS: u8 = 4;
pub(super) const ACCEPT: Expression<'static> = Expression::Verdict(Verdict::Accept);
pub(super) const DROP: Expression<'static> = Expression::Verdict(Verdict::Drop);
pub(super) const RETURN: Expression<'static> = Expression::Verdict(Verdict::Return);

pub(super) fn ending(mut steps: Steps, last: Expression<'static>) -> Steps {
    steps.push(last);
    steps
}

/// The same part of a packet's header, in another register.
pub(super) fn into(loaded: Expression<'static>, into: Register) -> Expression<'static> {
    match loaded {
        Expression::Network { offset, length, .. } => Expression::Network { offset, length, into },
        other => other,
    }
}

/// The two kinds of packets, where their headers differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ip {
    V4,
    V6,
}

impl Ip {
    pub(super) fn family(self) -> Family {
        match self {
            Ip::V4 => Family::Ipv4,
            Ip::V6 => Family::Ipv6,
        }
    }

    /// Of an address.
    pub(super) fn words(self) -> u8 {
        match self {
            Ip::V4 => 1,
            Ip::V6 => 4,
        }
    }

    pub(super) fn of(self, sets: &[Set<'static>; 2]) -> &'static str {
        let [v4, v6] = sets;
        match self {
            Ip::V4 => v4.name,
            Ip::V6 => v6.name,
        }
    }

    /// Matches its packets (`NFPROTO_*`).
    pub(super) fn only(self) -> [Expression<'static>; 2] {
        let number: &'static [u8] = match self {
            Ip::V4 => &[2],
            Ip::V6 => &[10],
        };
        [Expression::Meta(Meta::Family, R), Expression::Equal(R, Cow::Borrowed(number))]
    }

    pub(super) fn source(self) -> Expression<'static> {
        self.address(12, 8)
    }

    pub(super) fn destination(self) -> Expression<'static> {
        self.address(16, 24)
    }

    fn address(self, v4: u32, v6: u32) -> Expression<'static> {
        match self {
            Ip::V4 => Expression::Network { offset: v4, length: 4, into: R },
            Ip::V6 => Expression::Network { offset: v6, length: 16, into: R },
        }
    }

    /// Matches if one of `sets` has the `address`.
    pub(super) fn alone(self, address: Expression<'static>, sets: &[Set<'static>; 2]) -> Steps {
        let mut steps = self.only().to_vec();
        steps.extend([address, Expression::In(self.of(sets), R)]);
        steps
    }

    /// Matches if one of `sets` has the interface and `address`.
    pub(super) fn behind(
        self,
        interface: Meta,
        address: Expression<'static>,
        sets: &[Set<'static>; 2],
    ) -> Steps {
        let mut steps = self.only().to_vec();
        steps.push(Expression::Meta(interface, R));
        steps.push(into(address, R.behind(NAME_WORDS)));
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
