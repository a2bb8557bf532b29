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
    made().into_iter().chain([checks()]).map(announced).chain([over()]).collect()
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
                &["3 Del: - ", "3 Del: + answer 0 "],
            ),
        row("vlan: taken by another container", &json!({}))
            .steps(&[Step::Add, Step::AddOther("c2"), Step::Del])
            .code(101),
    ]
}

/// CHECK of one attachment after each change, which the next step takes back, and DEL at last.
fn checks() -> Row {
    let more = json!({"mtu": 1400, "ipam": {
        "type": "host-local", "subnet": "10.9.0.0/24", "routes": [{"dst": "192.0.2.0/24"}],
    }});
    row("vlan: CHECK of what was changed", &more)
        .steps(&[
            Step::Add,
            Step::CheckAfter(
                "ip netns exec c1 cat /sys/class/net/eth0/address >/run/mac\n\
                 ip -n c1 link set eth0 mtu 1300",
            ),
            Step::CheckAfter(
                "ip -n c1 link set eth0 mtu 1400\n\
                 ip -n c1 link set eth0 address c2:00:00:00:00:01",
            ),
            Step::CheckAfter(
                "ip -n c1 link set eth0 address $(cat /run/mac)\n\
                 ip -n c1 route del 192.0.2.0/24",
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
            Step::CheckAfter(
                "ip -n c1 link del eth0\n\
                 ip link add link uplink name other8 mtu 1400 address $(cat /run/mac) type vlan id 8\n\
                 ip link set other8 netns c1 name eth0\n\
                 ip -n c1 addr add 10.9.0.2/24 dev eth0; ip -n c1 link set eth0 up\n\
                 ip -n c1 route add 192.0.2.0/24 via 10.9.0.1 dev eth0",
            ),
            Step::CheckAfter(
                "ip -n c1 link del eth0",
            ),
            Step::CheckAfter(
                "ip link del uplink",
            ),
            Step::Del,
        ])
        .code(104)
        .differs(MTU, MTU_LINES)
        .differs(
            "DEL of the reference needs the parent: the address stays for ever",
            &["11 Del: - ", "11 Del: + answer 0 "],
        )
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
