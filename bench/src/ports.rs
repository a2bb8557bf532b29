//! One more published port, with more and more of them there.

use std::path::Path;

use model::Result;
use serde_json::json;

use crate::args::Args;
use crate::chain::{Attachment, Chain, Net, Runtime, portmap, ports};
use crate::contender::Plugins;
use crate::pairs::{Case, OURS, REFERENCE, round_robin};
use crate::peers::Peers;
use crate::stats::Book;
use crate::world::{Host, namespace};

/// Of each container that fills the table.
const EACH: u16 = 10;
const FIRST: u16 = 10_000;

/// The case with so many there.
pub(crate) fn name(present: u16) -> String {
    format!("portmap, {present} ports present")
}

/// Measures; the reference only where its own tools can fill the table in time.
pub(crate) fn run(peers: &Peers, args: &Args, book: &mut Book) -> Result<()> {
    let (reference, ours) = (Host::new("ports-ref")?, Host::new("ports-ours")?);
    let netns = namespace("ports")?;
    let runtimes = [
        (REFERENCE, Runtime { host: &reference, plugins: &peers.reference }),
        (OURS, Runtime { host: &ours, plugins: &peers.ours }),
    ];
    let mut present = 0;
    for level in args.either([1, 100, 1_000], [1, 1_000, 10_000]) {
        let mut contenders: Vec<Box<dyn crate::contender::Contender>> = Vec::new();
        for (label, runtime) in runtimes {
            match label {
                OURS => fill(runtime, &netns, present, level)?,
                _ => fill_tables(runtime, present, level)?,
            }
            let chain = list(runtime.host, "p40", ports(crate::chain::PORT, 1));
            let attachment = Attachment::new("measured", &netns);
            contenders.push(Box::new(Plugins::new(label, runtime, chain, attachment).last_only()));
        }
        present = level;
        let mut cases = [Case { name: name(level), contenders }];
        round_robin(book, &mut cases, args.either(6, args.rounds.min(15)));
    }
    Ok(())
}

fn list(host: &Host, name: &str, ports: serde_json::Value) -> Chain {
    let net = Net { host, name, octet: 40 };
    let plugins = [net.plugin(&json!({})), portmap()];
    let list = json!({ "cniVersion": "1.0.0", "name": name, "plugins": plugins });
    Chain::new(&list, &ports)
}

/// From `present` to `level`, by our own plugin, for containers that are there by word only.
fn fill(runtime: Runtime<'_>, netns: &Path, present: u16, level: u16) -> Result<()> {
    runtime.host.within(|| {
        let mut number = present;
        while number < level {
            let count = EACH.min(level - number);
            let chain = list(runtime.host, "p40", ports(FIRST + number, count));
            let [high, low] = number.to_be_bytes();
            let result = json!({
                "cniVersion": "1.0.0",
                "interfaces": [{ "name": "eth0", "sandbox": netns }],
                "ips": [{ "address": format!("10.40.{}.{low}/16", high | 0x80), "interface": 0 }],
            });
            let attachment = Attachment::new(&format!("fill{number}"), netns);
            chain.add(runtime, &attachment, 1..2, result.to_string())?;
            number += count;
        }
        Ok(())
    })
}

/// As the reference leaves it: a chain per container and a jump to it. Its own plugin would take
/// minutes.
fn fill_tables(runtime: Runtime<'_>, present: u16, level: u16) -> Result<()> {
    let mut rules = String::from("*nat\n:CNI-HOSTPORT-DNAT - [0:0]\n");
    for number in present..level {
        rules += &format!(":CNI-DN-{number:020} - [0:0]\n");
    }
    for number in present..level {
        let (port, [high, low]) = (FIRST + number, number.to_be_bytes());
        let to = format!("10.40.{}.{low}", high | 0x80);
        rules += &format!(
            "-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment \"dnat name: \\\"p40\\\" id: \\\"fill{number}\\\"\" -m multiport --dports {port} -j CNI-DN-{number:020}\n\
             -A CNI-DN-{number:020} -s {to}/32 -p tcp -m tcp --dport {port} -j CNI-HOSTPORT-SETMARK\n\
             -A CNI-DN-{number:020} -p tcp -m tcp --dport {port} -j DNAT --to-destination {to}:80\n"
        );
    }
    if present == 0 {
        rules = rules.replacen("\n:CNI-DN", "\n:CNI-HOSTPORT-SETMARK - [0:0]\n:CNI-DN", 1);
        rules += "-A CNI-HOSTPORT-SETMARK -m comment --comment \"CNI portfwd masquerade mark\" -j MARK --set-xmark 0x2000/0x2000\n";
    }
    rules += "COMMIT\n";
    runtime.host.run(&["iptables-restore", "--noflush"], &rules).map(drop)
}
