//! `macvlan` on a parent `uplink`.

use serde_json::{Value, json};

use crate::row::{Row, Step, with};

/// A parent device with a segment behind it.
pub(crate) const UPLINK: &str = "ip link add uplink index 700 type veth peer name wire index 701\n\
                                 ip link set uplink up; ip link set wire up";
const DEFAULT_ROUTE: &str = "ip link add uplink index 700 type veth peer name wire index 701\n\
                             ip link set uplink up; ip link set wire up\n\
                             ip addr add 192.0.2.1/24 dev uplink\n\
                             ip route add default via 192.0.2.2";
/// A parent in the container's namespace.
pub(crate) const INNER: Step = Step::Sh(
    "ip -n c1 link add inner index 700 type veth peer name wire index 701\n\
     ip -n c1 link set inner up; ip -n c1 link set wire up",
);

pub(crate) const CLAIMED: &str = "the book and host-local's files are asked before the kernel is";
pub(crate) const CLAIM: &[&str] = &[
    "+ file /var/lib/cni/networks/net/last_reserved_ip.0 ",
    "+ file /var/lib/cni/networks/net/lock ",
];

pub(crate) const MTU: &str = "the result tells the MTU that was asked for (CNI 1.1.0 §5, Success)";
pub(crate) const MTU_LINES: &[&str] =
    &["1 Add: - answer 0 result.interfaces", "1 Add: + answer 0 result.interfaces"];

/// The plugin with 10.9.0.0/24, and `more`.
pub(crate) fn plugin(more: &Value) -> Value {
    let base = json!({
        "type": "macvlan", "master": "uplink",
        "ipam": {"type": "host-local", "subnet": "10.9.0.0/24"},
    });
    with(base, more)
}

fn row(name: &'static str, more: &Value) -> Row {
    Row::new(name, "1.0.0", &[plugin(more)]).before(UPLINK)
}

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = shapes();
    rows.extend(addresses());
    rows.extend(requests());
    rows.extend(life());
    rows.extend(checks());
    rows
}

fn shapes() -> Vec<Row> {
    vec![
        row("macvlan", &json!({})),
        row("macvlan: private", &json!({"mode": "private"})),
        row("macvlan: vepa", &json!({"mode": "vepa"})),
        row("macvlan: passthru", &json!({"mode": "passthru"})),
        row("macvlan: unknown mode", &json!({"mode": "smoke"})).refused(7).forgiving(),
        row("macvlan: mtu", &json!({"mtu": 1400})).differs(MTU, MTU_LINES),
        row("macvlan: mtu 0", &json!({"mtu": 0})),
        row("macvlan: mtu below 0", &json!({"mtu": -1})).refused(7).forgiving(),
        row("macvlan: mtu over the parent's", &json!({"mtu": 1501}))
            .refused(7)
            .differs(CLAIMED, CLAIM),
        row("macvlan: broadcast queue", &json!({"bcqueuelen": 500})),
        row("macvlan: the default route's parent", &json!({"master": ""})).before(DEFAULT_ROUTE),
        row("macvlan: no default route", &json!({"master": ""}))
            .refused(104)
            .differs(CLAIMED, CLAIM),
        row("macvlan: no such parent", &json!({"master": "nowhere"}))
            .refused(104)
            .differs(CLAIMED, CLAIM),
        row(
            "macvlan: parent in the container",
            &json!({"master": "inner", "linkInContainer": true}),
        )
        .steps(&[INNER, Step::Add, Step::Check, Step::Del]),
        row("macvlan: layer 2 only", &json!({"ipam": {}})).steps(&[
            Step::Add,
            Step::Check,
            Step::Del,
        ]),
        row("macvlan: two containers", &json!({})).steps(&[
            Step::Add,
            Step::AddOther("c2"),
            Step::Check,
            Step::Del,
        ]),
    ]
}

fn addresses() -> Vec<Row> {
    let ipam = |value: Value| json!({"ipam": with(value, &json!({"type": "host-local"}))});
    let dual = json!({"ranges": [[{"subnet": "10.9.0.0/24"}], [{"subnet": "fd09::/64"}]]});
    vec![
        row("macvlan: dual stack", &ipam(dual)),
        row("macvlan: IPv6 only", &ipam(json!({"subnet": "fd09::/64"}))).differs(
            "without an IPv4 address there is nothing to announce by ARP",
            &["- c1 sysctl ipv4/conf/eth0/arp_notify = 1"],
        ),
        row(
            "macvlan: routes",
            &ipam(json!({"subnet": "10.9.0.0/24", "routes": [
                {"dst": "0.0.0.0/0"}, {"dst": "192.0.2.0/24", "gw": "10.9.0.9"},
            ]})),
        ),
        row(
            "macvlan: static",
            &json!({"ipam": {"type": "static", "routes": [{"dst": "0.0.0.0/0", "gw": "10.9.0.1"}],
                "addresses": [{"address": "10.9.0.5/24", "gateway": "10.9.0.1"}]}}),
        ),
        row(
            "macvlan: dns",
            &json!({"dns": {"nameservers": ["192.0.2.53"], "domain": "x.example"}}),
        ),
    ]
}

fn requests() -> Vec<Row> {
    let mac = json!({"capabilities": {"mac": true}});
    vec![
        row("macvlan: MAC", &json!({"mac": "c2:11:22:33:44:55"})),
        row("macvlan: MAC by CNI_ARGS", &json!({})).args("IgnoreUnknown=1;MAC=c2:11:22:33:44:56"),
        row("macvlan: MAC by runtimeConfig", &mac).runtime(json!({"mac": "c2:11:22:33:44:57"})),
        row("macvlan: bad MAC", &mac).runtime(json!({"mac": "no mac"})).refused(7).forgiving(),
        row("macvlan: unknown CNI_ARGS", &json!({})).args("FOO=bar").refused(7).forgiving(),
        row("macvlan: IP by CNI_ARGS", &json!({})).args("IgnoreUnknown=1;IP=10.9.0.77"),
    ]
}

fn life() -> Vec<Row> {
    let steps = |name, steps: &[Step]| row(name, &json!({})).steps(steps);
    vec![
        steps(
            "macvlan: DEL after its parent",
            &[Step::Add, Step::Sh("ip link del uplink"), Step::Del],
        ),
        steps("macvlan: ADD twice", &[Step::Add, Step::Add, Step::Del]).code(101),
        steps(
            "macvlan: interface exists",
            &[Step::Sh("ip -n c1 link add eth0 type veth peer name other0"), Step::Add],
        )
        .code(101)
        .differs(CLAIMED, CLAIM),
    ]
}

fn checks() -> Vec<Row> {
    let broken = |name, script| {
        row(name, &json!({}))
            .steps(&[Step::Add, Step::Sh(script), Step::Check, Step::Del])
            .code(104)
    };
    vec![
        broken("macvlan: CHECK without address", "ip -n c1 addr flush dev eth0"),
        broken("macvlan: CHECK without interface", "ip -n c1 link del eth0"),
        broken(
            "macvlan: CHECK with another mode",
            "ip -n c1 link set eth0 type macvlan mode private",
        ),
        broken(
            "macvlan: CHECK with another MAC",
            "ip -n c1 link set eth0 address c2:00:00:00:00:01",
        ),
    ]
}
