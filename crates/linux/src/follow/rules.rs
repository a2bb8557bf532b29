//! The judgement of a firewall on a new connection to this host, in one form for all firewalls.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Jumps are followed so deep; the kernel allows 16.
const DEEPEST: usize = 16;

/// The chains for one family of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chains {
    /// The first.
    pub(super) entry: String,
    /// What becomes of what no rule decides.
    pub(super) policy: Outcome,
    /// By name.
    pub(super) all: BTreeMap<String, Vec<Rule>>,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rule {
    /// All of them must hold.
    pub(super) tests: Vec<Test>,
    pub(super) then: Then,
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Then {
    Decide(Outcome),
    Return,
    Jump(String),
    Goto(String),
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Outcome {
    Accept,
    Drop,
    /// It is refused with an answer by ICMP.
    Reject,
    /// It is refused with a reset.
    Reset,
}

/// A condition of the first packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Test {
    pub(super) what: Match,
    /// Whether the opposite must hold.
    pub(super) not: bool,
}

/// Ranges include both ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Match {
    /// The interface that it comes in by; only the beginning of its name, where that is not whole.
    Input {
        name: String,
        is_whole: bool,
    },
    Source(IpAddr, IpAddr),
    /// The address of this host that is called.
    Destination(IpAddr, IpAddr),
    Protocol(u8),
    SourcePort(u16, u16),
    /// The port of this host that is called.
    Port(u16, u16),
    /// The source comes more often than so many times in so many seconds.
    Often {
        is_v4: bool,
        times: u32,
        seconds: u32,
    },
}

impl Match {
    pub(super) fn holds(self) -> Test {
        Test { what: self, not: false }
    }
}

/// A new connection to a port of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Who calls.
    pub source: IpAddr,
    /// The interface by which it comes.
    pub input: String,
    /// The transport protocol.
    pub protocol: u8,
    /// The port that is called.
    pub port: u16,
    /// The address of this host that is called, where it matters.
    pub destination: Option<IpAddr>,
}

impl Chains {
    /// Nothing passes.
    pub(super) fn refusing() -> Self {
        Self { policy: Outcome::Drop, ..Self::accepting() }
    }

    /// Everything passes.
    pub(super) fn accepting() -> Self {
        Self { entry: String::new(), policy: Outcome::Accept, all: BTreeMap::new() }
    }

    /// What becomes of a new connection.
    pub fn of(&self, arrival: &Arrival) -> Outcome {
        self.run(&self.entry, arrival, 0).unwrap_or(self.policy)
    }

    fn run(&self, chain: &str, arrival: &Arrival, depth: usize) -> Option<Outcome> {
        if depth > DEEPEST {
            return Some(Outcome::Drop);
        }
        for rule in self.all.get(chain).into_iter().flatten() {
            if !rule.tests.iter().all(|test| test.holds(arrival)) {
                continue;
            }
            match &rule.then {
                Then::Decide(outcome) => return Some(*outcome),
                Then::Return => return None,
                Then::Goto(to) => return self.run(to, arrival, depth + 1),
                Then::Jump(to) => {
                    if let Some(outcome) = self.run(to, arrival, depth + 1) {
                        return Some(outcome);
                    }
                }
            }
        }
        None
    }

    /// The sources that rules tell apart.
    pub fn sources(&self) -> Vec<(IpAddr, IpAddr)> {
        let tests = self.all.values().flatten().flat_map(|rule| &rule.tests);
        let mut all: Vec<(IpAddr, IpAddr)> = tests
            .filter_map(|test| match test.what {
                Match::Source(first, last) => Some((first, last)),
                _ => None,
            })
            .collect();
        all.sort();
        all.dedup();
        all
    }

    /// The interfaces that rules tell apart, as they are written.
    pub fn inputs(&self) -> Vec<String> {
        let tests = self.all.values().flatten().flat_map(|rule| &rule.tests);
        let mut all: Vec<String> = tests
            .filter_map(|test| match &test.what {
                Match::Input { name, .. } if name != "lo" => Some(name.clone()),
                _ => None,
            })
            .collect();
        all.sort();
        all.dedup();
        all
    }
}

impl Test {
    fn holds(&self, arrival: &Arrival) -> bool {
        let within = |first: &IpAddr, last: &IpAddr, address: IpAddr| {
            first.is_ipv4() == address.is_ipv4() && *first <= address && address <= *last
        };
        let holds = match &self.what {
            Match::Input { name, is_whole: true } => arrival.input == *name,
            Match::Input { name, is_whole: false } => arrival.input.starts_with(name.as_str()),
            Match::Source(first, last) => within(first, last, arrival.source),
            // An address that is not known is none that a rule names.
            Match::Destination(first, last) => {
                arrival.destination.is_some_and(|address| within(first, last, address))
            }
            Match::Protocol(number) => arrival.protocol == *number,
            Match::SourcePort(first, last) => (*first, *last) == (0, u16::MAX),
            Match::Port(first, last) => (first..=last).contains(&&arrival.port),
            Match::Often { .. } => false,
        };
        holds != self.not
    }
}
