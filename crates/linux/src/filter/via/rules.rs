//! The sets and rules of the table, statement for statement what `via.nft` says.

use std::borrow::Cow;

use model::WAY_MARK;
use netlink::nft::{
    Base, ChainKind, Conntrack, Expression, Family, Field, Hook, Lookup, Meta, Policy, Set, Table,
    Verdict,
};

use crate::filter::fence::{from_none, mark_of_forged, of_link_or_unspecified, of_unknown_option};
use crate::filter::rules::{
    ACCEPT, BEFORE_FRAGMENTS, DROP, Ip, NAME_WORDS, NEW, R, RETURN, Steps, between, ending, into,
    reserved,
};
use crate::filter::ruleset::{ADDRESSES, Ruleset, map, set};
use crate::identity::GROUP;

/// The table.
pub(crate) const TABLE: Table<'static> = Table { family: Family::Inet, name: "spoke_via" };
/// The version, as in `inet spoke`.
pub(super) const STAMP: &str = "via_5";

const PAIR: &[Field] = &[Field::Interface, Field::Interface];
const VIA: [&[Field]; 2] = [
    &[Field::Interface, Field::Interface, Field::Ipv4],
    &[Field::Interface, Field::Interface, Field::Ipv6],
];
const MARKED_VIA: [&[Field]; 2] =
    [&[Field::Mark, Field::Interface, Field::Ipv4], &[Field::Mark, Field::Interface, Field::Ipv6]];

