//! `bandwidth` behind a bridge and behind `ptp`.

use serde_json::{Value, json};

use super::{bridge, ptp};
use crate::row::{Row, Step, with};

fn row(name: &'static str, more: &Value) -> Row {
    let plugin = with(json!({"type": "bandwidth"}), more);
    Row::new(name, "1.0.0", &[bridge::plugin(&json!({"isGateway": true})), plugin])
}

pub(crate) fn rows() -> Vec<Row> {
    let limits_what_is_sent = |row: &Row| {
        let sends = [
            "both",
            "what it sends",
            "by runtimeConfig",
            "slow",
            "behind ptp",
            "two containers",
            "DEL twice",
        ];
        sends.iter().any(|name| row.name.ends_with(name))
    };
    all().into_iter().map(|row| if limits_what_is_sent(&row) { marked(row) } else { row }).collect()
}

/// As every device differs that limits what is sent.
pub(crate) fn marked(row: Row) -> Row {
    row.differs(
        "our devices are known by their alias, and have the kernel's default queue length",
        &["+ host link bwp"],
    )
}

fn all() -> Vec<Row> {
    let ingress = json!({"ingressRate": 8_000_000, "ingressBurst": 1_600_000});
    let egress = json!({"egressRate": 16_000_000, "egressBurst": 3_200_000});
    let both = with(ingress.clone(), &egress);
    let capable = json!({"capabilities": {"bandwidth": true}});
    let ptp = json!({"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.9.0.0/24"}});
    let limited = with(json!({"type": "bandwidth"}), &both);
    vec![
        row("bandwidth: what it receives", &ingress),
        row("bandwidth: what it sends", &egress),
        row("bandwidth: both", &both),
        row("bandwidth: by runtimeConfig", &capable).runtime(json!({"bandwidth": both})),
        row("bandwidth: the configuration wins", &with(capable.clone(), &ingress))
            .runtime(json!({"bandwidth": egress})),
        row("bandwidth: none", &json!({})),
        row("bandwidth: zero", &json!({"ingressRate": 0, "ingressBurst": 0})),
        row("bandwidth: slow", &json!({"ingressRate": 8000, "ingressBurst": 8000, "egressRate": 8000, "egressBurst": 8000})),
        row("bandwidth: fast", &json!({"ingressRate": 40_000_000_000_u64, "ingressBurst": 8_000_000_000_u64})),
        row("bandwidth: rate without burst", &json!({"ingressRate": 8000})).refused(7).forgiving(),
        row("bandwidth: burst without rate", &json!({"egressBurst": 8000})).refused(7).forgiving(),
        row("bandwidth: burst over 4 GB", &json!({"ingressRate": 8000, "ingressBurst": 40_000_000_000_u64}))
            .refused(7)
            .forgiving(),
        Row::new("bandwidth: behind macvlan", "1.0.0", &[
            json!({"type": "macvlan", "master": "up0", "ipam": {"type": "host-local", "subnet": "10.9.0.0/24"}}),
            limited.clone(),
        ])
        .before("ip link add up0 type veth peer name up1; ip link set up0 up; ip link set up1 up")
        .steps(&[Step::Add])
        .code(7),
        Row::new("bandwidth: alone", "1.0.0", std::slice::from_ref(&limited)).refused(7),
        ptp::announced(Row::new("bandwidth: behind ptp", "1.0.0", &[ptp, limited])),
        row("bandwidth: two containers", &both).steps(&[
            Step::Add,
            Step::AddOther("c2"),
            Step::Check,
            Step::Del,
        ]),
        row("bandwidth: DEL twice", &both).steps(&[Step::Add, Step::Del, Step::Del]),
        row("bandwidth: CHECK without limit", &ingress)
            .steps(&[
                Step::Add,
                Step::Sh("for port in $(ls /sys/class/net/br9/brif); do tc qdisc del dev $port root; done"),
                Step::Check,
            ])
            .code(104)
            .differs("CHECK of the reference does not see that the limit is gone", &["3 Check: - answer 1 ", "3 Check: + answer 1 "]),
    ]
}
