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
    let has_routes = |row: &Row| {
        let without = ["sbr: table", "sbr: two addresses", "sbr: DEL twice", "sbr: alone"];
        !without.contains(&row.name)
    };
    let differing = |row: Row| match row.name {
        "sbr: DEL twice" => moved(row),
        "sbr: two addresses" => checked(moved_links(row)),
        _ if has_routes(&row) => checked(moved(row)),
        _ => row,
    };
    all().into_iter().map(differing).collect()
}

/// As every ADD differs.
pub(crate) fn moved(row: Row) -> Row {
    row.differs(
        "routes that are moved to another table are there once, and not the kernel's any more",
        &["\"table\":\"10"],
    )
}

/// As ADD differs where each address has the route to its own link alone: by its origin.
fn moved_links(row: Row) -> Row {
    row.differs(
        "a route that is moved to another table is not the kernel's any more",
        &[
            r#"- c1 route {"dev":"eth0","dst":"10.9.0.0/24","prefsrc":"10.9.0.2","protocol":"kernel","scope":"link","table":"100","type":"unicast"}"#,
            r#"+ c1 route {"dev":"eth0","dst":"10.9.0.0/24","prefsrc":"10.9.0.2","protocol":"boot","scope":"link","table":"100","type":"unicast"}"#,
            r#"- c1 route {"dev":"eth0","dst":"10.8.0.0/24","prefsrc":"10.8.0.2","protocol":"kernel","scope":"link","table":"101","type":"unicast"}"#,
            r#"+ c1 route {"dev":"eth0","dst":"10.8.0.0/24","prefsrc":"10.8.0.2","protocol":"boot","scope":"link","table":"101","type":"unicast"}"#,
        ],
    )
}

/// As CHECK differs.
pub(crate) fn checked(row: Row) -> Row {
    row.differs(
        "CHECK of the reference's bridge looks for the routes that its own sbr has moved",
        &["Check: - answer ", "Check: + answer "],
    )
}

/// The same in a version that has CHECK.
pub(crate) fn checked_where(row: Row, version: &str) -> Row {
    match version {
        "0.4.0" | "1.0.0" | "1.1.0" => checked(row),
        _ => row,
    }
}

fn all() -> Vec<Row> {
    let sbr = |more: Value| with(json!({"type": "sbr"}), &more);
    let row = |name, ipam: Value, more: Value| behind_bridge(name, &ipam, sbr(more));
    let two = bridge::plugin(&json!({"ipam": {
        "type": "host-local", "ranges": [[{"subnet": "10.9.0.0/24"}], [{"subnet": "10.8.0.0/24"}]],
    }}));
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
        Row::new("sbr: two addresses", "1.0.0", &[two, sbr(json!({}))]),
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
