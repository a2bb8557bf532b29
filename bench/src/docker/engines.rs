//! Networks and containers of a real engine, by its API: its own user-defined bridge and ours.

use std::collections::BTreeMap;
use std::time::Instant;

use model::{Error, Kind, Result};
use serde_json::{Value, json};
use tests::{Engine, Plugins, Release, Serve, http};

use super::line::{remark, say};
use crate::args::Args;
use crate::samples::Figure;

/// Who does the same.
pub(super) const BRIDGE: &str = "docker's bridge";
pub(super) const SPOKE: &str = "spoke";
/// The same, where we complete interfaces: from 28 on.
pub(super) const FINISHED: &str = "spoke, interfaces=spoke";
/// A container without a network: what the rest of a start costs.
const NONE: &str = "no network";

/// What they do.
pub(super) const CREATE: &str = "network create";
pub(super) const REMOVE: &str = "network rm";
pub(super) const CONNECT: &str = "connect";
pub(super) const DISCONNECT: &str = "disconnect";
pub(super) const START: &str = "container start";
pub(super) const RUN: &str = "create + start";
const STOP: &str = "container rm";

/// Where the daemon says what it did, and how long that took.
const METRICS: &str = "/run/spoke/metrics.sock";

/// Rounds that do not count.
const WARMUP: usize = 2;

/// The case of an engine.
pub(super) fn case(release: Release) -> &'static str {
    match release {
        Release::V20_10 => "Docker 20.10",
        Release::V26_1 => "Docker 26.1",
        Release::V28_5 => "Docker 28.5",
    }
}

/// Measures; nothing where Debian has moved on from this release.
pub(super) fn run(release: Release, args: &Args) -> Result<()> {
    if !release.is_there() {
        return Ok(());
    }
    let engine = Engine::new(release, &Plugins::subject(), &[]);
    let _serve = Serve::start(engine.world(), &[]);
    let bridge = json!({ "Driver": "bridge" });
    let spoke = json!({ "Driver": "spoke", "IPAM": { "Driver": "spoke" } });
    let mut finished = spoke.clone();
    finished["Options"] = json!({ "interfaces": "spoke" });
    let all = [(BRIDGE, bridge), (SPOKE, spoke), (FINISHED, finished)].into_iter();
    let mut teams: Vec<Team<'_>> = all
        .filter(|(who, _)| release == Release::V28_5 || *who != FINISHED)
        .map(|(who, with)| Team { engine: &engine, case: case(release), who, with })
        .collect();
    for team in &teams {
        team.prepare()?;
    }
    let none = Team { engine: &engine, case: case(release), who: NONE, with: Value::Null };
    let rounds = args.either(args.rounds.min(5), args.rounds.min(25));
    let mut before = BTreeMap::new();
    for round in 0..WARMUP + rounds {
        let number = round.checked_sub(WARMUP);
        for team in &teams {
            team.networks(number)?;
        }
        for team in teams.iter().chain([&none]) {
            team.container(number)?;
        }
        // No contender always comes after the same other one.
        teams.reverse();
        if round + 1 == WARMUP {
            before = own_time(&engine);
        }
        if round.is_multiple_of(10) {
            remark(format!("{}: round {round}", case(release)))?;
        }
    }
    for (operation, (seconds, count)) in own_time(&engine) {
        let (earlier, fewer) = before.get(&operation).copied().unwrap_or_default();
        if count > fewer {
            let own = format!("{}, our own part", case(release));
            let verb = operation.split('.').next_back().unwrap_or_default();
            let place = Figure { case: &own, verb, who: "mean", unit: "ms" };
            say(place, 0, Ok((seconds - earlier) / (count - fewer) * 1e3))?;
        }
    }
    Ok(())
}

/// Seconds and number of each operation that the daemon has done for an engine, by its own figures.
fn own_time(engine: &Engine) -> BTreeMap<String, (f64, f64)> {
    let mut times: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    let said = http::call(&engine.world().path(METRICS), "GET", "/metrics", b"");
    let text = said.map(|reply| reply.text()).unwrap_or_default();
    for line in text.lines() {
        let Some((labels, value)) = line.split_once("} ") else { continue };
        let operation = labels.split("operation=\"").nth(1).and_then(|rest| rest.split('"').next());
        let (Some(operation), Ok(value)) = (operation, value.trim().parse::<f64>()) else {
            continue;
        };
        if line.starts_with("spoke_operation_seconds_sum{") {
            times.entry(operation.to_owned()).or_default().0 = value;
        } else if line.starts_with("spoke_operation_seconds_count{") {
            times.entry(operation.to_owned()).or_default().1 = value;
        }
    }
    times
}

