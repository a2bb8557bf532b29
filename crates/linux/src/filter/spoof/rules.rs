//! The checks, in the order of `spoof.nft`.

use std::borrow::Cow;

use netlink::nft::{Base, Expression, Meta, Register, Set, Verdict};

use super::{
    APART, BOUND, CHAIN, CHECKED, ETHERS, HELD, HOLDERS, LINKED, MACHINES, NAMED, OUTWARDS,
    SEGMENTS, SENDERS, SHUT, SOUGHT, SOURCES, STRANGERS, SUBNETS,
};
use crate::filter::fence::LOG_GROUP;
use crate::filter::neighbours::{noted, of_all, often};
use crate::filter::rules::{DROP, NAME_WORDS, R, Steps};

const ASKING: &str = "asking";
const CONFIGURING: &str = "configuring";
const CHECK: &str = "check";
const DISCOVERY: &str = "discovery";
const ROUTER_WANTED: &str = "router_wanted";
const ASKED: &str = "asked";
const REPORTED: &str = "told";
const CLAIMED: &str = "claimed";
const GENUINE: &str = "genuine";
const OWN: &str = "own";
const LINK: &str = "link";
const BORROWED: &str = "borrowed";
const BORROWED6: &str = "borrowed6";
const FOREIGN: &str = "foreign";
const SPOOFED: &str = "spoofed";
const INWARDS: &str = "inwards";
/// Of IPv4 and of IPv6, as the following.
const SEEKING: [&str; 2] = ["sought4", "sought6"];
const ODD: [&str; 2] = ["odd4", "odd6"];

pub(super) const CHAINS: [(&str, Option<Base>); 20] = [
    (ASKING, None),
    (CONFIGURING, None),
    (CHECK, None),
    (DISCOVERY, None),
    (ROUTER_WANTED, None),
    (ASKED, None),
    (REPORTED, None),
    (CLAIMED, None),
    (GENUINE, None),
    (OWN, None),
    (LINK, None),
    (BORROWED, None),
    (BORROWED6, None),
    (FOREIGN, None),
    (SPOOFED, None),
    (INWARDS, None),
    (SEEKING[0], None),
    (SEEKING[1], None),
    (ODD[0], None),
    (ODD[1], None),
];

pub(super) fn rules() -> Vec<(&'static str, Steps)> {
    let of = |name, set: Set<'static>, chain| {
        vec![Expression::Meta(name, R), Expression::In(set.name, R), jump(chain)]
    };
    let mut rules = vec![
        (CHAIN, of(Meta::InputName, CHECKED, CHECK)),
        (CHAIN, of(Meta::InputName, MACHINES, ASKING)),
        (CHAIN, of(Meta::InputName, BOUND, GENUINE)),
        (CHAIN, apart()),
        (CHAIN, to_host()),
        (OUTWARDS, of(Meta::OutputName, MACHINES, CONFIGURING)),
    ];
    rules.extend(asking().map(|rule| (ASKING, rule)));
    rules.extend(configuring().map(|rule| (CONFIGURING, rule)));
    rules.extend(check().map(|rule| (CHECK, rule)));
    rules.extend(discovery().map(|rule| (DISCOVERY, rule)));
    rules.extend(router_wanted().map(|rule| (ROUTER_WANTED, rule)));
    rules.extend(asked().map(|rule| (ASKED, rule)));
    rules.extend(reported().map(|rule| (REPORTED, rule)));
    rules.push((CLAIMED, of_another(TARGET, 1)));
    rules.extend(genuine().map(|rule| (GENUINE, rule)));
    rules.extend(owned().map(|rule| (OWN, rule)));
    rules.extend(LINK_TYPES.map(|number| (LINK, steps([kind(number), vec![RETURN]]))));
    rules.push((LINK, vec![jump(SPOOFED)]));
    rules.extend(borrowed().map(|rule| (BORROWED, rule)));
    rules.push((BORROWED6, of_another(V6_SOURCE, 1)));
    rules.extend(foreign().map(|rule| (FOREIGN, rule)));
    rules.extend(spoofed().map(|rule| (SPOOFED, rule)));
    rules.extend(inwards().map(|rule| (INWARDS, rule)));
    rules.extend(sought(IPV4, V4_DESTINATION, 0).map(|rule| (SEEKING[0], rule)));
    rules.extend(sought(IPV6, V6_DESTINATION, 1).map(|rule| (SEEKING[1], rule)));
    rules.extend(odd(0).map(|rule| (ODD[0], rule)));
    rules.extend(odd(1).map(|rule| (ODD[1], rule)));
    rules
}

