//! `host-device`, with one end of a pair in the place of a card.

use serde_json::{Value, json};

use super::macvlan::UPLINK;
use crate::row::{Row, Step, with};

const NAMED: &str = "ip link add uplink index 700 address c2:00:00:00:00:07 type veth peer name wire index 701\n\
                     ip link set uplink up; ip link set wire up";

/// A device that is not found, and DEL after that.
fn absent(row: Row) -> Row {
    row.refused(104).forgiving()
}

/// As every ADD with addresses differs.
pub(crate) fn announced(row: Row) -> Row {
    row.differs(
        "neighbours learn at once who has the address now, as with every other kind of link",
        &["+ c1 sysctl ipv4/conf/eth0/arp_notify = 1"],
    )
}

/// The plugin for `uplink`, and `more`.
pub(crate) fn plugin(more: &Value) -> Value {
    with(json!({"type": "host-device", "device": "uplink"}), more)
}

fn row(name: &'static str, more: &Value) -> Row {
    Row::new(name, "1.0.0", &[plugin(more)]).before(UPLINK)
}

pub(crate) fn rows() -> Vec<Row> {
    let ipam = json!({"ipam": {"type": "host-local", "subnet": "10.9.0.0/24", "routes": [{"dst": "0.0.0.0/0"}]}});
    vec![
        announced(row("host-device", &ipam)),
        row("host-device: layer 2 only", &json!({})),
        row("host-device: by address", &json!({"device": "", "hwaddr": "c2:00:00:00:00:07"}))
            .before(NAMED),
        absent(
            row("host-device: no such address", &json!({"device": "", "hwaddr": "c2:00:00:00:00:09"}))),
        row("host-device: bad address", &json!({"device": "", "hwaddr": "c2"}))
            .refused(7)
            .forgiving(),
        absent(
            row("host-device: no such device", &json!({"device": "nowhere"}))),
        row("host-device: nothing named", &json!({"device": ""})).refused(7).forgiving(),
        row("host-device: path elsewhere", &json!({"device": "", "kernelpath": "/dev/x"}))
            .refused(7)
            .forgiving(),
        absent(
            row("host-device: no such path", &json!({"device": "", "kernelpath": "/sys/devices/none"}))),
        absent(
            row("host-device: no such bus address", &json!({"device": "", "pciBusID": "ffff:ff:1f.7"}))),
        row("host-device: no such device by runtimeConfig", &json!({"device": "", "capabilities": {"deviceID": true}}))
            .runtime(json!({"deviceID": "ffff:ff:1f.7"}))
            .refused(104)
            .forgiving(),
        row("host-device: DEL while its name is taken", &json!({})).steps(&[
            Step::Add,
            Step::Sh("ip link add uplink type veth peer name other0"),
            Step::Del,
            Step::Sh("ip link del uplink"),
            Step::Del,
        ])
        .code(101),
        row("host-device: DEL of a renamed network", &json!({})).steps(&[Step::Add, Step::DelRenamed]),
        row("host-device: the name is taken", &json!({}))
            .steps(&[Step::Sh("ip -n c1 link add eth0 type veth peer name other0"), Step::Add])
            .code(101),
        row("host-device: taken by another container", &json!({}))
            .steps(&[Step::Add, Step::AddOther("c2"), Step::Del])
            .code(104),
        announced(row("host-device: CHECK without address", &ipam))
            .steps(&[Step::Add, Step::Sh("ip -n c1 addr flush dev eth0"), Step::Check, Step::Del])
            .code(104),
        row("host-device: exhausted", &json!({"ipam": {"type": "host-local", "subnet": "10.9.0.0/30", "rangeStart": "10.9.0.1", "rangeEnd": "10.9.0.1"}}))
            .refused(102)
            .differs(
                "ours takes the device only once there is an address for it",
                &["1 Add: + host link ", "2 Del: + host link uplink flags "],
            )
            .tidy(),
    ]
}
