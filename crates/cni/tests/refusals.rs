//! What is wrong with a configuration is reported in the words of the reference plugins, whose 1.9.1
//! was asked the same, and before anything is done.

#![allow(clippy::unwrap_used)]

mod rig;

use cni::Plugin;
use rig::{Rig, config, previous};
use serde_json::{Value, json};

type Row = (Plugin, &'static str, Value, u64, &'static str);

fn check_all(rows: Vec<Row>) {
    let rig = Rig::new();
    for (plugin, args, fields, code, msg) in rows {
        let (was_code, was_msg) = rig.refused(plugin, args, &config(fields.clone()));
        assert_eq!((was_code, was_msg.starts_with(msg)), (code, true), "{fields}: {was_msg}");
    }
    assert!(rig.driver.calls.borrow().is_empty(), "nothing was done");
}

#[test]
fn bridges() {
    let hl = || json!({"type": "host-local", "subnet": "10.9.0.0/24", "dataDir": "/tmp"});
    let b = Plugin::Bridge;
    check_all(vec![
        (b, "", json!({"mtu": "1500"}), 7, "\"mtu\" is \"1500\", which is not a whole number"),
        (b, "", json!({"mtu": 10}), 7, "\"mtu\" is 10"),
        (b, "", json!({"bridge": ""}), 7, "\"bridge\" is \"\", which is wrong"),
        (
            b,
            "",
            json!({"bridge": "sixteen-bytes-xx"}),
            7,
            "failed to create bridge \"sixteen-bytes-xx\": could not add",
        ),
        (
            b,
            "",
            json!({"hairpinMode": true, "promiscMode": true}),
            7,
            "cannot set hairpin mode and promiscuous mode at the same time",
        ),
        (b, "", json!({"vlan": 5000}), 7, "invalid VLAN ID 5000 (must be between 0 and 4094)"),
        (b, "", json!({"vlanTrunk": [{"minID": 1}]}), 7, "minID and maxID should be configured"),
        (
            b,
            "",
            json!({"disableContainerInterface": true, "ipam": hl()}),
            7,
            "cannot use IPAM when DisableContainerInterface flag is set",
        ),
        (
            b,
            "",
            json!({"ipMasq": true, "ipMasqBackend": "foo"}),
            7,
            "unknown ipmasq backend \"foo\"",
        ),
        (
            b,
            "",
            json!({"runtimeConfig": {"mac": "foo"}}),
            7,
            "failed to make veth pair: address foo: invalid MAC address",
        ),
        (b, "FOO=1", json!({}), 7, "ARGS: unknown args [\"FOO=1\"]"),
        (b, "", json!({"ipam": {"type": "../x"}}), 7, "invalid plugin name: ../x"),
        (b, "", json!({"ipam": {"type": "bridge"}}), 7, "\"ipam.type\" is \"bridge\""),
        (b, "", json!({"ipam": {"type": "static"}}), 7, "IPAM plugin returned missing IP config"),
        (b, "", json!({"cniVersion": "0.2.0"}), 7, "cannot convert: no valid IP addresses"),
        (b, "", json!({"isGateway": "yes", "ipam": hl()}), 7, "\"isGateway\" is \"yes\""),
        (Plugin::Ptp, "", json!({}), 7, "no plugin name provided"),
    ]);
}

fn sets(ranges: Value) -> Value {
    json!({"ipam": {"ranges": ranges}})
}

fn one(extra: Value) -> Value {
    let mut ipam = json!({"subnet": "10.9.0.0/24"});
    extra.as_object().unwrap().iter().for_each(|(k, v)| ipam[k] = v.clone());
    json!({"ipam": ipam})
}

/// The reference hands these out; no container can reach another by them.
#[test]
fn ranges_that_no_container_can_use() {
    let range = |subnet: &str| json!({"ipam": {"ranges": [[{"subnet": subnet}]]}});
    let h = Plugin::HostLocal;
    check_all(vec![
        (
            h,
            "",
            range("127.1.0.0/24"),
            7,
            "invalid range set 0: subnet 127.1.0.0/24 cannot be used",
        ),
        (
            h,
            "",
            range("224.0.1.0/24"),
            7,
            "invalid range set 0: subnet 224.0.1.0/24 cannot be used",
        ),
        (h, "", range("ff05::/64"), 7, "invalid range set 0: subnet ff05::/64 cannot be used"),
    ]);
}