/// What a machine asks of servers and routers (RFC 2131, RFC 8415, RFC 4861): the daemon has seen it at the
/// device.
fn asking() -> [Steps; 5] {
    let [tagged, of_service] = tags();
    [tagged, of_service, datagram(&[0, 67]), datagram(&[0x02, 0x23]), message(&[133])]
}

/// Drops frames with tags of VLANs: the kernel has taken the first one off, and sends the frame on with it.
fn tags() -> [Steps; 2] {
    [VLAN, SERVICE_VLAN].map(|kind| {
        vec![Expression::EthernetType(R), Expression::Equal(R, Cow::Borrowed(kind)), DROP]
    })
}

/// What servers and routers send, the redirects among it; and tags, behind which it would not be seen.
fn configuring() -> [Steps; 6] {
    let [tagged, of_service] = tags();
    [
        tagged,
        of_service,
        datagram(&[0, 68]),
        datagram(&[0x02, 0x22]),
        message(&[134]),
        message(&[137]),
    ]
}

/// Drops datagrams to this port.
fn datagram(port: &'static [u8]) -> Steps {
    let is_it = Expression::Equal(R, Cow::Borrowed(port));
    steps([protocol(UDP), vec![Expression::DestinationPort(R), is_it, DROP]])
}

/// Drops ICMPv6 messages of this type.
fn message(number: &'static [u8]) -> Steps {
    steps([frame(IPV6), protocol(ICMPV6), kind(number), vec![DROP]])
}

/// What goes no further than the link: discovery, and what joins groups (RFC 4861, RFC 3810).
const LINK_TYPES: [&[u8]; 4] = [&[133], &[135], &[136], &[143]];

/// Of packets those from the port's own addresses, and those of the link from none and from the link's. Of
/// anything else ARP, of which a fence reports nothing. No other one's address is announced.
fn genuine() -> [Steps; 15] {
    let [tagged, of_service] = tags();
    let from_link = |source: At, address: &'static [u8]| {
        steps([
            frame(IPV6),
            protocol(ICMPV6),
            vec![source.load(R), Expression::Equal(R, Cow::Borrowed(address)), RETURN],
        ])
    };
    let unspecified: Steps =
        vec![ARP_ADDRESS.load(R), Expression::Equal(R, Cow::Borrowed(&[0; 4]))];
    [
        vec![Expression::Meta(Meta::InputName, R), Expression::In(SHUT.name, R), DROP],
        tagged,
        of_service,
        steps([frame(IPV4), own(V4_SOURCE, 0)]),
        steps([frame(ARP), own(ARP_ADDRESS, 0)]),
        // A question whether anybody has an address keeps others from having it.
        steps([frame(ARP), unspecified, own(ARP_TARGET, 0)]),
        steps([frame(ARP), vec![DROP]]),
        steps([frame(IPV6), protocol(ICMPV6), kind(&[136]), vec![jump(OWN)]]),
        steps([frame(IPV6), protocol(ICMPV6), kind(&[135]), from_unspecified(jump(OWN))]),
        steps([frame(IPV6), own(V6_SOURCE, 1)]),
        steps([frame(IPV6), linked()]),
        // It comes back with what goes no further than the link.
        steps([frame(IPV6), protocol(ICMPV6), vec![jump(LINK)]]),
        from_link(V6_SOURCE, &[0; 16]),
        from_link(V6_PREFIX, LINK_LOCAL),
        vec![jump(SPOOFED)],
    ]
}

/// What comes from an address of the link, by a port that may have it so.
fn linked() -> Steps {
    let of_link = Expression::Equal(R, Cow::Borrowed(LINK_LOCAL));
    vec![V6_PREFIX.load(R), of_link, PORT, Expression::In(LINKED.name, R), RETURN]
}

/// Matches what comes from a container that others do not reach, and no one has marked.
fn apart() -> Steps {
    let unmarked = Expression::Equal(R, Cow::Borrowed(&[0; 4]));
    vec![PORT, Expression::In(APART.name, R), SEGMENT, unmarked, jump(BORROWED)]
}

