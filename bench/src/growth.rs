//! What Spoke costs where thousands of networks are declared, as ratios to where few are.

use std::path::PathBuf;
use std::process::Command;

use engine::port::{Key, Outcome, Record, Store, Txn};
use model::{
    Bridge, BridgePort, Error, Gateway, IpNet, Ipam, Ipv4Net, Link, LinkKind, Network, Order, Pool,
    PoolId, Range, Result, Runtime as Origin, Space, Timestamp, Wiring,
};
use serde_json::json;
use store::{Embedded, Roots};

use crate::args::Args;
use crate::chain::{Attachment, Chain, Net, Runtime};
use crate::contender::Contender;
use crate::execute::{Cost, children, program, succeed};
use crate::pairs::{Case, OURS, round_robin};
use crate::peers::Peers;
use crate::stats::Book;
use crate::world::{Host, namespace};

/// Declared networks: what is compared with, and what is.
pub(crate) const FEW: u16 = 10;
pub(crate) const MANY: u16 = 10_000;

/// What is done, and how much dearer it may be with [`MANY`] than with [`FEW`]: an attachment's cost is the
/// same, what lists or checks everything grows with it.
pub(crate) const BOUNDS: [(&str, f64); 6] =
    [("ADD", 2.0), ("DEL", 1.2), ("create", 10.0), ("ls", 300.0), ("gc", 300.0), ("doctor", 300.0)];
const VERBS: [&str; 6] = ["ADD", "DEL", "create", "ls", "gc", "doctor"];

/// So many in one transaction.
const TOGETHER: usize = 500;

/// The case with so many there.
pub(crate) fn name(declared: u16) -> String {
    format!("{declared} networks")
}

/// Measures.
pub(crate) fn run(peers: &Peers, args: &Args, book: &mut Book) -> Result<()> {
    let hosts = [Host::new("growth-few")?, Host::new("growth-many")?];
    let mut cases = Vec::new();
    for (host, declared) in hosts.iter().zip([FEW, MANY]) {
        declare(host, declared)?;
        let runtime = Runtime { host, plugins: &peers.ours };
        let netns = namespace(&format!("growth{declared}"))?;
        let contender = Newcomer { runtime, netns, round: 0 };
        cases.push(Case { name: name(declared), contenders: vec![Box::new(contender)] });
    }
    round_robin(book, &mut cases, args.either(6, args.rounds.min(20)));
    Ok(())
}

/// As `spoke network create` does, without a process for each.
fn declare(host: &Host, count: u16) -> Result<()> {
    let roots = Roots { runtime: host.dir.join("runtime"), state: host.dir.join("state") };
    let store = Embedded::open(roots, &store::boot_id()?)?;
    let networks = (0..count).map(network).collect::<Result<Vec<_>>>()?;
    for part in networks.chunks(TOGETHER) {
        let txn = part.iter().fold(Txn::new(), |txn, network| {
            txn.put(Key::Network(network.name.clone()), Record::Network(Box::new(network.clone())))
        });
        if let Outcome::Lost(key) = store.commit(&txn)? {
            return Err(Error::bug(format!("{key:?} was not expected to be anything")));
        }
    }
    Ok(())
}

fn network(number: u16) -> Result<Network> {
    let name: model::NetworkName = format!("n{number}").parse()?;
    let [high, low] = number.to_be_bytes();
    let subnet = Ipv4Net::new([10, high, low, 0].into(), 28)
        .map_err(|_| Error::bug("the length of a prefix"))?;
    let bridge = Bridge {
        name: format!("br-n{number}").parse()?,
        gateway: Gateway::Default,
        host_absent: model::Absence::default(),
        force_address: false,
        hairpin: true,
        promiscuous: false,
        port: BridgePort::default(),
    };
    let link = Link { kind: LinkKind::Bridge(bridge), name: None, mac: None, mtu: None };
    let range = Range::of_hosts(IpNet::V4(subnet), None, None)?;
    let pool = Pool {
        id: PoolId { network: name.clone(), index: 0 },
        space: Space::Host,
        ranges: vec![range],
        order: Order::NextAfterLast,
    };
    Ok(Network::new(
        name,
        Origin::Spoke,
        Timestamp(1),
        Wiring { link: Some(link), ..Wiring::default() },
        Ipam::Book { pools: vec![pool] },
    ))
}

/// Each round has networks that the host has not seen yet.
struct Newcomer<'a> {
    runtime: Runtime<'a>,
    netns: PathBuf,
    round: u8,
}

impl Newcomer<'_> {
    fn chain(&self) -> Chain {
        let name = format!("new{}", self.round);
        let net = Net { host: self.runtime.host, name: &name, octet: 0 };
        let config = json!({
            "type": "spoke", "bridge": net.bridge(),
            "ipam": { "type": "host-local", "subnet": format!("172.16.{}.0/24", self.round) },
        });
        net.list("1.0.0", &[config])
    }

    fn spoke(&self, words: &[&str]) -> Command {
        let mut command = program(self.runtime.plugins.join("spoke"));
        command.args(words).env("SPOKE_CONFIG", self.runtime.host.dir.join("config.toml"));
        command
    }

    /// Doctor's code says what it found.
    fn look(&self, words: &[&str]) -> Result<Cost> {
        let mut command = self.spoke(words);
        children(|| crate::execute::execute(&mut command, "")).map(|(_, cost)| cost)
    }

    fn remove(&self, name: &str) -> Result<()> {
        succeed(&mut self.spoke(&["network", "rm", name]), "").map(drop)
    }
}

impl Contender for Newcomer<'_> {
    fn label(&self) -> &str {
        OURS
    }

    fn verbs(&self) -> &'static [&'static str] {
        &VERBS
    }

    fn run(&mut self, verb: &str) -> Result<Cost> {
        if verb == "ADD" {
            self.round += 1;
        }
        let (runtime, chain) = (self.runtime, self.chain());
        let attachment = Attachment::new("newcomer", &self.netns);
        runtime.host.within(|| match verb {
            "ADD" => {
                let added = children(|| chain.add(runtime, &attachment, 0..1, String::new()))?;
                Ok(added.1)
            }
            "DEL" => {
                let (_, cost) = children(|| chain.del(runtime, &attachment, 0..1, ""))?;
                self.remove(&format!("new{}", self.round)).map(|()| cost)
            }
            "create" => {
                let mut command = self.spoke(&["network", "create", "chosen"]);
                let (_, cost) = children(|| succeed(&mut command, ""))?;
                self.remove("chosen").map(|()| cost)
            }
            "ls" => self.look(&["network", "ls"]),
            "gc" => self.look(&["gc"]),
            _ => self.look(&["doctor"]),
        })
    }
}
