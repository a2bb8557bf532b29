//! What networks of many hosts are to reach.

use super::attach::{ADDRESS, ATTACH, BLOCK, LOCAL, MIDDLE, WORST, WRITES, exactly};
use super::failure::{FAILURE, HEALED, REPORTED, TAKEN};
use super::loss::{EVENTS, LOST};
use super::scale::{self, DAEMON, EQUAL, MEMORY, RESYNC, SIMULATED};
use super::wire::{LATENCY, STREAM, WAY};
use super::{BY_HAND, DOCKER, OURS, PLAIN, ROUTED, SWARM};
use crate::stats::{Book, Summary, quotient};
use crate::targets::{Side, Verdict, at_most};

/// All of them.
pub(crate) fn targets(book: &Book) -> Vec<Verdict> {
    let alone = |case: &str, verb, who| book.sampled(case, verb, who)?.summary();
    let ratio = |case, verb, who, base| -> Option<Summary> {
        let (ours, base) = (book.sampled(case, verb, who)?, book.sampled(case, verb, base)?);
        quotient(&ours.values, &base.values)
    };
    let worst = |verb| {
        let values = book.sampled(FAILURE, verb, OURS)?.values.values().copied();
        values.reduce(f64::max).map(exactly)
    };
    let at_least =
        |what: String, target, measured| Verdict { what, side: Side::AtLeast, target, measured };
    let mut verdicts = vec![
        at_most(format!("{ATTACH}, ms"), 50.0, alone(ATTACH, MIDDLE, OURS)),
        at_most(format!("{ATTACH}, p99, ms"), 200.0, alone(ATTACH, WORST, OURS)),
        at_most(format!("{ATTACH}, {OURS} / {SWARM}"), 0.5, ratio(ATTACH, MIDDLE, OURS, SWARM)),
        at_most(format!("{ATTACH}, {DOCKER} / {SWARM}"), 0.5, ratio(ATTACH, MIDDLE, DOCKER, SWARM)),
        at_most(format!("{WRITES} of an attach"), 3.0, alone(ATTACH, WRITES, OURS)),
        at_most(format!("{ADDRESS}, {BLOCK} / {LOCAL}"), 1.2, ratio(ADDRESS, MIDDLE, BLOCK, LOCAL)),
        at_least(format!("{STREAM}, {OURS} / {BY_HAND}"), 0.95, ratio(WAY, STREAM, OURS, BY_HAND)),
        at_least(format!("{STREAM}, {OURS} / {SWARM}"), 1.0, ratio(WAY, STREAM, OURS, SWARM)),
        at_most(format!("{LATENCY}, {OURS} / {BY_HAND}"), 1.1, ratio(WAY, LATENCY, OURS, BY_HAND)),
        at_least(format!("{STREAM}, {ROUTED} / {PLAIN}"), 0.95, ratio(WAY, STREAM, ROUTED, PLAIN)),
        at_most(format!("{LATENCY}, {ROUTED} / {PLAIN}"), 1.1, ratio(WAY, LATENCY, ROUTED, PLAIN)),
        at_most(format!("{FAILURE}, {REPORTED}, worst, s"), 10.0, worst(REPORTED)),
        at_most(format!("{FAILURE}, {TAKEN}, worst, s"), 1.0, worst(TAKEN)),
        at_most(format!("{FAILURE}, {HEALED}, worst, s"), 2.0, worst(HEALED)),
    ];
    verdicts.extend(
        EVENTS.map(|event| at_most(format!("{LOST} while {event}"), 0.0, alone(LOST, event, OURS))),
    );
    let case = scale::name(200);
    let mut at_200 = |verb, who, target, unit| {
        let what = format!("{case}, {who}: {verb}{unit}");
        verdicts.push(at_most(what, target, alone(&case, verb, who)));
    };
    at_200(RESYNC, SIMULATED, 1_000.0, ", ms");
    at_200(EQUAL, DAEMON, 1_000.0, ", ms");
    at_200(MEMORY, DAEMON, 64.0 * 1024.0, ", KiB");
    at_200(scale::WRITES, SIMULATED, 3.0, "");
    verdicts
}
