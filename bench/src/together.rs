//! Many containers at once, and what is left of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use model::Result;
use serde_json::json;

use crate::args::Args;
use crate::chain::{Attachment, Chain, Net, Runtime, ports};
use crate::execute::children;
use crate::pairs::{OURS, REFERENCE, SPOKE};
use crate::peers::Peers;
use crate::stats::{Book, Rate, cpu};
use crate::world::{Host, namespace};

/// The reference's chain.
pub(crate) const CHAIN: &str = "reference chain";
/// Our plugins in the same chain.
pub(crate) const OUR_CHAIN: &str = "ours, chain";
/// How many containers.
const CROWD: usize = 64;

/// One who attaches a crowd.
struct Team<'a> {
    label: &'static str,
    runtime: Runtime<'a>,
    /// One list per container: each publishes a port of its own.
    members: Vec<(Chain, Attachment)>,
    /// So slow that once is enough.
    slow: bool,
}

/// Measures.
pub(crate) fn run(peers: &Peers, args: &Args, book: &mut Book) -> Result<()> {
    let spaces = (0..CROWD).map(|number| namespace(&format!("together{number}")));
    let spaces = spaces.collect::<Result<Vec<_>>>()?;
    let hosts = ["ref", "refchain", "ours", "ourchain", "spoke"];
    let hosts = hosts.map(|name| Host::new(&format!("together-{name}")));
    let [reference, chained, ours, our_chain, spoke] = hosts;
    let (reference, chained, ours, our_chain, spoke) =
        (reference?, chained?, ours?, our_chain?, spoke?);
    let plain = |net: Net<'_>| net.list("1.0.0", &[net.plugin(&json!({}))]);
    let teams = [
        Team::new(REFERENCE, &reference, &peers.reference, &spaces, plain),
        Team::new(CHAIN, &chained, &peers.reference, &spaces, |net| net.podman()),
        Team::new(OURS, &ours, &peers.ours, &spaces, plain),
        Team::new(OUR_CHAIN, &our_chain, &peers.ours, &spaces, |net| net.podman()),
        Team::new(SPOKE, &spoke, &peers.ours, &spaces, |net| net.spoke()),
    ];
    for at_once in args.either(vec![16], vec![1, 16, 64]) {
        let rounds = args.either(2, if at_once == 16 { 10 } else { 3 });
        for round in 0..rounds {
            for team in &teams {
                // One at a time, the reference's chain is measured elsewhere.
                let enough = match (team.slow, at_once) {
                    (false, _) => rounds,
                    (true, 1) => 0,
                    (true, 16) => args.either(1, 3),
                    (true, _) => 1,
                };
                if round < enough {
                    team.round(at_once, book)?;
                }
            }
        }
    }
    Ok(())
}

