//! From the beginning of an attach on one host to the first answer from another one.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use model::{Error, Result};
use netlink::Netns;
use serde_json::json;

use super::bed::Bed;
use super::probe::{self, Echo};
use super::swarm::{self, Swarm, lodger, post};
use super::{DOCKER, OURS, SWARM};
use crate::args::Args;
use crate::docker::line::say;
use crate::samples::Figure;
use crate::stats::Summary;
use crate::stats::percentile;

/// The work.
pub(super) const ATTACH: &str = "attach on A to first answer of B";
/// No program of a container starts sooner after the attach; the kernel has a bridge forward for a new port a moment
/// after it was set up, and an ARP request that comes before is repeated after a second only.
const PROGRAM: Duration = Duration::from_millis(10);
/// The parts of it.
pub(super) const MIDDLE: &str = "each";
pub(super) const WORST: &str = "p99";
/// Allocation.
pub(super) const ADDRESS: &str = "an attach, its own host only";
pub(super) const BLOCK: &str = "from a block";
pub(super) const LOCAL: &str = "from the local book";
/// Writes to etcd.
pub(super) const WRITES: &str = "writes to etcd";

/// Measures.
pub(super) fn run(bed: &Bed, swarm: Option<&Swarm>, args: &Args) -> Result<()> {
    let [a, b] = bed.hosts();
    let there = b.make_netns("there")?;
    b.spoke("network connect front there");
    let address = parsed(&b.address_in("there"))?;
    let _echo = Echo::start(&there)?;
    let _swarm_echo = swarm.map(|swarm| Echo::start(&swarm.b)).transpose()?;
    let guest = lodger(a, "guest")?;
    let before = bed.revision()?;
    let rounds = args.either(10, 100);
    let (mut ours, mut docker, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let name = format!("here{round}");
        let netns = a.make_netns(&name)?;
        let command = || a.try_spoke(&["network", "connect", "front", &name]);
        ours.push(timed(&netns, address, command)?);
        a.try_spoke(&["network", "disconnect", "front", &name])?;
        a.engine.world().sh(&format!("ip netns del {name}"));
        note(OURS, round, &ours)?;
        if round % 3 > 0 {
            continue;
        }
        let connect = |network: &str, what: &str| {
            let target = format!("/networks/{network}/{what}");
            post(&a.engine, &target, &json!({ "Container": "guest" }))
        };
        docker.push(timed(&guest, address, || connect("front", "connect"))?);
        connect("front", "disconnect")?;
        note(DOCKER, round, &docker)?;
        if let Some(swarm) = swarm {
            let join = || connect(swarm::NETWORK, "connect");
            theirs.push(timed(&guest, swarm.address, join)?);
            connect(swarm::NETWORK, "disconnect")?;
            note(SWARM, round, &theirs)?;
        }
    }
    for (who, values) in [(OURS, ours.clone()), (DOCKER, docker.clone()), (SWARM, theirs)] {
        if let Some(worst) = percentile(values, 99) {
            say(Figure { case: ATTACH, verb: WORST, who, unit: "ms" }, 0, Ok(worst))?;
        }
    }
    // A detach is a write of its own.
    let attached = (ours.len() + docker.len()) as f64;
    let place = Figure { case: ATTACH, verb: WRITES, who: OURS, unit: "" };
    say(place, 0, Ok((bed.revision()? - before) as f64 / attached / 2.0))?;
    allocation(bed, args)
}

/// The last one.
fn note(who: &str, round: usize, values: &[f64]) -> Result<()> {
    let place = Figure { case: ATTACH, verb: MIDDLE, who, unit: "ms" };
    values.last().map_or(Ok(()), |value| say(place, round, Ok(*value)))
}

/// From the beginning of an attach to the first answer. What is attached sends when that is done, as a program of a
/// container does.
fn timed(netns: &Netns, to: Ipv4Addr, attach: impl FnOnce() -> Result<()>) -> Result<f64> {
    let begin = Instant::now();
    attach()?;
    std::thread::sleep(PROGRAM);
    probe::first_reply(netns, to, begin)
}

/// The same attach on a network of many hosts and on one of this host only.
fn allocation(bed: &Bed, args: &Args) -> Result<()> {
    let host = &bed.a;
    host.spoke("network create --subnet 10.201.0.0/16 alone");
    for round in 0..args.either(10, 60) {
        for (who, network) in [(LOCAL, "alone"), (BLOCK, "front")] {
            let name = format!("{network}{round}");
            host.make_netns(&name)?;
            let begin = Instant::now();
            host.try_spoke(&["network", "connect", network, &name])?;
            let took = begin.elapsed().as_secs_f64() * 1e3;
            say(Figure { case: ADDRESS, verb: MIDDLE, who, unit: "ms" }, round, Ok(took))?;
            host.try_spoke(&["network", "disconnect", network, &name])?;
            host.engine.world().sh(&format!("ip netns del {name}"));
        }
    }
    Ok(())
}

pub(super) fn parsed(text: &str) -> Result<Ipv4Addr> {
    text.parse().map_err(|_| Error::invalid(format!("{text:?} is no address")))
}

/// Exactly this.
pub(super) fn exactly(value: f64) -> Summary {
    Summary { median: value, low: value, high: value }
}