/// One who is measured.
struct Team<'a> {
    engine: &'a Engine,
    case: &'static str,
    who: &'static str,
    /// How a network of theirs is made.
    with: Value,
}

impl Team<'_> {
    fn name(&self, what: &str) -> String {
        format!("{what}-{}", self.who.replace([' ', ',', '=', '\''], "-"))
    }

    /// A network that stays, and a container on it, so that no round has the first of anything.
    fn prepare(&self) -> Result<()> {
        self.create_network(&self.name("base"))?;
        let name = self.name("resident");
        self.create_container(&name, &self.name("base"))?;
        self.post(&format!("/containers/{name}/start"), &Value::Null)
    }

    /// A network comes, the resident joins and leaves it, and it goes.
    fn networks(&self, round: Option<usize>) -> Result<()> {
        let (network, resident) = (self.name("net"), self.name("resident"));
        self.time(CREATE, round, || self.create_network(&network))?;
        let member = json!({ "Container": resident });
        let connect = || self.post(&format!("/networks/{network}/connect"), &member);
        self.time(CONNECT, round, connect)?;
        let disconnect = || self.post(&format!("/networks/{network}/disconnect"), &member);
        self.time(DISCONNECT, round, disconnect)?;
        self.time(REMOVE, round, || self.ask("DELETE", &format!("/networks/{network}")))?;
        Ok(())
    }

    /// A container comes and goes.
    fn container(&self, round: Option<usize>) -> Result<()> {
        let name = self.name("container");
        let network = if self.who == NONE { "none".to_owned() } else { self.name("base") };
        let began = Instant::now();
        let made = self.create_container(&name, &network);
        let start =
            || made.and_then(|()| self.post(&format!("/containers/{name}/start"), &Value::Null));
        if self.time(START, round, start)? {
            let both = began.elapsed().as_secs_f64() * 1e3;
            self.say(RUN, round, Ok(both))?;
        }
        let remove = || self.ask("DELETE", &format!("/containers/{name}?force=true"));
        self.time(STOP, round, remove)?;
        Ok(())
    }

    fn create_network(&self, name: &str) -> Result<()> {
        let mut body = self.with.clone();
        body["Name"] = json!(name);
        body["CheckDuplicate"] = json!(true);
        self.post("/networks/create", &body)
    }

    fn create_container(&self, name: &str, network: &str) -> Result<()> {
        let body = json!({
            "Image": "busybox", "Cmd": ["/bin/sleep", "3600"],
            "HostConfig": { "NetworkMode": network },
        });
        self.post(&format!("/containers/create?name={name}"), &body)
    }

    fn ask(&self, method: &str, target: &str) -> Result<()> {
        self.send(method, target, &Value::Null)
    }

    fn post(&self, target: &str, body: &Value) -> Result<()> {
        self.send("POST", target, body)
    }

    fn send(&self, method: &str, target: &str, body: &Value) -> Result<()> {
        let reply = self.engine.call(method, target, body);
        if (200..300).contains(&reply.status) {
            return Ok(());
        }
        let what = format!("{method} {target}: {}: {}", reply.status, reply.text().trim());
        Err(Error::new(Kind::Kernel, what))
    }

    /// Does `work` and says how long it took; whether it succeeded.
    fn time(
        &self,
        verb: &str,
        round: Option<usize>,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<bool> {
        let began = Instant::now();
        let done = work();
        let took = began.elapsed().as_secs_f64() * 1e3;
        let succeeded = done.is_ok();
        self.say(verb, round, done.map(|()| took))?;
        Ok(succeeded)
    }

    fn say(&self, verb: &str, round: Option<usize>, took: Result<f64>) -> Result<()> {
        let Some(round) = round else { return Ok(()) };
        say(Figure { case: self.case, verb, who: self.who, unit: "ms" }, round, took)
    }
}
