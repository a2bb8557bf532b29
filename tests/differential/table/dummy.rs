//! `dummy`.

use serde_json::{Value, json};

use super::device::announced;
use crate::row::{Row, Step, with};

/// The plugin with 10.9.0.0/24, and `more`.
pub(crate) fn plugin(more: &Value) -> Value {
    let base = json!({"type": "dummy", "ipam": {"type": "host-local", "subnet": "10.9.0.0/24"}});
    with(base, more)
}

fn row(name: &'static str, more: &Value) -> Row {
    Row::new(name, "1.0.0", &[plugin(more)])
}

pub(crate) fn rows() -> Vec<Row> {
    made().into_iter().map(announced).collect()
}

fn made() -> Vec<Row> {
    vec![
        row("dummy", &json!({})),
        row(
            "dummy: dual stack",
            &json!({"ipam": {"type": "host-local", "ranges": [
                [{"subnet": "10.9.0.0/24"}], [{"subnet": "fd09::/64"}],
            ]}}),
        ),
        row(
            "dummy: routes",
            &json!({"ipam": {
                "type": "host-local", "subnet": "10.9.0.0/24", "routes": [{"dst": "0.0.0.0/0"}],
            }}),
        ),
        row("dummy: CHECK when down", &json!({}))
            .steps(&[Step::Add, Step::Sh("ip -n c1 link set eth0 down"), Step::Check, Step::Del])
            .code(104),
        row("dummy: DEL after the netns", &json!({})).steps(&[Step::Add, Step::DelAfterNetns]),
    ]
}

/// What needs no kernel that has such devices.
pub(crate) fn refusals() -> Vec<Row> {
    vec![row("dummy: no ipam", &json!({"ipam": {}})).refused(7).forgiving()]
}
