//! What Spoke wants to reach under Docker.

use tests::Release;

use super::daemon::Engine;
use super::{engines, memory, protocol};
use crate::stats::{Book, Summary};
use crate::targets::{Side, Verdict, at_most};

/// Growth that is none, in KiB: what an allocator keeps varies by some pages.
const NOISE: f64 = 256.0;

/// All of them.
pub(crate) fn targets(book: &Book) -> Vec<Verdict> {
    [networks(book), calls(book), size(book)].into_iter().flatten().collect()
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
    let mut verdicts = Vec::new();
    for release in [Release::V20_10, Release::V28_5] {
        let case = engines::case(release);
        for (verb, target) in all {
            let ours = book.sampled(case, verb, engines::SPOKE);
            let measured = ours.and_then(|ours| {
                crate::stats::quotient(
                    &ours.values,
                    &book.sampled(case, verb, engines::BRIDGE)?.values,
                )
            });
            let what = format!("{case}, spoke / its own bridge: {verb}");
            verdicts.push(at_most(what, target, measured));
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