pub(super) const LED: Set<'static> = set("led", &[Field::Interface]);
pub(super) const LINKS: Set<'static> = set("links", PAIR);
pub(super) const SEGMENTS: Set<'static> = set("segments", PAIR);
/// Of IPv4 and of IPv6, as the following.
pub(super) const GATEWAYS: [Set<'static>; 2] = [set("gateways4", VIA[0]), set("gateways6", VIA[1])];
pub(super) const NEAR: [Set<'static>; 2] = [
    Set { lookup: Lookup::Ranges, ..set("near4", VIA[0]) },
    Set { lookup: Lookup::Ranges, ..set("near6", VIA[1]) },
];
pub(super) const ASKED: Set<'static> = set("asked", &[Field::Mark, Field::Interface]);
pub(super) const ASKED_VIA: [Set<'static>; 2] =
    [set("asked_via4", MARKED_VIA[0]), set("asked_via6", MARKED_VIA[1])];
pub(super) const SOURCES: [Set<'static>; 2] =
    [map("sources4", PAIR, ADDRESSES[0]), map("sources6", PAIR, ADDRESSES[1])];

pub(super) const INSIDE: [Set<'static>; 2] = [
    Set { lookup: Lookup::Ranges, ..set("inside4", &[Field::Interface, Field::Ipv4]) },
    Set { lookup: Lookup::Ranges, ..set("inside6", &[Field::Interface, Field::Ipv6]) },
];
pub(super) const RELAYS: Set<'static> = set("relays", &[Field::Interface]);

/// Those with ranges.
pub(super) fn range_sets() -> impl Iterator<Item = Set<'static>> {
    NEAR.into_iter().chain(INSIDE)
}

/// Those without ranges, in the order of `via.nft`.
pub(super) fn element_sets() -> Vec<Set<'static>> {
    let [gateways4, gateways6] = GATEWAYS;
    let [via4, via6] = ASKED_VIA;
    let [sources4, sources6] = SOURCES;
    vec![LED, LINKS, SEGMENTS, gateways4, gateways6, ASKED, via4, via6, sources4, sources6, RELAYS]
}

/// The table.
pub(super) fn ruleset() -> Ruleset {
    let base = |kind, hook, priority| Base { kind, hook, priority, policy: Policy::Accept };
    let filter = |hook, priority| Some(base(ChainKind::Filter, hook, priority));
    Ruleset {
        table: TABLE,
        stamp: STAMP,
        sets: element_sets().into_iter().chain(range_sets()).collect(),
        chains: vec![
            (STAMP, None),
            ("senders", filter(Hook::Prerouting, BEFORE_FRAGMENTS)),
            ("switched", None),
            ("passing", None),
            ("sender", None),
            ("reports", filter(Hook::Output, -15)),
            ("answers", filter(Hook::Prerouting, -150)),
            ("calling", filter(Hook::Forward, -21)),
            ("called", None),
            ("forward", filter(Hook::Forward, -15)),
            ("arriving", None),
            ("back", None),
            ("leaving", None),
            ("output", filter(Hook::Output, -15)),
            ("asking", None),
            ("unmark", filter(Hook::Postrouting, 300)),
            ("translate", Some(base(ChainKind::Nat, Hook::Postrouting, 99))),
        ],
        rules: rules(),
    }
}

fn rules() -> Vec<(&'static str, Steps)> {
    let led = |name: Meta, chain| {
        vec![Expression::Meta(name, R), Expression::In(LED.name, R), jump(chain)]
    };
    let chains = [
        (
            "senders",
            vec![
                reserved(),
                ending(is_switched(), jump("switched")),
                led(Meta::InputName, "sender"),
            ],
        ),
        ("switched", vec![unmark(Vec::new()), led(Meta::InputName, "passing"), vec![ACCEPT]]),
        ("passing", passing()),
        ("sender", sender()),
        ("reports", vec![report()]),
        ("answers", vec![answers()]),
        ("forward", vec![led(Meta::OutputName, "arriving"), led(Meta::InputName, "leaving")]),
        ("calling", vec![calling(&LINKS), calling(&SEGMENTS)]),
        (
            "called",
            vec![vec![
                Expression::Load(R, Cow::Borrowed(&[0; 4])),
                Expression::SetConnectionMark(R),
            ]],
        ),
        ("arriving", arriving()),
        ("back", vec![vec![mark(), Expression::SetConnectionMark(R)]]),
        ("leaving", leaving()),
        ("output", vec![ending(is_marked(), jump("asking"))]),
        ("asking", asking()),
        ("unmark", vec![unmark(is_marked())]),
        ("translate", vec![translated(Ip::V4), translated(Ip::V6)]),
    ];
    let named = |(chain, rules): (&'static str, Vec<Steps>)| {
        rules.into_iter().map(move |rule| (chain, rule))
    };
    chains.into_iter().flat_map(named).collect()
}

/// Who asks for an address has none, and an address of the link leads nowhere else.
fn sender() -> Vec<Steps> {
    let inside = |ip: Ip| ending(ip.behind(Meta::InputName, ip.source(), &INSIDE), ACCEPT);
    let mut rules = of_link_or_unspecified(ACCEPT).to_vec();
    rules.extend([
        from_none(Ip::V4, ACCEPT),
        inside(Ip::V4),
        inside(Ip::V6),
        vec![Expression::ReturnPath(R), Expression::Unequal(R, Cow::Borrowed(&[0; 4])), ACCEPT],
        vec![Expression::Meta(Meta::InputName, R), Expression::In(RELAYS.name, R), ACCEPT],
        vec![DROP],
    ]);
    rules
}

fn report() -> Steps {
    let to_others = vec![Expression::Meta(Meta::OutputName, R), Expression::NotIn(LED.name, R)];
    [to_others, of_unknown_option(), vec![DROP]].concat()
}

/// Answers to what came in by the host's own ways.
fn answers() -> Steps {
    let mut steps = vec![Expression::Meta(Meta::InputName, R), Expression::In(LED.name, R)];
    steps.extend(is_answer());
    steps.extend([mark(), Expression::SetMark(R)]);
    steps
}

fn is_answer() -> Steps {
    vec![
        Expression::Conntrack(Conntrack::Direction, R),
        Expression::Equal(R, Cow::Borrowed(&[REPLY])),
        Expression::Conntrack(Conntrack::Mark, R),
        Expression::Equal(R, mark_bytes()),
    ]
}

fn arriving() -> Vec<Steps> {
    let not_new = vec![
        Expression::Conntrack(Conntrack::State, R),
        Expression::Unequal(R, NEW.to_ne_bytes().to_vec().into()),
        RETURN,
    ];
    let marked = vec![
        Expression::Conntrack(Conntrack::Mark, R),
        Expression::Unequal(R, Cow::Borrowed(&[0; 4])),
        Expression::Conntrack(Conntrack::Mark, R),
        Expression::Unequal(R, mark_of_forged().into()),
        RETURN,
    ];
    let near = |ip: Ip| {
        let mut steps = ip.only().to_vec();
        let address = R.behind(2 * NAME_WORDS);
        steps.extend(reversed());
        steps.extend([into(ip.source(), address), Expression::In(ip.of(&NEAR), R), jump("back")]);
        steps
    };
    let by = |pairs: Set<'static>| ending(reversed(), Expression::In(pairs.name, R));
    vec![
        not_new,
        marked,
        near(Ip::V4),
        near(Ip::V6),
        ending(by(LINKS), RETURN),
        ending(by(SEGMENTS), RETURN),
        ending(of_group(Meta::InputGroup), RETURN),
        vec![jump("back")],
    ]
}

/// What comes by the way, and looks as if it had begun in another's name.
fn calling(pairs: &Set<'static>) -> Steps {
    let forged = Expression::Equal(R, mark_of_forged().into());
    let mut steps = vec![Expression::Conntrack(Conntrack::Mark, R), forged];
    steps.extend(reversed());
    steps.extend([Expression::In(pairs.name, R), jump("called")]);
    steps
}

/// The network's bridge, and the device that a packet to it came in by.
fn reversed() -> Steps {
    vec![
        Expression::Meta(Meta::OutputName, R),
        Expression::Meta(Meta::InputName, R.behind(NAME_WORDS)),
    ]
}

fn leaving() -> Vec<Steps> {
    let segment = vec![
        Expression::Meta(Meta::Protocol, R),
        Expression::Equal(R, Cow::Borrowed(&[TCP])),
        Expression::Transport { offset: 13, length: 1, into: R },
        Expression::Mask(R, Cow::Borrowed(&[SYN])),
        Expression::Unequal(R, Cow::Borrowed(&[0])),
        Expression::RouteSegment(R),
        Expression::NetworkOrder(R, 2),
        Expression::LimitSegment(R),
    ];
    let to_ours = |kind: &'static [u8; 16]| {
        let mut steps = of_group(Meta::OutputGroup);
        steps.extend([
            Expression::Meta(Meta::OutputKind, R),
            Expression::Equal(R, Cow::Borrowed(kind)),
            ACCEPT,
        ]);
        steps
    };
    let by_gateway = |ip: Ip| {
        vec![
            Expression::Meta(Meta::InputName, R),
            Expression::Meta(Meta::OutputName, R.behind(NAME_WORDS)),
            Expression::NextHop(ip.family(), R.behind(2 * NAME_WORDS)),
            Expression::In(ip.of(&GATEWAYS), R),
            ACCEPT,
        ]
    };
    vec![
        segment,
        ending(is_answer(), ACCEPT),
        to_ours(b"bridge\0\0\0\0\0\0\0\0\0\0"),
        to_ours(b"veth\0\0\0\0\0\0\0\0\0\0\0\0"),
        ending(between(&LINKS), ACCEPT),
        by_gateway(Ip::V4),
        by_gateway(Ip::V6),
        vec![DROP],
    ]
}

