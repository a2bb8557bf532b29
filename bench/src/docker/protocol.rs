//! The plugin protocol's calls, without an engine: what is ours alone.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use model::{Error, Result};
use serde_json::json;

use super::client::{once, request};
use super::daemon::{COMES, Daemon, Engine, GOES, LIFE, NOWHERE, Network};
use super::line::{remark, say};
use crate::args::Args;
use crate::contender::{BOTH, Contender};
use crate::floor::Floor;
use crate::samples::Figure;
use crate::stats::Summary;
use crate::world::{self, Host, namespace};

/// The cases.
pub(super) const NEW: &str = "Activate, connection new";
pub(super) const CROWD: &str = "Activate, 16 clients, new";
const COMING: &str = "network comes";
const GOING: &str = "network goes";
/// What the socket, or the kernel's links, cost every user of them.
const FLOOR: &str = "floor";
pub(super) const OURS: &str = "ours";
pub(super) const RATE: &str = "rate";
pub(super) const MIDDLE: &str = "p50";
pub(super) const ALL_FOUR: &str = "all four";
const CLIENTS: usize = 16;
/// Of each client in a round.
const EACH: usize = 625;

/// Addresses, with so many held.
pub(super) fn addresses(held: usize) -> String {
    format!("RequestAddress, {held} held")
}

/// An endpoint's life, by who moves the interface.
pub(super) fn endpoint(engine: Engine) -> &'static str {
    match engine {
        Engine::Moves => "endpoint, engine moves it",
        Engine::ShowsNamespace => "endpoint, we finish it",
    }
}

/// Measures.
pub(super) fn run(args: &Args) -> Result<()> {
    world::enter()?;
    let daemon = Daemon::start();
    let floor = floor()?;
    let sockets = [(FLOOR, floor.as_path()), (OURS, &daemon.socket())];
    remark("protocol: Activate")?;
    for round in 0..args.either(5, 20) {
        for (who, socket) in sockets {
            let calls = args.either(100, 400);
            percentiles(NEW, who, round, new(socket, calls))?;
            let place = Figure { case: CROWD, verb: RATE, who, unit: "1/s" };
            say(place, round, crowd(socket))?;
        }
    }
    let _ = std::fs::remove_file(&floor);
    remark("protocol: networks")?;
    networks(&daemon, args)?;
    remark("protocol: endpoints")?;
    endpoints(&daemon, args)?;
    remark("protocol: addresses")?;
    held(&daemon, args)
}

/// Answers every request with the same, without looking at it.
fn floor() -> Result<PathBuf> {
    let socket = std::env::temp_dir().join(format!("spoke-bench-{}.floor", std::process::id()));
    let failed = |error| Error::os("making a socket", error);
    let listener = UnixListener::bind(&socket).map_err(failed)?;
    for _ in 0..CLIENTS {
        let listener = listener.try_clone().map_err(failed)?;
        thread::spawn(move || listener.incoming().flatten().for_each(echo));
    }
    Ok(socket)
}

fn echo(mut stream: UnixStream) {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).is_ok_and(|count| count > 0) {
        if stream.write_all(answer).is_err() {
            return;
        }
    }
}

fn percentiles(case: &str, who: &str, round: usize, took: Result<Vec<f64>>) -> Result<()> {
    let summary = took.and_then(|took| {
        Summary::of(took).ok_or_else(|| Error::bug("nothing was measured in a round"))
    });
    let place = |verb| Figure { case, verb, who, unit: "µs" };
    match summary {
        Ok(summary) => {
            say(place(MIDDLE), round, Ok(summary.median))?;
            say(place("p90"), round, Ok(summary.high))
        }
        Err(error) => say(place(MIDDLE), round, Err(error)),
    }
}

fn micros(took: Duration) -> f64 {
    took.as_secs_f64() * 1e6
}

fn new(socket: &Path, calls: usize) -> Result<Vec<f64>> {
    let request = request("Plugin.Activate", "");
    let call = |_| {
        let began = Instant::now();
        once(socket, &request)?;
        Ok(micros(began.elapsed()))
    };
    (0..calls).map(call).collect()
}

/// Requests per second of many clients.
fn crowd(socket: &Path) -> Result<f64> {
    let request = request("Plugin.Activate", "");
    let client = || (0..EACH).try_for_each(|_| once(socket, &request));
    let began = Instant::now();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        let ended = |_| Error::bug("a client ended early");
        clients.into_iter().try_for_each(|client| client.join().map_err(ended)?)
    })?;
    Ok((CLIENTS * EACH) as f64 / began.elapsed().as_secs_f64())
}

