//! `loopback`.

use serde_json::json;

use crate::row::{Row, Step};

pub(crate) fn rows() -> Vec<Row> {
    let plugin = || json!({"type": "loopback"});
    let del = |name, step: Step| Row::new(name, "1.0.0", &[plugin()]).steps(&[Step::Add, step]);
    vec![
        Row::new("loopback", "1.0.0", &[plugin()]),
        Row::new("loopback: 0.2.0", "0.2.0", &[plugin()]),
        Row::new("loopback: 0.3.1", "0.3.1", &[plugin()]),
        Row::new("loopback: 1.1.0", "1.1.0", &[plugin()]),
        Row::new(
            "loopback: behind another plugin",
            "1.0.0",
            &[
                json!({"type": "bridge", "ipam": {"type": "host-local", "subnet": "10.9.0.0/24"}}),
                plugin(),
            ],
        ),
        del("loopback: DEL without netns", Step::DelWithoutNetns),
        del("loopback: DEL after the netns", Step::DelAfterNetns),
        Row::new("loopback: DEL twice", "0.4.0", &[plugin()]).steps(&[
            Step::Add,
            Step::Del,
            Step::Del,
        ]),
        Row::new("loopback: CHECK when down", "1.0.0", &[plugin()]).steps(&[
            Step::Add,
            Step::Sh("ip -n c1 link set lo down"),
            Step::Check,
        ]),
    ]
}
