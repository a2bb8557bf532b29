//! What is said of refused calls, word for word. Only answers are compared here: what a refused call
//! leaves in the world, other rows show.

mod chained;
mod envelope;

pub(crate) use chained::{chained, lacking};
pub(crate) use envelope::envelope;

use serde_json::{Value, json};

use super::{bridge, macvlan, tap};
use crate::row::{Row, Step, with};

const TEXT: &[&str] = &["error.msg: "];

/// A row whose answers alone count. Where the reference says only 999, `code` is ours.
fn said(name: &'static str, plugins: &[Value], code: i64) -> Row {
    Row::new(name, "1.0.0", plugins).steps(&[Step::Add]).code(code).answers_only()
}

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
    let range = |more: &Value| with(subnet(), more);
    let small = json!({"subnet": "10.9.0.0/30"});
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
        local("says: host-local, address of a range is taken", &range(&json!({"rangeEnd": "10.9.0.12"})), 101)
            .args("IP=10.9.0.9")
            .steps(&[Step::Add, Step::AddOther("c2")]),
        local("says: host-local, exhausted", &small, 102).steps(&[Step::Add, Step::AddOther("c2")]),
        local("says: host-local, two ranges exhausted", &json!({"ranges": [[
            {"subnet": "10.9.0.0/30"}, {"subnet": "10.8.0.0/30"}]]}), 102)
            .steps(&[Step::Add, Step::AddOther("c2"), Step::AddOther("c3")]),
        local("says: host-local, the second set exhausted", &json!({"ranges": [
            [{"subnet": "10.9.0.0/24"}], [{"subnet": "fd09::/126", "rangeEnd": "fd09::2"}]]}), 102)
            .steps(&[Step::Add, Step::AddOther("c2")]),
        local("says: host-local, ADD twice", &subnet(), 101).steps(&[Step::Add, Step::Add]),
        local("says: host-local, ADD twice of two", &json!({"ranges": [
            [{"subnet": "10.9.0.0/24"}], [{"subnet": "fd09::/64"}]]}), 101)
            .steps(&[Step::Add, Step::Add]),
        local("says: host-local, ADD twice with an address", &subnet(), 101)
            .args("IP=10.9.0.9")
            .steps(&[Step::Add, Step::Add]),
        local("says: host-local, held in the form before interfaces", &subnet(), 101)
            .before("mkdir -p /var/lib/cni/networks/net; printf c1 >/var/lib/cni/networks/net/10.9.0.9"),
        local("says: host-local, held by the same", &subnet(), 101)
            .before("mkdir -p /var/lib/cni/networks/net; printf 'c1\\r\\neth0' >/var/lib/cni/networks/net/10.9.0.9"),
        local("says: host-local, held by another interface", &subnet(), 101)
            .before("mkdir -p /var/lib/cni/networks/net; printf 'c1\\r\\neth1' >/var/lib/cni/networks/net/10.9.0.9"),
        local("says: host-local, CHECK of nothing", &subnet(), 104).steps(&[Step::Check]),
        local("says: host-local, CHECK without reservation", &subnet(), 104)
            .steps(&[Step::Add, Step::Sh("rm /var/lib/cni/networks/net/10.*"), Step::Check]),
        local("says: host-local, no such resolvConf", &range(&json!({"resolvConf": "/nowhere"})), 5),
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
        fixed("says: static, CHECK without result", &good, 7).steps(&[Step::Check]),
    ]
}

