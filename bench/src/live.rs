//! What looking at a host costs that has many containers, and changing one of them: a command, `spoke top` as
//! it runs, and the page.

mod page;
mod top;

use std::process::Command;

use model::Result;
use serde_json::json;

use crate::args::Args;
use crate::chain::{Attachment, Chain, Net, Runtime};
use crate::contender::Contender;
use crate::execute::{Cost, children, program, succeed};
use crate::flow::serve;
use crate::pairs::{Case, round_robin};
use crate::peers::Peers;
use crate::stats::{Book, Measure, wall};
use crate::targets::{Verdict, at_most};
use crate::world::{Host, namespace};

const CASE: &str = "a command about a running container";
const FEW: (&str, usize) = ("10 containers", 10);
const MANY: (&str, usize) = ("1,000 containers", 1_000);
const VERBS: [&str; 4] = ["explain", "top --once", "port add", "port rm"];
const PORT: &str = "8443:443";
/// The container that is called where a way is explained.
const CALLED: usize = 1;

/// Measures. What stays there is measured last: the commands before account for all that this process starts.
pub(crate) fn run(peers: &Peers, args: &Args, book: &mut Book) -> Result<()> {
    let hosts = [Host::new("live-few")?, Host::new("live-many")?];
    let runtimes = hosts.each_ref().map(|host| Runtime { host, plugins: &peers.ours });
    let mut contenders: Vec<Box<dyn Contender + '_>> = Vec::new();
    for (runtime, (label, count)) in runtimes.into_iter().zip([FEW, MANY]) {
        fill(runtime, count)?;
        contenders.push(Box::new(Commands { label, runtime }));
    }
    round_robin(book, &mut [Case { name: CASE.into(), contenders }], args.rounds);
    for (runtime, (label, _)) in runtimes.into_iter().zip([FEW, MANY]) {
        top::measure(runtime, label, args, book)?;
    }
    page::measure(peers, args, book)
}

/// `spoke`, as it is called on a host.
fn spoke(runtime: Runtime<'_>) -> Command {
    let mut command = program(runtime.plugins.join("spoke"));
    command.env("SPOKE_CONFIG", runtime.host.dir.join("config.toml"));
    command
}

/// Attaches so many containers; the one that is explained serves a port, which is published.
fn fill(runtime: Runtime<'_>, count: usize) -> Result<()> {
    let net = Net { host: runtime.host, name: "live", octet: 63 };
    let chain: Chain = net.list("1.0.0", &[net.plugin(&json!({ "ipam": net.ipam(json!([])) }))]);
    for number in 0..count {
        let netns = namespace(&format!("live{count}-{number}"))?;
        let attachment = Attachment::new(&container(number), &netns);
        runtime.host.within(|| chain.add(runtime, &attachment, 0..chain.len(), String::new()))?;
        if number == CALLED {
            serve(&netns, "0.0.0.0:80")?;
        }
    }
    // The first port of a host also makes the table of its counters, and the last one removes it.
    let mut command = spoke(runtime);
    command.args(["port", "add", &container(CALLED), "9080:80"]);
    runtime.host.within(|| succeed(&mut command, "")).map(drop)
}

/// No container's name is the start of another one's.
fn container(number: usize) -> String {
    format!("live{number:04}")
}

/// `spoke` on a host with so many containers.
struct Commands<'a> {
    label: &'static str,
    runtime: Runtime<'a>,
}

impl Contender for Commands<'_> {
    fn label(&self) -> &str {
        self.label
    }

    fn verbs(&self) -> &'static [&'static str] {
        &VERBS
    }

    fn run(&mut self, verb: &str) -> Result<Cost> {
        let (first, second) = (container(0), container(CALLED));
        let objects: &[&str] = match verb {
            "explain" => &[&first, &second, "80"],
            "port add" => &[&first, PORT],
            "port rm" => &[&first, PORT],
            _ => &[],
        };
        let mut command = spoke(self.runtime);
        command.args(verb.split(' ')).args(objects);
        self.runtime.host.within(|| Ok(children(|| succeed(&mut command, ""))?.1))
    }
}

/// What it should not cost.
pub(crate) fn targets(book: &Book) -> Vec<Verdict> {
    let of = |verb, measure: Measure| book.find(CASE, MANY.0, verb)?.summary(measure);
    let added = book.find(CASE, MANY.0, "port add").zip(book.find(CASE, FEW.0, "port add"));
    let many = |what: &str| format!("{}: {what}", MANY.0);
    let mut verdicts = vec![
        at_most(many("explain, ms"), 50.0, of("explain", wall)),
        at_most(many("port add, ms"), 5.0, of("port add", wall)),
        at_most(
            format!("{} / {}: port add wall", MANY.0, FEW.0),
            2.0,
            added.and_then(|(many, few)| many.ratio(few, wall)),
        ),
        at_most(many("top, % of a processor"), 1.0, top::share(book, MANY.0)),
    ];
    verdicts.extend(page::targets(book));
    verdicts
}
