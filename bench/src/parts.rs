//! Plugins that add one thing to a link, and everything at once.

use model::{Error, Result};
use serde_json::{Value, json};

use crate::chain::{Net, firewall, portmap};
use crate::pairs::{Case, SPOKE, Stage};
use crate::stats::Book;
use crate::world::Host;

/// The names of the cases.
pub(crate) const BANDWIDTH: &str = "bandwidth alone";
pub(crate) const TUNING: &str = "tuning alone";
pub(crate) const SOURCE_ROUTING: &str = "sbr alone";
pub(crate) const VRF: &str = "vrf alone";
pub(crate) const MACVLAN: &str = "macvlan + host-local";
pub(crate) const EVERYTHING: &str = "everything at once";

/// The device that macvlans are made on.
const PARENT: &str = "up0";

/// All of them, but for what this kernel lacks: that is printed.
pub(crate) fn cases<'a>(stage: &Stage<'a>, book: &mut Book) -> Result<Vec<Case<'a>>> {
    let behind = |plugin: Value| {
        move |net: Net<'_>| net.list("1.0.0", &[net.plugin(&json!({})), plugin.clone()])
    };
    let mut cases = vec![
        stage.pair(BANDWIDTH, 30, true, &behind(bandwidth())),
        stage.pair(TUNING, 31, true, &behind(tuning())),
        stage.pair(SOURCE_ROUTING, 32, true, &behind(json!({ "type": "sbr" }))),
    ];
    for host in stage.hosts() {
        host.run(&["ip", "link", "add", PARENT, "up", "type", "veth", "peer", "name", "up1"], "")?;
    }
    cases.push(stage.pair(MACVLAN, 33, false, &macvlan));
    match stage.hosts().map(has_vrf) {
        [Ok(_), Ok(_)] => {
            let vrf = json!({ "type": "vrf", "vrfname": "blue" });
            cases.push(stage.pair(VRF, 34, true, &behind(vrf)));
        }
        [_, _] => book.fault(VRF, &Error::unsupported("this kernel has no VRFs".to_owned())),
    }
    let mut everything = stage.pair(EVERYTHING, 35, false, &chain);
    everything.contenders.push(Box::new(stage.plugins(SPOKE, "s36", 36, &spoke)));
    cases.push(everything);
    Ok(cases)
}

fn has_vrf(host: &Host) -> Result<String> {
    host.run(&["ip", "link", "add", "probe0", "type", "vrf", "table", "9"], "")?;
    host.run(&["ip", "link", "del", "probe0"], "")
}

fn macvlan(net: Net<'_>) -> crate::chain::Chain {
    let ipam = net.ipam(json!([{ "dst": "0.0.0.0/0" }]));
    net.list("1.0.0", &[json!({ "type": "macvlan", "master": PARENT, "ipam": ipam })])
}

/// What both do: masquerading, a port, an ingress policy, a kernel parameter, limits.
fn chain(net: Net<'_>) -> crate::chain::Chain {
    let bridge = net.plugin(&json!({ "ipMasq": true, "hairpinMode": true }));
    let mut wall = firewall();
    wall["ingressPolicy"] = json!("same-bridge");
    net.list("1.0.0", &[bridge, portmap(), wall, tuning(), bandwidth()])
}

fn spoke(net: Net<'_>) -> crate::chain::Chain {
    let entry = json!({
        "type": "spoke", "bridge": net.bridge(), "hairpinMode": true,
        "ingressPolicy": "same-bridge", "capabilities": { "portMappings": true },
        "sysctl": sysctl(), "bandwidth": limits(),
        "ipam": net.ipam(json!([{ "dst": "0.0.0.0/0" }])),
    });
    net.list("1.0.0", &[entry])
}

fn tuning() -> Value {
    json!({ "type": "tuning", "sysctl": sysctl() })
}

fn sysctl() -> Value {
    json!({ "net.ipv4.conf.IFNAME.arp_filter": "1" })
}

fn bandwidth() -> Value {
    let mut config = limits();
    config["type"] = json!("bandwidth");
    config
}

fn limits() -> Value {
    json!({
        "ingressRate": 80_000_000, "ingressBurst": 8_000_000,
        "egressRate": 40_000_000, "egressBurst": 8_000_000,
    })
}
