//! Links of every kind, and what is chained behind them: what each configuration asks of the engine.

#![allow(clippy::unwrap_used, clippy::panic)]

mod rig;

use std::path::Path;

use cni::Plugin;
use model::{
    DeviceChoice, InterfaceNamespace, Ipam, IpvlanMode, Layer, LinkKind, MacvlanMode, Space, Tap,
    Wiring,
};
use rig::{Rig, config, json_of, previous};
use serde_json::{Value, json};

fn fixed() -> Value {
    json!({"type": "static", "addresses": [{"address": "10.9.0.5/24", "gateway": "10.9.0.1"}]})
}

/// ADD, and the attachment that the dataplane got.
fn reported(rig: &Rig, plugin: Plugin, args: &str, fields: Value) -> model::Attachment {
    let output = rig.with("ADD", plugin, ("c1", args), &config(fields));
    json_of(&output);
    let (verb, reported) = rig.last();
    assert_eq!(verb, "attach");
    reported
}

fn kind(wiring: Wiring) -> LinkKind {
    wiring.link.unwrap().kind
}

#[test]
fn a_macvlan() {
    let plain = reported(&Rig::new(), Plugin::Macvlan, "", json!({}));
    assert!(plain.ipam == Ipam::None && plain.wiring.link.as_ref().unwrap().mac.is_none());
    let LinkKind::Macvlan(macvlan) = kind(plain.wiring) else { panic!() };
    assert_eq!(macvlan.parent.name, None, "the default route's");
    assert_eq!(
        (macvlan.parent.place, macvlan.mode),
        (InterfaceNamespace::Host, MacvlanMode::Bridge)
    );
    assert!(!macvlan.host_access && !macvlan.probe);
    let all = json!({"master": "eth7", "mode": "passthru", "mtu": 1400, "bcqueuelen": 500,
        "linkInContainer": true, "mac": "02:00:00:00:00:01", "ipam": fixed()});
    let reported = reported(&Rig::new(), Plugin::Macvlan, "", all);
    assert_eq!(reported.leases[0].space, Space::Network("net".parse().unwrap()));
    let link = reported.wiring.link.clone().unwrap();
    assert_eq!(link.mtu.unwrap().bytes(), 1400);
    assert_eq!(link.mac.unwrap().to_string(), "02:00:00:00:00:01");
    let LinkKind::Macvlan(macvlan) = link.kind else { panic!() };
    assert_eq!(macvlan.parent.name.unwrap().as_str(), "eth7");
    assert_eq!(
        (macvlan.parent.place, macvlan.mode),
        (InterfaceNamespace::Sandbox, MacvlanMode::Passthru)
    );
    assert_eq!(macvlan.broadcast_queue, Some(500));
}

#[test]
fn who_says_the_hardware_address() {
    for plugin in [Plugin::Macvlan, Plugin::Tap] {
        let mut fields = json!({"master": "eth7", "mac": "02:00:00:00:00:01"});
        let mut says = |args: &str, more: Value| {
            for (key, value) in more.as_object().unwrap() {
                fields[key] = value.clone();
            }
            let reported = reported(&Rig::new(), plugin, args, fields.clone());
            reported.wiring.link.unwrap().mac.unwrap().octets()[5]
        };
        assert_eq!(says("", json!({})), 1);
        let args = "IgnoreUnknown=1;K8S_POD_NAME=web;MAC=02:00:00:00:00:02";
        assert_eq!(says(args, json!({})), 2);
        assert_eq!(says(args, json!({"args": {"cni": {"mac": "02:00:00:00:00:03"}}})), 3);
        assert_eq!(says(args, json!({"runtimeConfig": {"mac": "02:00:00:00:00:04"}})), 4);
    }
}

