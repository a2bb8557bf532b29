//! What a container's start takes over OVN, beside Docker's own bridge: a measurement and no test.
//! `scripts/neutron-tests debian --run-ignored only -E 'test(figures::)' --no-capture` prints it.

#![allow(clippy::print_stderr, reason = "figures are for people to read")]

use std::time::{Duration, Instant};

use tests::Release;
use tests::neutron_lab::FullLab;

use crate::bed::{Bed, Place};

const ROUNDS: usize = 15;

/// One container's start and end on a network, from the client's call to its answer.
#[track_caller]
fn run(bed: &Bed, network: &str) -> Duration {
    let began = Instant::now();
    bed.docker(&format!("run --rm --network {network} busybox true"));
    began.elapsed()
}

fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples[samples.len() / 2]
}

/// Pairs, taken in turn: the machine's mood is the same for both.
#[track_caller]
fn compare(extra: &str, what: &str) {
    let Some(lab) = FullLab::running() else { return };
    let account = lab.account();
    let name = format!("pace-{}", &account.project.id()[..8]);
    let place =
        Place { project: &account.project, name: &name, extra, ovn: Some((&lab, &account)) };
    let bed = Bed::of(Release::V20_10, place).expect("Docker 20.10 is Debian 12's");
    bed.docker("network create -d bridge own");
    bed.network("--subnet 10.139.0.0/24 --gateway 10.139.0.1 net");
    // A port that is ready keeps its own hardware address until its container has gone.
    bed.run("--name first --network net");
    let (mut own, mut neutron) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        own.push(run(&bed, "own"));
        neutron.push(run(&bed, "net"));
    }
    let (own, neutron) = (median(own), median(neutron));
    eprintln!(
        "docker run {what}: {neutron:.0?}, Docker's own bridge {own:.0?}: {:.2} times",
        neutron.as_secs_f64() / own.as_secs_f64()
    );
    bed.remove("first");
    bed.docker("network rm net");
    bed.docker("network rm own");
}

#[test]
#[ignore = "a measurement"]
fn cold() {
    compare("", "without stock");
}

#[test]
#[ignore = "a measurement"]
fn stocked() {
    compare("[neutron.stock]\nminimum = 4\nmaximum = 8\n", "with ports in stock");
}
