//! What Spoke wants to reach under Docker.

use tests::Release;

use super::daemon::Engine;
use super::{engines, memory, neutron, protocol};
use crate::stats::{Book, Summary};
use crate::targets::{Side, Verdict, at_most};

/// Growth that is none, in KiB: what an allocator keeps varies by some pages.
const NOISE: f64 = 256.0;

/// All of them.
pub(crate) fn targets(book: &Book) -> Vec<Verdict> {
    [networks(book), calls(book), size(book), ports(book)].into_iter().flatten().collect()
}

/// Ratios to Docker's own bridge.
fn networks(book: &Book) -> Vec<Verdict> {
    let all = [
        (engines::CREATE, 1.0 / 2.0),
        (engines::REMOVE, 1.0 / 5.0),
        (engines::DISCONNECT, 1.0 / 5.0),
        (engines::CONNECT, 1.0),
        (engines::START, 1.0),
    ];
    let finished = [(engines::CONNECT, 1.0), (engines::START, 0.95)];
    let mut verdicts = Vec::new();
    for (release, who, all) in [
        (Release::V20_10, engines::SPOKE, &all[..]),
        (Release::V28_5, engines::SPOKE, &all[..]),
        (Release::V28_5, engines::FINISHED, &finished[..]),
    ] {
        let case = engines::case(release);
        for (verb, target) in all {
            let ours = book.sampled(case, verb, who);
            let measured = ours.and_then(|ours| {
                crate::stats::quotient(
                    &ours.values,
                    &book.sampled(case, verb, engines::BRIDGE)?.values,
                )
            });
            let what = format!("{case}, {who} / its own bridge: {verb}");
            verdicts.push(at_most(what, *target, measured));
        }
    }
    verdicts
}

fn calls(book: &Book) -> Vec<Verdict> {
    let of = |case: &str, verb| book.sampled(case, verb, protocol::OURS)?.summary();
    let mut verdicts = Vec::new();
    for engine in [Engine::Moves, Engine::ShowsNamespace] {
        let case = protocol::endpoint(engine);
        let what = format!("{case}: our four calls, ms");
        verdicts.push(at_most(what, 2.0, of(case, protocol::ALL_FOUR)));
    }
    let what = format!("{}: p50, µs", protocol::NEW);
    verdicts.push(at_most(what, 150.0, of(protocol::NEW, protocol::MIDDLE)));
    verdicts.push(Verdict {
        what: format!("{}: per second", protocol::CROWD),
        side: Side::AtLeast,
        target: 10_000.0,
        measured: of(protocol::CROWD, protocol::RATE),
    });
    for held in [0, 1_000, 30_000] {
        let case = protocol::addresses(held);
        let what = format!("{case}: p50, µs");
        verdicts.push(at_most(what, 300.0, of(&case, protocol::MIDDLE)));
    }
    verdicts
}

fn size(book: &Book) -> Vec<Verdict> {
    let of = |case: &str, verb| book.sampled(case, verb, memory::OURS);
    let large = memory::resident(1_000);
    let resident = of(&large, memory::SIZE).and_then(|one| one.summary());
    let mut verdicts = vec![at_most(format!("{large}, KiB"), 20.0 * 1024.0, resident)];
    // Workers come and go: halves are compared, not moments.
    let growth = |verb| {
        let (mut early, mut late) = (Vec::new(), Vec::new());
        for (tenth, value) in &of(memory::LIVES, verb)?.values {
            if *tenth < memory::TENTHS / 2 { &mut early } else { &mut late }.push(*value);
        }
        let growth = Summary::of(late)?.median - Summary::of(early)?.median;
        Some(Summary { median: growth, low: growth, high: growth })
    };
    for (verb, target) in [(memory::SIZE, NOISE), (memory::FILES, 4.0), (memory::THREADS, 2.0)] {
        let what = format!("{}, growth of its second half: {verb}", memory::LIVES);
        verdicts.push(at_most(what, target, growth(verb)));
    }
    verdicts
}

/// Neutron's ports, beside kuryr-libnetwork's.
fn ports(book: &Book) -> Vec<Verdict> {
    use neutron::{
        CHAIN, CPU, CROWD, FAILED, FIRST, KURYR, LIVES, OURS, RATE, SIZE, STOCK, UP, WHOLE,
    };
    let of = |case: &str, verb: &str, who| book.sampled(case, verb, who);
    let ratio = |case, verb, who| {
        crate::stats::quotient(&of(case, verb, who)?.values, &of(case, verb, KURYR)?.values)
    };
    let alone = |case, verb, who| of(case, verb, who)?.summary();
    let mut verdicts = Vec::new();
    let mut at_most_of = |what: String, target, measured| {
        verdicts.push(at_most(what, target, measured));
    };
    for (call, target) in
        [("NetworkDriver.CreateEndpoint", 1.0 / 30.0), ("IpamDriver.RequestAddress", 1.0 / 10.0)]
    {
        at_most_of(format!("{CPU}, {OURS} / {KURYR}: {call}"), target, ratio(CPU, call, OURS));
    }
    for (who, target) in [(OURS, 1.0 / 4.0), (STOCK, 1.0 / 10.0)] {
        at_most_of(format!("{CHAIN}, {who} / {KURYR}"), target, ratio(CHAIN, WHOLE, who));
    }
    at_most_of(format!("{CROWD}, {OURS}: {FAILED}"), 0.0, alone(CROWD, FAILED, OURS));
    at_most_of(format!("{SIZE}, {OURS}: {FIRST}, KiB"), 25.0 * 1024.0, alone(SIZE, FIRST, OURS));
    at_most_of(format!("{UP}, {OURS}: ms"), 50.0, alone(UP, WHOLE, OURS));
    let grown = of(SIZE, LIVES, OURS).and_then(|lives| {
        let at = |tenth| lives.values.get(&tenth).copied();
        let growth = at(neutron::TENTHS - 1)? - at(neutron::TENTHS / 2)?;
        Some(Summary { median: growth, low: growth, high: growth })
    });
    at_most_of(format!("{SIZE}, {OURS}: growth of the second half, KiB"), NOISE, grown);
    verdicts.push(Verdict {
        what: format!("{CROWD}, {OURS} / {KURYR}: {RATE} per second"),
        side: Side::AtLeast,
        target: 20.0,
        measured: ratio(CROWD, RATE, OURS),
    });
    verdicts
}
