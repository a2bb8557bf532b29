//! What a fence costs: one container more on a fenced network, and a flow of one that goes on.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;

use model::{Error, Result};
use netlink::Netns;
use serde_json::{Value, json};

use crate::args::Args;
use crate::chain::{Attachment, Chain, Net, Runtime};
use crate::contender::{Contender, Plugins};
use crate::execute::{Cost, ourselves};
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
/// What is sent in one turn, in bytes.
const SENT: [usize; 2] = [128 << 20, 512 << 20];

/// Measures.
pub(crate) fn run(peers: &Peers, args: &Args, book: &mut Book) -> Result<()> {
    let (open, fenced) = (Host::new("fence-open")?, Host::new("fence-fenced")?);
    let length = args.either(SENT[0], SENT[1]);
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
        flow.push(Box::new(Flow { label: side.label, container: &side.resident, length }));
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
        serve(&outside)?;
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

/// A link to the outside, which knows the way back.
fn uplink(host: &Host, outside: &Path) -> Result<()> {
    let name = outside.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    for words in [
        "ip link add up0 type veth peer name out0 netns NAME",
        "ip address add 198.51.100.1/24 dev up0",
        "ip link set up0 up",
        "ip -n NAME address add 198.51.100.2/24 dev out0",
        "ip -n NAME link set out0 up",
        "ip -n NAME route add default via 198.51.100.1",
    ] {
        let words: Vec<&str> =
            words.split(' ').map(|word| if word == "NAME" { name } else { word }).collect();
        host.run(&words, "")?;
    }
    Ok(())
}

/// Reads whatever is sent, and answers at its end. It ends with this process.
fn serve(outside: &Path) -> Result<()> {
    let listener = Netns::open(outside)?.enter(|| TcpListener::bind(SERVER))?;
    let listener = listener.map_err(|error| Error::os("listening outside", error))?;
    thread::spawn(move || {
        let mut room = vec![0; 1 << 18];
        for mut stream in listener.incoming().flatten() {
            while stream.read(&mut room).is_ok_and(|read| read > 0) {}
            let _ = stream.write_all(b"x");
        }
    });
    Ok(())
}

/// A container that sends.
struct Flow<'a> {
    label: &'static str,
    container: &'a Path,
    length: usize,
}

impl Contender for Flow<'_> {
    fn label(&self) -> &str {
        self.label
    }

    fn verbs(&self) -> &'static [&'static str] {
        &["SEND"]
    }

    fn run(&mut self, _verb: &str) -> Result<Cost> {
        let failed = |error| Error::os("sending", error);
        let stream = Netns::open(self.container)?.enter(|| TcpStream::connect(SERVER))?;
        let mut stream = stream.map_err(failed)?;
        let data = vec![0; 1 << 18];
        let (_, cost) = ourselves(|| {
            for _ in 0..self.length / data.len() {
                stream.write_all(&data).map_err(failed)?;
            }
            stream.shutdown(Shutdown::Write).map_err(failed)?;
            stream.read_exact(&mut [0]).map_err(failed)
        })?;
        Ok(cost)
    }
}

/// What it should not cost.
pub(crate) fn targets(book: &Book) -> Vec<Verdict> {
    let ratio = |case: &str, verb: &str| -> Option<Summary> {
        book.find(case, FENCED, verb)?.ratio(book.find(case, OPEN, verb)?, wall)
    };
    let attach =
        at_most(format!("fenced / no fence, {ATTACH}: ADD wall"), 1.1, ratio(ATTACH, "ADD"));
    // Throughput is the inverse of time.
    let measured = ratio(FLOW, "SEND").map(|time| Summary {
        median: 1.0 / time.median,
        low: 1.0 / time.high,
        high: 1.0 / time.low,
    });
    let what = format!("fenced / no fence, {FLOW}: bytes per second");
    vec![attach, Verdict { what, side: Side::AtLeast, target: 0.98, measured }]
}
