//! `tap`.

use serde_json::{Value, json};

use super::macvlan::{MTU, MTU_LINES};
use crate::row::{Row, Step, with};

const HEADERS: &str = "the program that opens a tap says which headers it wants: ours has none until then, however \
                       it is made; the reference sets some where both owner and group are given";
const HEADER_LINES: &[&str] =
    &["link eth0 linkinfo info_data pi ", "link eth0 linkinfo info_data vnet_hdr "];

/// The plugin with 10.9.0.0/24, and `more`.
pub(crate) fn plugin(more: &Value) -> Value {
    let base = json!({"type": "tap", "ipam": {"type": "host-local", "subnet": "10.9.0.0/24"}});
    with(base, more)
}

fn row(name: &'static str, more: &Value) -> Row {
    Row::new(name, "1.0.0", &[plugin(more)])
}

pub(crate) fn rows() -> Vec<Row> {
    let owned = |more: Value| with(json!({"owner": 0, "group": 0}), &more);
    let steps = [Step::Add, Step::Check, Step::Del];
    vec![
        row("tap", &json!({})),
        row("tap: owner and group", &owned(json!({}))).differs(HEADERS, HEADER_LINES),
        row("tap: owner only", &json!({"owner": 1000})),
        row("tap: group only", &json!({"group": 1000})),
        row("tap: several queues", &json!({"multiQueue": true})),
        row("tap: several queues, owner and group", &owned(json!({"multiQueue": true})))
            .differs(HEADERS, HEADER_LINES),
        row("tap: mtu", &json!({"mtu": 1400})).differs(MTU, MTU_LINES),
        row("tap: mtu, owner and group", &owned(json!({"mtu": 1400})))
            .differs(HEADERS, HEADER_LINES)
            .differs(
                "the reference forgets the MTU where it makes the tap by netlink",
                &["link eth0 mtu 1"],
            )
            .differs(MTU, MTU_LINES),
        row("tap: MAC", &json!({"mac": "c2:11:22:33:44:55"})),
        row("tap: MAC by CNI_ARGS", &json!({})).args("IgnoreUnknown=1;MAC=c2:11:22:33:44:56"),
        row("tap: MAC by runtimeConfig", &json!({"capabilities": {"mac": true}}))
            .runtime(json!({"mac": "c2:11:22:33:44:57"})),
        row("tap: layer 2 only", &json!({"ipam": {}})).steps(&steps),
        row("tap: port of a bridge in the container", &json!({"bridge": "br0", "ipam": {}})).steps(
            &[
                Step::Sh("ip -n c1 link add br0 type bridge; ip -n c1 link set br0 up"),
                Step::Add,
                Step::Check,
                Step::Del,
            ],
        ),
        row(
            "tap: dual stack",
            &json!({"ipam": {"type": "host-local", "ranges": [
                [{"subnet": "10.9.0.0/24"}], [{"subnet": "fd09::/64"}],
            ]}}),
        ),
        row(
            "tap: routes",
            &json!({"ipam": {
                "type": "host-local", "subnet": "10.9.0.0/24", "routes": [{"dst": "0.0.0.0/0"}],
            }}),
        ),
        row("tap: unknown CNI_ARGS", &json!({})).args("FOO=bar").refused(7).forgiving(),
        row("tap: CHECK without address", &json!({}))
            .steps(&[Step::Add, Step::Sh("ip -n c1 addr flush dev eth0"), Step::Check, Step::Del])
            .code(104),
    ]
}