#[test]
fn one_range() {
    let h = Plugin::HostLocal;
    check_all(vec![
        (
            h,
            "",
            one(json!({"subnet": "10.9.0.0/31"})),
            7,
            "invalid range set 0: Network 10.9.0.0/31 too small to allocate from",
        ),
        (
            h,
            "",
            one(json!({"subnet": "10.9.0.1/24"})),
            7,
            "invalid range set 0: Network has host bits set. For a subnet mask of length 24 the \
             network address is 10.9.0.0",
        ),
        (h, "", one(json!({"subnet": "10.9.0/24"})), 7, "invalid CIDR address: 10.9.0/24"),
        (h, "", one(json!({"gateway": "foo"})), 7, "invalid IP address: foo"),
        (
            h,
            "",
            one(json!({"rangeStart": "10.8.0.1"})),
            7,
            "invalid range set 0: RangeStart 10.8.0.1 not in network 10.9.0.0/24",
        ),
        (
            h,
            "",
            one(json!({"rangeStart": "10.9.0.50", "rangeEnd": "10.9.0.20"})),
            7,
            "invalid range set 0: RangeStart 10.9.0.50 not in network 10.9.0.0/24",
        ),
        (
            h,
            "",
            one(json!({"rangeEnd": "fd00::1"})),
            7,
            "invalid range set 0: RangeEnd fd00::1 not in network 10.9.0.0/24",
        ),
        (
            h,
            "IP=foo",
            one(json!({})),
            7,
            "ARGS: error parsing value of pair \"IP=foo\": invalid IP address foo",
        ),
        (
            h,
            "IP=10.9.0.1",
            one(json!({})),
            7,
            "failed to allocate for range 0: requested ip 10.9.0.1 is subnet's gateway",
        ),
        (h, "IP=10.8.0.1", one(json!({})), 7, "failed to allocate all requested IPs: 10.8.0.1"),
        (h, "", one(json!({"dataDir": "x"})), 7, "\"ipam.dataDir\" is \"x\""),
        (h, "", one(json!({"resolvConf": "/nonexistent"})), 5, "open /nonexistent"),
        (h, "", one(json!({"routes": [{"gw": "10.9.0.1"}]})), 7, "\"dst\" is missing"),
    ]);
}

#[test]
fn sets_of_ranges() {
    let h = Plugin::HostLocal;
    let both = json!([[{"subnet": "10.9.0.0/24"}], [{"subnet": "10.8.0.0/24"}]]);
    check_all(vec![
        (h, "", json!({}), 7, "IPAM config missing 'ipam' key"),
        (h, "", json!({"ipam": {}}), 7, "no IP ranges specified"),
        (
            h,
            "",
            json!({"cniVersion": "0.2.0", "ipam": {"ranges": both}}),
            7,
            "CNI version 0.2.0 does not support more than 1 address per family",
        ),
        (h, "", sets(json!([[]])), 7, "invalid range set 0: empty range set"),
        (h, "", sets(json!([{"subnet": "10.9.0.0/24"}])), 7, "\"ipam.ranges[0]\" is {"),
        (
            h,
            "",
            sets(json!([[{"subnet": "10.9.0.0/24"}, {"subnet": "fd00::/64"}]])),
            7,
            "invalid range set 0: mixed address families",
        ),
        (
            h,
            "",
            sets(json!([[{"subnet": "10.9.0.0/24"}, {"subnet": "10.9.0.0/16"}]])),
            7,
            "invalid range set 0: subnets 10.9.0.1-10.9.0.254 and 10.9.0.1-10.9.255.254 overlap",
        ),
        (
            h,
            "",
            sets(json!([[{"subnet": "10.9.0.0/24"}], [{"subnet": "10.9.0.0/16"}]])),
            7,
            "range set 0 overlaps with 1",
        ),
        (
            h,
            "",
            json!({"ipam": {"subnet": "10.9.0.0/24"}, "runtimeConfig": {"ips": ["x"]}}),
            7,
            "invalid IP address x",
        ),
    ]);
}

