//! `sbr` and `vrf` behind a bridge.

use serde_json::{Value, json};

use super::bridge;
use crate::row::{Row, Step, with};

fn behind_bridge(name: &'static str, ipam: &Value, plugin: Value) -> Row {
    let ipam = with(json!({"type": "host-local"}), ipam);
    Row::new(name, "1.0.0", &[bridge::plugin(&json!({"isGateway": true, "ipam": ipam})), plugin])
}

fn one() -> Value {
    json!({"subnet": "10.9.0.0/24", "routes": [{"dst": "0.0.0.0/0"}, {"dst": "192.0.2.0/24", "gw": "10.9.0.9"}]})
}

fn dual() -> Value {
    json!({
        "ranges": [[{"subnet": "10.9.0.0/24"}], [{"subnet": "fd09::/64"}]],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
    })
}

pub(crate) fn sbr() -> Vec<Row> {
    let sbr = |more: Value| with(json!({"type": "sbr"}), &more);
    let row = |name, ipam: Value, more: Value| behind_bridge(name, &ipam, sbr(more));
    vec![
        row("sbr", one(), json!({})),
        row("sbr: dual stack", dual(), json!({})),
        row("sbr: without routes", json!({"subnet": "10.9.0.0/24"}), json!({})),
        row("sbr: table", one(), json!({"table": 300})),
        row("sbr: the first free table", one(), json!({})).steps(&[
            Step::Sh("ip -n c1 rule add from 192.0.2.1 table 100"),
            Step::Add,
            Step::Check,
            Step::Del,
        ]),
        row(
            "sbr: two addresses",
            json!({"ranges": [[{"subnet": "10.9.0.0/24"}], [{"subnet": "10.8.0.0/24"}]]}),
            json!({}),
        ),
        row("sbr: DEL twice", one(), json!({})).steps(&[Step::Add, Step::Del, Step::Del]),
        Row::new("sbr: alone", "1.0.0", &[sbr(json!({}))]).refused(7),
    ]
}

pub(crate) fn vrf() -> Vec<Row> {
    let vrf = |more: Value| with(json!({"type": "vrf", "vrfname": "blue"}), &more);
    let row = |name, ipam: Value, more: Value| behind_bridge(name, &ipam, vrf(more));
    vec![
        row("vrf", one(), json!({})),
        row("vrf: dual stack", dual(), json!({})),
        row("vrf: table", one(), json!({"table": 300})),
        row("vrf: exists", one(), json!({})).steps(&[
            Step::Sh("ip -n c1 link add blue type vrf table 7; ip -n c1 link set blue up"),
            Step::Add,
            Step::Check,
            Step::Del,
        ]),
        row("vrf: exists with another table", one(), json!({"table": 9}))
            .steps(&[
                Step::Sh("ip -n c1 link add blue type vrf table 7; ip -n c1 link set blue up"),
                Step::Add,
            ])
            .code(101),
        row("vrf: CHECK when it left", one(), json!({}))
            .steps(&[Step::Add, Step::Sh("ip -n c1 link set eth0 nomaster"), Step::Check])
            .code(104),
        row("vrf: DEL twice", one(), json!({})).steps(&[Step::Add, Step::Del, Step::Del]),
    ]
}

/// What needs no kernel that has VRFs.
pub(crate) fn vrf_refusals() -> Vec<Row> {
    vec![
        behind_bridge("vrf: no name", &one(), json!({"type": "vrf"})).refused(7).forgiving(),
        Row::new("vrf: alone", "1.0.0", &[json!({"type": "vrf", "vrfname": "blue"})]).refused(7),
    ]
}
