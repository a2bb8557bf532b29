//! What is said of refused calls, word for word. Only answers are compared here: what a refused call
//! leaves in the world, other rows show.

mod chained;
mod envelope;
mod previous;
mod sources;

pub(crate) use chained::{chained, lacking};
pub(crate) use envelope::envelope;
pub(crate) use previous::{missing_interface, unreadable};
pub(crate) use sources::{fixed_addresses, host_local};

use serde_json::{Value, json};

use super::{bridge, macvlan, tap};
use crate::row::{Row, Step, with};

const TEXT: &[&str] = &["error.msg: "];

/// A row whose answers alone count. Where the reference says only 999, `code` is ours.
fn said(name: &'static str, plugins: &[Value], code: i64) -> Row {
    Row::new(name, "1.0.0", plugins).steps(&[Step::Add]).code(code).answers_only()
}

/// `bridge` and `ptp`.
pub(crate) fn pairs() -> Vec<Row> {
    let netns = ["/run/netns/nowhere", "/etc/hostname"].map(|netns| netns_row("bridge", netns));
    let rows = [bridge_fields(), bridge_life(), bridge_checks(), ptp_rows(), netns.into()];
    rows.into_iter().flatten().collect()
}

fn on_bridge(name: &'static str, more: &Value, code: i64) -> Row {
    said(name, &[bridge::plugin(more)], code)
}

fn gateway(name: &'static str, script: &'static str, code: i64) -> Row {
    on_bridge(name, &json!({"isDefaultGateway": true}), code).steps(&[
        Step::Add,
        Step::Sh(script),
        Step::Check,
    ])
}

fn routed(name: &'static str, script: &'static str) -> Row {
    let routes = json!({"ipam": {"type": "host-local", "subnet": "10.9.0.0/24",
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "192.0.2.0/24", "gw": "10.9.0.9"}]}});
    on_bridge(name, &routes, 104).steps(&[Step::Add, Step::Sh(script), Step::Check])
}

fn on_ptp(name: &'static str, more: &Value, code: i64) -> Row {
    let base = json!({"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.9.0.0/24"}});
    said(name, &[with(base, more)], code)
}

fn changed_ptp(name: &'static str, script: &'static str) -> Row {
    on_ptp(name, &json!({}), 104).steps(&[Step::Add, Step::Sh(script), Step::Check])
}

/// Fields that `bridge` refuses.
fn bridge_fields() -> Vec<Row> {
    vec![
        on_bridge("says: bridge, vlan 4095", &json!({"vlan": 4095}), 7),
        on_bridge("says: bridge, vlan below 0", &json!({"vlan": -1}), 7),
        on_bridge("says: bridge, trunk id 0", &json!({"vlanTrunk": [{"id": 0}]}), 7),
        on_bridge(
            "says: bridge, trunk minID 0",
            &json!({"vlanTrunk": [{"minID": 0, "maxID": 3}]}),
            7,
        ),
        on_bridge(
            "says: bridge, trunk maxID 4095",
            &json!({"vlanTrunk": [{"minID": 1, "maxID": 4095}]}),
            7,
        ),
        on_bridge(
            "says: bridge, trunk backwards",
            &json!({"vlanTrunk": [{"minID": 3, "maxID": 2}]}),
            7,
        ),
        on_bridge("says: bridge, trunk without maxID", &json!({"vlanTrunk": [{"minID": 3}]}), 7),
        on_bridge("says: bridge, trunk without minID", &json!({"vlanTrunk": [{"maxID": 3}]}), 7),
        on_bridge(
            "says: bridge, hairpin and promiscuous",
            &json!({"promiscMode": true, "hairpinMode": true}),
            7,
        ),
        on_bridge(
            "says: bridge, down with addresses",
            &json!({"disableContainerInterface": true}),
            7,
        ),
        on_bridge("says: bridge, no such source", &json!({"ipam": {"type": "nowhere"}}), 7),
        on_bridge("says: bridge, source is no plugin's name", &json!({"ipam": {"type": "a/b"}}), 7),
        on_bridge(
            "says: bridge, source without a range",
            &json!({"ipam": {"type": "host-local"}}),
            7,
        ),
        on_bridge(
            "says: bridge, source without addresses",
            &json!({"ipam": {"type": "static"}}),
            7,
        ),
        on_bridge(
            "says: bridge, unknown back end",
            &json!({"ipMasq": true, "ipMasqBackend": "smoke"}),
            7,
        ),
    ]
}