/// Drops what names a neighbour as its sender, by a hardware address, an address, or news of one.
fn borrowed() -> [Steps; 10] {
    let is_held =
        vec![SEGMENT, Expression::EthernetSource(R.behind(1)), Expression::In(ETHERS.name, R)];
    let by_another =
        vec![PORT, Expression::EthernetSource(BEHIND), Expression::NotIn(SENDERS.name, R), DROP];
    [
        steps([frame(VLAN), vec![DROP]]),
        steps([frame(SERVICE_VLAN), vec![DROP]]),
        mark_segment(),
        steps([is_held, by_another]),
        steps([frame(IPV4), of_another(V4_SOURCE, 0)]),
        steps([frame(ARP), of_another(ARP_ADDRESS, 0)]),
        steps([frame(IPV6), vec![jump(BORROWED6)]]),
        steps([frame(IPV6), protocol(ICMPV6), kind(&[136]), vec![jump(CLAIMED)]]),
        steps([frame(IPV6), protocol(ICMPV6), kind(&[135]), from_unspecified(jump(CLAIMED))]),
        unmark(),
    ]
}

/// What comes from another hardware address: of those who may be behind a fence it is reported.
fn foreign() -> [Steps; 2] {
    [vec![PORT, Expression::In(BOUND.name, R), jump(SPOOFED)], vec![DROP]]
}

/// Packets are reported to whom hears what fences refuse, but for what systems say on their link by themselves. No
/// other frame has addresses that could be shown.
fn spoofed() -> [Steps; 4] {
    let of_link = Expression::Equal(R, Cow::Borrowed(LINK_LOCAL));
    let report = || {
        let limit = Expression::Limit { per_second: 20, burst: 40 };
        vec![limit, Expression::Log { group: LOG_GROUP, prefix: "spoofed", length: 128 }]
    };
    [
        steps([frame(IPV6), vec![V6_PREFIX.load(R), of_link, DROP]]),
        steps([frame(IPV4), report()]),
        steps([frame(IPV6), report()]),
        vec![DROP],
    ]
}

/// What names one of the port's own addresses, of `family` 0 (IPv4) or 1.
fn own(at: At, family: usize) -> Steps {
    of_port(at, SOURCES[family].name)
}

fn of_port(at: At, set: &'static str) -> Steps {
    vec![PORT, at.load(BEHIND), Expression::In(set, R), RETURN]
}

/// The target of a neighbour's message is the port's own, or one of the link, which the check before has
/// looked at.
fn owned() -> [Steps; 3] {
    let of_link = Expression::Equal(R, Cow::Borrowed(LINK_LOCAL));
    let prefix = vec![TARGET_PREFIX.load(R), of_link, RETURN];
    [of_port(TARGET, HOLDERS[1].name), prefix, vec![jump(SPOOFED)]]
}

fn check() -> [Steps; 12] {
    let redirect = || [frame(IPV4), protocol(ICMP), kind(REDIRECT)].concat();
    [
        vec![
            PORT,
            Expression::EthernetSource(BEHIND),
            Expression::NotIn(SENDERS.name, R),
            jump(FOREIGN),
        ],
        steps([frame(VLAN), vec![DROP]]),
        steps([frame(SERVICE_VLAN), vec![DROP]]),
        steps([frame(ARP), other_sender(ARP_SENDER, SENDERS.name)]),
        steps([frame(ARP), mark_segment()]),
        steps([frame(ARP), of_another(ARP_ADDRESS, 0)]),
        steps([frame(ARP), unmark()]),
        steps([frame(ARP), asks(), of_unknown(ARP_ADDRESS, 0)]),
        steps([redirect(), mark_segment()]),
        steps([redirect(), of_another(V4_SOURCE, 0)]),
        steps([redirect(), unmark()]),
        steps([frame(IPV6), protocol(ICMPV6), vec![jump(DISCOVERY)]]),
    ]
}

/// Matches an ARP request that is no probe (RFC 5227): of an answer this host remembers no new neighbour.
fn asks() -> Steps {
    let request = [ARP_OPERATION.load(R), Expression::Equal(R, Cow::Borrowed(&[0, 1]))];
    let named = [ARP_ADDRESS.load(R), Expression::Unequal(R, Cow::Borrowed(&[0; 4]))];
    [request, named].concat()
}

/// RFC 4861, 4.1 to 4.5.
fn discovery() -> [Steps; 8] {
    [
        steps([kind(&[134]), vec![DROP]]),
        steps([kind(&[137]), vec![DROP]]),
        steps([kind(&[133]), vec![jump(ROUTER_WANTED)]]),
        steps([kind(&[133]), unmark()]),
        steps([kind(&[135]), vec![jump(ASKED)]]),
        steps([kind(&[135]), unmark()]),
        steps([kind(&[136]), vec![jump(REPORTED)]]),
        steps([kind(&[136]), unmark()]),
    ]
}

