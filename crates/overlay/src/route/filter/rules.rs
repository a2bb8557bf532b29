//! The rules of the table, statement for statement what `routes.nft` says.

use std::borrow::Cow;

use netlink::nft::{
    Base, ChainKind, Conntrack, Expression, Family, Hook, Meta, Policy, Register, Set, Verdict,
};

use crate::packet_filter::{DESTINATION, SOURCE, address, base};

use super::{BRIDGES, HOSTS, SOURCES, SUBNETS, SWITCHED, UNDERLAY};

/// A rule.
pub(super) type Steps = Vec<Expression<'static>>;
/// A chain: its name, where it is, its rules.
type Chain = (&'static str, Option<Base>, Vec<Steps>);

const R: Register = Register::FIRST;
/// The name of an interface takes so many words of registers.
const NAME_WORDS: u8 = 4;
const ACCEPT: Expression<'static> = Expression::Verdict(Verdict::Accept);
const DROP: Expression<'static> = Expression::Verdict(Verdict::Drop);
/// Before every other translation of sources (`srcnat` is 100).
const BEFORE_SOURCE: i32 = 99;
/// `NF_CT_STATE_BIT`: established and related.
const KNOWN: u32 = 2 | 4;
/// `IPS_DST_NAT`.
const TRANSLATED: u32 = 1 << 5;
/// The groups of the interfaces that Spoke makes, and of the gateways of VLANs, by which packet filters know them: the
/// same as in the crate `linux`.
const GROUPS: [u32; 2] = [0x7370_6f6b, 0x7370_6f67];

const V4: usize = 0;
const V6: usize = 1;
/// `NFPROTO_*`.
const NUMBER: [u8; 2] = [2, 10];
const FAMILY: [Family; 2] = [Family::Ipv4, Family::Ipv6];

pub(super) fn chains() -> Vec<Chain> {
    let filter = |hook| Some(base(hook));
    let nat = Base {
        kind: ChainKind::Nat,
        hook: Hook::Postrouting,
        priority: BEFORE_SOURCE,
        policy: Policy::Accept,
    };
    vec![
        ("from_host", None, from_host()),
        ("segment", None, segment()),
        ("arriving", None, arriving()),
        ("forward", filter(Hook::Forward), forward()),
        ("input", filter(Hook::Input), input()),
        ("postrouting", Some(nat), [V4, V6].map(untranslated).to_vec()),
    ]
}

fn forward() -> Vec<Steps> {
    let mut rules =
        vec![ending(switched(), ACCEPT), ending(by(Meta::OutputName, BRIDGES), goto("arriving"))];
    rules.extend([V4, V6].map(|ip| ending(behind(ip, Meta::InputName, DESTINATION), ACCEPT)));
    rules.extend([V4, V6].map(|ip| ending(within(ip, DESTINATION), DROP)));
    rules
}

fn arriving() -> Vec<Steps> {
    let mut rules = vec![ending(by(Meta::InputName, UNDERLAY), goto("segment"))];
    rules.extend([V4, V6].map(|ip| ending(behind(ip, Meta::OutputName, SOURCE), DROP)));
    rules.extend(answers());
    rules.extend(GROUPS.map(|group| {
        let number = Cow::Owned(group.to_ne_bytes().to_vec());
        vec![Expression::Meta(Meta::InputGroup, R), Expression::Equal(R, number), ACCEPT]
    }));
    rules.push(vec![DROP]);
    rules
}

fn segment() -> Vec<Steps> {
    let mut rules: Vec<Steps> =
        [V4, V6].map(|ip| ending(behind(ip, Meta::OutputName, SOURCE), goto("from_host"))).to_vec();
    rules.extend([V4, V6].map(|ip| ending(within(ip, SOURCE), DROP)));
    rules.extend(answers());
    rules.push(vec![DROP]);
    rules
}

/// Answers, and what was sent to a published port.
fn answers() -> [Steps; 2] {
    [ending(of(Conntrack::State, KNOWN), ACCEPT), ending(of(Conntrack::Status, TRANSLATED), ACCEPT)]
}

/// What a bridge passes from one of its ports to another.
fn switched() -> Steps {
    vec![
        Expression::Meta(Meta::InputName, R),
        Expression::Meta(Meta::OutputName, R.behind(NAME_WORDS)),
        Expression::In(SWITCHED.name, R),
    ]
}

fn from_host() -> Vec<Steps> {
    let known = vec![
        Expression::Meta(Meta::InputName, R),
        Expression::EthernetSource(R.behind(NAME_WORDS)),
        Expression::In(HOSTS.name, R),
    ];
    vec![ending(known, ACCEPT), vec![DROP]]
}

fn input() -> Vec<Steps> {
    let of = |ip| {
        let mut steps = by(Meta::InputName, UNDERLAY);
        steps.extend(within(ip, SOURCE));
        ending(steps, goto("from_host"))
    };
    [V4, V6].map(of).to_vec()
}

/// The source stays what it is, whatever other tables would make of it.
fn untranslated(ip: usize) -> Steps {
    let mut steps = behind(ip, Meta::InputName, DESTINATION);
    steps.push(address(ip, SOURCE, R));
    ending(steps, Expression::SourceNat { family: FAMILY[ip], address: R })
}

fn goto(chain: &'static str) -> Expression<'static> {
    Expression::Verdict(Verdict::Goto(chain))
}

fn ending(mut steps: Steps, last: Expression<'static>) -> Steps {
    steps.push(last);
    steps
}

fn by(name: Meta, set: Set<'static>) -> Steps {
    vec![Expression::Meta(name, R), Expression::In(set.name, R)]
}

fn only(ip: usize) -> [Expression<'static>; 2] {
    let number = NUMBER[ip];
    [Expression::Meta(Meta::Family, R), Expression::Equal(R, Cow::Owned(vec![number]))]
}

/// Matches an interface together with an address that is behind it on other hosts.
fn behind(ip: usize, name: Meta, offset: [u32; 2]) -> Steps {
    let mut steps = only(ip).to_vec();
    steps.extend([
        Expression::Meta(name, R),
        address(ip, offset, R.behind(NAME_WORDS)),
        Expression::In(SOURCES[ip].name, R),
    ]);
    steps
}

/// Matches an address of a routed network.
fn within(ip: usize, offset: [u32; 2]) -> Steps {
    let mut steps = only(ip).to_vec();
    steps.extend([address(ip, offset, R), Expression::In(SUBNETS[ip].name, R)]);
    steps
}

fn of(what: Conntrack, bits: u32) -> Steps {
    vec![
        Expression::Conntrack(what, R),
        Expression::Mask(R, Cow::Owned(bits.to_ne_bytes().to_vec())),
        Expression::Unequal(R, Cow::Borrowed(&[0; 4])),
    ]
}