#[test]
fn an_ipvlan_behind_another_plugin() {
    let rig = Rig::new();
    let before = json!({"cniVersion": "1.1.0", "interfaces": [{"name": "eno3"}],
        "ips": [{"address": "10.7.0.5/24", "gateway": "10.7.0.1"}],
        "routes": [{"dst": "0.0.0.0/0"}]});
    let fields = json!({"mode": "l3s", "prevResult": before});
    let chained = reported(&rig, Plugin::Ipvlan, "", fields.clone());
    assert_eq!(chained.addresses[0].address.to_string(), "10.7.0.5/24");
    assert_eq!((chained.ipam, chained.leases.len()), (Ipam::None, 0), "others gave the address");
    assert_eq!(chained.routes.len(), 1);
    let LinkKind::Ipvlan(ipvlan) = kind(chained.wiring) else { panic!() };
    assert_eq!(ipvlan.parent.name.unwrap().as_str(), "eno3");
    assert_eq!(ipvlan.mode, IpvlanMode::L3s);
    let mut own = fields;
    own["ipam"] = fixed();
    own["master"] = json!("eth7");
    let own = reported(&Rig::new(), Plugin::Ipvlan, "", own);
    assert_eq!(own.addresses[0].address.to_string(), "10.9.0.5/24", "with an IPAM of its own");
    assert_eq!(kind(own.wiring).parent().unwrap().name.as_ref().unwrap().as_str(), "eth7");
}

#[test]
fn a_vlan_a_dummy_and_a_tap() {
    let fields = json!({"master": "eth7", "vlanId": 4094, "mtu": 1200, "ipam": fixed()});
    let reported_vlan = reported(&Rig::new(), Plugin::Vlan, "", fields);
    assert_eq!(reported_vlan.leases[0].space, Space::Network("net".parse().unwrap()));
    let LinkKind::Vlan(vlan) = kind(reported_vlan.wiring) else { panic!() };
    assert_eq!((vlan.id.number(), vlan.parent.place), (4094, InterfaceNamespace::Host));
    for fields in [
        json!({"master": "eth7", "vlanId": 0, "ipam": fixed()}),
        json!({"master": "eth7", "ipam": fixed()}),
    ] {
        let LinkKind::Vlan(vlan) = kind(reported(&Rig::new(), Plugin::Vlan, "", fields).wiring)
        else {
            panic!()
        };
        assert_eq!(vlan.id.number(), 0, "a priority alone, as with the reference");
    }
    let dummy = reported(&Rig::new(), Plugin::Dummy, "", json!({"ipam": fixed()}));
    assert_eq!(kind(dummy.wiring), LinkKind::Dummy);
    let plain = reported(&Rig::new(), Plugin::Tap, "", json!({}));
    assert_eq!(kind(plain.wiring), LinkKind::Tap(Tap::default()));
    let all = json!({"multiQueue": true, "mtu": 1300, "owner": 0, "group": 1000,
        "selinuxContext": "system_u:system_r:container_t:s0", "bridge": "br1"});
    let tap = reported(&Rig::new(), Plugin::Tap, "", all);
    let expected = Tap {
        multi_queue: true,
        owner: Some(0),
        group: Some(1000),
        selinux_context: Some("system_u:system_r:container_t:s0".into()),
        bridge: Some("br1".parse().unwrap()),
    };
    assert_eq!(kind(tap.wiring), LinkKind::Tap(expected));
}

#[test]
fn which_device_of_the_host() {
    let choice = |fields: Value| {
        let reported = reported(&Rig::new(), Plugin::HostDevice, "", fields);
        let LinkKind::Device(device) = kind(reported.wiring) else { panic!() };
        device.choice
    };
    let mut fields = json!({"kernelpath": "/sys/devices/pci0/net"});
    assert_eq!(choice(fields.clone()), DeviceChoice::Path("/sys/devices/pci0/net".into()));
    fields["hwaddr"] = json!("02:00:00:00:00:01");
    assert_eq!(choice(fields.clone()), DeviceChoice::Mac("02:00:00:00:00:01".parse().unwrap()));
    fields["device"] = json!("eth7");
    assert_eq!(choice(fields), DeviceChoice::Name("eth7".parse().unwrap()));
}

#[test]
fn ports_in_vlans() {
    let fields = json!({"vlan": 100, "preserveDefaultVlan": false, "macspoofchk": true,
        "portIsolation": true, "enabledad": true});
    let reported_port = reported(&Rig::new(), Plugin::Bridge, "", fields);
    let port = kind(reported_port.wiring).bridge().unwrap().port.clone();
    assert_eq!(port.vlans.untagged.unwrap().number(), 100);
    assert!(port.spoof_check && port.isolated && port.duplicate_detection);
    assert!(!port.vlans.keep_default && !port.left_down);
    let down =
        reported(&Rig::new(), Plugin::Bridge, "", json!({"disableContainerInterface": true}));
    assert!(kind(down.wiring).bridge().unwrap().port.left_down);
}

