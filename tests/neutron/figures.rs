//! What a container's start takes over OVN, beside Docker's own bridge and
//! kuryr-libnetwork: a measurement and no test.
//! `scripts/neutron-tests debian --run-ignored only -E 'test(figures::)' --no-capture` prints it.
//! `figures::flows` is what of it is the wait for OVN's flows (`docs/neutron.md`).

#![allow(clippy::print_stderr, reason = "figures are for people to read")]

use std::collections::BTreeMap;
use std::time::Instant;

use tests::Release;
use tests::neutron_lab::FullLab;
use tests::neutron_switch::Switch;

use crate::bed::{Bed, Tenancy};
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
        Tenancy { project: &account.project, name: &name, extra, ovn: Some((&lab, &account)) };
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
        // What was said of the port after that counts for no other figure.
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

/// What a container's start waits for: from a port in the switch's database until OVN's controller has
/// written that its flows are there.
#[test]
#[ignore = "a measurement"]
fn flows() {
    let Some(lab) = FullLab::running() else { return };
    let account = lab.account();
    let name = format!("flow-{}", &account.project.id()[..8]);
    let place =
        Tenancy { project: &account.project, name: &name, extra: "", ovn: Some((&lab, &account)) };
    let bed = Bed::of(Release::V20_10, place).expect("Docker 20.10 is Debian 12's");
    bed.network("--subnet 10.139.0.0/24 --gateway 10.139.0.1 net");
    bed.run("--name first --network net");
    let world = bed.world();
    let watched = format!(
        "ovsdb-client --timestamp -f csv monitor {} Open_vSwitch Interface name,external_ids",
        Switch::DATABASE
    );
    world.sh(&format!("{watched} >/run/seen 2>&1 </dev/null & echo $! >/run/watching"));
    let mut lives = Lives::default();
    for _ in 0..ROUNDS {
        lives.live(&bed, "net");
        bed.named();
    }
    world.sh("kill $(cat /run/watching)");
    let mut waits = waits(&world.sh("cat /run/seen"));
    assert!(waits.len() >= ROUNDS, "{waits:?}");
    let (least, most) =
        (waits.iter().copied().fold(f64::MAX, f64::min), waits.iter().copied().fold(0., f64::max));
    eprintln!("flows of a port: {:.0} ms, from {least:.0} to {most:.0}", median(&mut waits));
    eprintln!("docker run -d in all: {:.0} ms", median(&mut lives.run));
    bed.remove("first");
    bed.docker("network rm net");
}

/// In ms, of what `ovsdb-client monitor` printed: for each port from its first row to the one with the
/// controller's key.
fn waits(seen: &str) -> Vec<f64> {
    let (mut now, mut plugged, mut waits) = (0., BTreeMap::new(), Vec::new());
    for line in seen.lines() {
        if let Some(time) = clock(line) {
            now = time;
        }
        let mut fields = line.splitn(4, ',').skip(1);
        let (Some("insert" | "new"), Some(name), Some(ids)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if ids.contains("ovn-installed=") {
            waits.extend(plugged.remove(name).map(|began: f64| now - began));
        } else if ids.contains("iface-id=") {
            plugged.entry(name).or_insert(now);
        }
    }
    waits
}

/// `2026-11-26 13:01:45.472` as milliseconds of the day.
fn clock(line: &str) -> Option<f64> {
    let (_, time) = line.split_once(' ')?;
    let parts: Vec<f64> = time.split(':').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [hours, minutes, seconds] = parts[..] else { return None };
    Some(((hours * 60. + minutes) * 60. + seconds) * 1e3)
}
