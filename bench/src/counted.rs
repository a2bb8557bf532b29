//! What counters of published ports cost: a flow to one that is counted, and to one that is not.

use model::Result;
use serde_json::json;

use crate::args::Args;
use crate::chain::{Attachment, Chain, Net, Runtime};
use crate::contender::Contender;
use crate::flow::{self, Flow, serve, uplink};
use crate::pairs::{Case, round_robin};
use crate::peers::Peers;
use crate::stats::{Book, wall};
use crate::targets::{Side, Verdict};
use crate::world::{Host, namespace};

const FLOW: &str = "a flow to a published port";
const COUNTED: &str = "counted";
const PLAIN: &str = "not counted";
/// The published port, from outside, and the container's.
const PUBLISHED: &str = "198.51.100.1:8080";
const INSIDE: &str = "0.0.0.0:80";

/// Measures.
pub(crate) fn run(peers: &Peers, args: &Args, book: &mut Book) -> Result<()> {
    let length = flow::length(args);
    let mut sides = Vec::new();
    for (label, word) in [(PLAIN, "plain"), (COUNTED, "counted")] {
        let host = Host::new(&format!("ports-{word}"))?;
        let outside = namespace(&format!("ports-{word}-outside"))?;
        let container = namespace(&format!("ports-{word}-container"))?;
        uplink(&host, &outside)?;
        let net = Net { host: &host, name: word, octet: 61 };
        let entry = json!({
            "type": "spoke", "bridge": net.bridge(), "capabilities": { "portMappings": true },
            "ipam": net.ipam(json!([{ "dst": "0.0.0.0/0" }])),
        });
        let list = json!({ "cniVersion": "1.0.0", "name": word, "plugins": [entry] });
        let ports = json!([{ "hostPort": 8080, "containerPort": 80, "protocol": "tcp" }]);
        let chain = Chain::new(&list, &ports);
        let runtime = Runtime { host: &host, plugins: peers.ours.as_path() };
        let attachment = Attachment::new("resident", &container);
        host.within(|| chain.add(runtime, &attachment, 0..chain.len(), String::new()))?;
        serve(&container, INSIDE)?;
        if label == PLAIN {
            // It is a table of its own, and there is no daemon that would put it back.
            host.run(&["nft", "delete", "table", "inet", "spoke_ports"], "")?;
        }
        sides.push((label, host, outside));
    }
    let flow = |(label, _, from): &'_ (&'static str, Host, std::path::PathBuf)| {
        Box::new(Flow { label, from: from.clone(), to: PUBLISHED, length }) as Box<dyn Contender>
    };
    let contenders = sides.iter().map(flow).collect();
    round_robin(book, &mut [Case { name: FLOW.into(), contenders }], args.rounds);
    Ok(())
}

/// What they should not cost.
pub(crate) fn targets(book: &Book) -> Vec<Verdict> {
    let of = |who| book.find(FLOW, who, "SEND");
    let time = of(COUNTED).zip(of(PLAIN)).and_then(|(ours, base)| ours.ratio(base, wall));
    let what = format!("{FLOW}: bytes per second, {COUNTED} / {PLAIN}");
    vec![Verdict { what, side: Side::AtLeast, target: 0.99, measured: time.map(flow::speed) }]
}
