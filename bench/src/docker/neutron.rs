//! Docker's calls on Neutron: ours beside kuryr-libnetwork's, in front of the same stand-in.
//!
//! The stand-in answers at once, or after a set time, so that what is measured is what the plugins
//! make of it: how many calls one after the other, and what they cost themselves. Nothing is tested
//! with it.

mod cloud;
mod http;
mod life;
mod rival;

use std::time::{Duration, Instant};

use model::{Error, Result};

use super::line::{remark, say};
use crate::args::Args;
use crate::samples::Figure;
use crate::world;
use http::StandIn;
use life::{ENDS, Network, STARTS};
use rival::Rival;
pub(super) use rival::{KURYR, OURS, STOCK};

/// The cases.
pub(super) const CPU: &str = "kuryr, own processor time";
pub(super) const CHAIN: &str = "kuryr, container start, Neutron at 30 ms";
pub(super) const CALLS: &str = "kuryr, calls of Neutron";
pub(super) const CROWD: &str = "kuryr, 16 clients";
pub(super) const SIZE: &str = "kuryr, resident";
pub(super) const UP: &str = "kuryr, from start to first answer";
/// What is measured of them.
pub(super) const WHOLE: &str = "whole";
pub(super) const RATE: &str = "endpoints";
pub(super) const FAILED: &str = "failures";
pub(super) const FIRST: &str = "after its start";
pub(super) const LIVES: &str = "endpoints come and go";
/// Of all endpoints; the last is compared with the one before.
pub(super) const TENTHS: usize = 10;

const CLIENTS: usize = 16;
const DELAY: Duration = Duration::from_millis(30);

/// Measures all of them.
pub(super) fn run(args: &Args) -> Result<()> {
    world::enter()?;
    world::raise_loopback()?;
    for start in Rival::ALL {
        remark(format!("neutron: {}", start.who()))?;
        let cloud = StandIn::start()?;
        let began = Instant::now();
        let rival = start.begin(&cloud)?;
        let took = began.elapsed().as_secs_f64() * 1e3;
        say(Figure { case: UP, verb: WHOLE, who: rival.who(), unit: "ms" }, 0, Ok(took))?;
        measure(&rival, &cloud, args)?;
    }
    Ok(())
}

fn measure(rival: &rival::Running, cloud: &StandIn, args: &Args) -> Result<()> {
    let who = rival.who();
    let place = |case, verb, unit| Figure { case, verb, who, unit };
    say(place(SIZE, FIRST, "KiB"), 0, rival.resident())?;
    let network = Network::create(rival.at(), 60)?;
    rival.settle(cloud);
    for round in 0..args.either(10, 60) {
        let before = cloud.calls();
        let mut endpoint = network.endpoint(round);
        for call in STARTS.iter().chain(&ENDS) {
            let had = rival.processor()?;
            endpoint.step(call)?;
            let took = rival.processor()?.saturating_sub(had).as_secs_f64() * 1e3;
            say(place(CPU, call, "ms"), round, Ok(took))?;
        }
        let calls = cloud.calls().saturating_sub(before);
        say(place(CALLS, "start and stop", "number"), round, Ok(calls as f64))?;
    }
    cloud.take(DELAY);
    rival.settle(cloud);
    for round in 0..args.either(3, 10) {
        let began = Instant::now();
        let mut endpoint = network.endpoint(1000 + round);
        STARTS.iter().try_for_each(|call| endpoint.step(call))?;
        let took = began.elapsed().as_secs_f64() * 1e3;
        say(place(CHAIN, WHOLE, "ms"), round, Ok(took))?;
        ENDS.iter().try_for_each(|call| endpoint.step(call))?;
        rival.settle(cloud);
    }
    cloud.take(Duration::ZERO);
    crowd(rival, &network, args)?;
    if who != KURYR {
        grow(rival, &network, args)?;
    }
    Ok(())
}

/// Many clients at once: endpoints per second, and how many calls failed.
fn crowd(rival: &rival::Running, network: &Network, args: &Args) -> Result<()> {
    let each = match rival.who() {
        KURYR => args.either(2, 6),
        _ => args.either(20, 100),
    };
    let began = Instant::now();
    let refusals: Vec<Error> = std::thread::scope(|scope| {
        let client = |client: usize| {
            let lives = (0..each).map(|number| 2000 + client * each + number);
            lives.filter_map(|number| network.endpoint(number).live().err()).collect()
        };
        let clients: Vec<_> = (0..CLIENTS).map(|at| scope.spawn(move || client(at))).collect();
        let ended = |_| vec![Error::bug("a client ended early")];
        clients.into_iter().flat_map(|one| one.join().unwrap_or_else(ended)).collect()
    });
    let failed = refusals.len();
    if let Some(first) = refusals.first() {
        remark(format!("neutron: {}: {failed} failed, the first: {first}", rival.who()))?;
    }
    let lived = (CLIENTS * each - failed) as f64 / began.elapsed().as_secs_f64();
    let place = |verb, unit| Figure { case: CROWD, verb, who: rival.who(), unit };
    say(place(RATE, "1/s"), 0, Ok(lived))?;
    say(place(FAILED, "number"), 0, Ok(failed as f64))
}

/// Whether it becomes larger with what it has served.
fn grow(rival: &rival::Running, network: &Network, args: &Args) -> Result<()> {
    let rounds = args.either(1_000, 10_000);
    for tenth in 0..TENTHS {
        for number in 0..rounds / TENTHS {
            network.endpoint(100_000 + number).live()?;
        }
        let place = Figure { case: SIZE, verb: LIVES, who: rival.who(), unit: "KiB" };
        say(place, tenth, rival.resident())?;
    }
    Ok(())
}