/// `bridge` and `ptp`.
pub(crate) fn pairs() -> Vec<Row> {
    let bridge = |name, more: &Value, code| said(name, &[bridge::plugin(more)], code);
    let gateway = |name, script, code| {
        bridge(name, &json!({"isDefaultGateway": true}), code).steps(&[
            Step::Add,
            Step::Sh(script),
            Step::Check,
        ])
    };
    let routes = json!({"ipam": {"type": "host-local", "subnet": "10.9.0.0/24",
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "192.0.2.0/24", "gw": "10.9.0.9"}]}});
    let routed = |name, script| {
        bridge(name, &routes, 104).steps(&[Step::Add, Step::Sh(script), Step::Check])
    };
    let ptp = |name, more: &Value, code| {
        let base = json!({"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.9.0.0/24"}});
        said(name, &[with(base, more)], code)
    };
    let on_ptp = |name, script| {
        ptp(name, &json!({}), 104).steps(&[Step::Add, Step::Sh(script), Step::Check])
    };
    let mut rows = vec![
        bridge("says: bridge, vlan 4095", &json!({"vlan": 4095}), 7),
        bridge("says: bridge, vlan below 0", &json!({"vlan": -1}), 7),
        bridge("says: bridge, trunk id 0", &json!({"vlanTrunk": [{"id": 0}]}), 7),
        bridge("says: bridge, trunk minID 0", &json!({"vlanTrunk": [{"minID": 0, "maxID": 3}]}), 7),
        bridge(
            "says: bridge, trunk maxID 4095",
            &json!({"vlanTrunk": [{"minID": 1, "maxID": 4095}]}),
            7,
        ),
        bridge(
            "says: bridge, trunk backwards",
            &json!({"vlanTrunk": [{"minID": 3, "maxID": 2}]}),
            7,
        ),
        bridge("says: bridge, trunk without maxID", &json!({"vlanTrunk": [{"minID": 3}]}), 7),
        bridge("says: bridge, trunk without minID", &json!({"vlanTrunk": [{"maxID": 3}]}), 7),
        bridge(
            "says: bridge, hairpin and promiscuous",
            &json!({"promiscMode": true, "hairpinMode": true}),
            7,
        ),
        bridge("says: bridge, down with addresses", &json!({"disableContainerInterface": true}), 7),
        bridge("says: bridge, no such source", &json!({"ipam": {"type": "nowhere"}}), 7),
        bridge("says: bridge, source is no plugin's name", &json!({"ipam": {"type": "a/b"}}), 7),
        bridge("says: bridge, source without a range", &json!({"ipam": {"type": "host-local"}}), 7),
        bridge("says: bridge, source without addresses", &json!({"ipam": {"type": "static"}}), 7),
        bridge(
            "says: bridge, unknown back end",
            &json!({"ipMasq": true, "ipMasqBackend": "smoke"}),
            7,
        ),
        bridge("says: bridge, unknown argument", &json!({}), 7).args("FOO=bar"),
        bridge("says: bridge, bad argument", &json!({}), 7).args("FOO"),
        bridge("says: bridge, bad hardware address", &json!({"capabilities": {"mac": true}}), 7)
            .runtime(json!({"mac": "no mac"})),
        bridge("says: bridge, name of 16 bytes", &json!({"bridge": "abcdefghijklmnop"}), 7),
        bridge("says: bridge, name is no bridge", &json!({}), 7)
            .before("ip link add br9 type veth peer name other9"),
        bridge("says: bridge, another address", &json!({"isGateway": true}), 101)
            .before("ip link add br9 type bridge; ip addr add 10.9.0.7/24 dev br9"),
        bridge("says: bridge, ADD twice", &json!({}), 101)
            .steps(&[Step::Add, Step::Add])
            .differs(bridge::END, TEXT),
        bridge("says: bridge, ADD twice without addresses", &json!({"ipam": {}}), 101)
            .steps(&[Step::Add, Step::Add])
            .differs(bridge::END, TEXT),
        bridge("says: bridge, interface exists", &json!({}), 101)
            .steps(&[Step::Sh("ip -n c1 link add eth0 type veth peer name other0"), Step::Add]),
        bridge("says: bridge, address is taken", &json!({}), 101)
            .args("IgnoreUnknown=1;IP=10.9.0.9")
            .steps(&[Step::Add, Step::AddOther("c2")]),
        bridge(
            "says: bridge, exhausted",
            &json!({"ipam": {"type": "host-local", "subnet": "10.9.0.0/30"}}),
            102,
        )
        .steps(&[Step::Add, Step::AddOther("c2")]),
        bridge("says: bridge, CHECK of nothing", &json!({}), 104).steps(&[Step::Check]),
        bridge(
            "says: bridge, CHECK elsewhere",
            &json!({"prevResult": {
            "cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "/x"}], "ips": []}}),
            104,
        )
        .steps(&[Step::Check]),
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
        bridge("says: bridge, CHECK when not promiscuous", &json!({"promiscMode": true}), 104)
            .steps(&[Step::Add, Step::Sh("ip link set br9 promisc off"), Step::Check]),
        ptp("says: ptp without ipam", &json!({"ipam": {}}), 7),
        ptp("says: ptp, unknown back end", &json!({"ipMasq": true, "ipMasqBackend": "smoke"}), 7),
        ptp("says: ptp, no such source", &json!({"ipam": {"type": "nowhere"}}), 7),
        ptp("says: ptp, ADD twice", &json!({}), 101).steps(&[Step::Add, Step::Add]),
        ptp("says: ptp, interface exists", &json!({}), 101)
            .steps(&[Step::Sh("ip -n c1 link add eth0 type veth peer name other0"), Step::Add]),
        ptp(
            "says: ptp, exhausted",
            &json!({"ipam": {"type": "host-local", "subnet": "10.9.0.0/30"}}),
            102,
        )
        .steps(&[Step::Add, Step::AddOther("c2")]),
        ptp("says: ptp, CHECK of nothing", &json!({}), 104).steps(&[Step::Check]),
        on_ptp("says: ptp, CHECK without interface", "ip -n c1 link del eth0"),
        on_ptp("says: ptp, CHECK without address", "ip -n c1 addr flush dev eth0"),
        on_ptp(
            "says: ptp, CHECK of another hardware address",
            "ip -n c1 link set eth0 address c2:00:00:00:00:01",
        ),
        on_ptp(
            "says: ptp, CHECK of another kind",
            "ip -n c1 link del eth0; ip -n c1 link add eth0 type bridge",
        ),
    ];
    rows.extend(["/run/netns/nowhere", "/etc/hostname"].map(|netns| netns_row("bridge", netns)));
    rows
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
    let macvlan = |name, more: &Value, code| {
        said(name, &[macvlan::plugin(more)], code).before(macvlan::UPLINK)
    };
    let changed = |name, script| {
        macvlan(name, &json!({}), 104).steps(&[Step::Add, Step::Sh(script), Step::Check])
    };
    let device = |name, more: &Value, code| {
        said(name, &[super::device::plugin(more)], code).before(macvlan::UPLINK)
    };
    let addressed = json!({"ipam": {"type": "host-local", "subnet": "10.9.0.0/24"}});
    let moved = |name, script| {
        device(name, &addressed, 104).steps(&[Step::Add, Step::Sh(script), Step::Check])
    };
    let mut rows = vec![
        macvlan("says: macvlan, unknown mode", &json!({"mode": "smoke"}), 7),
        macvlan("says: macvlan, mtu below 0", &json!({"mtu": -1}), 7),
        macvlan("says: macvlan, mtu over the parent's", &json!({"mtu": 1501}), 7),
        macvlan("says: macvlan, no default route", &json!({"master": ""}), 104),
        macvlan("says: macvlan, no such parent", &json!({"master": "nowhere"}), 104),
        macvlan(
            "says: macvlan, no such parent in the container",
            &json!({"master": "nowhere", "linkInContainer": true}),
            104,
        ),
        macvlan("says: macvlan, bad hardware address", &json!({"mac": "no mac"}), 7),
        macvlan("says: macvlan, unknown argument", &json!({}), 7).args("FOO=bar"),
        macvlan("says: macvlan, no such source", &json!({"ipam": {"type": "nowhere"}}), 7),
        macvlan(
            "says: macvlan, source without a range",
            &json!({"ipam": {"type": "host-local"}}),
            7,
        ),
        macvlan("says: macvlan, source without addresses", &json!({"ipam": {"type": "static"}}), 7),
        macvlan("says: macvlan, ADD twice", &json!({}), 101).steps(&[Step::Add, Step::Add]),
        macvlan("says: macvlan, interface exists", &json!({}), 101)
            .steps(&[Step::Sh("ip -n c1 link add eth0 type veth peer name other0"), Step::Add]),
        macvlan("says: macvlan, passthru twice", &json!({"mode": "passthru"}), 5)
            .steps(&[Step::Add, Step::AddOther("c2")])
            .says(
                "failed to create macvlan: invalid argument",
                "making macvlan eth0: Invalid argument (os error 22)",
            ),
        macvlan("says: macvlan, CHECK of nothing", &json!({}), 104).steps(&[Step::Check]),
        macvlan(
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
        device("says: host-device, nothing named", &json!({"device": ""}), 7),
        device("says: host-device, no such device", &json!({"device": "nowhere"}), 104),
        device(
            "says: host-device, no such address",
            &json!({"device": "", "hwaddr": "c2:00:00:00:00:09"}),
            104,
        ),
        device("says: host-device, bad address", &json!({"device": "", "hwaddr": "c2"}), 7),
        device(
            "says: host-device, path elsewhere",
            &json!({"device": "", "kernelpath": "/dev/x"}),
            7,
        ),
        device(
            "says: host-device, no such path",
            &json!({"device": "", "kernelpath": "/sys/devices/none"}),
            104,
        ),
        device(
            "says: host-device, no such bus address",
            &json!({"device": "", "pciBusID": "ffff:ff:1f.7"}),
            104,
        ),
        device(
            "says: host-device, no such device by runtimeConfig",
            &json!({"device": "", "capabilities": {"deviceID": true}}),
            104,
        )
        .runtime(json!({"deviceID": "ffff:ff:1f.7"})),
        device("says: host-device, the name is taken", &json!({}), 101)
            .steps(&[Step::Sh("ip -n c1 link add eth0 type veth peer name other0"), Step::Add]),
        device("says: host-device, ADD twice", &json!({}), 101).steps(&[Step::Add, Step::Add]),
        device("says: host-device, taken by another container", &json!({}), 104)
            .steps(&[Step::Add, Step::AddOther("c2")]),
        device("says: host-device, loopback", &json!({"device": "lo"}), 7),
        device("says: host-device, CHECK of nothing", &addressed, 104).steps(&[Step::Check]),
        moved("says: host-device, CHECK without address", "ip -n c1 addr flush dev eth0"),
        moved(
            "says: host-device, CHECK without interface",
            "ip -n c1 link set eth0 down; ip -n c1 link set eth0 name eth9",
        ),
        moved(
            "says: host-device, CHECK of another hardware address",
            "ip -n c1 link set eth0 address c2:00:00:00:00:01",
        ),
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
    ];
    for plugin in ["ptp", "macvlan", "ipvlan", "vlan", "host-device", "dummy", "tap", "loopback"] {
        rows.extend(["/run/netns/nowhere", "/etc/hostname"].map(|netns| netns_row(plugin, netns)));
    }
    rows
}
