//! Every plugin in every version, and deleted in every way that runtimes know.

use serde_json::{Value, json};

use tests::Feature;

use super::{bandwidth, bridge, device, dummy, ipvlan, loopback, macvlan, ptp, routing, tap, vlan};
use crate::row::{Row, Step, with};

/// A plugin, chained behind a bridge where it has to be, and what it needs.
struct Subject {
    name: &'static str,
    plugins: Vec<Value>,
    before: &'static str,
    feature: Option<Feature>,
}

impl Subject {
    fn new(name: &'static str, plugins: Vec<Value>) -> Self {
        Self { name, plugins, before: "", feature: None }
    }

    /// Chained behind a bridge.
    fn chained(name: &'static str, plugin: Value) -> Self {
        Self::new(name, vec![bridge::plugin(&json!({"isGateway": true})), plugin])
    }

    /// With a parent device.
    fn on_uplink(name: &'static str, plugin: Value) -> Self {
        Self { before: macvlan::UPLINK, ..Self::new(name, vec![plugin]) }
    }

    fn needs(self, feature: Feature) -> Self {
        Self { feature: Some(feature), ..self }
    }

    fn row(&self, name: String, version: &str) -> Row {
        row(name, version, &self.plugins).before(self.before)
    }
}

/// Each plugin that every kernel can.
fn each() -> Vec<Subject> {
    all().into_iter().filter(|subject| subject.feature.is_none()).collect()
}

fn all() -> Vec<Subject> {
    let ipam = || json!({"type": "host-local", "subnet": "10.9.0.0/24"});
    let fixed = json!({"type": "static", "addresses": [{"address": "10.9.0.5/24"}]});
    let none = json!({});
    vec![
        Subject::new("loopback", vec![json!({"type": "loopback"})]),
        Subject::new("bridge", vec![bridge::plugin(&json!({"isGateway": true}))]),
        Subject::new("ptp", vec![json!({"type": "ptp", "ipam": ipam()})]),
        Subject::new("host-local", vec![json!({"type": "host-local", "ipam": ipam()})]),
        Subject::new("static", vec![json!({"type": "static", "ipam": fixed})]),
        Subject::chained(
            "portmap",
            json!({
                "type": "portmap", "backend": "iptables", "capabilities": {"portMappings": true},
            }),
        ),
        Subject::chained("firewall", json!({"type": "firewall", "backend": "iptables"})),
        Subject::chained("tuning", json!({"type": "tuning", "mtu": 1300})),
        Subject::on_uplink("macvlan", macvlan::plugin(&none)),
        Subject::on_uplink("host-device", device::plugin(&json!({"ipam": ipam()}))),
        Subject::new("tap", vec![tap::plugin(&none)]),
        Subject::chained(
            "bandwidth",
            json!({"type": "bandwidth", "ingressRate": 8_000_000, "ingressBurst": 1_600_000,
                "egressRate": 8_000_000, "egressBurst": 1_600_000}),
        ),
        Subject::chained("sbr", json!({"type": "sbr"})),
        Subject::on_uplink("ipvlan", ipvlan::plugin(&none)).needs(Feature::Ipvlan),
        Subject::on_uplink("vlan", vlan::plugin(&none)).needs(Feature::Vlan),
        Subject::new("dummy", vec![dummy::plugin(&none)]).needs(Feature::Dummy),
        Subject::chained("vrf", json!({"type": "vrf", "vrfname": "blue"})).needs(Feature::Vrf),
    ]
}

/// Every row of the plugin that needs something which a kernel may lack.
pub(crate) fn lacking(feature: Feature) -> Vec<Row> {
    let needing = all().into_iter().filter(|subject| subject.feature == Some(feature));
    let rows = |subject: Subject| {
        let rows = in_each_version(&subject).into_iter().chain(deleted_in_each_way(&subject));
        rows.chain(asked(&subject)).collect::<Vec<_>>()
    };
    needing.flat_map(rows).collect()
}

fn row(name: String, version: &str, plugins: &[Value]) -> Row {
    let port = json!({"hostPort": 8080, "containerPort": 80, "protocol": "tcp"});
    Row::new(name.leak(), version, plugins).runtime(json!({"portMappings": [port]}))
}

