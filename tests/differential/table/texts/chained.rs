//! What plugins say that are chained, a source that is a daemon, and kinds of links that a kernel may lack.

use serde_json::{Value, json};

use super::super::{bridge, ipvlan, macvlan, vlan};
use super::{TEXT, said};
use crate::row::{Row, Step, with};

const RULES: &str = "CHECK of ours compares every rule, and names the first that is missing";
const ADDRESS: &str = "the reference tells an address of its memory in the value's place";

fn behind(name: &'static str, plugin: Value, code: i64) -> Row {
    said(name, &[bridge::plugin(&json!({"isGateway": true})), plugin], code)
}

/// Plugins that are chained, and a source that is a daemon.
pub(crate) fn chained() -> Vec<Row> {
    [packet_filter(), tuning_rows(), others()].into_iter().flatten().collect()
}

fn portmap(name: &'static str, more: &Value, ports: Value, code: i64) -> Row {
    let base =
        json!({"type": "portmap", "backend": "iptables", "capabilities": {"portMappings": true}});
    behind(name, with(base, more), code).runtime(json!({"portMappings": ports}))
}

/// CHECK of what no ADD accepts.
fn checked_port(name: &'static str, more: &Value, ports: Value) -> Row {
    let base = json!({"type": "portmap", "backend": "iptables", "capabilities": {"portMappings": true},
        "prevResult": {"cniVersion": "1.0.0", "ips": [{"address": "10.9.0.2/24"}],
            "interfaces": [{"name": "eth0", "sandbox": "/run/netns/c1"}]}});
    let row = said(name, &[with(base, more)], 7).steps(&[Step::Check]);
    row.runtime(json!({"portMappings": ports}))
}

fn port() -> Value {
    json!([{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}])
}

fn firewall(name: &'static str, more: &Value, code: i64) -> Row {
    behind(name, with(json!({"type": "firewall", "backend": "iptables"}), more), code)
}

fn tuning(name: &'static str, more: &Value, code: i64) -> Row {
    behind(name, with(json!({"type": "tuning"}), more), code)
}

fn tuned(name: &'static str, more: &Value, script: &'static str) -> Row {
    tuning(name, more, 104).steps(&[Step::Add, Step::Sh(script), Step::Check])
}

fn bandwidth(name: &'static str, more: &Value, code: i64) -> Row {
    behind(name, with(json!({"type": "bandwidth"}), more), code)
}

fn alone(name: &'static str, plugin: &'static str, code: i64) -> Row {
    said(name, &[json!({"type": plugin})], code)
}

fn ingress() -> Value {
    json!({"ingressRate": 8_000_000, "ingressBurst": 1_600_000})
}

fn dhcp(name: &'static str, more: &Value, code: i64) -> Row {
    said(name, &[json!({"type": "dhcp", "ipam": with(json!({"type": "dhcp"}), more)})], code)
}

