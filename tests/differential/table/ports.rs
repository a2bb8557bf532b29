//! What is particular to a container's port of a bridge.

use serde_json::{Value, json};

use super::bridge::plugin;
use crate::row::{Row, Step};

fn row(name: &'static str, more: &Value) -> Row {
    Row::new(name, "1.0.0", &[plugin(more)])
}

pub(crate) fn rows() -> Vec<Row> {
    let dual = json!({"enabledad": true, "isGateway": true, "ipam": {"type": "host-local", "ranges": [
        [{"subnet": "10.9.0.0/24"}], [{"subnet": "fd09::/64"}],
    ]}});
    vec![
        row("bridge port: left down with addresses", &json!({"disableContainerInterface": true}))
            .refused(7)
            .forgiving(),
        row("bridge port: duplicate address detection", &dual),
        row("bridge port: spoof check", &json!({"macspoofchk": true}))
            .differs(super::bridge::OWN_TABLE, &["host nft "]),
        row(
            "bridge port: spoof check, two containers",
            &json!({"macspoofchk": true, "isGateway": true}),
        )
        .steps(&[Step::Add, Step::AddOther("c2"), Step::Check, Step::Del])
        .differs(super::bridge::OWN_TABLE, &["host nft "]),
        row("bridge port: trunk without an end", &json!({"vlanTrunk": [{"minID": 7}]}))
            .refused(7)
            .forgiving(),
        row("bridge port: trunk backwards", &json!({"vlanTrunk": [{"minID": 7, "maxID": 6}]}))
            .refused(7)
            .forgiving(),
        row("bridge port: VLAN 4095 in a trunk", &json!({"vlanTrunk": [{"id": 4095}]}))
            .refused(7)
            .forgiving(),
    ]
}

/// With VLANs, for which the kernel's bridge has to filter them.
pub(crate) fn vlans() -> Vec<Row> {
    let gateway = json!({"vlan": 100, "isGateway": true});
    let trunk = json!({"vlanTrunk": [{"minID": 10, "maxID": 12}, {"id": 20}]});
    let kept = |value: &Value| {
        let mut value = value.clone();
        value["preserveDefaultVlan"] = json!(true);
        value
    };
    vec![
        row("bridge: vlan", &json!({"vlan": 100})),
        row("bridge: vlan besides the default", &kept(&json!({"vlan": 100}))),
        row("bridge: vlan and gateway", &gateway),
        row("bridge: vlan and gateway besides the default", &kept(&gateway)),
        row("bridge: vlan and gateway, two containers", &gateway).steps(&[
            Step::Add,
            Step::AddOther("c2"),
            Step::Check,
            Step::Del,
        ]),
        row("bridge: vlan trunk", &trunk),
        row("bridge: vlan trunk besides the default", &kept(&trunk)),
        row("bridge: vlan and vlan trunk", &json!({"vlan": 7, "vlanTrunk": [{"id": 8}]})),
        row("bridge: vlan where the bridge has none", &json!({"vlan": 100}))
            .before("ip link add br9 type bridge; ip link set br9 up")
            .code(7),
    ]
}
