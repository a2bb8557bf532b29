//! `ptp`.

use serde_json::{Value, json};

use crate::row::{Row, Step, with};

fn row(name: &'static str, more: &Value) -> Row {
    let base = json!({"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.9.0.0/24"}});
    Row::new(name, "1.0.0", &[with(base, more)])
}

pub(crate) fn rows() -> Vec<Row> {
    let refused = |row: &Row| row.name == "ptp: no ipam";
    all().into_iter().map(|row| if refused(&row) { row } else { announced(row) }).collect()
}

/// As every ADD of `ptp` differs.
pub(crate) fn announced(row: Row) -> Row {
    row.differs(
        "the host learns at once who has the address now, behind ptp as behind a bridge",
        &["+ c1 sysctl ipv4/conf/eth0/arp_notify = 1", "+ c2 sysctl ipv4/conf/eth0/arp_notify = 1"],
    )
}

fn all() -> Vec<Row> {
    let masq = json!({"ipMasq": true, "ipMasqBackend": "iptables"});
    vec![
        row("ptp", &json!({})),
        row("ptp: mtu", &json!({"mtu": 1400})),
        row("ptp: two containers", &json!({})).steps(&[
            Step::Add,
            Step::AddOther("c2"),
            Step::Check,
            Step::Del,
        ]),
        row(
            "ptp: dual stack",
            &json!({"ipam": {
                "type": "host-local", "ranges": [[{"subnet": "10.9.0.0/24"}], [{"subnet": "fd09::/64"}]],
                "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
            }}),
        ),
        row(
            "ptp: default route",
            &json!({"ipam": {
                "type": "host-local", "subnet": "10.9.0.0/24", "routes": [{"dst": "0.0.0.0/0"}],
            }}),
        ),
        row("ptp: dns", &json!({"dns": {"nameservers": ["192.0.2.53"]}})),
        row(
            "ptp: explicit empty dns wins over the source's",
            &super::ipam::own_dns(&json!({"search": []})),
        ),
        row(
            "ptp: dns that says nothing",
            &super::ipam::own_dns(&json!({"domain": "", "search": null})),
        ),
        row("ptp: masquerade", &masq),
        row("ptp: masquerade, DEL without netns", &masq)
            .steps(&[Step::Add, Step::DelWithoutNetns])
            .without_netns(),
        row("ptp: no ipam", &json!({"ipam": {}})).refused(7).forgiving(),
        row("ptp: DEL without netns", &json!({}))
            .steps(&[Step::Add, Step::DelWithoutNetns])
            .without_netns(),
        row("ptp: DEL twice", &json!({})).steps(&[Step::Add, Step::Del, Step::Del]),
        row(
            "ptp: static",
            &json!({"ipam": {
                "type": "static", "addresses": [{"address": "10.9.0.5/24", "gateway": "10.9.0.1"}],
            }}),
        ),
    ]
}
