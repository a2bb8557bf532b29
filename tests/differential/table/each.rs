//! Every plugin in every version, and deleted in every way that runtimes know.

use serde_json::{Value, json};

use super::{bridge, loopback, ptp};
use crate::row::{Row, Step};

/// Each plugin, chained behind a bridge where it has to be.
fn each() -> Vec<(&'static str, Vec<Value>)> {
    let ipam = || json!({"type": "host-local", "subnet": "10.9.0.0/24"});
    let chained = |plugin: Value| vec![bridge::plugin(&json!({"isGateway": true})), plugin];
    let fixed = json!({"type": "static", "addresses": [{"address": "10.9.0.5/24"}]});
    vec![
        ("loopback", vec![json!({"type": "loopback"})]),
        ("bridge", vec![bridge::plugin(&json!({"isGateway": true}))]),
        ("ptp", vec![json!({"type": "ptp", "ipam": ipam()})]),
        ("host-local", vec![json!({"type": "host-local", "ipam": ipam()})]),
        ("static", vec![json!({"type": "static", "ipam": fixed})]),
        (
            "portmap",
            chained(json!({
                "type": "portmap", "backend": "iptables", "capabilities": {"portMappings": true},
            })),
        ),
        ("firewall", chained(json!({"type": "firewall", "backend": "iptables"}))),
        ("tuning", chained(json!({"type": "tuning", "mtu": 1300}))),
    ]
}

fn row(name: String, version: &str, plugins: &[Value]) -> Row {
    let port = json!({"hostPort": 8080, "containerPort": 80, "protocol": "tcp"});
    Row::new(name.leak(), version, plugins).runtime(json!({"portMappings": [port]}))
}

const VERSIONS: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

pub(crate) fn versions() -> Vec<Row> {
    let of = |(plugin, plugins): (&'static str, Vec<Value>)| {
        VERSIONS.map(|version| {
            let row = row(format!("{plugin} in {version}"), version, &plugins);
            match (plugin, version) {
                ("ptp", _) => ptp::announced(row),
                ("loopback", "0.1.0" | "0.2.0" | "0.3.0" | "0.3.1" | "0.4.0") => {
                    row.differs(loopback::FORM, loopback::FORM_LINES)
                }
                ("firewall", "0.1.0" | "0.2.0" | "0.3.0" | "0.3.1") => row.differs(
                    "every plugin of ours speaks every version; the reference's begins at 0.4.0",
                    &[
                        "1 Add: - answer 1 ",
                        "1 Add: + answer 1 exit 0",
                        "1 Add: + answer 1 result.",
                        "+ host iptables filter ",
                        "2 Del: - ",
                        "2 Del: + answer ",
                    ],
                ),
                _ => row,
            }
        })
    };
    each().into_iter().flat_map(of).collect()
}

pub(crate) fn deletions() -> Vec<Row> {
    let ways = [
        ("twice", vec![Step::Add, Step::Del, Step::Del]),
        ("without netns", vec![Step::Add, Step::DelWithoutNetns]),
        ("after netns", vec![Step::Add, Step::DelAfterNetns]),
        ("without result", vec![Step::Add, Step::DelWithoutResult]),
        ("of nothing", vec![Step::Del]),
    ];
    let of = |(plugin, plugins): (&'static str, Vec<Value>)| {
        ways.clone().map(|(way, steps)| {
            let row = row(format!("{plugin}, DEL {way}"), "1.0.0", &plugins).steps(&steps);
            deleted(row, plugin, way)
        })
    };
    each().into_iter().flat_map(of).collect()
}

/// The row with its differences.
fn deleted(row: Row, plugin: &str, way: &str) -> Row {
    let row = if plugin == "ptp" && way != "of nothing" { ptp::announced(row) } else { row };
    match (plugin, way) {
        ("static", _) | ("loopback", "of nothing") | ("host-local", "without netns") => row,
        ("loopback", "without netns") => row.differs(loopback::DOWN, loopback::DOWN_LINES),
        (_, "of nothing") => row.differs(bridge::MADE_NOTHING, bridge::LOCK),
        ("tuning", "without netns") => row.differs(BACKUP, BACKUP_LINES).without_netns(),
        (_, "without netns") => row.without_netns(),
        ("tuning", "after netns") => row.differs(BACKUP, BACKUP_LINES),
        ("firewall", "without result") => row.differs(
            "without the result the reference does not find its rules; the record knows them",
            &["2 DelWithoutResult: - host iptables filter "],
        ),
        _ => row,
    }
}

const BACKUP: &str = "what an interface was before is forgotten with the interface";
const BACKUP_LINES: &[&str] = &["- file /run/cni/tuning/c1_eth0.json "];

