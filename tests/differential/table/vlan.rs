//! `vlan`.

use serde_json::{Value, json};

use super::device::announced;
use super::macvlan::{CLAIM, CLAIMED, INNER, MTU, MTU_LINES, UPLINK};
use crate::row::{Row, Step, with};

/// VLAN 7 with 10.9.0.0/24, and `more`.
pub(crate) fn plugin(more: &Value) -> Value {
    let base = json!({
        "type": "vlan", "master": "uplink", "vlanId": 7,
        "ipam": {"type": "host-local", "subnet": "10.9.0.0/24"},
    });
    with(base, more)
}

fn row(name: &'static str, more: &Value) -> Row {
    Row::new(name, "1.0.0", &[plugin(more)]).before(UPLINK)
}

pub(crate) fn rows() -> Vec<Row> {
    made().into_iter().map(announced).chain([over()]).collect()
}

fn made() -> Vec<Row> {
    vec![
        row("vlan", &json!({})),
        row("vlan: 0, a priority alone", &json!({"vlanId": 0})),
        row("vlan: mtu", &json!({"mtu": 1400})).differs(MTU, MTU_LINES),
        row(
            "vlan: dual stack",
            &json!({"ipam": {"type": "host-local", "ranges": [
                [{"subnet": "10.9.0.0/24"}], [{"subnet": "fd09::/64"}],
            ]}}),
        ),
        row("vlan: parent in the container", &json!({"master": "inner", "linkInContainer": true}))
            .steps(&[INNER, Step::Add, Step::Check, Step::Del]),
        row("vlan: DEL after its parent", &json!({}))
            .steps(&[Step::Add, Step::Sh("ip link del uplink"), Step::Del])
            .differs(
                "DEL of the reference needs the parent: the address stays for ever",
                &["3 Del: - ", "3 Del: + answer 0 exit 0"],
            ),
        row("vlan: taken by another container", &json!({}))
            .steps(&[Step::Add, Step::AddOther("c2"), Step::Del])
            .code(101),
    ]
}

fn over() -> Row {
    row("vlan: mtu over the parent's", &json!({"mtu": 1501}))
        .refused(7)
        .differs(CLAIMED, CLAIM)
        .forgiving()
}

/// What needs no kernel that has VLANs.
pub(crate) fn refusals() -> Vec<Row> {
    vec![
        row("vlan: no parent", &json!({"master": ""})).refused(7).forgiving(),
        row("vlan: no number, mtu over the parent's", &json!({"vlanId": 0, "mtu": 1600}))
            .refused(7)
            .differs(CLAIMED, CLAIM)
            .forgiving(),
        row("vlan: no number, mtu below 0", &json!({"vlanId": 0, "mtu": -100}))
            .refused(7)
            .forgiving(),
        row(
            "vlan: mtu below 0, parent in the container",
            &json!({"master": "inner", "linkInContainer": true, "mtu": -1}),
        )
        .steps(&[INNER, Step::Add])
        .code(7),
        row("vlan: 4095", &json!({"vlanId": 4095})).refused(7).forgiving(),
        row("vlan: below 0", &json!({"vlanId": -1})).refused(7).forgiving(),
        row("vlan: no such parent", &json!({"master": "nowhere"}))
            .refused(104)
            .differs(CLAIMED, CLAIM)
            .forgiving(),
    ]
}
