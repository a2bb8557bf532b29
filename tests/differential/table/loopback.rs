//! `loopback`.

use serde_json::json;

use crate::row::{Row, Step};

pub(crate) const FORM: &str =
    "the reference names the version and prints the form of 1.0.0; ours is of the version it names";
pub(crate) const FORM_LINES: &[&str] = &[
    "result.interfaces: ",
    "result.ips: ",
    "result.ip4: ",
    "result.ip6: ",
    "+ answer 0 result.dns: {}",
];

pub(crate) const DOWN: &str =
    "ours takes the interface down all the same: the record knows where it is";
pub(crate) const DOWN_LINES: &[&str] =
    &["2 DelWithoutNetns: - c1 ", "2 DelWithoutNetns: + c1 link lo flags [\"LOOPBACK\"]"];

pub(crate) fn rows() -> Vec<Row> {
    let plugin = || json!({"type": "loopback"});
    let del = |name, step: Step| Row::new(name, "1.0.0", &[plugin()]).steps(&[Step::Add, step]);
    vec![
        Row::new("loopback", "1.0.0", &[plugin()]),
        Row::new("loopback: 0.2.0", "0.2.0", &[plugin()]).differs(FORM, FORM_LINES),
        Row::new("loopback: 0.3.1", "0.3.1", &[plugin()]).differs(FORM, FORM_LINES),
        Row::new("loopback: 1.1.0", "1.1.0", &[plugin()]),
        Row::new(
            "loopback: behind another plugin",
            "1.0.0",
            &[
                json!({"type": "bridge", "ipam": {"type": "host-local", "subnet": "10.9.0.0/24"}}),
                plugin(),
            ],
        ),
        del("loopback: DEL without netns", Step::DelWithoutNetns).differs(DOWN, DOWN_LINES),
        del("loopback: DEL after the netns", Step::DelAfterNetns),
        Row::new("loopback: DEL twice", "0.4.0", &[plugin()])
            .steps(&[Step::Add, Step::Del, Step::Del])
            .differs(FORM, FORM_LINES),
        Row::new("loopback: CHECK when down", "1.0.0", &[plugin()])
            .steps(&[Step::Add, Step::Sh("ip -n c1 link set lo down"), Step::Check])
            .code(104),
    ]
}