/// What `bridge` meets.
fn bridge_life() -> Vec<Row> {
    vec![
        on_bridge("says: bridge, unknown argument", &json!({}), 7).args("FOO=bar"),
        on_bridge("says: bridge, bad argument", &json!({}), 7).args("FOO"),
        on_bridge("says: bridge, bad hardware address", &json!({"capabilities": {"mac": true}}), 7)
            .runtime(json!({"mac": "no mac"})),
        on_bridge("says: bridge, name of 16 bytes", &json!({"bridge": "abcdefghijklmnop"}), 7),
        on_bridge("says: bridge, name is no bridge", &json!({}), 7)
            .before("ip link add br9 type veth peer name other9"),
        on_bridge("says: bridge, another address", &json!({"isGateway": true}), 101)
            .before("ip link add br9 type bridge; ip addr add 10.9.0.7/24 dev br9"),
        on_bridge("says: bridge, ADD twice", &json!({}), 101)
            .steps(&[Step::Add, Step::Add])
            .differs(bridge::END, TEXT),
        on_bridge("says: bridge, ADD twice without addresses", &json!({"ipam": {}}), 101)
            .steps(&[Step::Add, Step::Add])
            .differs(bridge::END, TEXT),
        on_bridge("says: bridge, interface exists", &json!({}), 101)
            .steps(&[Step::Sh("ip -n c1 link add eth0 type veth peer name other0"), Step::Add]),
        on_bridge("says: bridge, address is taken", &json!({}), 101)
            .args("IgnoreUnknown=1;IP=10.9.0.9")
            .steps(&[Step::Add, Step::AddOther("c2")]),
        on_bridge(
            "says: bridge, exhausted",
            &json!({"ipam": {"type": "host-local", "subnet": "10.9.0.0/30"}}),
            102,
        )
        .steps(&[Step::Add, Step::AddOther("c2")]),
        on_bridge("says: bridge, CHECK of nothing", &json!({}), 104).steps(&[Step::Check]),
        on_bridge(
            "says: bridge, CHECK elsewhere",
            &json!({"prevResult": {
            "cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "/x"}], "ips": []}}),
            104,
        )
        .steps(&[Step::Check]),
        on_bridge("says: bridge, CHECK when not promiscuous", &json!({"promiscMode": true}), 104)
            .steps(&[Step::Add, Step::Sh("ip link set br9 promisc off"), Step::Check]),
    ]
}

/// What CHECK of `bridge` misses.
fn bridge_checks() -> Vec<Row> {
    vec![
        gateway("says: bridge, CHECK without route", "ip -n c1 route del default", 104),
        gateway("says: bridge, CHECK without bridge", "ip link del br9", 104),
        gateway("says: bridge, CHECK without interface", "ip -n c1 link del eth0", 104),
        gateway("says: bridge, CHECK without address", "ip -n c1 addr flush dev eth0", 104),
        gateway(
            "says: bridge, CHECK of another hardware address",
            "ip -n c1 link set eth0 address c2:00:00:00:00:01",
            104,
        ),
        gateway(
            "says: bridge, CHECK of another bridge",
            "ip link del br9; ip link add br9 address c2:00:00:00:00:09 type bridge",
            104,
        ),
        gateway(
            "says: bridge, CHECK without port",
            "for port in $(ls /sys/class/net/br9/brif); do ip link set $port nomaster; done",
            104,
        ),
        gateway(
            "says: bridge, CHECK without reservation",
            "rm /var/lib/cni/networks/net/10.*",
            104,
        ),
        routed("says: bridge, CHECK without its default route", "ip -n c1 route del default"),
        routed("says: bridge, CHECK without a route by another", "ip -n c1 route del 192.0.2.0/24"),
    ]
}

/// `ptp`.
fn ptp_rows() -> Vec<Row> {
    vec![
        on_ptp("says: ptp without ipam", &json!({"ipam": {}}), 7),
        on_ptp(
            "says: ptp, unknown back end",
            &json!({"ipMasq": true, "ipMasqBackend": "smoke"}),
            7,
        ),
        on_ptp("says: ptp, no such source", &json!({"ipam": {"type": "nowhere"}}), 7),
        on_ptp("says: ptp, ADD twice", &json!({}), 101).steps(&[Step::Add, Step::Add]),
        on_ptp("says: ptp, interface exists", &json!({}), 101)
            .steps(&[Step::Sh("ip -n c1 link add eth0 type veth peer name other0"), Step::Add]),
        on_ptp(
            "says: ptp, exhausted",
            &json!({"ipam": {"type": "host-local", "subnet": "10.9.0.0/30"}}),
            102,
        )
        .steps(&[Step::Add, Step::AddOther("c2")]),
        on_ptp("says: ptp, CHECK of nothing", &json!({}), 104).steps(&[Step::Check]),
        changed_ptp("says: ptp, CHECK without interface", "ip -n c1 link del eth0"),
        changed_ptp("says: ptp, CHECK without address", "ip -n c1 addr flush dev eth0"),
        changed_ptp(
            "says: ptp, CHECK of another hardware address",
            "ip -n c1 link set eth0 address c2:00:00:00:00:01",
        ),
        changed_ptp(
            "says: ptp, CHECK of another kind",
            "ip -n c1 link del eth0; ip -n c1 link add eth0 type bridge",
        ),
    ]
}

/// A namespace that is none, with each plugin that makes a link.
fn netns_row(plugin: &'static str, netns: &'static str) -> Row {
    let name = format!("says: {plugin}, namespace {netns}").leak();
    let env = vec![
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "c1"),
        ("CNI_NETNS", netns),
        ("CNI_IFNAME", "eth0"),
        ("CNI_PATH", "/opt/cni/bin"),
    ];
    let stdin = format!(
        r#"{{"cniVersion":"1.0.0","name":"net","type":"{plugin}","master":"uplink","device":"uplink",
            "mode":"","vlanId":7,"ipam":{{"type":"host-local","subnet":"10.9.0.0/24"}}}}"#
    )
    .leak();
    let row = Row::new(name, "1.0.0", &[])
        .before(macvlan::UPLINK)
        .steps(&[Step::Raw { plugin, env, stdin }])
        .code(8)
        .answers_only();
    match plugin {
        "macvlan" | "dummy" | "tap" => {
            row.differs("the reference forgets the path: %!q(<nil>)", TEXT)
        }
        _ => row,
    }
}

