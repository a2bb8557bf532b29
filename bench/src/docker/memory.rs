//! How large the daemon is with many endpoints, and whether it grows.

use std::fs;
use std::thread;

use model::{Error, Result};

use super::daemon::{Daemon, Engine, NOWHERE, Network};
use super::line::{remark, say};
use crate::args::Args;
use crate::samples::Figure;

/// The cases.
pub(super) const START: &str = "resident after its start";
/// A round is RequestAddress, CreateEndpoint, Join, Leave, DeleteEndpoint, ReleaseAddress.
pub(super) const LIVES: &str = "resident, endpoints come and go";
pub(super) const SIZE: &str = "size";
pub(super) const FILES: &str = "open files";
pub(super) const THREADS: &str = "threads";
pub(super) const OURS: &str = "ours";
/// A bridge has no more than 1023 ports.
const NETWORKS: usize = 2;
const LANES: usize = 4;
/// Of all rounds; the first half is what the second is compared with.
pub(super) const TENTHS: usize = 10;

/// With so many endpoints.
pub(super) fn resident(endpoints: usize) -> String {
    format!("resident, {endpoints} endpoints")
}

/// Measures.
pub(super) fn run(args: &Args) -> Result<()> {
    let daemon = Daemon::start();
    let mut to = daemon.client();
    State::of(&daemon)?.say(START, 0)?;
    let networks = (80..).take(NETWORKS);
    let networks = networks.map(|octet| Network::create(&mut to, octet, Engine::Moves));
    let networks = networks.collect::<Result<Vec<_>>>()?;
    let count = args.either(100, 1_000);
    remark(format!("memory: {count} endpoints"))?;
    let mut held = Vec::new();
    for (number, network) in (0..count).zip(networks.iter().cycle()) {
        let endpoint = network.endpoint(number, NOWHERE);
        let address = endpoint.begin(&mut to)?;
        held.push((endpoint, address));
    }
    State::of(&daemon)?.say(&resident(count), 0)?;
    for (endpoint, address) in held {
        endpoint.end(&mut to, &address)?;
    }
    grow(&daemon, &networks, args)
}

/// What it has after each tenth of all rounds.
fn grow(daemon: &Daemon, networks: &[Network], args: &Args) -> Result<()> {
    let rounds = args.either(1_000, 10_000);
    remark(format!("memory: {rounds} rounds"))?;
    for tenth in 0..TENTHS {
        let lane = |lane: usize, network: &Network| {
            let mut to = daemon.client();
            let numbers = (lane..rounds / TENTHS).step_by(LANES);
            let mut numbers = numbers.map(|number| 10_000 + number);
            numbers.try_for_each(|number| network.endpoint(number, NOWHERE).live(&mut to).map(drop))
        };
        thread::scope(|scope| {
            let lanes = (0..LANES).zip(networks.iter().cycle());
            let lanes = lanes.map(|(number, network)| scope.spawn(move || lane(number, network)));
            let ended = |_| Error::bug("a client ended early");
            lanes.collect::<Vec<_>>().into_iter().try_for_each(|lane| lane.join().map_err(ended)?)
        })?;
        State::of(daemon)?.say(LIVES, tenth)?;
    }
    Ok(())
}

/// What a process has.
struct State {
    /// KiB.
    resident: f64,
    files: f64,
    threads: f64,
}

impl State {
    fn of(daemon: &Daemon) -> Result<Self> {
        let process = format!("/proc/{}", daemon.pid()?);
        let failed = |error| Error::os(format!("reading {process}"), error);
        let status = fs::read_to_string(format!("{process}/status")).map_err(failed)?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            number.ok_or_else(|| Error::bug(format!("{process}/status has no {name}")))
        };
        let files = fs::read_dir(format!("{process}/fd")).map_err(failed)?.count() as f64;
        Ok(Self { resident: field("VmRSS:")?, files, threads: field("Threads:")? })
    }

    fn say(&self, case: &str, round: usize) -> Result<()> {
        let values = [
            (SIZE, "KiB", self.resident),
            (FILES, "number", self.files),
            (THREADS, "number", self.threads),
        ];
        values.into_iter().try_for_each(|(verb, unit, value)| {
            say(Figure { case, verb, who: OURS, unit }, round, Ok(value))
        })
    }
}
