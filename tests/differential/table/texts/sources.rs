//! What `host-local` and `static` say, alone.

use serde_json::{Value, json};

use super::said;
use crate::row::{Row, Step, with};

fn local(name: &'static str, ipam: &Value, code: i64) -> Row {
    let ipam = with(json!({"type": "host-local"}), ipam);
    said(name, &[json!({"type": "host-local", "ipam": ipam})], code)
}

fn fixed(name: &'static str, ipam: &Value, code: i64) -> Row {
    let ipam = with(json!({"type": "static"}), ipam);
    said(name, &[json!({"type": "static", "ipam": ipam})], code)
}

fn subnet() -> Value {
    json!({"subnet": "10.9.0.0/24"})
}

/// `host-local`, alone.
pub(crate) fn host_local() -> Vec<Row> {
    [wrong_ranges(), wrong_addresses()].into_iter().flatten().collect()
}

fn range(more: &Value) -> Value {
    with(subnet(), more)
}

/// Ranges that cannot be.
fn wrong_ranges() -> Vec<Row> {
    vec![
        said("says: host-local without ipam", &[json!({"type": "host-local"})], 7),
        local("says: host-local without a range", &json!({}), 7),
        local("says: host-local, subnet without length", &json!({"subnet": "10.9.0.0"}), 7),
        local("says: host-local, subnet is no address", &json!({"subnet": "x"}), 7),
        local("says: host-local, host bits", &json!({"subnet": "10.9.0.7/24"}), 7),
        local("says: host-local, /31", &json!({"subnet": "10.9.0.0/31"}), 7),
        local("says: host-local, /128", &json!({"subnet": "fd09::1/128"}), 7),
        local("says: host-local, start outside", &range(&json!({"rangeStart": "10.7.0.1"})), 7),
        local("says: host-local, end outside", &range(&json!({"rangeEnd": "10.7.0.1"})), 7),
        local(
            "says: host-local, start after end",
            &range(&json!({"rangeStart": "10.9.0.9", "rangeEnd": "10.9.0.8"})),
            7,
        ),
        local("says: host-local, start is no address", &range(&json!({"rangeStart": "x"})), 7),
        local("says: host-local, end is no address", &range(&json!({"rangeEnd": "x"})), 7),
        local("says: host-local, gateway is no address", &range(&json!({"gateway": "x"})), 7),
        local("says: host-local, empty set", &json!({"ranges": [[]]}), 7),
        local(
            "says: host-local, families mixed",
            &json!({"ranges": [[{"subnet": "10.9.0.0/24"}, {"subnet": "fd09::/64"}]]}),
            7,
        ),
        local(
            "says: host-local, sets overlap",
            &json!({"ranges": [[{"subnet": "10.9.0.0/24"}], [{"subnet": "10.9.0.0/25"}]]}),
            7,
        ),
        local(
            "says: host-local, ranges of a set overlap",
            &json!({"ranges": [[{"subnet": "10.9.0.0/24"}, {"subnet": "10.9.0.0/25"}]]}),
            7,
        ),
        local(
            "says: host-local, two of a family before 0.3.0",
            &json!({"ranges": [[{"subnet": "10.9.0.0/24"}], [{"subnet": "10.8.0.0/24"}]]}),
            7,
        )
        .key("cniVersion", json!("0.2.0")),
    ]
}

/// With this route.
fn routed(route: &Value) -> Value {
    range(&json!({"routes": [route]}))
}

