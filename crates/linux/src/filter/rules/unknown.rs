//! What connection tracking takes for no packet of a connection: it is not translated, and would leave with the
//! container's own address.

use netlink::nft::{Expression, Meta, Verdict};

use super::connection::{INVALID, from_ours, of_state};
use super::{DROP, Ip, R, RETURN, Steps, ending};
use crate::filter::ruleset::{HOME, ROUTED};

/// Matches what connection tracking takes for no packet of a connection, by an interface that Spoke made.
pub(super) fn of_ours() -> Steps {
    let steps = [from_ours(), of_state(INVALID)].concat();
    ending(steps, Expression::Verdict(Verdict::Jump("unknown")))
}

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
