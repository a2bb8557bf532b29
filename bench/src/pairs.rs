//! One container at a time, everybody in turn.

use std::path::Path;

use model::Result;
use serde_json::{Value, json};

use crate::args::Args;
use crate::chain::{Attachment, Chain, Net, Runtime, firewall, portmap};
use crate::contender::{BOTH, Contender, LinkRemoval, Netavark, Plugins, Program};
use crate::floor::Floor;
use crate::peers::Peers;
use crate::stats::Book;
use crate::world::{Host, namespace};

/// Rounds that do not count: caches fill, tables and bridges come into being.
const WARMUP: usize = 2;

/// Who all others are compared with.
pub(crate) const REFERENCE: &str = "reference";
/// Our plugins under the reference's names.
pub(crate) const OURS: &str = "ours";
/// Our one entry for everything.
pub(crate) const SPOKE: &str = "type spoke";

/// Several contenders for the same work.
pub(crate) struct Case<'a> {
    /// What it is.
    pub(crate) name: String,
    /// Who all others are compared with comes first.
    pub(crate) contenders: Vec<Box<dyn Contender + 'a>>,
}

/// Measures all cases in rounds, in which every contender has one turn.
pub(crate) fn round_robin(book: &mut Book, cases: &mut [Case<'_>], rounds: usize) {
    for round in 0..WARMUP + rounds {
        for case in cases.iter_mut() {
            let Case { name, contenders } = case;
            let mut turns: Vec<_> = contenders.iter_mut().collect();
            // No contender always comes after the same other one.
            if round % 2 == 1 {
                turns.reverse();
            }
            for contender in turns {
                turn(book, name, contender.as_mut(), round.checked_sub(WARMUP));
            }
        }
    }
}

fn turn(book: &mut Book, case: &str, contender: &mut dyn Contender, round: Option<usize>) {
    for verb in contender.verbs() {
        let cost = contender.run(verb);
        let failed = cost.is_err();
        if let Some(round) = round {
            book.cost((case, contender.label(), verb), round, cost);
        }
        if failed {
            return;
        }
    }
}

/// The contenders of one pair on hosts of their own.
pub(crate) struct Stage<'a> {
    peers: &'a Peers,
    reference: &'a Host,
    ours: &'a Host,
    netns: [std::path::PathBuf; 2],
}

/// Makes a network's list.
pub(crate) type Make<'a> = &'a dyn Fn(Net<'_>) -> Chain;

impl<'a> Stage<'a> {
    /// The hosts of the reference plugins and of ours.
    pub(crate) fn hosts(&self) -> [&'a Host; 2] {
        [self.reference, self.ours]
    }

    /// A list's plugins, on the host of `label`.
    pub(crate) fn plugins(
        &self,
        label: &'static str,
        name: &str,
        octet: u8,
        make: Make<'_>,
    ) -> Plugins<'a> {
        let (host, plugins, netns) = match label {
            REFERENCE => (self.reference, &self.peers.reference, &self.netns[0]),
            _ => (self.ours, &self.peers.ours, &self.netns[1]),
        };
        let chain = make(Net { host, name, octet });
        let runtime = Runtime { host, plugins: plugins.as_path() };
        let attachment = Attachment::new(&format!("{name}-container"), netns);
        Plugins::new(label, runtime, chain, attachment)
    }

    /// The reference plugins and ours at the same list.
    pub(crate) fn pair(&self, case: &str, octet: u8, last_only: bool, make: Make<'_>) -> Case<'a> {
        let name = format!("n{octet}");
        let contenders = [REFERENCE, OURS].map(|label| {
            let plugins = self.plugins(label, &name, octet, make);
            let plugins = if last_only { plugins.last_only() } else { plugins };
            Box::new(plugins) as Box<dyn Contender>
        });
        Case { name: case.into(), contenders: contenders.into() }
    }

    fn version(&self) -> Case<'a> {
        let program = |label, host, plugins: &Path| {
            let words = vec![plugins.join("bridge").to_string_lossy().into_owned()];
            let environment = vec![("CNI_COMMAND".into(), "VERSION".into())];
            let input = json!({ "cniVersion": "1.0.0" }).to_string();
            let verbs: &[&str] = &["VERSION"];
            Box::new(Program { label, host, words, environment, input, verbs })
                as Box<dyn Contender>
        };
        let reference = program(REFERENCE, self.reference, &self.peers.reference);
        let ours = program(OURS, self.ours, &self.peers.ours);
        Case { name: VERSION.into(), contenders: vec![reference, ours] }
    }
}

