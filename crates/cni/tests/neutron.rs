//! Type `spoke`, driver `neutron`: what the plugin makes of a configuration and of what a runtime
//! asks for besides.

#![allow(clippy::unwrap_used, clippy::panic)]

mod rig;

use cni::Plugin;
use model::*;
use rig::{Rig, config};
use serde_json::{Value, json};

/// A configuration with these fields besides.
fn neutron(fields: &Value) -> Value {
    let mut all = json!({"driver": "neutron", "neutron": {"network": "front"}});
    for (key, value) in fields.as_object().unwrap() {
        all[key] = value.clone();
    }
    config(all)
}

fn refused(fields: &Value) -> (u64, String) {
    let rig = Rig::new();
    let refused = rig.refused(Plugin::Spoke, "", &neutron(fields));
    assert!(rig.driver.calls.borrow().is_empty(), "nothing was done");
    refused
}

fn nets(leases: &[Lease]) -> Vec<String> {
    leases.iter().map(|lease| lease.address.to_string()).collect()
}

fn verbs(rig: &Rig) -> Vec<&'static str> {
    rig.driver.calls.borrow().iter().map(|(verb, _)| *verb).collect()
}

#[test]
fn addresses_are_neutron_s_to_choose() {
    let rig = Rig::new();
    let reported = rig.add(Plugin::Spoke, "c1", &neutron(&json!({})));
    assert_eq!(reported["ips"][0]["address"], "10.5.0.9/24");
    assert_eq!(verbs(&rig), ["offer", "attach"]);
    let made = rig.last().1;
    assert_eq!(made.ipam, Ipam::None);
    assert!(made.wiring.masquerade.is_none() && made.wiring.firewall.is_none());
    let Some(LinkKind::Neutron(link)) = made.wiring.link.map(|link| link.kind) else { panic!() };
    assert_eq!(link.network, ResourceRef::Name("front".parse().unwrap()));
    assert_eq!(made.leases[0].space, Space::Network("net".parse().unwrap()));
}

#[test]
fn an_address_may_be_asked_for_in_every_way() {
    for asking in [
        json!({"runtimeConfig": {"ips": ["10.5.0.77/24"]}}),
        json!({"args": {"cni": {"ips": ["10.5.0.77"]}}}),
    ] {
        let rig = Rig::new();
        let reported = rig.add(Plugin::Spoke, "c1", &neutron(&asking));
        assert_eq!(reported["ips"][0]["address"], "10.5.0.77/24", "{asking}");
        let (offered, made) = (rig.driver.calls.borrow()[0].1.clone(), rig.last().1);
        assert_eq!(nets(&offered.leases), ["10.5.0.77/32"], "what is asked of Neutron");
        assert_eq!(nets(&made.leases), ["10.5.0.77/24"], "what it gave");
        let (code, msg) = rig.refused(Plugin::Spoke, "", &neutron(&asking));
        assert!(code == 101 && msg.contains("10.5.0.77 is held by container c1"), "{code} {msg}");
    }
}

#[test]
fn what_a_container_may_have_besides() {
    let rig = Rig::new();
    let fields = json!({
        "mac": "02:00:00:00:00:09", "sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1"},
        "dns": {"nameservers": ["9.9.9.9"]}, "sourceRouting": true,
        "runtimeConfig": {"portMappings":
            [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]},
    });
    rig.add(Plugin::Spoke, "c1", &neutron(&fields));
    let made = rig.last().1;
    assert_eq!(made.wiring.link.unwrap().mac.unwrap().to_string(), "02:00:00:00:00:09");
    assert_eq!(made.wiring.publish.unwrap().ports.len(), 1);
    assert!(made.wiring.tuning.is_some() && made.wiring.source_routing.is_some());
    assert_eq!(made.dns.nameservers, ["9.9.9.9"]);
}

#[test]
fn what_neutron_decides_is_refused_by_name() {
    for (fields, msg) in [
        (json!({"neutron": null}), "driver neutron needs \"neutron\""),
        (json!({"neutron": {}}), "\"neutron\" is {}, which has no \"network\""),
        (
            json!({"ipam": {"type": "host-local"}}),
            "\"ipam\" is {\"type\":\"host-local\"}, but driver neutron has no such option",
        ),
        (json!({"mtu": 1400}), "\"mtu\" is 1400, but driver neutron"),
        (json!({"bridge": "br0"}), "\"bridge\" is \"br0\", but driver neutron"),
        (json!({"ipMasq": true}), "\"ipMasq\" is true, but driver neutron"),
        (
            json!({"bandwidth": {"egressRate": 8}}),
            "\"bandwidth\" is {\"egressRate\":8}, but driver neutron",
        ),
        (
            json!({"runtimeConfig": {"bandwidth": {"egressRate": 8, "egressBurst": 8}}}),
            "\"bandwidth\" is for drivers bridge and ptp: what a port of Neutron's",
        ),
        (json!({"driver": "bridge"}), "\"neutron\" is {\"network\":\"front\"}, but driver bridge"),
    ] {
        let (code, was) = refused(&fields);
        assert!(code == 7 && was.starts_with(msg), "{fields}: {code} {was}");
    }
    let (code, was) = refused(&json!({"neutron": {"network": "front", "vlan": 5}}));
    assert!(code == 2 && was.starts_with("\"neutron.vlan\" is 5, but there is no"), "{was}");
}

/// A result of a version that must have an address has one.
#[test]
fn an_old_runtime_gets_the_address() {
    let mut old = neutron(&json!({}));
    old["cniVersion"] = json!("0.2.0");
    let reported = Rig::new().add(Plugin::Spoke, "c1", &old);
    assert_eq!(reported["ip4"]["ip"], "10.5.0.9/24");
}

/// An address that is in none of the book's ranges is asked of the cloud.
#[test]
fn of_several_networks_the_cloud_s_is_asked() {
    let rig = Rig::new();
    for (name, mut described) in [
        ("back", config(json!({"ipam": {"subnet": "10.8.0.0/24"}}))),
        ("front", neutron(&json!({}))),
    ] {
        described["name"] = name.into();
        rig.add(Plugin::Spoke, "first", &described);
        rig.command("DEL", Plugin::Spoke, "first", &described);
        rig.engine(|engine| {
            let network = engine.records.network(&name.parse().unwrap()).unwrap();
            engine.networks.create(&Network { runtime: Runtime::Spoke, ..network }).unwrap();
        });
    }
    let fields = json!({"networks": ["back", "front"], "runtimeConfig": {"ips": ["10.5.0.77"]}});
    let reported = rig.add(Plugin::Spoke, "c1", &config(fields));
    let addresses: Vec<&str> = reported["ips"]
        .as_array()
        .unwrap()
        .iter()
        .map(|ip| ip["address"].as_str().unwrap())
        .collect();
    assert!(addresses.contains(&"10.5.0.77/24") && addresses.len() == 2, "{reported}");
}

#[test]
fn del_and_gc_need_no_configuration() {
    let rig = Rig::new();
    rig.add(Plugin::Spoke, "c1", &neutron(&json!({})));
    rig.command("DEL", Plugin::Spoke, "c1", &neutron(&json!({"neutron": {"network": 5}})));
    let (verb, made) = rig.last();
    assert_eq!(verb, "detach");
    assert!(matches!(made.wiring.link.unwrap().kind, LinkKind::Neutron(_)), "as it was made");
    let left = rig.engine(|engine| {
        engine.records.attachments().unwrap().len() + engine.records.holders().unwrap().len()
    });
    assert_eq!(left, 0);
}