/// Links on a parent, and devices.
pub(crate) fn parents() -> Vec<Row> {
    let plugins =
        ["ptp", "macvlan", "ipvlan", "vlan", "host-device", "dummy", "tap", "loopback"].into_iter();
    let netns = plugins.flat_map(|plugin| {
        ["/run/netns/nowhere", "/etc/hostname"].map(|netns| netns_row(plugin, netns))
    });
    let rows = [macvlan_rows(), device_rows(), tap_and_loopback(), netns.collect()];
    rows.into_iter().flatten().collect()
}

fn on_macvlan(name: &'static str, more: &Value, code: i64) -> Row {
    said(name, &[macvlan::plugin(more)], code).before(macvlan::UPLINK)
}

fn changed(name: &'static str, script: &'static str) -> Row {
    on_macvlan(name, &json!({}), 104).steps(&[Step::Add, Step::Sh(script), Step::Check])
}

fn on_device(name: &'static str, more: &Value, code: i64) -> Row {
    said(name, &[super::device::plugin(more)], code).before(macvlan::UPLINK)
}

fn addressed() -> Value {
    json!({"ipam": {"type": "host-local", "subnet": "10.9.0.0/24"}})
}

fn moved(name: &'static str, script: &'static str) -> Row {
    on_device(name, &addressed(), 104).steps(&[Step::Add, Step::Sh(script), Step::Check])
}