/// The names of the cases.
pub(crate) const VERSION: &str = "VERSION";
pub(crate) const BRIDGE: &str = "bridge + host-local";
pub(crate) const MASQUERADE: &str = "  + ipMasq";
pub(crate) const PORTMAP: &str = "  + portmap";
pub(crate) const FIREWALL: &str = "  + firewall";
pub(crate) const PODMAN: &str = "Podman's chain";
pub(crate) const PORTMAP_ALONE: &str = "portmap alone";
pub(crate) const FIREWALL_ALONE: &str = "firewall alone";

/// Measures the pairs.
pub(crate) fn run(peers: &Peers, args: &Args, book: &mut Book) -> Result<()> {
    let (reference, ours) = (Host::new("reference")?, Host::new("ours")?);
    let (floor, netavark) = (Host::new("floor")?, Host::new("netavark")?);
    let netns = [namespace("pair-reference")?, namespace("pair-ours")?];
    let stage = Stage { peers, reference: &reference, ours: &ours, netns };
    let list = |version: &'static str, more: Value, rest: Vec<Value>| {
        move |net: Net<'_>| {
            let mut plugins = vec![net.plugin(&more)];
            plugins.extend(rest.iter().cloned());
            net.list(version, &plugins)
        }
    };
    let none = || json!({});
    let plain = list("1.0.0", none(), vec![]);
    let with_portmap = list("1.0.0", none(), vec![portmap()]);
    let with_firewall = list("1.0.0", none(), vec![firewall()]);
    let masquerade = list("1.0.0", json!({ "ipMasq": true }), vec![]);
    let mut cases = vec![
        stage.version(),
        stage.pair(BRIDGE, 20, false, &plain),
        stage.pair(MASQUERADE, 21, false, &masquerade),
        stage.pair(PORTMAP, 22, false, &with_portmap),
        stage.pair(FIREWALL, 23, false, &with_firewall),
        stage.pair(PORTMAP_ALONE, 24, true, &with_portmap),
        stage.pair(FIREWALL_ALONE, 25, true, &with_firewall),
        stage.pair(PODMAN, 26, false, &|net: Net<'_>| net.podman()),
    ];
    let removal = LinkRemoval { host: &floor, netns: namespace("pair-plain")? };
    if let Some(case) = cases.iter_mut().find(|case| case.name == BRIDGE) {
        case.contenders.push(Box::new(removal));
    }
    if let Some(case) = cases.last_mut() {
        case.contenders
            .push(Box::new(stage.plugins(SPOKE, "s27", 27, &|net: Net<'_>| net.spoke())));
        more(peers, book, &netavark, &floor, case);
    }
    cases.extend(crate::parts::cases(&stage, book)?);
    round_robin(book, &mut cases, args.rounds);
    Ok(())
}

/// Those who do the whole work, but not as plugins.
fn more<'a>(
    peers: &'a Peers,
    book: &mut Book,
    netavark: &'a Host,
    floor: &'a Host,
    case: &mut Case<'a>,
) {
    let mut join = |who: &str, contender: Result<Box<dyn Contender + 'a>>| match contender {
        Ok(contender) => case.contenders.push(contender),
        Err(error) => book.fault(who, &error),
    };
    if let Some(program) = &peers.netavark {
        join("netavark", with_netavark(program, netavark));
    }
    join("floor", with_floor(floor));
    let words = vec![peers.bench.to_string_lossy().into_owned(), "start".into()];
    let (environment, input) = (vec![], String::new());
    let start =
        Program { label: "process start", host: floor, words, environment, input, verbs: BOTH };
    join("process start", Ok(Box::new(start)));
}

fn with_netavark<'a>(program: &'a Path, host: &'a Host) -> Result<Box<dyn Contender + 'a>> {
    let (netns, resident) = (namespace("pair-netavark")?, namespace("resident-netavark")?);
    Ok(Box::new(Netavark::new(program, host, &netns, &resident)?))
}

fn with_floor(host: &Host) -> Result<Box<dyn Contender + '_>> {
    let netns = namespace("pair-floor")?;
    Ok(Box::new(Floor::new(host, &netns, "eth0", 88, true)?))
}
