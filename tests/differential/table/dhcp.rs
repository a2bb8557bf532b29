//! `dhcp` where no server answers, and what cannot be asked. What a server gives is compared beside the
//! daemon's own tests.

use serde_json::{Value, json};

use super::macvlan::UPLINK;
use crate::row::{Row, Step, with};

fn alone(name: &'static str, more: &Value) -> Row {
    let ipam = with(json!({"type": "dhcp"}), more);
    Row::new(name, "1.1.0", &[json!({"type": "dhcp", "ipam": ipam})])
}

pub(crate) fn rows() -> Vec<Row> {
    let status = &["- answer 0 ", "+ answer 0 "];
    vec![
        alone("dhcp: no daemon", &json!({})).steps(&[Step::Add]).code(11),
        alone("dhcp: no daemon elsewhere", &json!({"daemonSocketPath": "/run/other.sock"}))
            .steps(&[Step::Add])
            .code(11),
        Row::new(
            "dhcp: macvlan without daemon",
            "1.1.0",
            &[json!({
                "type": "macvlan", "master": "uplink", "ipam": {"type": "dhcp"},
            })],
        )
        .before(UPLINK)
        .steps(&[Step::Add, Step::Del])
        .code(11)
        .tidy()
        .forgiving(),
        alone("dhcp: STATUS without daemon", &json!({}))
            .steps(&[Step::Ask("STATUS")])
            .differs("STATUS says whether the next ADD can succeed (CNI 1.1.0 §2, STATUS)", status),
    ]
}
