//! `host-local` by itself, with more and more addresses taken.

use std::net::Ipv4Addr;
use std::path::Path;
use std::thread;

use model::{Error, Result};
use serde_json::json;

use crate::args::Args;
use crate::chain::{Attachment, Chain, Net, Runtime};
use crate::contender::{Contender, Plugins};
use crate::pairs::{Case, OURS, REFERENCE, round_robin};
use crate::peers::Peers;
use crate::stats::Book;
use crate::world::{self, Host, namespace};

/// Ours on the reference's files, which our book knows nothing of.
pub(crate) const INHERITED: &str = "ours, its files";

/// The case with so many taken.
pub(crate) fn name(taken: u16) -> String {
    format!("host-local, {taken} taken")
}

/// Measures.
pub(crate) fn run(peers: &Peers, args: &Args, book: &mut Book) -> Result<()> {
    let levels: &[u16] = args.either(&[10, 1_000, 4_000], &[10, 1_000, 4_000, 30_000]);
    let hosts = [Host::new("addr-ref")?, Host::new("addr-ours")?, Host::new("addr-inherited")?];
    let netns = namespace("addresses")?;
    let mut cases = Vec::new();
    for (octet, taken) in (30..).zip(levels) {
        let name = format!("a{octet}");
        let mut contenders: Vec<Box<dyn Contender>> = Vec::new();
        for (host, label) in hosts.iter().zip([REFERENCE, OURS, INHERITED]) {
            let plugins = if label == REFERENCE { &peers.reference } else { &peers.ours };
            let runtime = Runtime { host, plugins };
            let net = Net { host, name: &name, octet };
            let config = json!({ "type": "host-local", "ipam": net.ipam(json!([])) });
            let chain = net.list("1.0.0", &[config]);
            match label {
                OURS => take(runtime, &chain, &netns, *taken)?,
                _ => write_files(&host.networks().join(&name), octet, *taken)?,
            }
            let attachment = Attachment::new("measured", &netns);
            contenders.push(Box::new(Plugins::new(label, runtime, chain, attachment)));
        }
        cases.push(Case { name: self::name(*taken), contenders });
    }
    round_robin(book, &mut cases, args.either(6, args.rounds.min(15)));
    Ok(())
}

/// As the reference leaves them: a file per address, with the holder in it.
fn write_files(dir: &Path, octet: u8, taken: u16) -> Result<()> {
    world::make(dir)?;
    let mut last = String::new();
    for number in 2..taken.saturating_add(2) {
        let [high, low] = number.to_be_bytes();
        last = Ipv4Addr::new(10, octet, high, low).to_string();
        world::write(&dir.join(&last), &format!("taken{number}\r\neth0"))?;
    }
    world::write(&dir.join("last_reserved_ip.0"), &last)
}

/// By asking for each.
fn take(runtime: Runtime<'_>, chain: &Chain, netns: &Path, taken: u16) -> Result<()> {
    let lane = |first: u16| {
        runtime.host.within(|| {
            for number in (first..taken).step_by(2) {
                let attachment = Attachment::new(&format!("taken{number}"), netns);
                chain.add(runtime, &attachment, 0..1, String::new())?;
            }
            Ok(())
        })
    };
    thread::scope(|scope| {
        let lanes = [0, 1].map(|first| scope.spawn(move || lane(first)));
        lanes
            .into_iter()
            .try_for_each(|lane| lane.join().map_err(|_| Error::bug("a thread ended early"))?)
    })
}