#[test]
fn fixed_addresses() {
    let s = Plugin::Static;
    let address = |a: &str| json!({"ipam": {"addresses": [{"address": a}]}});
    check_all(vec![
        (s, "", json!({}), 7, "IPAM config missing 'ipam' key"),
        (
            s,
            "",
            address("10.0.0.5"),
            7,
            "the 'address' field is expected to be in CIDR notation, got: '10.0.0.5'",
        ),
        (
            s,
            "IP=10.1.0.9",
            address("10.0.0.5/24"),
            7,
            "the 'ip' field is expected to be in CIDR notation, got: '10.1.0.9'",
        ),
        (s, "GATEWAY=x", address("10.0.0.5/24"), 7, "invalid gateway address: x"),
        (
            s,
            "",
            json!({"ipam": {}, "args": {"cni": {"ips": ["10.2.0.2"]}}}),
            7,
            "an entry in the 'ips' field is NOT in CIDR notation, got: '10.2.0.2'",
        ),
        (s, "IP=10.0.0.5/24", address("10.0.0.5/24"), 7, "address 10.0.0.5/24 is given twice"),
    ]);
}

fn chained(fields: Value) -> Value {
    let mut all = json!({"prevResult": previous()});
    fields.as_object().unwrap().iter().for_each(|(k, v)| all[k] = v.clone());
    all
}

fn mapping(map: Value) -> Value {
    chained(json!({"runtimeConfig": {"portMappings": [map]}}))
}

fn port(host: u32, container: u32) -> Value {
    json!({"hostPort": host, "containerPort": container, "protocol": "tcp"})
}

#[test]
fn published_ports() {
    let p = Plugin::Portmap;
    check_all(vec![
        (p, "", json!({}), 7, "must be called as chained plugin"),
        (p, "", json!({"prevResult": 5}), 7, "\"prevResult\" is 5, which is not an object"),
        (
            p,
            "",
            json!({"prevResult": {"cniVersion": "7"}}),
            7,
            "failed to parse config: could not parse prevResult: could not parse prevResult: ",
        ),
        (
            p,
            "",
            chained(json!({"markMasqBit": 32})),
            7,
            "failed to parse config: MasqMarkBit must be between 0 and 31",
        ),
        (p, "", mapping(port(0, 80)), 7, "failed to parse config: Invalid host port number: 0"),
        (
            p,
            "",
            mapping(port(80, 0)),
            7,
            "failed to parse config: Invalid container port number: 0",
        ),
        (
            p,
            "",
            mapping(port(70000, 80)),
            7,
            "failed to parse config: Invalid host port number: 70000",
        ),
        (
            p,
            "",
            mapping(json!({"hostPort": 1, "containerPort": 1, "protocol": "icmp"})),
            7,
            "failed to parse config: \"runtimeConfig.portMappings[0].protocol\" is \"icmp\"",
        ),
        (
            p,
            "",
            mapping(json!({"hostPort": 1, "containerPort": 1, "protocol": "tcp", "hostIP": "foo"})),
            7,
            "failed to parse config: \"runtimeConfig.portMappings[0].hostIP\" is \"foo\"",
        ),
    ]);
}

#[test]
fn options_of_portmap() {
    let p = Plugin::Portmap;
    check_all(vec![
        (
            p,
            "",
            chained(json!({"markMasqBit": 1, "externalSetMarkChain": "X"})),
            7,
            "failed to parse config: Cannot specify externalSetMarkChain and markMasqBit",
        ),
        (
            p,
            "",
            chained(json!({"backend": "foo"})),
            7,
            "failed to parse config: unrecognized backend \"foo\"",
        ),
        (
            p,
            "",
            chained(json!({"backend": "nftables", "conditionsV4": ["-s", "10.0.0.0/8"]})),
            7,
            "failed to parse config: nftables backend was requested but configuration contains \
             iptables-specific options [conditionsV4]",
        ),
        (
            p,
            "",
            chained(json!({"conditionsV4": ["ip saddr", "10.0.0.0/8"]})),
            2,
            "failed to parse config: \"conditionsV4\" is [\"ip saddr\",\"10.0.0.0/8\"]",
        ),
    ]);
}

