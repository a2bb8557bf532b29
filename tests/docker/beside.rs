//! Spoke's driver beside Docker's own bridge: what moby's tests of networks ask is asked of both, on
//! the same engine, and the answers are compared.

mod addresses;
mod engines;
mod facts;
mod interfaces;
mod modes;
mod ports;
mod reach;

use std::collections::BTreeMap;

use tests::Release;

use crate::bed::Bed;
use crate::neighbours::{NEIGHBOURS, NO_NEIGHBOURS};
use facts::Side;

/// What is asked, and what of the answers is Spoke's own way (docs/docker.md says why).
struct Scenario {
    name: &'static str,
    ask: fn(&mut Side<'_>),
    /// What is asked, Docker's answer and Spoke's.
    differs: &'static [(&'static str, &'static str, &'static str)],
}

/// What both answer alike.
const fn same(name: &'static str, ask: fn(&mut Side<'_>)) -> Scenario {
    Scenario { name, ask, differs: &[] }
}

/// What they do not.
const fn but(
    name: &'static str,
    ask: fn(&mut Side<'_>),
    differs: &'static [(&'static str, &'static str, &'static str)],
) -> Scenario {
    Scenario { name, ask, differs }
}

/// Docker's own bridge, and ours.
const DRIVERS: [&str; 2] = ["-d bridge", "-d spoke --ipam-driver spoke"];

/// Asks both, one after the other, on the newest engine that can be had.
#[track_caller]
fn compare(scenarios: &[Scenario]) {
    compare_on(&[], scenarios);
}

fn newest() -> Option<Release> {
    [Release::V28_5, Release::V26_1].into_iter().find(|release| release.is_there())
}

/// The same of an engine with these `arguments`.
#[track_caller]
fn compare_on(arguments: &[&str], scenarios: &[Scenario]) {
    let Some(bed) = newest().and_then(|newest| Bed::with(newest, "", arguments)) else { return };
    bed.world().sh(NEIGHBOURS);
    facts::serve_outside(&bed);
    let mut wrong = Vec::new();
    for scenario in scenarios {
        let [theirs, ours] = DRIVERS.map(|driver| {
            let mut side = Side::new(&bed, driver);
            (scenario.ask)(&mut side);
            side.end()
        });
        wrong.extend(differences(scenario, &theirs, &ours));
    }
    facts::end_outside(&bed);
    // What Docker leaves of a network that it refused.
    bed.world()
        .sh("for left in /sys/class/net/br-*; do [ ! -e $left ] || ip link del ${left##*/}; done");
    bed.world().sh(NO_NEIGHBOURS);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    bed.is_clean();
}

/// Where they answer otherwise than the scenario says.
fn differences(
    scenario: &Scenario,
    theirs: &BTreeMap<String, String>,
    ours: &BTreeMap<String, String>,
) -> Vec<String> {
    let known: BTreeMap<&str, (&str, &str)> =
        scenario.differs.iter().map(|(what, theirs, ours)| (*what, (*theirs, *ours))).collect();
    assert!(theirs.keys().eq(ours.keys()), "{}: not the same was asked", scenario.name);
    let unknown = known.keys().filter(|what| !theirs.contains_key(**what));
    let unknown = unknown.map(|what| format!("{}: {what}: not compared", scenario.name));
    let compared = theirs.iter().filter_map(|(what, theirs)| {
        let ours = ours.get(what)?;
        let expected = known.get(what.as_str()).copied();
        let is_so = match expected {
            Some((their, our)) => (their, our) == (theirs.as_str(), ours.as_str()),
            None => theirs == ours,
        };
        let reported = format!("{}: {what}: Docker {theirs:?}, Spoke {ours:?}", scenario.name);
        (!is_so).then_some(reported)
    });
    unknown.chain(compared).collect()
}