#[test]
fn limits_of_the_configuration_or_of_the_runtime() {
    let rig = Rig::new();
    let runtime = json!({"bandwidth": {"egressRate": 8000, "egressBurst": 16000}});
    let fields = |more: Value| {
        let mut fields = json!({"prevResult": previous(), "runtimeConfig": runtime});
        for (key, value) in more.as_object().unwrap() {
            fields[key] = value.clone();
        }
        fields
    };
    let by_runtime = reported(&rig, Plugin::Bandwidth, "", fields(json!({})));
    assert_eq!(by_runtime.layer, Layer::Bandwidth);
    let limits = by_runtime.wiring.bandwidth.unwrap();
    assert_eq!(limits.device.unwrap().as_str(), "veth1");
    let egress = limits.egress.unwrap();
    assert_eq!((limits.ingress, egress.rate, egress.burst), (None, 8000, 16000));
    let result = rig.add(Plugin::Bandwidth, "c1", &config(fields(json!({}))));
    assert_eq!(result["interfaces"][3]["name"], "bwp0", "what limits what it sends");
    let own = json!({"ingressRate": 1, "ingressBurst": 2});
    let limits = reported(&rig, Plugin::Bandwidth, "", fields(own)).wiring.bandwidth.unwrap();
    assert_eq!((limits.ingress.unwrap().burst, limits.egress), (2, None));
    let calls = rig.driver.calls.borrow().len();
    let none = fields(json!({"ingressRate": 0}));
    assert_eq!(rig.add(Plugin::Bandwidth, "c1", &config(none)), previous());
    assert_eq!(rig.driver.calls.borrow().len(), calls, "no limit is no work");
}

#[test]
fn tables_of_their_own() {
    let rig = Rig::new();
    let fields = json!({"vrfname": "blue", "table": 0, "prevResult": previous()});
    let reported_vrf = reported(&rig, Plugin::Vrf, "", fields.clone());
    assert_eq!((reported_vrf.layer, reported_vrf.addresses.len()), (Layer::Vrf, 2));
    let vrf = reported_vrf.wiring.vrf.unwrap();
    assert_eq!((vrf.name.as_str(), vrf.table), ("blue", None));
    assert_eq!(rig.add(Plugin::Vrf, "c1", &config(fields)), previous());
    let fields = json!({"table": 300, "gateways": ["10.0.0.9", "fd00::9"], "addSourceHints": true,
        "prevResult": previous()});
    let reported_sbr = reported(&rig, Plugin::Sbr, "", fields);
    assert_eq!((reported_sbr.layer, reported_sbr.addresses.len()), (Layer::SourceRouting, 2));
    let routing = reported_sbr.wiring.source_routing.unwrap();
    assert_eq!((routing.table, routing.gateways.len()), (Some(300), 2));
    assert!(routing.source_hints);
    let plain = reported(&rig, Plugin::Sbr, "", json!({"prevResult": previous()}));
    let plain = plain.wiring.source_routing.unwrap();
    assert!(plain.table.is_none() && plain.gateways.is_empty() && !plain.source_hints);
}

#[test]
fn what_is_asked_of_a_dhcp_server() {
    let rig = Rig::new();
    // The daemon is not there: DEL tells what would be asked of it.
    let asks = |ipam: Value, args: &str| {
        let config = config(json!({"master": "eth7", "ipam": ipam}));
        rig.with("DEL", Plugin::Macvlan, ("c1", args), &config);
        let Ipam::Dhcp(dhcp) = rig.last().1.ipam else { panic!() };
        dhcp
    };
    let plain = asks(json!({"type": "dhcp"}), "");
    assert_eq!(plain.socket, Path::new("/run/cni/dhcp.sock"));
    assert!(plain.request.is_empty() && plain.skip.is_empty() && plain.provide.is_empty());
    let full = json!({"type": "dhcp", "daemonSocketPath": "/run/other.sock", "priority": 50,
        "request": [{"option": "routers", "skipDefault": true}, {"option": "121"}],
        "provide": [{"option": "host-name", "fromArg": "K8S_POD_NAME", "value": "x"},
            {"option": "60", "value": "vendor"}, {"option": "user-class", "fromArg": "NONE"},
            {"option": "60", "value": "other"}]});
    let dhcp = asks(full, "IgnoreUnknown=1;K8S_POD_NAME=web");
    assert_eq!(dhcp.socket, Path::new("/run/other.sock"));
    assert_eq!((dhcp.request, dhcp.skip, dhcp.priority), (vec![3, 121], vec![1], Some(50)));
    let provided: Vec<(u8, &[u8])> =
        dhcp.provide.iter().map(|it| (it.code, it.value.as_slice())).collect();
    assert_eq!(provided, [(12, b"web".as_slice()), (60, b"other".as_slice())]);
}