#[test]
fn firewalls() {
    let f = Plugin::Firewall;
    check_all(vec![
        (f, "", json!({}), 7, "missing prevResult from earlier plugin"),
        (f, "", chained(json!({"ingressPolicy": "foo"})), 7, "unknown ingress policy: \"foo\""),
        (f, "", chained(json!({"backend": "ufw"})), 7, "\"backend\" is \"ufw\""),
        (
            f,
            "",
            chained(json!({"firewalldZone": "no zone"})),
            7,
            "\"firewalldZone\" is \"no zone\"",
        ),
        (f, "", chained(json!({"firewalldZone": "a.b"})), 7, "\"firewalldZone\" is \"a.b\""),
        (
            f,
            "",
            json!({"ingressPolicy": "same-bridge", "prevResult": {"ips": [{"address": "10.0.0.5/24"}]}}),
            7,
            "interface needs to be set for ingress policy \"same-bridge\", make sure to chain",
        ),
        (
            f,
            "",
            chained(json!({"iptablesAdminChainName": "-j ACCEPT"})),
            7,
            "\"iptablesAdminChainName\"",
        ),
    ]);
}

#[test]
fn tuning() {
    let t = Plugin::Tuning;
    check_all(vec![
        (t, "", json!({}), 7, "Required prevResult missing"),
        (
            t,
            "",
            chained(json!({"sysctl": {"kernel.hostname": "x"}})),
            7,
            "invalid net sysctl key: \"kernel/hostname\"",
        ),
        (
            t,
            "",
            chained(json!({"sysctl": {"net.core.somaxconn": 1}})),
            7,
            "\"sysctl\" is not an object of strings",
        ),
        (t, "", chained(json!({"mac": "foo"})), 7, "invalid args foo for MAC addr"),
        (t, "", chained(json!({"txQLen": -5})), 7, "\"txQLen\" is -5"),
        (t, "FOO=1", chained(json!({})), 7, "ARGS: unknown args [\"FOO=1\"]"),
    ]);
}

#[test]
fn sysctls_twice_or_not_listed() {
    let rig = Rig::new();
    let add = |sysctl: &str| {
        let text = format!(
            r#"{{"cniVersion":"1.1.0","name":"net","prevResult":{},"sysctl":{sysctl}}}"#,
            previous()
        );
        let variables = [
            ("CNI_COMMAND", "ADD"),
            ("CNI_CONTAINERID", "c"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_NETNS", "/ns/one"),
            ("CNI_PATH", "/x"),
        ];
        rig.call(Plugin::Tuning, &variables, &text)
    };
    let twice = add(r#"{"net.core.somaxconn":"1","net.core.somaxconn":"2"}"#);
    assert!(twice.stdout.contains("duplicated sysctl keys are not allowed"), "{twice:?}");
    std::fs::write(rig.root.path().join("allowlist.conf"), "^net.core\\.\n\n").unwrap();
    let unlisted = add(r#"{"net.ipv4.ip_forward":"1"}"#);
    assert!(unlisted.stdout.contains("Sysctl net.ipv4.ip_forward is not allowed"), "{unlisted:?}");
    assert_eq!(add(r#"{"net.core.somaxconn":"1"}"#).code, 0);
}

#[test]
fn an_unknown_option_of_our_own_type_names_those_that_there_are() {
    let rig = Rig::new();
    let (code, msg) = rig.refused(Plugin::Spoke, "", &config(json!({"ipmask": true})));
    assert_eq!(code, 2);
    assert!(msg.contains("\"ipmask\" is true") && msg.contains("ipMasq, "), "{msg}");
}
