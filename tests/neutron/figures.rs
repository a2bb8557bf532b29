//! What a container's start takes over OVN, beside Docker's own bridge and
//! kuryr-libnetwork: a measurement and no test.
//! `scripts/neutron-tests debian --run-ignored only -E 'test(figures::)' --no-capture` prints it.

#![allow(clippy::print_stderr, reason = "figures are for people to read")]

use std::time::Instant;

use tests::Release;
use tests::neutron_lab::FullLab;

use crate::bed::{Bed, Place};
use crate::rival::{self, Rival};

const ROUNDS: usize = 15;

/// kuryr-libnetwork takes long, and always as long.
const THEIRS: usize = 5;

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

/// A median in ms, and what it is of the others'.
fn say(what: &str, mut ours: Vec<f64>, others: Vec<(&str, Vec<f64>)>) {
    let ours = median(&mut ours);
    let of = |(who, mut its): (&str, Vec<f64>)| {
        let its = median(&mut its);
        format!("{who} {its:.0} ms: {:.2} times", ours / its)
    };
    let of: Vec<String> = others.into_iter().map(of).collect();
    eprintln!("{what}: {ours:.0} ms, {}", of.join(", "));
}

/// All in turn: the machine's mood is the same for each.
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
    let rival = Rival::start(&bed, &lab, &account);
    if rival.is_some() {
        let both = format!("-d {} --ipam-driver {}", rival::DRIVER, rival::DRIVER);
        let subnet = "--subnet 10.138.0.0/24 --gateway 10.138.0.1";
        bed.docker(&format!("network create {both} {subnet} theirs"));
    }
    // A port that is ready keeps its own hardware address until its container has gone.
    bed.run("--name first --network net");
    let [mut own, mut neutron, mut theirs] = [(); 3].map(|()| Lives::default());
    for round in 0..ROUNDS {
        own.live(&bed, "own");
        neutron.live(&bed, "net");
        // What was said of the port after that belongs to nobody else's time.
        bed.named();
        if rival.is_some() && round < THEIRS {
            theirs.live(&bed, "theirs");
        }
    }
    let others = |own, theirs: Vec<f64>| {
        let mut all = vec![("Docker's own bridge", own)];
        all.extend((!theirs.is_empty()).then_some(("kuryr-libnetwork", theirs)));
        all
    };
    say(&format!("docker run -d {what}"), neutron.run, others(own.run, theirs.run));
    say(&format!("docker rm -f {what}"), neutron.rm, others(own.rm, theirs.rm));
    bed.remove("first");
    if rival.is_some() {
        bed.docker("network rm theirs");
    }
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
