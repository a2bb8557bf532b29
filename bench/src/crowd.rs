//! One container more, with more and more of them on its bridge.

use std::path::PathBuf;
use std::thread;

use model::{Error, Result};
use serde_json::json;

use crate::args::Args;
use crate::chain::{Attachment, Chain, Net, Runtime};
use crate::contender::{Contender, Plugins};
use crate::floor::Floor;
use crate::pairs::{Case, OURS, REFERENCE, round_robin};
use crate::peers::Peers;
use crate::stats::Book;
use crate::world::{Host, namespace};

/// The case with so many there.
pub(crate) fn name(present: usize) -> String {
    format!("bridge, {present} attached")
}

/// Measures.
pub(crate) fn run(peers: &Peers, args: &Args, book: &mut Book) -> Result<()> {
    let (reference, ours) = (Host::new("crowd-ref")?, Host::new("crowd-ours")?);
    let floor = Host::new("crowd-floor")?;
    let measured = namespace("crowd-measured")?;
    let mut floor = Floor::new(&floor, &measured, "eth2", 53, false)?;
    let chain = |host, name, octet| {
        let net = Net { host, name, octet };
        let config = net.plugin(&json!({ "ipam": net.ipam(json!([])) }));
        net.list("1.0.0", &[config])
    };
    let runtimes = [
        (REFERENCE, Runtime { host: &reference, plugins: &peers.reference }, "eth0"),
        (OURS, Runtime { host: &ours, plugins: &peers.ours }, "eth1"),
    ];
    let chains = [chain(&reference, "crowdref", 51), chain(&ours, "crowdours", 52)];
    let mut spaces = Vec::new();
    let levels: &[usize] = args.either(&[1, 100], &[1, 100, 500, 1_000]);
    for level in levels {
        let fresh = (spaces.len()..*level).map(|number| namespace(&format!("crowd{number}")));
        let fresh = fresh.collect::<Result<Vec<_>>>()?;
        let first = spaces.len();
        for ((_, runtime, ifname), chain) in runtimes.iter().zip(&chains) {
            fill(*runtime, chain, ifname, &fresh, first)?;
        }
        floor.fill(&fresh)?;
        spaces.extend(fresh);
        let mut contenders: Vec<Box<dyn Contender + '_>> = Vec::new();
        for ((label, runtime, ifname), chain) in runtimes.iter().zip(&chains) {
            let attachment = Attachment { ifname, ..Attachment::new("measured", &measured) };
            contenders.push(Box::new(Plugins::new(label, *runtime, chain.clone(), attachment)));
        }
        contenders.push(Box::new(&mut floor));
        let mut cases = [Case { name: name(*level), contenders }];
        round_robin(book, &mut cases, args.either(6, args.rounds.min(12)));
    }
    Ok(())
}

fn fill(
    runtime: Runtime<'_>,
    chain: &Chain,
    ifname: &'static str,
    spaces: &[PathBuf],
    first: usize,
) -> Result<()> {
    let lane = |lane: usize| {
        runtime.host.within(|| {
            for (number, netns) in (first..).zip(spaces).skip(lane).step_by(2) {
                let container = format!("crowd{number}");
                let attachment = Attachment { ifname, ..Attachment::new(&container, netns) };
                chain.add(runtime, &attachment, 0..chain.len(), String::new())?;
            }
            Ok(())
        })
    };
    thread::scope(|scope| {
        let lanes = [0, 1].map(|number| scope.spawn(move || lane(number)));
        lanes
            .into_iter()
            .try_for_each(|lane| lane.join().map_err(|_| Error::bug("a thread ended early"))?)
    })
}