/// `macvlan`.
fn macvlan_rows() -> Vec<Row> {
    vec![
        on_macvlan("says: macvlan, unknown mode", &json!({"mode": "smoke"}), 7),
        on_macvlan("says: macvlan, mtu below 0", &json!({"mtu": -1}), 7),
        on_macvlan("says: macvlan, mtu over the parent's", &json!({"mtu": 1501}), 7),
        on_macvlan("says: macvlan, no default route", &json!({"master": ""}), 104),
        on_macvlan("says: macvlan, no such parent", &json!({"master": "nowhere"}), 104),
        on_macvlan(
            "says: macvlan, no such parent in the container",
            &json!({"master": "nowhere", "linkInContainer": true}),
            104,
        ),
        on_macvlan("says: macvlan, bad hardware address", &json!({"mac": "no mac"}), 7),
        on_macvlan("says: macvlan, unknown argument", &json!({}), 7).args("FOO=bar"),
        on_macvlan("says: macvlan, no such source", &json!({"ipam": {"type": "nowhere"}}), 7),
        on_macvlan(
            "says: macvlan, source without a range",
            &json!({"ipam": {"type": "host-local"}}),
            7,
        ),
        on_macvlan(
            "says: macvlan, source without addresses",
            &json!({"ipam": {"type": "static"}}),
            7,
        ),
        on_macvlan("says: macvlan, ADD twice", &json!({}), 101).steps(&[Step::Add, Step::Add]),
        on_macvlan("says: macvlan, interface exists", &json!({}), 101)
            .steps(&[Step::Sh("ip -n c1 link add eth0 type veth peer name other0"), Step::Add]),
        on_macvlan("says: macvlan, passthru twice", &json!({"mode": "passthru"}), 5)
            .steps(&[Step::Add, Step::AddOther("c2")])
            .says(
                "failed to create macvlan: invalid argument",
                "making macvlan eth0: Invalid argument (os error 22)",
            ),
        on_macvlan("says: macvlan, CHECK of nothing", &json!({}), 104).steps(&[Step::Check]),
        on_macvlan(
            "says: macvlan, CHECK elsewhere",
            &json!({"prevResult": {
            "cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "/x"}], "ips": []}}),
            104,
        )
        .steps(&[Step::Check]),
        changed("says: macvlan, CHECK without address", "ip -n c1 addr flush dev eth0"),
        changed("says: macvlan, CHECK without interface", "ip -n c1 link del eth0"),
        changed(
            "says: macvlan, CHECK of another mode",
            "ip -n c1 link set eth0 type macvlan mode private",
        ),
        changed(
            "says: macvlan, CHECK of another hardware address",
            "ip -n c1 link set eth0 address c2:00:00:00:00:01",
        ),
        changed(
            "says: macvlan, CHECK of another kind",
            "ip -n c1 link del eth0; ip -n c1 link add eth0 type bridge",
        ),
        changed("says: macvlan, CHECK without parent", "ip link del uplink"),
    ]
}

/// `host-device`.
fn device_rows() -> Vec<Row> {
    vec![
        on_device("says: host-device, nothing named", &json!({"device": ""}), 7),
        on_device("says: host-device, no such device", &json!({"device": "nowhere"}), 104),
        on_device(
            "says: host-device, no such address",
            &json!({"device": "", "hwaddr": "c2:00:00:00:00:09"}),
            104,
        ),
        on_device("says: host-device, bad address", &json!({"device": "", "hwaddr": "c2"}), 7),
        on_device(
            "says: host-device, path elsewhere",
            &json!({"device": "", "kernelpath": "/dev/x"}),
            7,
        ),
        on_device(
            "says: host-device, no such path",
            &json!({"device": "", "kernelpath": "/sys/devices/none"}),
            104,
        ),
        on_device(
            "says: host-device, no such bus address",
            &json!({"device": "", "pciBusID": "ffff:ff:1f.7"}),
            104,
        ),
        on_device(
            "says: host-device, no such device by runtimeConfig",
            &json!({"device": "", "capabilities": {"deviceID": true}}),
            104,
        )
        .runtime(json!({"deviceID": "ffff:ff:1f.7"})),
        on_device("says: host-device, the name is taken", &json!({}), 101)
            .steps(&[Step::Sh("ip -n c1 link add eth0 type veth peer name other0"), Step::Add]),
        on_device("says: host-device, ADD twice", &json!({}), 101).steps(&[Step::Add, Step::Add]),
        on_device("says: host-device, taken by another container", &json!({}), 104)
            .steps(&[Step::Add, Step::AddOther("c2")]),
        on_device("says: host-device, loopback", &json!({"device": "lo"}), 7),
        on_device("says: host-device, CHECK of nothing", &addressed(), 104).steps(&[Step::Check]),
        moved("says: host-device, CHECK without address", "ip -n c1 addr flush dev eth0"),
        moved(
            "says: host-device, CHECK without interface",
            "ip -n c1 link set eth0 down; ip -n c1 link set eth0 name eth9",
        ),
        moved(
            "says: host-device, CHECK of another hardware address",
            "ip -n c1 link set eth0 address c2:00:00:00:00:01",
        ),
    ]
}

/// `tap` and `loopback`.
fn tap_and_loopback() -> Vec<Row> {
    vec![
        said("says: tap, unknown argument", &[tap::plugin(&json!({}))], 7).args("FOO=bar"),
        said("says: tap, bad hardware address", &[tap::plugin(&json!({"mac": "no mac"}))], 7).says(
            "failed to run command \"no mac\" is invalid lladdr.\n: exit status 1",
            "invalid args no mac for MAC addr: address no mac: invalid MAC address",
        ),
        said("says: tap, ADD twice", &[tap::plugin(&json!({}))], 101)
            .steps(&[Step::Add, Step::Add]),
        said("says: tap, no such bridge", &[tap::plugin(&json!({"bridge": "nowhere"}))], 104),
        said("says: tap, no such source", &[tap::plugin(&json!({"ipam": {"type": "nowhere"}}))], 7),
        said("says: tap, CHECK of nothing", &[tap::plugin(&json!({}))], 104).steps(&[Step::Check]),
        said("says: tap, CHECK without address", &[tap::plugin(&json!({}))], 104).steps(&[
            Step::Add,
            Step::Sh("ip -n c1 addr flush dev eth0"),
            Step::Check,
        ]),
        said("says: tap, CHECK without interface", &[tap::plugin(&json!({}))], 104).steps(&[
            Step::Add,
            Step::Sh("ip -n c1 link del eth0"),
            Step::Check,
        ]),
        said("says: loopback, CHECK when down", &[json!({"type": "loopback"})], 104).steps(&[
            Step::Add,
            Step::Sh("ip -n c1 link set lo down"),
            Step::Check,
        ]),
        said("says: loopback, CHECK of nothing", &[json!({"type": "loopback"})], 104)
            .steps(&[Step::Check]),
    ]
}
