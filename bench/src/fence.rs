//! What a fence costs: one container more on a fenced network, and a flow of one that goes on.

use std::path::PathBuf;

use model::Result;
use serde_json::{Value, json};

use crate::args::Args;
use crate::chain::{Attachment, Chain, Net, Runtime};
use crate::contender::{Contender, Plugins};
use crate::flow::{self, Flow, serve, uplink};
use crate::pairs::{Case, round_robin};
use crate::peers::Peers;
use crate::stats::{Book, Summary, wall};
use crate::targets::{Side, Verdict, at_most};
use crate::world::{Host, namespace};

const ATTACH: &str = "one container more";
const FLOW: &str = "an established flow";
const OPEN: &str = "no fence";
const FENCED: &str = "fenced";
const SERVER: &str = "198.51.100.2:5000";

/// Measures.
pub(crate) fn run(peers: &Peers, args: &Args, book: &mut Book) -> Result<()> {
    let (open, fenced) = (Host::new("fence-open")?, Host::new("fence-fenced")?);
    let length = flow::length(args);
    let sides = [
        Bed::new(peers, OPEN, &open, json!({}))?,
        Bed::new(peers, FENCED, &fenced, json!({ "egress": [SERVER, "*.example.org:443"] }))?,
    ];
    let mut attach: Vec<Box<dyn Contender + '_>> = Vec::new();
    let mut flow: Vec<Box<dyn Contender + '_>> = Vec::new();
    for side in &sides {
        let attachment = Attachment::new("measured", &side.measured);
        attach.push(Box::new(Plugins::new(
            side.label,
            side.runtime,
            side.chain.clone(),
            attachment,
        )));
        let (label, from) = (side.label, side.resident.clone());
        flow.push(Box::new(Flow { label, from, to: SERVER, length }));
    }
    let mut cases = [
        Case { name: ATTACH.into(), contenders: attach },
        Case { name: FLOW.into(), contenders: flow },
    ];
    round_robin(book, &mut cases, args.rounds);
    Ok(())
}

/// A host with a network, a container that stays, and a server outside.
struct Bed<'a> {
    label: &'static str,
    runtime: Runtime<'a>,
    chain: Chain,
    resident: PathBuf,
    measured: PathBuf,
}

impl<'a> Bed<'a> {
    fn new(peers: &'a Peers, label: &'static str, host: &'a Host, more: Value) -> Result<Self> {
        let word = if label == OPEN { "open" } else { "fenced" };
        let space = |what: &str| namespace(&format!("fence-{word}-{what}"));
        let (outside, resident, measured) = (space("world")?, space("resident")?, space("one")?);
        uplink(host, &outside)?;
        serve(&outside, SERVER)?;
        let net = Net { host, name: word, octet: 60 };
        let mut entry = json!({
            "type": "spoke", "bridge": net.bridge(),
            "ipam": net.ipam(json!([{ "dst": "0.0.0.0/0" }])),
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            entry[key] = value.clone();
        }
        let chain = net.list("1.0.0", &[entry]);
        let runtime = Runtime { host, plugins: peers.ours.as_path() };
        let stays = Attachment::new("resident", &resident);
        host.within(|| chain.add(runtime, &stays, 0..chain.len(), String::new()))?;
        Ok(Self { label, runtime, chain, resident, measured })
    }
}

/// What it should not cost.
pub(crate) fn targets(book: &Book) -> Vec<Verdict> {
    let ratio = |case: &str, verb: &str| -> Option<Summary> {
        book.find(case, FENCED, verb)?.ratio(book.find(case, OPEN, verb)?, wall)
    };
    let attach =
        at_most(format!("fenced / no fence, {ATTACH}: ADD wall"), 1.1, ratio(ATTACH, "ADD"));
    let measured = ratio(FLOW, "SEND").map(flow::speed);
    let what = format!("fenced / no fence, {FLOW}: bytes per second");
    vec![attach, Verdict { what, side: Side::AtLeast, target: 0.98, measured }]
}