impl<'a> Team<'a> {
    fn new(
        label: &'static str,
        host: &'a Host,
        plugins: &'a Path,
        spaces: &[PathBuf],
        make: impl Fn(Net<'_>) -> Chain,
    ) -> Self {
        let chain = make(Net { host, name: "together", octet: 60 });
        let members = (0..).zip(spaces).map(|(number, netns)| {
            let chain = chain.publishing(&ports(20_000 + number, 1));
            (chain, Attachment::new(&format!("crowded{number}"), netns))
        });
        let slow = label == CHAIN;
        Self { label, runtime: Runtime { host, plugins }, members: members.collect(), slow }
    }

    fn round(&self, at_once: usize, book: &mut Book) -> Result<()> {
        let before = self.left()?;
        let results = self.all(at_once, "ADD", &[], book)?;
        self.all(at_once, "DEL", &results, book)?;
        let after = self.left()?;
        let first = !book
            .rates
            .iter()
            .any(|rate| rate.contender == self.label && rate.per_second.len() > 1);
        let leaks: Vec<_> = after.difference(&before).collect();
        // What a network needs comes with its first container and stays.
        let leaks = leaks.iter().filter(|leak| !first || !leak.starts_with("lasting "));
        let leaks: Vec<_> = leaks.map(|leak| leak.as_str()).collect();
        if let Some(rate) = book.rates.iter_mut().rev().find(|rate| {
            rate.contender == self.label && rate.at_once == at_once && rate.verb == "DEL"
        }) {
            rate.leaks += leaks.len();
        }
        if !leaks.is_empty() {
            let some = leaks.iter().take(4).copied().collect::<Vec<_>>().join("; ");
            let what = format!("left behind {} things: {some}", leaks.len());
            book.fault(&format!("{}, {at_once} at once", self.label), &model::Error::bug(what));
        }
        Ok(())
    }

    /// Every container once; what each was answered.
    fn all(
        &self,
        at_once: usize,
        verb: &'static str,
        results: &[String],
        book: &mut Book,
    ) -> Result<Vec<String>> {
        let (turn, next) = (&AtomicUsize::new(0), results);
        let lane = || {
            let mut done = Vec::new();
            loop {
                let at = turn.fetch_add(1, Ordering::Relaxed);
                let Some((chain, attachment)) = self.members.get(at) else { return Ok(done) };
                let began = Instant::now();
                let range = 0..chain.len();
                let answer = if verb == "ADD" {
                    chain.add(self.runtime, attachment, range, String::new())
                } else {
                    let result = next.get(at).map_or("", String::as_str);
                    chain.del(self.runtime, attachment, range, result).map(|_| String::new())
                };
                done.push((at, began.elapsed(), answer));
            }
        };
        let mut elapsed = Duration::ZERO;
        let (done, cost) = children(|| {
            let began = Instant::now();
            let done: Vec<_> = thread::scope(|scope| {
                let work = || scope.spawn(|| self.runtime.host.within(lane));
                let lanes: Vec<_> = (0..at_once).map(|_| work()).collect();
                lanes.into_iter().filter_map(|lane| lane.join().ok()).collect()
            });
            elapsed = began.elapsed();
            done.into_iter().collect::<Result<Vec<_>>>()
        })?;
        let mut answers = vec![String::new(); self.members.len()];
        let rate = book.rate(self.label, at_once, verb);
        rate.per_second.push(self.members.len() as f64 / elapsed.as_secs_f64());
        rate.cpu.push(cpu(cost) / self.members.len() as f64);
        let mut faults = Vec::new();
        for (at, took, answer) in done.into_iter().flatten() {
            rate.latency.push(took.as_secs_f64() * 1e3);
            match (answer, answers.get_mut(at)) {
                (Ok(result), Some(place)) => *place = result,
                (Err(error), _) => faults.push(error),
                (Ok(_), None) => {}
            }
        }
        rate.failures += faults.len();
        if let Some(error) = faults.first() {
            book.fault(&format!("{}, {at_once} at once, {verb}", self.label), error);
        }
        Ok(answers)
    }

    /// What there is on the host.
    fn left(&self) -> Result<BTreeSet<String>> {
        let host = self.runtime.host;
        let mut left = BTreeSet::new();
        for line in host.run(&["ip", "-o", "link"], "")?.lines() {
            let name = line.split(": ").nth(1).unwrap_or_default();
            let mark = if name.contains('@') { "" } else { "lasting " };
            left.insert(format!("{mark}link {name}"));
        }
        for line in host.run(&["iptables-save", "-t", "nat"], "")?.lines() {
            let of_one = line.contains("crowded") || line.contains("CNI-DN");
            let mark = if of_one { "" } else { "lasting " };
            if !line.starts_with('#') && !line.ends_with(']') {
                left.insert(format!("{mark}iptables {line}"));
            }
        }
        for line in host.run(&["nft", "list", "ruleset"], "")?.lines() {
            if line.contains("elements") || line.contains(" . ") && line.contains("comment") {
                left.insert(format!("nft {}", line.trim()));
            }
        }
        files(&host.dir, &mut left);
        Ok(left)
    }
}

/// Files below `dir`. What is made once per network or host is named after no address, port or
/// container.
fn files(dir: &Path, left: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, left);
        } else {
            let name = entry.file_name().to_string_lossy().into_owned();
            let of_one = ["10.60.", "crowded", "tcp:"].iter().any(|part| name.starts_with(part));
            let mark = if of_one { "" } else { "lasting " };
            left.insert(format!("{mark}file {}", path.display()));
        }
    }
}

impl Book {
    /// The line of so many at once, which is made where it is missing.
    pub(crate) fn rate(
        &mut self,
        contender: &str,
        at_once: usize,
        verb: &'static str,
    ) -> &mut Rate {
        let is = |rate: &Rate| {
            (rate.contender.as_str(), rate.at_once, rate.verb) == (contender, at_once, verb)
        };
        let at = self.rates.iter().position(is).unwrap_or_else(|| {
            self.rates.push(Rate { contender: contender.into(), at_once, verb, ..Rate::default() });
            self.rates.len() - 1
        });
        &mut self.rates[at]
    }
}