fn router_wanted() -> [Steps; 6] {
    let [foreign, wrong] = option(8, SOURCE_OPTION);
    let odd = of_unknown(V6_SOURCE, 1);
    [from_unspecified(RETURN), mark_segment(), of_another(V6_SOURCE, 1), foreign, wrong, odd]
}

fn asked() -> [Steps; 7] {
    let [foreign, wrong] = option(24, SOURCE_OPTION);
    let claim = from_unspecified(jump(CLAIMED));
    let (is_unspecified, odd) = (from_unspecified(RETURN), of_unknown(V6_SOURCE, 1));
    [mark_segment(), claim, is_unspecified, of_another(V6_SOURCE, 1), foreign, wrong, odd]
}

fn reported() -> [Steps; 4] {
    let [foreign, wrong] = option(24, TARGET_OPTION);
    [mark_segment(), vec![jump(CLAIMED)], foreign, wrong]
}

/// Where the packets have something.
#[derive(Clone, Copy)]
enum At {
    Network { offset: u32, length: u32 },
    Transport { offset: u32, length: u32 },
}

impl At {
    const fn load(self, into: Register) -> Expression<'static> {
        match self {
            At::Network { offset, length } => Expression::Network { offset, length, into },
            At::Transport { offset, length } => Expression::Transport { offset, length, into },
        }
    }
}

/// The sender of an ARP packet (RFC 826): its hardware address, and its IPv4 address.
const ARP_OPERATION: At = At::Network { offset: 6, length: 2 };
const ARP_SENDER: At = At::Network { offset: 8, length: 6 };
const ARP_ADDRESS: At = At::Network { offset: 14, length: 4 };
/// The address that it asks for.
const ARP_TARGET: At = At::Network { offset: 24, length: 4 };
const V4_DESTINATION: At = At::Network { offset: 16, length: 4 };
const V6_DESTINATION: At = At::Network { offset: 24, length: 16 };
const V4_SOURCE: At = At::Network { offset: 12, length: 4 };
const V6_SOURCE: At = At::Network { offset: 8, length: 16 };
/// Its subnet, and that of addresses of the link (RFC 4291, 2.5.6).
const V6_PREFIX: At = At::Network { offset: 8, length: 8 };
const LINK_LOCAL: &[u8] = &[0xfe, 0x80, 0, 0, 0, 0, 0, 0];
/// The target of a neighbour's solicitation or advertisement.
const TARGET: At = At::Transport { offset: 8, length: 16 };
const TARGET_PREFIX: At = At::Transport { offset: 8, length: 8 };

/// `PACKET_HOST` (`linux/if_packet.h`).
const TO_HOST: &[u8] = &[0];
/// `ETH_P_*`.
const ARP: &[u8] = &[0x08, 0x06];
const IPV4: &[u8] = &[0x08, 0x00];
const IPV6: &[u8] = &[0x86, 0xdd];
const VLAN: &[u8] = &[0x81, 0x00];
const SERVICE_VLAN: &[u8] = &[0x88, 0xa8];
/// Of RFC 792.
const ICMP: &[u8] = &[1];
const REDIRECT: &[u8] = &[5];
const ICMPV6: &[u8] = &[58];
const UDP: &[u8] = &[17];
/// The link layer's address of the source and of the target: a type, and a length of eight bytes.
const SOURCE_OPTION: &[u8] = &[1, 1];
const TARGET_OPTION: &[u8] = &[2, 1];

const SEGMENT: Expression<'static> = Expression::Meta(Meta::Mark, R);
const PORT: Expression<'static> = Expression::Meta(Meta::InputName, R);
/// Behind an interface's name.
const BEHIND: Register = R.behind(NAME_WORDS);
const RETURN: Expression<'static> = Expression::Verdict(Verdict::Return);

