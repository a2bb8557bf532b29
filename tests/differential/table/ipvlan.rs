//! `ipvlan`, by itself and behind another plugin.

use serde_json::{Value, json};

use super::macvlan::{CLAIM, CLAIMED, INNER, MTU, MTU_LINES, UPLINK};
use crate::row::{Row, Step, with};

/// The plugin with 10.9.0.0/24, and `more`.
pub(crate) fn plugin(more: &Value) -> Value {
    let base = json!({
        "type": "ipvlan", "master": "uplink",
        "ipam": {"type": "host-local", "subnet": "10.9.0.0/24"},
    });
    with(base, more)
}

fn row(name: &'static str, more: &Value) -> Row {
    Row::new(name, "1.0.0", &[plugin(more)]).before(UPLINK)
}

pub(crate) fn rows() -> Vec<Row> {
    made().into_iter().chain([checks()]).collect()
}

fn made() -> Vec<Row> {
    let before = json!({
        "cniVersion": "1.0.0", "interfaces": [{"name": "uplink"}],
        "ips": [{"address": "10.9.0.7/24", "gateway": "10.9.0.1"}],
        "routes": [{"dst": "0.0.0.0/0", "gw": "10.9.0.1"}],
    });
    let several =
        json!({"cniVersion": "1.0.0", "interfaces": [{"name": "uplink"}, {"name": "wire"}]});
    vec![
        row("ipvlan", &json!({})),
        row("ipvlan: l3", &json!({"mode": "l3"})),
        row("ipvlan: l3s", &json!({"mode": "l3s"})),
        row("ipvlan: unknown mode", &json!({"mode": "l4"})).refused(7).forgiving(),
        row("ipvlan: mtu", &json!({"mtu": 1400})).differs(MTU, MTU_LINES),
        row(
            "ipvlan: dual stack",
            &json!({"ipam": {"type": "host-local", "ranges": [
                [{"subnet": "10.9.0.0/24"}], [{"subnet": "fd09::/64"}],
            ]}}),
        ),
        row("ipvlan: no ipam", &json!({"ipam": {}})).refused(7).forgiving(),
        row(
            "ipvlan: parent in the container",
            &json!({"master": "inner", "linkInContainer": true}),
        )
        .steps(&[INNER, Step::Add, Step::Check, Step::Del]),
        row("ipvlan: no such parent", &json!({"master": "nowhere"}))
            .refused(104)
            .differs(CLAIMED, CLAIM),
        row("ipvlan: chained", &json!({"master": "", "ipam": {}, "prevResult": before}))
            .steps(&[Step::Add, Step::Del]),
        row("ipvlan: chained behind several", &json!({"master": "", "prevResult": several}))
            .refused(7)
            .forgiving(),
        row("ipvlan: two containers", &json!({})).steps(&[
            Step::Add,
            Step::AddOther("c2"),
            Step::Check,
            Step::Del,
        ]),
        row("ipvlan: DEL after its parent", &json!({})).steps(&[
            Step::Add,
            Step::Sh("ip link del uplink"),
            Step::Del,
        ]),
    ]
}

/// CHECK of one attachment after each change, which the next step takes back, and DEL at last.
fn checks() -> Row {
    let more = json!({"mtu": 1400, "ipam": {
        "type": "host-local", "subnet": "10.9.0.0/24", "routes": [{"dst": "192.0.2.0/24"}],
    }});
    row("ipvlan: CHECK of what was changed", &more)
        .steps(&[
            Step::Add,
            Step::CheckAfter("ip -n c1 link set eth0 mtu 1300"),
            Step::CheckAfter(
                "ip -n c1 link set eth0 mtu 1400; ip -n c1 link set eth0 type ipvlan mode l3",
            ),
            Step::CheckAfter(
                "ip -n c1 link set eth0 type ipvlan mode l2; ip -n c1 route del 192.0.2.0/24",
            ),
            Step::CheckAfter(
                "ip -n c1 route add 192.0.2.0/24 via 10.9.0.1 dev eth0\n\
                 ip -n c1 addr flush dev eth0",
            ),
            Step::CheckAfter(
                "ip -n c1 addr add 10.9.0.2/24 dev eth0\n\
                 ip -n c1 route add 192.0.2.0/24 via 10.9.0.1 dev eth0\n\
                 ip -n c1 link set eth0 down",
            ),
            Step::CheckAfter(
                "ip -n c1 link set eth0 up\n\
                 ip -n c1 route add 192.0.2.0/24 via 10.9.0.1 dev eth0",
            ),
            Step::CheckAfter("ip -n c1 link del eth0"),
            Step::CheckAfter(
                "ip -n c1 link add eth0 mtu 1400 type veth peer name other0\n\
                 ip -n c1 addr add 10.9.0.2/24 dev eth0\n\
                 ip -n c1 link set other0 up; ip -n c1 link set eth0 up\n\
                 ip -n c1 route add 192.0.2.0/24 via 10.9.0.1 dev eth0",
            ),
            Step::Del,
        ])
        .code(104)
        .differs(MTU, MTU_LINES)
        .differs(
            "an interface that is not ours stays; the reference removes what has the name",
            &["10 Del: + c1 "],
        )
}