#[test]
fn results_of_every_version() {
    let with_address = [Plugin::Macvlan, Plugin::Ipvlan, Plugin::Vlan, Plugin::Dummy, Plugin::Tap];
    for version in ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        for plugin in with_address {
            let config = json!({"cniVersion": version, "name": "net", "master": "eth7",
                "vlanId": 5, "ipam": fixed()});
            let rig = Rig::new();
            let result = rig.add(plugin, "c1", &config);
            assert_eq!(result["cniVersion"], version);
            assert_eq!(result.get("ip4").is_some(), version < "0.3.0", "{result}");
            let has_interface = result["interfaces"][0]["sandbox"] == "/ns/one";
            assert_eq!(has_interface, version >= "0.3.0", "{result}");
        }
        let mut chained = json!({"cniVersion": version, "name": "net", "vrfname": "blue",
            "ingressRate": 8, "ingressBurst": 8, "prevResult": previous()});
        for plugin in [Plugin::Bandwidth, Plugin::Vrf, Plugin::Sbr] {
            let rig = Rig::new();
            if plugin == Plugin::Bandwidth && version < "0.3.0" {
                let output = rig.with("ADD", plugin, ("c", "eth0"), &chained);
                assert!(output.stdout.contains("incompatible CNI versions"), "{output:?}");
                let output = rig.with("DEL", plugin, ("c", "eth0"), &chained);
                assert_eq!(output.code, 0, "{output:?}");
                continue;
            }
            assert_eq!(rig.add(plugin, "c", &chained)["cniVersion"], version);
        }
        chained["cniVersion"] = json!("1.1.0");
        assert_eq!(Rig::new().add(Plugin::Sbr, "c", &chained), previous());
    }
}

#[test]
fn del_goes_by_what_the_plugin_makes() {
    for (plugin, expected) in [
        (Plugin::Macvlan, "macvlan"),
        (Plugin::Ipvlan, "ipvlan"),
        (Plugin::Vlan, "vlan"),
        (Plugin::Dummy, "dummy"),
        (Plugin::Tap, "tap"),
        (Plugin::HostDevice, "device"),
    ] {
        let rig = Rig::new();
        let broken = json!({"mtu": "x", "mode": 5, "multiQueue": 7, "kernelpath": 7, "vlanId": 5,
            "dns": 5, "ipam": {"type": "host-local", "dataDir": rig.root.path(), "ranges": 5}});
        let output = rig.with("DEL", plugin, ("c1", "FOO"), &config(broken));
        assert_eq!((output.code, output.stdout.as_str()), (0, ""), "{output:?}");
        let (verb, reported) = rig.last();
        assert_eq!(verb, "detach");
        assert!(matches!(reported.ipam, Ipam::HostLocal { .. }), "{reported:?}");
        let kind = serde_json::to_value(kind(reported.wiring)).unwrap();
        let name = kind.as_str().map(str::to_owned);
        let name = name.or_else(|| kind.as_object().unwrap().keys().next().cloned());
        assert_eq!(name.as_deref(), Some(expected), "{kind}");
    }
    for plugin in [Plugin::Bandwidth, Plugin::Sbr, Plugin::Vrf] {
        let rig = Rig::new();
        let broken = json!({"ingressRate": "x", "table": "x", "prevResult": {"cniVersion": "7"}});
        assert_eq!(rig.command("DEL", plugin, "c1", &config(broken)).code, 0);
        let reported = rig.last().1;
        assert_eq!(reported.layer, plugin.layer());
        assert_eq!(reported.wiring.bandwidth.is_some(), plugin == Plugin::Bandwidth);
        assert_eq!(reported.wiring.source_routing.is_some(), plugin == Plugin::Sbr);
    }
}
