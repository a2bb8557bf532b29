//! What connection tracking takes for no packet of a connection: it is not translated, and would leave with the
//! container's own address.

use std::borrow::Cow;

use netlink::nft::{Conntrack, Expression, Meta, Verdict};

use super::{DROP, Ip, R, RETURN, Steps, ending};
use crate::filter::ruleset::{HOME, ROUTED};
use crate::identity::GROUP;

/// Matches what connection tracking takes for no packet of a connection, by an interface that Spoke made.
pub(super) fn of_ours() -> Steps {
    vec![
        Expression::Meta(Meta::InputGroup, R),
        Expression::Equal(R, Cow::Owned(GROUP.to_ne_bytes().to_vec())),
        Expression::Conntrack(Conntrack::State, R),
        Expression::Mask(R, Cow::Owned(INVALID.to_ne_bytes().to_vec())),
        Expression::Unequal(R, Cow::Borrowed(&[0; 4])),
        Expression::Verdict(Verdict::Jump("unknown")),
    ]
}

/// `NF_CT_STATE_INVALID_BIT` (`linux/netfilter/nf_conntrack_common.h`).
const INVALID: u32 = 1;

/// Drops what would be translated if it belonged to a connection.
pub(super) fn rules() -> Vec<Steps> {
    let home = |ip: Ip| ending(ip.behind(Meta::InputName, ip.source(), &HOME), DROP);
    let routed = |ip: Ip| ending(ip.alone(ip.source(), &ROUTED), DROP);
    vec![
        stays_behind(Ip::V4),
        stays_behind(Ip::V6),
        stays_among(Ip::V4),
        stays_among(Ip::V6),
        home(Ip::V4),
        home(Ip::V6),
        routed(Ip::V4),
        routed(Ip::V6),
    ]
}

/// Leaves alone what stays behind the container's interface, which is never translated.
pub(super) fn stays_behind(ip: Ip) -> Steps {
    ending(ip.behind(Meta::OutputName, ip.source(), &HOME), RETURN)
}

/// The same of what stays among containers with an interface of the host each.
pub(super) fn stays_among(ip: Ip) -> Steps {
    let mut steps = ip.alone(ip.source(), &ROUTED);
    steps.extend([ip.destination(), Expression::In(ip.of(&ROUTED), R)]);
    ending(steps, RETURN)
}
