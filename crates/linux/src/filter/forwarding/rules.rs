//! The parts of the rules, in the form that iptables gives them.

use std::borrow::Cow;

use model::IfName;
use netlink::nft::{self, Expression, Meta, Register, Shape, Verdict};

use super::members::Members;
use super::{Open, SENT};

/// The comment of our rules, by which they are known.
const COMMENT: &str = "spoke";

/// A rule as it is written.
pub(super) type Rule = Vec<Expression<'static>>;

/// Whether a rule is Spoke's and about this one interface.
pub(super) fn is_about(rule: &nft::Rule, interface: &IfName) -> bool {
    interface_of(rule) == Some(terminated(interface).as_slice()) && is_ours(rule)
}

pub(super) fn is_ours(rule: &nft::Rule) -> bool {
    rule.shape.contains(&Shape::of(&comment()))
}

/// Whether a rule is there as it is written.
pub(super) fn is(there: &nft::Rule, rule: &[Expression<'_>]) -> bool {
    rule.iter().map(Shape::of).eq(there.shape.iter().cloned())
}

/// The interface that a rule begins with.
pub(super) fn interface_of(rule: &nft::Rule) -> Option<&[u8]> {
    match rule.shape.as_slice() {
        [Shape::InputName | Shape::OutputName, Shape::Equal(name), ..] => Some(name),
        _ => None,
    }
}

/// The rules for one interface that no rule for many is about, by packets of one family.
pub(super) fn alone(interface: &IfName, is_direct: bool, open: Open<'_>) -> Vec<Rule> {
    let [to, from] = plain(interface);
    let to = if is_direct { openly(interface) } else { to };
    [to, from].into_iter().chain(trusting(interface, open)).collect()
}

/// What the rules for many interfaces do not let pass to this one.
pub(super) fn besides(interface: &IfName, is_direct: bool, open: Open<'_>) -> Vec<Rule> {
    let openly = is_direct.then(|| openly(interface));
    openly.into_iter().chain(trusting(interface, open)).collect()
}

/// `-o INTERFACE -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -m comment --comment spoke -j ACCEPT`
/// and `-i INTERFACE -m comment --comment spoke -j SPOKE-SENT`.
pub(super) fn plain(interface: &IfName) -> [Rule; 2] {
    let name = terminated(interface);
    let mut to = named(Meta::OutputName, &name);
    to.push(known_or_published());
    [rule(to, Verdict::Accept), rule(named(Meta::InputName, &name), Verdict::Jump(SENT))]
}

/// The same for all of them: `-o PREFIX+ -m devgroup --dst-group GROUP` instead of the interface.
pub(super) fn common(members: Members) -> [Rule; 2] {
    let of = |name, way| {
        let prefix = members.prefix().map(|prefix| named(name, prefix.as_bytes()));
        let mut conditions = prefix.unwrap_or_default();
        conditions.push(of_group(way, members.group()));
        conditions
    };
    let mut to = of(Meta::OutputName, Way::To);
    to.push(known_or_published());
    [rule(to, Verdict::Accept), rule(of(Meta::InputName, Way::From), Verdict::Jump(SENT))]
}

/// To what is direct without a state.
fn openly(interface: &IfName) -> Rule {
    rule(named(Meta::OutputName, &terminated(interface)), Verdict::Accept)
}

/// The same from each trusted interface.
fn trusting(interface: &IfName, open: Open<'_>) -> impl Iterator<Item = Rule> {
    let to = named(Meta::OutputName, &terminated(interface));
    open.trusted.iter().map(move |name| {
        let from = named(Meta::InputName, &terminated(name));
        rule([to.clone(), from].concat(), Verdict::Accept)
    })
}

pub(super) fn rule(conditions: Rule, verdict: Verdict<'static>) -> Rule {
    let end = [comment(), Expression::Counter, Expression::Verdict(verdict)];
    conditions.into_iter().chain(end).collect()
}

/// With a zero at its end a name is a whole one; without, it is what names begin with.
fn named(which: Meta, name: &[u8]) -> Rule {
    let register = Register::FIRST;
    let name = Cow::Owned(name.to_vec());
    vec![Expression::Meta(which, register), Expression::Equal(register, name)]
}

fn terminated(name: &IfName) -> Vec<u8> {
    [name.as_str().as_bytes(), &[0]].concat()
}

fn comment() -> Expression<'static> {
    extension("comment", 0, padded(COMMENT.as_bytes(), COMMENT_LENGTH))
}

/// `XT_MAX_COMMENT_LEN`.
const COMMENT_LENGTH: usize = 256;
/// `struct xt_conntrack_mtinfo3`: its length, and where `match_flags` and `state_mask` are.
const CONNTRACK_LENGTH: usize = 168;
const CONNTRACK_FLAGS: usize = 146;
const CONNTRACK_STATES: usize = 150;
/// `XT_CONNTRACK_STATE`.
const BY_STATE: u16 = 1;
/// `XT_CONNTRACK_STATE_BIT` of established and related, `XT_CONNTRACK_STATE_DNAT`.
const STATES: u16 = 0x02 | 0x04 | 0x80;

fn known_or_published() -> Expression<'static> {
    let mut info = vec![0; CONNTRACK_LENGTH];
    for (at, value) in [(CONNTRACK_FLAGS, BY_STATE), (CONNTRACK_STATES, STATES)] {
        for (place, byte) in info.iter_mut().skip(at).zip(value.to_ne_bytes()) {
            *place = byte;
        }
    }
    extension("conntrack", 3, info)
}

/// Whether the packet comes in by a group's interface or goes out by one.
#[derive(Clone, Copy)]
enum Way {
    From,
    To,
}

/// `struct xt_devgroup_info`, and what xtables pads it to.
const DEVGROUP_LENGTH: usize = 24;

/// Its words: flags (`XT_DEVGROUP_MATCH_SRC`, `XT_DEVGROUP_MATCH_DST`), the group that the packet comes in
/// by and its mask, the one that it goes out by and its mask.
fn of_group(way: Way, group: u32) -> Expression<'static> {
    let words = match way {
        Way::From => [1, group, u32::MAX, 0, 0],
        Way::To => [4, 0, 0, group, u32::MAX],
    };
    extension("devgroup", 0, padded(&words.map(u32::to_ne_bytes).concat(), DEVGROUP_LENGTH))
}

fn extension(name: &'static str, revision: u32, info: Vec<u8>) -> Expression<'static> {
    Expression::Extension { name, revision, info: Cow::Owned(info) }
}

fn padded(bytes: &[u8], length: usize) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(length, 0);
    padded
}
