//! Connections that a container belongs to without a chain of routed packets having judged their beginning.

use std::borrow::Cow;

use netlink::nft::{Conntrack, Expression, Meta, Set, Verdict};

use super::{ACCEPT, DROP, R, RETURN, Steps, ending, reserved as to_reserved, translated};
use crate::filter::ruleset::{BOUNDED_BRIDGES, CLOSED, GUARDED_BRIDGES, POLICED};
use crate::identity::GROUP;

/// `NF_CT_STATE_BIT` (`linux/netfilter/nf_conntrack_common.h`).
const ESTABLISHED: u32 = 2;
const RELATED: u32 = 4;
const NEW: u32 = 8;
/// `IP_CT_DIR_REPLY`.
const REPLY: u8 = 1;
/// `PACKET_BROADCAST`, `PACKET_MULTICAST` (`linux/if_packet.h`).
const TO_ALL: u8 = 1;
const TO_GROUP: u8 = 2;
/// `RTN_UNICAST`, `RTN_LOCAL` (`linux/rtnetlink.h`).
const UNICAST: u32 = 1;
const LOCAL: u32 = 2;

/// What no sender of IP puts into a frame. A packet to one machine in a frame to all is not routed, but tracked where
/// `br_netfilter` is on, and its connection is known then.
pub(super) fn reserved() -> Vec<Steps> {
    let [to_all, to_group] = in_frames_to_all(&from_ours(), "for_all");
    vec![to_reserved(), to_all, to_group]
}

/// Jumps to a chain with what is also matched, and comes in a frame to all, or to a group, of a link.
pub(in crate::filter) fn in_frames_to_all(also: &Steps, chain: &'static str) -> [Steps; 2] {
    [TO_ALL, TO_GROUP].map(|frame| {
        let mut steps = also.clone();
        steps.extend([
            Expression::Meta(Meta::PacketType, R),
            Expression::Equal(R, vec![frame].into()),
            Expression::Verdict(Verdict::Jump(chain)),
        ]);
        steps
    })
}

/// Drops what is for one machine, of what is sent to all.
pub(in crate::filter) fn for_all() -> Vec<Steps> {
    [UNICAST, LOCAL].map(|kind| ending(sent_to(kind), DROP)).to_vec()
}

/// Connections that are begun in another's name, and answers to this host that are.
pub(super) fn beginning() -> Vec<Steps> {
    let mut begins = of_state(NEW);
    begins.extend(comes_from_elsewhere());
    begins.push(Expression::Verdict(Verdict::Jump("forged")));
    let mut answers = from_ours();
    answers.extend([
        Expression::Conntrack(Conntrack::Direction, R),
        Expression::Equal(R, Cow::Borrowed(&[REPLY])),
    ]);
    answers.extend(sent_to(LOCAL));
    answers.extend(comes_from_elsewhere());
    vec![begins, ending(answers, DROP)]
}

/// Drops what would be answered to a network that others do not reach, and what a container sends this host.
pub(super) fn forged() -> Vec<Steps> {
    let mut to_host = from_ours();
    to_host.extend(sent_to(LOCAL));
    let leads_to =
        |set: Set<'static>| vec![Expression::SourceDevice(R), Expression::In(set.name, R), DROP];
    let [policed, closed, guarded] = [POLICED, CLOSED, GUARDED_BRIDGES].map(leads_to);
    vec![ending(to_host, DROP), policed, closed, guarded]
}

/// Matches what came by an interface that Spoke made.
fn from_ours() -> Steps {
    let ours = Expression::Equal(R, GROUP.to_ne_bytes().to_vec().into());
    vec![Expression::Meta(Meta::InputGroup, R), ours]
}

/// Matches what is sent to such an address, as this host sees it.
fn sent_to(kind: u32) -> Steps {
    let is_it = Expression::Equal(R, kind.to_ne_bytes().to_vec().into());
    vec![Expression::DestinationType(R), is_it]
}

/// Matches what would be answered by another interface than it came by.
fn comes_from_elsewhere() -> [Expression<'static>; 2] {
    [Expression::ReturnPath(R), Expression::Equal(R, Cow::Borrowed(&[0; 4]))]
}

/// What belongs to another connection.
pub(super) fn related() -> Steps {
    ending(of_state(RELATED), ACCEPT)
}

/// What belongs to a connection that was answered.
pub(super) fn established() -> Steps {
    ending(of_state(ESTABLISHED), Expression::Verdict(Verdict::Jump("known")))
}

/// Lets its packets pass that no rule behind this one could drop.
pub(super) fn known() -> Vec<Steps> {
    let judged = |interface: Meta, set: Set<'static>| {
        vec![Expression::Meta(interface, R), Expression::In(set.name, R), RETURN]
    };
    let answers = vec![
        Expression::Conntrack(Conntrack::Direction, R),
        Expression::Equal(R, Cow::Borrowed(&[REPLY])),
        ACCEPT,
    ];
    vec![
        answers,
        translated(ACCEPT),
        judged(Meta::OutputName, POLICED),
        judged(Meta::OutputName, CLOSED),
        judged(Meta::OutputName, GUARDED_BRIDGES),
        judged(Meta::InputName, BOUNDED_BRIDGES),
        vec![ACCEPT],
    ]
}

fn of_state(states: u32) -> Steps {
    vec![
        Expression::Conntrack(Conntrack::State, R),
        Expression::Mask(R, states.to_ne_bytes().to_vec().into()),
        Expression::Unequal(R, Cow::Borrowed(&[0; 4])),
    ]
}
