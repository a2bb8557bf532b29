//! What a container's start takes over OVN, beside Docker's own bridge: a measurement and no test.
//! `scripts/neutron-tests debian --run-ignored only -E 'test(figures::)' --no-capture` prints it.

#![allow(clippy::print_stderr, reason = "figures are for people to read")]

use std::time::Instant;

use tests::Release;
use tests::neutron_lab::FullLab;

use crate::bed::{Bed, Place};

const ROUNDS: usize = 15;

/// What one container's life on a network takes, each from the client's call to its answer.
#[derive(Default)]
struct Lives {
    run: Vec<f64>,
    rm: Vec<f64>,
}

impl Lives {
    #[track_caller]
    fn live(&mut self, bed: &Bed, network: &str) {
        let took = |command: String| {
            let began = Instant::now();
            bed.docker(&command);
            began.elapsed().as_secs_f64() * 1e3
        };
        let run = format!("run -d --name life --network {network} busybox sleep 1000");
        self.run.push(took(run));
        self.rm.push(took("rm -f life".into()));
    }
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_unstable_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// Two medians in ms, and what one is of the other.
fn say(what: &str, mut ours: Vec<f64>, mut bridge: Vec<f64>) {
    let (ours, bridge) = (median(&mut ours), median(&mut bridge));
    eprintln!(
        "{what}: {ours:.0} ms, Docker's own bridge {bridge:.0} ms: {:.2} times",
        ours / bridge
    );
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
    let (mut own, mut neutron) = (Lives::default(), Lives::default());
    for _ in 0..ROUNDS {
        own.live(&bed, "own");
        neutron.live(&bed, "net");
    }
    say(&format!("docker run -d {what}"), neutron.run, own.run);
    say(&format!("docker rm -f {what}"), neutron.rm, own.rm);
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