const fn jump(chain: &'static str) -> Expression<'static> {
    Expression::Verdict(Verdict::Jump(chain))
}

fn steps<const N: usize>(parts: [Steps; N]) -> Steps {
    parts.into_iter().flatten().collect()
}

fn frame(kind: &'static [u8]) -> Steps {
    vec![Expression::Meta(Meta::EtherType, R), Expression::Equal(R, Cow::Borrowed(kind))]
}

fn protocol(number: &'static [u8]) -> Steps {
    vec![Expression::Meta(Meta::Protocol, R), Expression::Equal(R, Cow::Borrowed(number))]
}

/// Of an ICMP message.
fn kind(number: &'static [u8]) -> Steps {
    let first = At::Transport { offset: 0, length: 1 };
    vec![first.load(R), Expression::Equal(R, Cow::Borrowed(number))]
}

fn from_unspecified(then: Expression<'static>) -> Steps {
    vec![V6_SOURCE.load(R), Expression::Equal(R, Cow::Borrowed(&[0; 16])), then]
}

/// Drops what names a hardware address that is not the port's.
fn other_sender(at: At, set: &'static str) -> Steps {
    vec![PORT, at.load(BEHIND), Expression::NotIn(set, R), DROP]
}

/// Gives the frame its port's segment as its mark, by which [`of_another`] knows it.
fn mark_segment() -> Steps {
    vec![PORT, Expression::Map { name: SEGMENTS.name, key: R, into: R }, Expression::SetMark(R)]
}

/// What goes on has no mark.
fn unmark() -> Steps {
    vec![Expression::Load(R, Cow::Borrowed(&[0; 4])), Expression::SetMark(R)]
}

/// Drops what names an address that others of its segment have; of `family` 0 (IPv4) or 1.
fn of_another(at: At, family: usize) -> Steps {
    let (held, holders) = (HELD[family].name, HOLDERS[family].name);
    let by_another = Expression::NotIn(holders, R);
    let segment = Expression::Meta(Meta::Mark, R);
    let is_held = [segment, at.load(R.behind(1)), Expression::In(held, R)];
    [is_held.to_vec(), vec![PORT, at.load(BEHIND), by_another, DROP]].concat()
}

/// Bounds what comes from an address that is not the port's: this host notes who asks.
fn of_unknown(at: At, family: usize) -> Steps {
    vec![PORT, at.load(BEHIND), Expression::NotIn(HOLDERS[family].name, R), jump(ODD[family])]
}

/// Matches frames to this host that no one has marked.
fn to_host() -> Steps {
    vec![
        PORT,
        Expression::In(CHECKED.name, R),
        Expression::Meta(Meta::PacketType, R),
        Expression::Equal(R, Cow::Borrowed(TO_HOST)),
        Expression::Meta(Meta::Mark, R),
        Expression::Equal(R, Cow::Borrowed(&[0; 4])),
        jump(INWARDS),
    ]
}

/// What this host would send back to the segment.
fn inwards() -> [Steps; 5] {
    [
        steps([frame(IPV4), mark_segment()]),
        steps([frame(IPV4), to_segment(V4_DESTINATION, 0)]),
        steps([frame(IPV6), mark_segment()]),
        steps([frame(IPV6), to_segment(V6_DESTINATION, 1)]),
        unmark(),
    ]
}

fn to_segment(at: At, family: usize) -> Steps {
    let is_there = Expression::In(SUBNETS[family].name, R);
    let ordered = Expression::NetworkOrder(R, 4);
    vec![SEGMENT, ordered, at.load(R.behind(1)), is_there, jump(SEEKING[family])]
}

/// What no container has, and was not sought a moment ago, is bounded as what is odd.
fn sought(kind: &'static [u8], at: At, family: usize) -> [Steps; 4] {
    let set = SOUGHT[family].name;
    let key = || vec![PORT, at.load(BEHIND)];
    let is_held = vec![SEGMENT, at.load(R.behind(1)), Expression::In(HELD[family].name, R), RETURN];
    // nft(8) compares numbers there, of which it has none for an address of IPv6.
    let held = if family == 0 { steps([frame(kind), is_held]) } else { is_held };
    [
        held,
        steps([frame(kind), key(), vec![Expression::In(set, R), RETURN]]),
        vec![jump(ODD[family])],
        steps([frame(kind), key(), vec![noted(set)]]),
    ]
}

fn odd(family: usize) -> [Steps; 3] {
    [vec![PORT, often(STRANGERS[family].name), DROP], vec![of_all(), RETURN], vec![DROP]]
}

/// Drops messages whose options begin `offset` bytes behind, and not with this one; and those where it
/// names a hardware address that is not the port's.
fn option(offset: u32, kind: &'static [u8]) -> [Steps; 2] {
    let head = At::Transport { offset, length: 2 };
    let address = At::Transport { offset: offset + 2, length: 6 };
    let foreign = vec![head.load(R), Expression::Unequal(R, Cow::Borrowed(kind)), DROP];
    [foreign, other_sender(address, NAMED.name)]
}