/// Networks without containers: what an engine's `network create` and `network rm` make us do.
fn networks(daemon: &Daemon, args: &Args) -> Result<()> {
    let mut to = daemon.client();
    // Without any container, a network takes the packet filter's table with it.
    let resident = Network::create(&mut to, 75, Engine::Moves)?;
    resident.endpoint(1, NOWHERE).begin(&mut to)?;
    for round in 0..args.either(10, 40) {
        let (network, came) = Network::timed(&mut to, 74, Engine::Moves)?;
        let went = network.delete(&mut to)?;
        for (case, calls, took) in [(COMING, COMES, came), (GOING, GOES, went)] {
            let place = |verb| Figure { case, verb, who: OURS, unit: "ms" };
            say(place("all three"), round, Ok(took.iter().sum()))?;
            for (call, took) in calls.into_iter().zip(took) {
                say(place(call), round, Ok(took))?;
            }
        }
    }
    Ok(())
}

/// Both ways of giving a container its interface, in turn with the kernel's part of it.
fn endpoints(daemon: &Daemon, args: &Args) -> Result<()> {
    let mut to = daemon.client();
    let netns = daemon.netns("finished");
    let mut turns = Vec::new();
    for (octet, engine, sandbox) in
        [(70, Engine::Moves, NOWHERE.to_owned()), (71, Engine::ShowsNamespace, netns)]
    {
        turns.push((engine, Network::create(&mut to, octet, engine)?, sandbox));
    }
    let host = Host::new("endpoint-floor")?;
    let mut floor = Floor::new(&host, &namespace("endpoint-floor")?, "eth0", 73, false)?;
    let warmup: usize = 5;
    for round in 0..warmup + args.either(30, 200) {
        let number = round.checked_sub(warmup);
        for (engine, network, sandbox) in &turns {
            let links = BOTH.iter().map(|verb| Ok(floor.run(verb)?.wall.as_secs_f64() * 1e3));
            let links = links.sum::<Result<f64>>();
            let lived = network.endpoint(round, sandbox).live(&mut to);
            if lived.is_err() {
                to = daemon.client();
            }
            if let Some(round) = number {
                let case = endpoint(*engine);
                say(Figure { case, verb: ALL_FOUR, who: FLOOR, unit: "ms" }, round, links)?;
                life(case, round, lived)?;
            }
        }
    }
    Ok(())
}

fn life(case: &str, round: usize, lived: Result<[f64; 4]>) -> Result<()> {
    let place = |verb| Figure { case, verb, who: OURS, unit: "ms" };
    let took = match lived {
        Ok(took) => took,
        Err(error) => return say(place(ALL_FOUR), round, Err(error)),
    };
    say(place(ALL_FOUR), round, Ok(took.iter().sum()))?;
    LIFE.into_iter().zip(took).try_for_each(|(call, took)| say(place(call), round, Ok(took)))
}

/// One address more, with more and more of them held.
fn held(daemon: &Daemon, args: &Args) -> Result<()> {
    let mut to = daemon.client();
    let network = Network::create(&mut to, 72, Engine::Moves)?;
    let request = network.address_request(&json!({}));
    let mut present = 0;
    for level in [0, 1_000, 30_000] {
        if args.quick && level > 1_000 {
            break;
        }
        for _ in present..level {
            network.request_address(&mut to, &json!({}))?;
        }
        present = level;
        let case = addresses(level);
        for round in 0..args.either(5, 20) {
            let (mut asked, mut given_back) = (Vec::new(), Vec::new());
            for _ in 0..args.either(20, 50) {
                let (answer, took) = to.timed("IpamDriver.RequestAddress", &request)?;
                asked.push(micros(took));
                let began = Instant::now();
                let address = answer["Address"].as_str().unwrap_or_default();
                network.release_address(&mut to, address)?;
                given_back.push(micros(began.elapsed()));
            }
            percentiles(&case, OURS, round, Ok(asked))?;
            let place = Figure { case: &case, verb: "release p50", who: OURS, unit: "µs" };
            let middle = Summary::of(given_back).map(|summary| summary.median);
            say(place, round, middle.ok_or_else(|| Error::bug("nothing was given back")))?;
        }
    }
    Ok(())
}