/// What this host sends for a network, or answers by its own ways.
fn is_marked() -> Steps {
    vec![
        Expression::Meta(Meta::Mark, R),
        Expression::Mask(R, Cow::Owned(0x00ff_0000_u32.to_ne_bytes().to_vec())),
        Expression::Equal(R, mark_bytes()),
    ]
}

/// Of a packet that a tunnel carries: that around it is the host's own.
pub(super) fn unmark(which: Steps) -> Steps {
    let none = Expression::Load(R, Cow::Borrowed(&[0; 4]));
    [which, vec![none, Expression::SetMark(R)]].concat()
}

/// What a bridge switches, as the table of bridges has marked it.
pub(super) fn is_switched() -> Steps {
    vec![Expression::Meta(Meta::Mark, R), Expression::Equal(R, mark_bytes())]
}

/// What comes from, or goes to, no network of Spoke's and nothing that is routed by the bridge is not tracked.
fn passing() -> Vec<Steps> {
    let inside = |ip: Ip| {
        let mut steps = ip.behind(Meta::InputName, ip.source(), &INSIDE);
        steps.push(Expression::Meta(Meta::InputName, R));
        steps.push(into(ip.destination(), R.behind(NAME_WORDS)));
        ending(ending(steps, Expression::In(ip.of(&INSIDE), R)), ACCEPT)
    };
    let elsewhere = |path: Expression<'static>| {
        vec![path, Expression::Equal(R, Cow::Borrowed(&[0; 4])), Expression::NotTracked]
    };
    vec![
        inside(Ip::V4),
        inside(Ip::V6),
        elsewhere(Expression::ReturnPath(R)),
        elsewhere(Expression::ForwardPath(R)),
    ]
}

fn asking() -> Vec<Steps> {
    let by =
        || vec![Expression::Meta(Meta::Mark, R), Expression::Meta(Meta::OutputName, R.behind(1))];
    let by_gateway = |ip: Ip| {
        let mut steps = by();
        steps.extend([
            Expression::NextHop(ip.family(), R.behind(1 + NAME_WORDS)),
            Expression::In(ip.of(&ASKED_VIA), R),
            ACCEPT,
        ]);
        steps
    };
    vec![
        ending(ending(by(), Expression::In(ASKED.name, R)), ACCEPT),
        by_gateway(Ip::V4),
        by_gateway(Ip::V6),
        vec![DROP],
    ]
}

/// The link to a container that forwards has no address of its own.
fn translated(ip: Ip) -> Steps {
    vec![
        Expression::Meta(Meta::InputName, R),
        Expression::Meta(Meta::OutputName, R.behind(NAME_WORDS)),
        Expression::Map { name: ip.of(&SOURCES), key: R, into: R },
        Expression::SourceNat { family: ip.family(), address: R },
    ]
}

fn of_group(group: Meta) -> Steps {
    vec![Expression::Meta(group, R), Expression::Equal(R, Cow::Owned(GROUP.to_ne_bytes().to_vec()))]
}

pub(super) fn mark() -> Expression<'static> {
    Expression::Load(R, mark_bytes())
}

fn mark_bytes() -> Cow<'static, [u8]> {
    Cow::Owned(WAY_MARK.to_ne_bytes().to_vec())
}

fn jump(chain: &'static str) -> Expression<'static> {
    Expression::Verdict(Verdict::Jump(chain))
}

const TCP: u8 = 6;
const SYN: u8 = 2;
/// `IP_CT_DIR_REPLY`.
const REPLY: u8 = 1;