/// `portmap` and `firewall`.
fn packet_filter() -> Vec<Row> {
    vec![
        portmap("says: portmap, host port 0", &json!({}), json!([{"hostPort": 0, "containerPort": 80, "protocol": "tcp"}]), 7),
        portmap("says: portmap, host port below 0", &json!({}), json!([{"hostPort": -1, "containerPort": 80, "protocol": "tcp"}]), 7),
        portmap("says: portmap, container port 0", &json!({}), json!([{"hostPort": 80, "containerPort": 0, "protocol": "tcp"}]), 7),
        portmap("says: portmap, unknown back end", &json!({"backend": "smoke"}), port(), 7),
        portmap("says: portmap, mark bit 32", &json!({"markMasqBit": 32}), port(), 7),
        portmap("says: portmap, mark bit and chain", &json!({"markMasqBit": 3, "externalSetMarkChain": "X"}), port(), 7),
        portmap("says: portmap, nftables with a mark bit", &json!({"backend": "nftables", "markMasqBit": 3}), port(), 7),
        portmap("says: portmap, nftables with a chain", &json!({"backend": "nftables", "externalSetMarkChain": "X"}), port(), 7),
        checked_port("says: portmap, CHECK of host port 0", &json!({}), json!([{"hostPort": 0, "containerPort": 80, "protocol": "tcp"}])),
        checked_port("says: portmap, CHECK of an unknown back end", &json!({"backend": "smoke"}), port()),
        checked_port("says: portmap, CHECK of mark bit 40", &json!({"markMasqBit": 40}), port()),
        checked_port("says: portmap, CHECK of mark bit and chain", &json!({"markMasqBit": 3, "externalSetMarkChain": "X"}), port()),
        portmap("says: portmap, CHECK without chain", &json!({}), port(), 104)
            .steps(&[Step::Add, Step::Sh("iptables -t nat -F CNI-HOSTPORT-DNAT; iptables -t nat -F PREROUTING; iptables -t nat -F OUTPUT; iptables -t nat -X CNI-HOSTPORT-DNAT"), Step::Check])
            .differs(RULES, TEXT),
        portmap("says: portmap, CHECK without rule", &json!({}), port(), 104)
            .steps(&[Step::Add, Step::Sh("iptables -t nat -F CNI-HOSTPORT-DNAT"), Step::Check])
            .differs(RULES, TEXT),
        alone("says: portmap, alone", "portmap", 7),
        alone("says: portmap, CHECK alone", "portmap", 7).steps(&[Step::Check]),
        firewall("says: firewall, unknown policy", &json!({"ingressPolicy": "ajar"}), 7),
        firewall("says: firewall, CHECK without rule", &json!({}), 104)
            .steps(&[Step::Add, Step::Sh("iptables -F CNI-FORWARD"), Step::Check]),
        alone("says: firewall, alone", "firewall", 7),
        alone("says: firewall, CHECK alone", "firewall", 7).steps(&[Step::Check]),
        said("says: firewall, same bridge behind ptp", &[
            json!({"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.9.0.0/24"}}),
            json!({"type": "firewall", "backend": "iptables", "ingressPolicy": "same-bridge"}),
        ], 7),
    ]
}

/// `tuning`.
fn tuning_rows() -> Vec<Row> {
    vec![
        tuning("says: tuning, not of the network", &json!({"sysctl": {"kernel.hostname": "x"}}), 7),
        tuning("says: tuning, unknown", &json!({"sysctl": {"net.ipv4.nothing": "1"}}), 104),
        tuning("says: tuning, bad value", &json!({"sysctl": {"net.ipv4.ip_forward": "x"}}), 7),
        tuning(
            "says: tuning, path that climbs",
            &json!({"sysctl": {"net/../kernel/hostname": "x"}}),
            104,
        ),
        tuning(
            "says: tuning, one twice",
            &json!({"sysctl": {"net.ipv4.ip_forward": "1", "net/ipv4/ip_forward": "1"}}),
            7,
        ),
        tuning("says: tuning, bad hardware address", &json!({"mac": "no mac"}), 7),
        tuning("says: tuning, not allowed", &json!({"sysctl": {"net.core.somaxconn": "500"}}), 7)
            .before("mkdir -p /etc/cni/tuning; echo '^net.ipv4' >/etc/cni/tuning/allowlist.conf"),
        tuned(
            "says: tuning, CHECK of another mtu",
            &json!({"mtu": 1300}),
            "ip -n c1 link set eth0 mtu 1200",
        ),
        tuned(
            "says: tuning, CHECK of another hardware address",
            &json!({"mac": "c2:11:22:33:44:88"}),
            "ip -n c1 link set eth0 address c2:00:00:00:00:01",
        ),
        tuned(
            "says: tuning, CHECK when not promiscuous",
            &json!({"promisc": true}),
            "ip -n c1 link set eth0 promisc off",
        ),
        tuned(
            "says: tuning, CHECK when promiscuous",
            &json!({"promisc": false}),
            "ip -n c1 link set eth0 promisc on",
        )
        .differs(
            "a program that captures packets in the container breaks CHECK of the reference",
            &["3 Check: "],
        ),
        tuned(
            "says: tuning, CHECK without allmulti",
            &json!({"allmulti": true}),
            "ip -n c1 link set eth0 allmulticast off",
        )
        .differs(ADDRESS, TEXT),
        tuned(
            "says: tuning, CHECK of another queue",
            &json!({"txQLen": 77}),
            "ip -n c1 link set eth0 txqueuelen 5",
        )
        .differs(ADDRESS, TEXT),
        tuned(
            "says: tuning, CHECK of another value",
            &json!({"sysctl": {"net.ipv4.conf.eth0.arp_notify": "0"}}),
            "ip netns exec c1 sysctl -qw net.ipv4.conf.eth0.arp_notify=1",
        ),
        tuned(
            "says: tuning, CHECK without interface",
            &json!({"mtu": 1300}),
            "ip -n c1 link del eth0",
        ),
        alone("says: tuning, alone", "tuning", 7),
        alone("says: tuning, CHECK alone", "tuning", 7).steps(&[Step::Check]),
    ]
}

