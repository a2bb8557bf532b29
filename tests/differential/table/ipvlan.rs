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
