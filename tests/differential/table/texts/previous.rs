//! What is said of a `prevResult` that cannot be read, and of an interface in it that is not there.

use serde_json::{Value, json};

use super::super::bridge;
use super::said;
use crate::row::{Row, Step, with};

/// The host's interface of the result.
const PAIR: &str = "ip link add up0 type veth peer name up1; ip link set up0 up";

/// Results that cannot be read.
pub(crate) fn unreadable() -> Vec<Row> {
    let address = json!({"cniVersion": "1.0.0", "ips": [{"address": "x"}]});
    let gateway =
        json!({"cniVersion": "1.0.0", "ips": [{"address": "10.9.0.2/24", "gateway": "x"}]});
    let route = json!({"cniVersion": "1.0.0", "routes": [{"dst": "x"}]});
    let version = json!({"cniVersion": "7.0.0"});
    let refused = |name, plugin: Value, result: &Value| {
        said(name, &[with(plugin, &json!({"prevResult": result}))], 7)
    };
    let fixed = json!({"type": "static", "ipam": {"type": "static",
        "addresses": [{"address": "10.9.0.5/24"}]}});
    let of = |plugin: &str| json!({"type": plugin});
    let checked = |row: Row| row.steps(&[Step::Check]);
    vec![
        refused("says: portmap, bad result", of("portmap"), &address),
        checked(refused("says: portmap, CHECK of a bad result", of("portmap"), &address)),
        refused("says: portmap, result of no version", of("portmap"), &version),
        refused("says: portmap, result of no version in 0.4.0", of("portmap"), &version)
            .key("cniVersion", json!("0.4.0")),
        refused("says: portmap, result of no version in 0.2.0", of("portmap"), &version)
            .key("cniVersion", json!("0.2.0")),
        refused("says: tuning, bad result", of("tuning"), &address),
        refused("says: tuning, bad gateway in the result", of("tuning"), &gateway),
        refused("says: tuning, bad route in the result", of("tuning"), &route),
        checked(refused("says: tuning, CHECK of a bad result", of("tuning"), &address)),
        refused("says: loopback, bad result", of("loopback"), &address),
        refused("says: firewall, bad result", of("firewall"), &address),
        refused("says: bandwidth, bad result", of("bandwidth"), &address),
        refused("says: sbr, bad result", of("sbr"), &address),
        refused("says: vrf, bad result", json!({"type": "vrf", "vrfname": "blue"}), &address),
        refused("says: bridge, bad result", bridge::plugin(&json!({})), &address),
        refused("says: bridge, result of no version", bridge::plugin(&json!({})), &version),
        checked(refused("says: static, CHECK of a bad result", fixed, &address)),
    ]
}

/// The container has no interface of the name in the result.
pub(crate) fn missing_interface() -> Vec<Row> {
    let result = json!({"prevResult": {"cniVersion": "1.0.0",
        "interfaces": [{"name": "up0"}, {"name": "eth0", "sandbox": "/run/netns/c1"}],
        "ips": [{"address": "10.9.0.2/24", "gateway": "10.9.0.1", "interface": 1}]}});
    let missing = |name, plugin: Value| said(name, &[with(plugin, &result)], 104);
    let checked = |row: Row| row.steps(&[Step::Check]);
    let tuning = || json!({"type": "tuning", "mtu": 1300});
    let limit = || json!({"type": "bandwidth", "ingressRate": 8000, "ingressBurst": 8000});
    vec![
        missing("says: tuning, no interface", tuning()),
        checked(missing("says: tuning, CHECK of no interface", tuning())),
        missing("says: sbr, no interface", json!({"type": "sbr"})),
        checked(missing("says: vrf, CHECK of no vrf", json!({"type": "vrf", "vrfname": "blue"}))),
        missing("says: bandwidth, no interface", limit()).before(PAIR),
        checked(missing("says: bandwidth, CHECK of no interface", limit())).before(PAIR),
        checked(said(
            "says: bandwidth, CHECK without interfaces",
            &[json!({"type": "bandwidth", "prevResult": {"cniVersion": "1.0.0"}})],
            7,
        )),
    ]
}
