//! What connection tracking knows of a packet, and connections that a container belongs to without a chain of routed packets
//! having judged their beginning.

use std::borrow::Cow;

use netlink::nft::{Conntrack, Expression, Meta, Set, Verdict};

use super::{
    ACCEPT, DROP, Ip, NAME_WORDS, R, RETURN, Steps, ending, into, reserved as to_reserved,
    translated,
};
use crate::filter::ruleset::{
    APART, BOUNDED_BRIDGES, CLOSED, GUARDED_BRIDGES, INTERNAL, ISOLATED, POLICED,
};
use crate::identity::GROUP;

/// `NF_CT_STATE_INVALID_BIT`, `NF_CT_STATE_BIT` (`linux/netfilter/nf_conntrack_common.h`).
pub(super) const INVALID: u32 = 1;
pub(in crate::filter) const ESTABLISHED: u32 = 2;
pub(in crate::filter) const RELATED: u32 = 4;
pub(in crate::filter) const NEW: u32 = 8;
/// `IPS_EXPECTED`: a helper of connection tracking waited for the connection.
const IPS_EXPECTED: u32 = 1;
/// `IP_CT_DIR_REPLY`.
const REPLY: u8 = 1;
/// `PACKET_BROADCAST`, `PACKET_MULTICAST` (`linux/if_packet.h`).
const TO_ALL: u8 = 1;
const TO_GROUP: u8 = 2;
/// `RTN_*` (`linux/rtnetlink.h`).
const LOCAL: u32 = 2;
const BROADCAST: u32 = 3;
const MULTICAST: u32 = 5;

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

/// Drops what is for this host, and has what is for another machine not tracked, of what is sent to all.
pub(super) fn for_all() -> Vec<Steps> {
    let [to_group, to_all] = meant_for_all();
    vec![to_group, to_all, ending(sent_to(LOCAL), DROP), vec![Expression::NotTracked]]
}

/// Returns with what is for all of a link, or for a group, as this host sees it.
pub(in crate::filter) fn meant_for_all() -> [Steps; 2] {
    [MULTICAST, BROADCAST].map(|kind| ending(sent_to(kind), RETURN))
}

/// Drops connections that are begun in the name of a container that others do not reach: the first packet would be answered
/// by another interface than it came by.
pub(super) fn beginning() -> Vec<Steps> {
    let forged = |ip: Ip| {
        let mut steps = of_state(NEW);
        steps.extend(ip.alone(ip.source(), &APART));
        steps.extend([Expression::ReturnPath(R), Expression::Equal(R, Cow::Borrowed(&[0; 4]))]);
        ending(steps, DROP)
    };
    vec![forged(Ip::V4), forged(Ip::V6)]
}

/// Does not track what an internal network switches from addresses that are not behind it.
pub(super) fn internal() -> Steps {
    vec![
        Expression::Meta(Meta::InputName, R),
        Expression::In(INTERNAL.name, R),
        Expression::ReturnPath(R),
        Expression::Equal(R, Cow::Borrowed(&[0; 4])),
        Expression::NotTracked,
    ]
}

/// Matches what came by an interface that Spoke made.
pub(super) fn from_ours() -> Steps {
    let ours = Expression::Equal(R, GROUP.to_ne_bytes().to_vec().into());
    vec![Expression::Meta(Meta::InputGroup, R), ours]
}

/// Matches what is sent to such an address, as this host sees it.
fn sent_to(kind: u32) -> Steps {
    let is_it = Expression::Equal(R, kind.to_ne_bytes().to_vec().into());
    vec![Expression::DestinationType(R), is_it]
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
        among_isolated(Ip::V4),
        among_isolated(Ip::V6),
        answers,
        translated(ACCEPT),
        ending(of_status(IPS_EXPECTED), ACCEPT),
        judged(Meta::OutputName, POLICED),
        judged(Meta::OutputName, CLOSED),
        judged(Meta::OutputName, GUARDED_BRIDGES),
        judged(Meta::InputName, BOUNDED_BRIDGES),
        vec![ACCEPT],
    ]
}

/// Drops what one container on an isolated bridge sends another: none has called the other, whatever the connection.
fn among_isolated(ip: Ip) -> Steps {
    let mut steps = ip.behind(Meta::InputName, ip.source(), &ISOLATED);
    steps.push(into(ip.destination(), R.behind(NAME_WORDS)));
    steps.push(Expression::In(ip.of(&ISOLATED), R));
    ending(steps, DROP)
}

/// Matches packets in one of these states.
pub(in crate::filter) fn of_state(states: u32) -> Steps {
    has_one_of(Conntrack::State, states)
}

/// Matches packets of connections with one of these `IPS_*` bits.
pub(in crate::filter) fn of_status(bits: u32) -> Steps {
    has_one_of(Conntrack::Status, bits)
}

fn has_one_of(known: Conntrack, bits: u32) -> Steps {
    vec![
        Expression::Conntrack(known, R),
        Expression::Mask(R, bits.to_ne_bytes().to_vec().into()),
        Expression::Unequal(R, Cow::Borrowed(&[0; 4])),
    ]
}