/// CHECK after something was broken.
pub(crate) fn checks() -> Vec<Row> {
    let broken = |name, plugin: Value, script| {
        Row::new(name, "1.0.0", &[plugin]).steps(&[Step::Add, Step::Sh(script), Step::Check])
    };
    let gateway = |more: &Value| {
        let mut plugin = bridge::plugin(&json!({"isDefaultGateway": true}));
        plugin.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        plugin
    };
    let routed = || {
        json!({"type": "ptp", "ipam": {
            "type": "host-local", "subnet": "10.9.0.0/24", "routes": [{"dst": "192.0.2.0/24"}],
        }})
    };
    let masquerade = json!({"ipMasq": true, "ipMasqBackend": "iptables"});
    let on_bridge = |name, script| broken(name, gateway(&json!({})), script).code(104);
    let on_ptp = |name, script| ptp::announced(broken(name, routed(), script));
    vec![
        on_bridge("CHECK: bridge without route", "ip -n c1 route del default")
            .says("not found in routing table", "the route to 0.0.0.0/0 is missing"),
        on_bridge("CHECK: bridge is gone", "ip link del br9")
            .says("Interface name br9 not found", "interface br9 is missing"),
        on_bridge(
            "CHECK: bridge has other MAC in c1",
            "ip -n c1 link set eth0 address c2:00:00:00:00:01",
        )
        .says("doesn't match container Mac", "interface eth0 has MAC MAC(c1/eth0), not MAC("),
        on_bridge(
            "CHECK: bridge lost its port",
            "for port in $(ls /sys/class/net/br9/brif); do ip link set $port nomaster; done",
        )
        .says("CNI veth created for bridge br9 was not found", "is no port of bridge br9"),
        broken("CHECK: bridge intact", gateway(&masquerade), "true"),
        broken(
            "CHECK: bridge lost its masquerade",
            gateway(&masquerade),
            "iptables -t nat -F POSTROUTING",
        )
        .differs(
            "CHECK of ours looks at the rules as well",
            &["3 Check: - answer 0 ", "3 Check: + answer 0 "],
        ),
        on_ptp("CHECK: ptp intact", "true"),
        on_ptp("CHECK: ptp without route", "ip -n c1 route del 192.0.2.0/24")
            .code(104)
            .says("not found in routing table", "the route to 192.0.2.0/24 is missing"),
        on_ptp("CHECK: ptp without address", "ip -n c1 addr flush dev eth0")
            .code(104)
            .says("Failed to match addr 10.9.0.2/24", "interface eth0 lacks 10.9.0.2/24"),
        on_ptp("CHECK: ptp without interface", "ip -n c1 link del eth0")
            .code(104)
            .says("ptp: Container Interface name in prevResult: eth0 not found", "is missing"),
    ]
}

/// GC and STATUS, which the reference has in name only.
pub(crate) fn gc_and_status() -> Vec<Row> {
    let ask = |plugin: &str, what: &str, plugins: &[Value], steps: &[Step]| {
        row(format!("{plugin}: {what}"), "1.1.0", plugins).steps(steps)
    };
    let gc = [Step::Add, Step::Ask("GC"), Step::Del];
    let mut rows = Vec::new();
    for (plugin, plugins) in each() {
        let added = |row: Row| if plugin == "ptp" { ptp::announced(row) } else { row };
        rows.push(ask(plugin, "STATUS", &plugins, &[Step::Ask("STATUS")]));
        let keep = ask(plugin, "GC keeps the valid", &plugins, &gc)
            .key("cni.dev/valid-attachments", json!([{"containerID": "c1", "ifname": "eth0"}]));
        rows.push(added(keep));
        rows.push(added(ask(plugin, "GC without a list", &plugins, &gc)));
        let all = added(
            ask(plugin, "GC of all", &plugins, &gc).key("cni.dev/valid-attachments", json!([])),
        );
        rows.push(if plugin == "static" { all } else { all.differs(COLLECTS, COLLECTED) });
    }
    let full = json!({"ipam": {"type": "host-local", "subnet": "10.9.0.0/30"}});
    let steps = [Step::Add, Step::Ask("STATUS")];
    rows.push(ask("bridge", "STATUS when full", &[bridge::plugin(&full)], &steps).differs(
        "STATUS says whether the next ADD can succeed (CNI 1.1.0 §2, STATUS)",
        &["2 Ask(\"STATUS\"): - answer 0 ", "2 Ask(\"STATUS\"): + answer 0 "],
    ));
    rows
}

const COLLECTS: &str =
    "GC removes what the list does not name (CNI 1.1.0 §2, GC); the reference does nothing";
const COLLECTED: &[&str] = &[
    "2 Ask(\"GC\"): - c1 ",
    "2 Ask(\"GC\"): - host ",
    "2 Ask(\"GC\"): - file ",
    "+ c1 link lo flags [\"LOOPBACK\"]",
];
