use std::cell::Cell;

use serde_json::json;

use super::*;

fn plugging(bindir: bool) -> Plugging {
    Plugging {
        ovsdb: "unix:/nowhere".into(),
        bindir: bindir.then(|| "/usr/libexec/kuryr".into()),
        ..Plugging::usual().unwrap()
    }
}

/// A port as Neutron tells it, with these members besides.
fn port(more: Value) -> PortResource {
    let mut reported = json!({
        "id": "31b4f5a6-1c2d-4e3f-8a9b-0c1d2e3f4a5b",
        "network_id": "0f2c8d5e-6a1b-4c3d-9e8f-7a6b5c4d3e2f",
        "mac_address": "fa:16:3e:01:02:03",
        "binding:host_id": "node1",
        "binding:vnic_type": "normal",
    });
    let members = reported.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    serde_json::from_value(reported).unwrap()
}

fn reported(more: Value) -> Result<Vif> {
    vif(&port(more), &plugging(true), |_| Ok(Datapath::Kernel))
}

fn bridge(name: &str) -> IfName {
    name.parse().unwrap()
}

#[test]
fn the_switch_is_asked_only_for_what_neutron_does_not_tell() {
    let asked = Cell::new(0);
    let ask = |more: Value| {
        let asking = |bridge: &IfName| {
            assert_eq!(bridge.as_str(), "br-int");
            asked.set(asked.get() + 1);
            Ok(Datapath::Program)
        };
        vif(&port(more), &plugging(true), asking).unwrap()
    };
    // As Neutron 21 tells it with OVN, and 29, and the agent with iptables.
    let zed = json!({ "binding:vif_type": "ovs",
        "binding:vif_details": { "port_filter": true, "connectivity": "l2" } });
    assert_eq!(ask(zed), Vif::Ovs { bridge: bridge("br-int"), offload: false });
    assert_eq!(asked.get(), 1);
    let newer = json!({ "binding:vif_type": "ovs", "binding:vif_details": {
        "port_filter": true, "bridge_name": "br-lab", "datapath_type": "netdev" } });
    assert_eq!(ask(newer), Vif::Ovs { bridge: bridge("br-lab"), offload: false });
    let hybrid = json!({ "binding:vif_type": "ovs", "binding:vif_details": {
        "ovs_hybrid_plug": true, "datapath_type": "system" } });
    assert_eq!(ask(hybrid), Vif::OvsHybrid { bridge: bridge("br-int"), offload: true });
    assert_eq!(asked.get(), 1);
}

#[test]
fn other_switches_and_programs_of_the_operators() {
    let linuxbridge = json!({ "binding:vif_type": "bridge", "binding:vif_details": {} });
    assert_eq!(reported(linuxbridge).unwrap(), Vif::Bridge { bridge: bridge("brq0f2c8d5e-6a") });
    let named = json!({ "binding:vif_type": "bridge",
        "binding:vif_details": { "bridge_name": "brx" } });
    assert_eq!(reported(named).unwrap(), Vif::Bridge { bridge: bridge("brx") });
    assert_eq!(reported(json!({ "binding:vif_type": "tap" })).unwrap(), Vif::Tap);
    let midonet = json!({ "binding:vif_type": "midonet", "binding:vif_details": { "a": true } });
    let Vif::Script { name, details } = reported(midonet.clone()).unwrap() else {
        panic!("no script")
    };
    assert_eq!((name.as_str(), details.as_str()), ("midonet", "{\"a\":true}"));
    let without = vif(&port(midonet), &plugging(false), |_| Ok(Datapath::Kernel)).unwrap_err();
    assert!(without.kind() == Kind::Unsupported && without.to_string().contains("bindir"));
    let long = json!({ "binding:vif_type": "ovs",
        "binding:vif_details": { "bridge_name": "a/../../bridge" } });
    assert_eq!(reported(long).unwrap_err().kind(), Kind::Invalid);
    let path = json!({ "binding:vif_type": "../../bin/sh" });
    assert_eq!(reported(path).unwrap_err().kind(), Kind::Invalid);
}

#[test]
fn functions_of_cards() {
    let function = |vif_type: &str, profile: Value, details: Value| {
        reported(json!({ "binding:vnic_type": "direct", "binding:vif_type": vif_type,
            "binding:profile": profile, "binding:vif_details": details }))
    };
    let slot = json!({ "pci_slot": "0000:05:10.2", "physical_network": "p" });
    let got = function("hw_veb", slot.clone(), json!({ "vlan": "101" })).unwrap();
    let address = DeviceAddress::try_from("0000:05:10.2".to_owned()).unwrap();
    assert_eq!(got, Vif::Function { slot: address.clone(), vlan: VlanId::new(101) });
    let flat = function("hw_veb", slot.clone(), json!({ "vlan": 0 })).unwrap();
    assert_eq!(flat, Vif::Function { slot: address, vlan: None });
    let refused = |outcome: Result<Vif>| outcome.unwrap_err().kind();
    assert_eq!(refused(function("hw_veb", json!({}), json!({}))), Kind::Invalid);
    assert_eq!(refused(function("hw_veb", slot.clone(), json!({ "vlan": 5000 }))), Kind::Invalid);
    assert_eq!(refused(function("hw_veb", slot.clone(), json!({ "vlan": [] }))), Kind::Invalid);
    assert_eq!(refused(function("binding_failed", slot, json!({}))), Kind::TryAgain);
}

#[test]
fn what_is_not_bound_is_reported() {
    let refused = |more: Value| reported(more).unwrap_err();
    let failed = refused(json!({ "binding:vif_type": "binding_failed" }));
    assert!(failed.kind() == Kind::TryAgain && failed.to_string().contains("host node1"));
    for unbound in ["unbound", ""] {
        assert_eq!(refused(json!({ "binding:vif_type": unbound })).kind(), Kind::Invalid);
    }
    assert_eq!(refused(json!({})).kind(), Kind::Denied);
    for vif_type in ["vhostuser", "hw_veb", "distributed"] {
        assert_eq!(refused(json!({ "binding:vif_type": vif_type })).kind(), Kind::Unsupported);
    }
    let vnic = json!({ "binding:vif_type": "macvtap", "binding:vnic_type": "macvtap" });
    assert_eq!(refused(vnic).kind(), Kind::Unsupported);
}

#[test]
fn nested_containers_share_the_instances_interface() {
    let parent: IfName = "ens3".parse().unwrap();
    let mode = model::MacvlanMode::Bridge;
    let macvlan = Nesting::Macvlan { parent: parent.clone(), mode };
    assert_eq!(nested(&macvlan), Some(Vif::Macvlan { parent: parent.clone(), mode }));
    assert_eq!(nested(&Nesting::Trunk { parent, trunk: None }), None);
}