/// `bandwidth`, `sbr`, `vrf` and `dhcp`.
fn others() -> Vec<Row> {
    vec![
        bandwidth("says: bandwidth, rate without burst", &json!({"ingressRate": 8000}), 7),
        bandwidth("says: bandwidth, burst without rate", &json!({"egressBurst": 8000}), 7),
        bandwidth("says: bandwidth, burst over 4 GB", &json!({"ingressRate": 8000, "ingressBurst": 40_000_000_000_u64}), 7),
        bandwidth("says: bandwidth, CHECK of another limit", &ingress(), 104).steps(&[
            Step::Add,
            Step::Sh("for port in $(ls /sys/class/net/br9/brif); do tc qdisc replace dev $port root tbf rate 1mbit burst 20kb latency 25ms; done"),
            Step::Check,
        ]),
        said("says: bandwidth, alone", &[with(json!({"type": "bandwidth"}), &ingress())], 7),
        said("says: bandwidth, behind macvlan", &[macvlan::plugin(&json!({})), with(json!({"type": "bandwidth"}), &ingress())], 7)
            .before(macvlan::UPLINK),
        alone("says: sbr, alone", "sbr", 7),
        behind("says: sbr, without addresses", json!({"type": "sbr"}), 7)
            .key("plugins", json!([bridge::plugin(&json!({"ipam": {}})), {"type": "sbr"}])),
        alone("says: vrf, no name", "vrf", 7),
        said("says: vrf, alone", &[json!({"type": "vrf", "vrfname": "blue"})], 7),
        said("says: vrf, CHECK alone", &[json!({"type": "vrf", "vrfname": "blue"})], 7).steps(&[Step::Check]),
        dhcp("says: dhcp, no daemon", &json!({}), 11),
        dhcp("says: dhcp, CHECK without daemon", &json!({}), 11).steps(&[Step::Check]),
        dhcp("says: dhcp, unknown option", &json!({"request": [{"option": "smoke"}]}), 7)
            .differs("the reference's daemon reads the options, and is not there", TEXT),
    ]
}

/// Kinds that a kernel may lack; their refusals that need none of it.
pub(crate) fn lacking() -> Vec<Row> {
    let ipam = json!({"type": "host-local", "subnet": "10.9.0.0/24"});
    let vlan =
        |name, more: &Value, code| said(name, &[vlan::plugin(more)], code).before(macvlan::UPLINK);
    let ipvlan = |name, more: &Value, code| {
        said(name, &[ipvlan::plugin(more)], code).before(macvlan::UPLINK)
    };
    vec![
        vlan("says: vlan, no parent", &json!({"master": ""}), 7),
        vlan("says: vlan, 4096", &json!({"vlanId": 4096}), 7),
        vlan("says: vlan, below 0", &json!({"vlanId": -1}), 7),
        vlan("says: vlan, mtu over the parent's", &json!({"mtu": 1501}), 7),
        vlan("says: vlan, no such parent", &json!({"master": "nowhere"}), 104),
        vlan("says: vlan, CHECK of nothing", &json!({}), 104).steps(&[Step::Check]),
        ipvlan("says: ipvlan, unknown mode", &json!({"mode": "l4"}), 7),
        ipvlan("says: ipvlan, no such parent", &json!({"master": "nowhere"}), 104),
        ipvlan("says: ipvlan, no default route", &json!({"master": ""}), 104),
        ipvlan("says: ipvlan, CHECK of nothing", &json!({}), 104).steps(&[Step::Check]),
        ipvlan(
            "says: ipvlan, chained behind several",
            &json!({"master": "", "prevResult": {
            "cniVersion": "1.0.0", "interfaces": [{"name": "uplink"}, {"name": "wire"}]}}),
            7,
        ),
        said("says: dummy without ipam", &[json!({"type": "dummy", "ipam": {}})], 7),
        said("says: dummy, CHECK of nothing", &[json!({"type": "dummy", "ipam": ipam})], 104)
            .steps(&[Step::Check]),
    ]
}