/// Addresses that cannot be had.
fn wrong_addresses() -> Vec<Row> {
    vec![
        local("says: host-local, address outside", &subnet(), 7).args("IP=10.7.0.1"),
        local("says: host-local, address is the gateway", &subnet(), 7).args("IP=10.9.0.1"),
        local("says: host-local, address is none", &subnet(), 7).args("IP=x"),
        local("says: host-local, unknown argument", &subnet(), 7).args("FOO=bar"),
        local("says: host-local, argument without value", &subnet(), 7).args("FOO"),
        local("says: host-local, bad boolean", &subnet(), 7).args("IgnoreUnknown=maybe"),
        local("says: host-local, address by args is none", &subnet(), 7)
            .key("args", json!({"cni": {"ips": ["x"]}})),
        local("says: host-local, address is taken", &subnet(), 101)
            .args("IP=10.9.0.9")
            .steps(&[Step::Add, Step::AddOther("c2")]),
        local(
            "says: host-local, address of a range is taken",
            &range(&json!({"rangeEnd": "10.9.0.12"})),
            101,
        )
        .args("IP=10.9.0.9")
        .steps(&[Step::Add, Step::AddOther("c2")]),
        local("says: host-local, exhausted", &json!({"subnet": "10.9.0.0/30"}), 102)
            .steps(&[Step::Add, Step::AddOther("c2")]),
        local(
            "says: host-local, two ranges exhausted",
            &json!({"ranges": [[
            {"subnet": "10.9.0.0/30"}, {"subnet": "10.8.0.0/30"}]]}),
            102,
        )
        .steps(&[Step::Add, Step::AddOther("c2"), Step::AddOther("c3")]),
        local(
            "says: host-local, the second set exhausted",
            &json!({"ranges": [
            [{"subnet": "10.9.0.0/24"}], [{"subnet": "fd09::/126", "rangeEnd": "fd09::2"}]]}),
            102,
        )
        .steps(&[Step::Add, Step::AddOther("c2")]),
        local("says: host-local, ADD twice", &subnet(), 101).steps(&[Step::Add, Step::Add]),
        local(
            "says: host-local, ADD twice of two",
            &json!({"ranges": [
            [{"subnet": "10.9.0.0/24"}], [{"subnet": "fd09::/64"}]]}),
            101,
        )
        .steps(&[Step::Add, Step::Add]),
        local("says: host-local, ADD twice with an address", &subnet(), 101)
            .args("IP=10.9.0.9")
            .steps(&[Step::Add, Step::Add]),
        local("says: host-local, CHECK of nothing", &subnet(), 104).steps(&[Step::Check]),
        local("says: host-local, CHECK without reservation", &subnet(), 104).steps(&[
            Step::Add,
            Step::Sh("rm /var/lib/cni/networks/net/10.*"),
            Step::Check,
        ]),
        local("says: host-local, route without length", &routed(&json!({"dst": "10.0.0.1"})), 7),
        local(
            "says: host-local, route by no address",
            &routed(&json!({"dst": "0.0.0.0/0", "gw": "x"})),
            7,
        ),
        local(
            "says: host-local, no such resolvConf",
            &range(&json!({"resolvConf": "/nowhere"})),
            5,
        ),
    ]
}

/// `static`, alone.
pub(crate) fn fixed_addresses() -> Vec<Row> {
    let one = |address: &str| json!({"addresses": [{"address": address}]});
    let good = one("10.9.0.5/24");
    vec![
        said("says: static without ipam", &[json!({"type": "static"})], 7),
        fixed("says: static, no addresses", &json!({}), 7),
        fixed("says: static, no length", &one("10.9.0.5"), 7),
        fixed("says: static, no address", &one("x/24"), 7),
        fixed("says: static, empty address", &one(""), 7),
        fixed(
            "says: static, bad gateway",
            &json!({"addresses": [{"address": "10.9.0.5/24", "gateway": "x"}]}),
            7,
        ),
        fixed("says: static, argument without length", &json!({}), 7).args("IP=10.9.0.5"),
        fixed("says: static, argument is no address", &json!({}), 7).args("IP=x"),
        fixed("says: static, gateway argument is none", &json!({}), 7)
            .args("IP=10.9.0.5/24;GATEWAY=x"),
        fixed("says: static, unknown argument", &good, 7).args("FOO=bar"),
        fixed("says: static, by args without length", &good, 7)
            .key("args", json!({"cni": {"ips": ["10.9.0.5"]}})),
        fixed(
            "says: static, two of a family before 0.3.0",
            &json!({"addresses": [{"address": "10.9.0.5/24"}, {"address": "10.8.0.5/24"}]}),
            7,
        )
        .key("cniVersion", json!("0.2.0")),
        fixed(
            "says: static, route without length",
            &with(good.clone(), &json!({"routes": [{"dst": "10.0.0.1"}]})),
            7,
        ),
        fixed("says: static, CHECK without result", &good, 7).steps(&[Step::Check]),
    ]
}