const VERSIONS: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

pub(crate) fn versions() -> Vec<Row> {
    each().iter().flat_map(in_each_version).collect()
}

fn in_each_version(subject: &Subject) -> Vec<Row> {
    let of = |version| {
        let row = subject.row(format!("{} in {version}", subject.name), version);
        match (subject.name, version) {
            ("ptp", _) => ptp::announced(row),
            ("host-device" | "vlan" | "dummy", _) => device::announced(row),
            ("bandwidth", "0.1.0" | "0.2.0") => {
                row.differs("DEL works in every version", &["2 Del: "])
            }
            ("bandwidth", _) => bandwidth::marked(row),
            ("sbr", _) => routing::checked_where(routing::moved(row), version),
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
    };
    VERSIONS.into_iter().map(of).collect()
}

pub(crate) fn deletions() -> Vec<Row> {
    each().iter().flat_map(deleted_in_each_way).collect()
}

fn deleted_in_each_way(subject: &Subject) -> Vec<Row> {
    let ways = [
        ("twice", vec![Step::Add, Step::Del, Step::Del]),
        ("without netns", vec![Step::Add, Step::DelWithoutNetns]),
        ("after netns", vec![Step::Add, Step::DelAfterNetns]),
        ("without result", vec![Step::Add, Step::DelWithoutResult]),
        ("of nothing", vec![Step::Del]),
    ];
    let of = |(way, steps): (&str, Vec<Step>)| {
        let row = subject.row(format!("{}, DEL {way}", subject.name), "1.0.0").steps(&steps);
        deleted(row, subject.name, way)
    };
    ways.into_iter().map(of).collect()
}

/// The row with its differences.
fn deleted(row: Row, plugin: &str, way: &str) -> Row {
    let row = match plugin {
        "ptp" if way != "of nothing" => ptp::announced(row),
        "host-device" | "vlan" | "dummy" if way != "of nothing" => device::announced(row),
        "bandwidth" if way != "of nothing" => bandwidth::marked(row),
        "sbr" if way != "of nothing" => routing::moved(row),
        _ => row,
    };
    match (plugin, way) {
        ("static", _) | ("loopback", "of nothing") | ("host-local", "without netns") => row,
        ("loopback", "without netns") => row.differs(loopback::DOWN, loopback::DOWN_LINES),
        ("sbr", "of nothing" | "twice" | "without netns" | "after netns") => {
            row.differs(SBR_DEL, SBR_DEL_LINES)
        }
        ("host-device", "of nothing") => {
            row.differs(DEVICE_DEL, DEVICE_DEL_LINES).differs(bridge::MADE_NOTHING, bridge::LOCK)
        }
        ("host-device", "twice" | "after netns") => row.differs(DEVICE_DEL, DEVICE_DEL_LINES),
        ("host-device", "without netns") => {
            row.differs(DEVICE_DEL, DEVICE_DEL_LINES).without_netns()
        }
        ("macvlan", "without netns") => row.differs(GOES, GOES_LINES).without_netns(),
        ("bandwidth", "without netns") => {
            row.differs(GOES, &["2 DelWithoutNetns: - host qdisc "]).without_netns()
        }
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

const GOES: &str = "the record knows the namespace, so that the interface goes with what is on it";
const GOES_LINES: &[&str] = &["2 DelWithoutNetns: - host link ", "2 DelWithoutNetns: + host link "];

const DEVICE_DEL: &str = "DEL of the reference's host-device fails where the interface or its namespace \
                          is gone, and keeps address and device where no namespace is named";
const DEVICE_DEL_LINES: &[&str] = &[
    "1 Del: - answer ",
    "1 Del: + answer ",
    "3 Del: - answer ",
    "3 Del: + answer ",
    "Netns: - answer ",
    "Netns: + answer ",
    "Netns: - file /var/lib/cni/networks/net/",
    "Netns: + host link ",
];

const SBR_DEL: &str = "DEL of the reference's sbr fails where the interface or its namespace is gone, so \
                       that the list's DEL ends there; in a namespace's place it makes a file";
const SBR_DEL_LINES: &[&str] = &[
    "1 Del: - ",
    "1 Del: + answer ",
    "3 Del: - ",
    "3 Del: + answer ",
    "Netns: - ",
    "Netns: + answer ",
    "tables nat ",
];

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
        on_bridge("CHECK: bridge without route", "ip -n c1 route del default"),
        on_bridge("CHECK: bridge is gone", "ip link del br9"),
        on_bridge(
            "CHECK: bridge has other MAC in c1",
            "ip -n c1 link set eth0 address c2:00:00:00:00:01",
        ),
        on_bridge(
            "CHECK: bridge lost its port",
            "for port in $(ls /sys/class/net/br9/brif); do ip link set $port nomaster; done",
        ),
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
        on_ptp("CHECK: ptp without route", "ip -n c1 route del 192.0.2.0/24").code(104),
        on_ptp("CHECK: ptp without address", "ip -n c1 addr flush dev eth0").code(104),
        on_ptp("CHECK: ptp without interface", "ip -n c1 link del eth0").code(104),
    ]
}

/// GC and STATUS, which the reference has in name only.
pub(crate) fn gc_and_status() -> Vec<Row> {
    let mut rows: Vec<Row> = each().iter().flat_map(asked).collect();
    let ranges = json!({"capabilities": {"ipRanges": true}, "ipam": {"type": "host-local"}});
    let bridge = json!({"type": "bridge", "bridge": "br9"});
    let device = json!({"type": "host-device", "capabilities": {"deviceID": true}});
    for (name, plugin) in [
        ("bridge: STATUS without the ranges of ADD", with(bridge, &ranges)),
        (
            "host-local: STATUS without the ranges of ADD",
            with(json!({"type": "host-local"}), &ranges),
        ),
        ("host-device: STATUS without the device of ADD", device),
    ] {
        rows.push(row(name.into(), "1.1.0", &[plugin]).steps(&[Step::Ask("STATUS")]));
    }
    let full = json!({"ipam": {"type": "host-local", "subnet": "10.9.0.0/30"}});
    let full = row("bridge: STATUS when full".into(), "1.1.0", &[bridge::plugin(&full)]);
    rows.push(full.steps(&[Step::Add, Step::Ask("STATUS")]).differs(
        "STATUS says whether the next ADD can succeed (CNI 1.1.0 §2, STATUS)",
        &["2 Ask(\"STATUS\"): - answer 0 ", "2 Ask(\"STATUS\"): + answer 0 "],
    ));
    rows
}

fn asked(subject: &Subject) -> Vec<Row> {
    let ask = |what: &str, steps: &[Step]| {
        subject.row(format!("{}: {what}", subject.name), "1.1.0").steps(steps)
    };
    let gc = [Step::Add, Step::Ask("GC"), Step::Del];
    let added = |row: Row| match subject.name {
        "ptp" => ptp::announced(row),
        "host-device" | "vlan" | "dummy" => device::announced(row),
        "bandwidth" => bandwidth::marked(row),
        "sbr" => routing::moved(row),
        _ => row,
    };
    let valid = json!([{"containerID": "c1", "ifname": "eth0"}]);
    let keep = ask("GC keeps the valid", &gc).key("cni.dev/valid-attachments", valid);
    let all = added(ask("GC of all", &gc).key("cni.dev/valid-attachments", json!([])));
    vec![
        ask("STATUS", &[Step::Ask("STATUS")]),
        added(keep),
        added(ask("GC without a list", &gc)),
        if subject.name == "static" { all } else { all.differs(COLLECTS, COLLECTED) },
    ]
}

const COLLECTS: &str =
    "GC removes what the list does not name (CNI 1.1.0 §2, GC); the reference does nothing";
const COLLECTED: &[&str] = &[
    "2 Ask(\"GC\"): - c1 ",
    "2 Ask(\"GC\"): - host ",
    "2 Ask(\"GC\"): - file ",
    "2 Ask(\"GC\"): + host link uplink ",
    "2 Ask(\"GC\"): + host link wire ",
    "+ c1 link lo flags [\"LOOPBACK\"]",
];
