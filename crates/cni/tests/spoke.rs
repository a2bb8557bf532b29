//! Type `spoke`: everything that a chain does, in one entry.

#![allow(clippy::unwrap_used, clippy::panic)]

mod rig;

use cni::Plugin;
use model::*;
use rig::{Rig, config};
use serde_json::{Value, json};

/// Describes a network with these fields and addresses.
fn with(fields: &Value) -> Value {
    let mut all = json!({"ipam": {"subnet": "10.9.0.0/24"}});
    for (key, value) in fields.as_object().unwrap() {
        all[key] = value.clone();
    }
    config(all)
}

fn attached(fields: &Value) -> Attachment {
    let rig = Rig::new();
    rig.add(Plugin::Spoke, "c1", &with(fields));
    rig.last().1
}

fn kind(fields: &Value) -> LinkKind {
    attached(fields).wiring.link.unwrap().kind
}

fn refused(fields: &Value) -> (u64, String) {
    let rig = Rig::new();
    let refused = rig.refused(Plugin::Spoke, "", &with(fields));
    assert!(rig.driver.calls.borrow().is_empty(), "nothing was done");
    refused
}

#[test]
fn labels_of_the_network_and_of_the_container() {
    let args = json!({
        "labels": {"app": "web"},
        "cni": {"labels": [{"key": "tier", "value": "db"}, {"key": "app2", "value": ""}]},
    });
    let made = attached(&json!({"labels": {"team": "net"}, "args": args}));
    assert_eq!(
        made.labels.pairs().iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>(),
        ["app=web", "app2=", "tier=db"]
    );
    let rig = Rig::new();
    rig.add(Plugin::Spoke, "c1", &with(&json!({"labels": {"team": "net"}})));
    let network = rig.engine(|engine| engine.records.networks().unwrap().remove(0));
    assert_eq!(network.labels.pairs()["team"], "net");
    // The other plugins read what they know, and pass over what is none.
    let bridge = |args: &Value| {
        let rig = Rig::new();
        let fields = json!({"args": args, "ipam": rig.host_local("10.9.0.0/24")});
        rig.add(Plugin::Bridge, "c1", &config(fields));
        rig.last().1.labels.pairs().len()
    };
    assert_eq!((bridge(&args), bridge(&json!({"labels": {"a b": "c"}}))), (3, 0));
    let (_, said) = refused(&json!({"labels": {"a b": "c"}}));
    assert!(said.contains("label"), "{said}");
    refused(&json!({"args": {"labels": {"a": 5}}}));
    refused(&json!({"labels": ["x"]}));
}

#[test]
fn every_driver() {
    let parent = |vlan: Option<u16>| Parent {
        name: Some("eth9".parse().unwrap()),
        place: InterfaceNamespace::Host,
        vlan: vlan.map(|number| VlanId::new(number).unwrap()),
    };
    let macvlan = json!({"driver": "macvlan", "parent": "eth9", "vlan": 7, "mode": "bridge",
        "bcqueuelen": 5, "hostAccess": true});
    let expected = Macvlan {
        parent: parent(Some(7)),
        mode: MacvlanMode::Bridge,
        broadcast_queue: Some(5),
        host_access: true,
        probe: false,
    };
    assert_eq!(kind(&macvlan), LinkKind::Macvlan(expected));
    let ipvlan = json!({"driver": "ipvlan", "master": "eth9", "mode": "l3s"});
    let expected = Ipvlan { parent: parent(None), mode: IpvlanMode::L3s };
    assert_eq!(kind(&ipvlan), LinkKind::Ipvlan(expected));
    let id = VlanId::new(9).unwrap();
    for key in ["vlan", "vlanId"] {
        let vlan = json!({"driver": "vlan", "parent": "eth9", key: 9});
        assert_eq!(kind(&vlan), LinkKind::Vlan(Vlan { parent: parent(None), id: id.into() }));
    }
    let device = json!({"driver": "host-device", "device": "eth9"});
    let choice = DeviceChoice::Name("eth9".parse().unwrap());
    assert_eq!(kind(&device), LinkKind::Device(Device { choice }));
    assert_eq!(kind(&json!({"driver": "dummy"})), LinkKind::Dummy);
    assert_eq!(kind(&json!({"driver": "ptp"})), LinkKind::Ptp(Ptp::default()));
    let tap = json!({"driver": "tap", "owner": 5, "multiQueue": true});
    let expected = Tap { multi_queue: true, owner: Some(5), ..Tap::default() };
    assert_eq!(kind(&tap), LinkKind::Tap(expected));
    let bridge = json!({"vlan": 5, "macspoofchk": true, "portIsolation": true});
    let LinkKind::Bridge(bridge) = kind(&bridge) else { panic!("the default is a bridge") };
    assert_eq!(bridge.port.vlans.untagged, VlanId::new(5));
    assert!(bridge.port.spoof_check && bridge.port.isolated);
}

/// What reaches the world does so by default, through the gateway; nothing of it goes through the
/// host's packet filter where there is no end of it in the host.
#[test]
fn defaults_of_drivers() {
    for (driver, routes, filtered) in [
        (json!({"driver": "ptp"}), 1, true),
        (json!({"driver": "macvlan"}), 1, false),
        (json!({"driver": "macvlan", "isDefaultGateway": false}), 0, false),
        (json!({"driver": "dummy"}), 0, false),
    ] {
        let made = attached(&driver);
        assert_eq!(made.routes.len(), routes, "{driver}");
        assert_eq!(made.wiring.masquerade.is_some(), filtered, "{driver}");
        assert_eq!(made.wiring.firewall.is_some(), filtered, "{driver}");
    }
    let own = json!({"driver": "macvlan", "ipam": {"subnet": "10.9.0.0/24", "routes": []}});
    assert!(attached(&own).routes.is_empty(), "it says that there are none");
}

/// Everything that a chain of plugins would do, in one record.
#[test]
fn one_record_for_a_chain() {
    let made = attached(&json!({
        "bandwidth": {"ingressRate": 8000, "ingressBurst": 80},
        "vrf": {"name": "blue", "table": 7}, "mac": "02:00:00:00:00:09", "promisc": true,
        "allmulti": true, "txQLen": 77, "sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1"},
        "dns": {"nameservers": ["9.9.9.9"]},
    }));
    let wiring = made.wiring;
    let limits =
        Bandwidth { ingress: Some(Rate { rate: 8000, burst: 80 }), ..Bandwidth::default() };
    assert_eq!(wiring.bandwidth, Some(limits));
    assert_eq!(wiring.vrf, Some(Vrf { name: "blue".parse().unwrap(), table: Some(7) }));
    assert_eq!(wiring.link.unwrap().mac.unwrap().to_string(), "02:00:00:00:00:09");
    let tuning = wiring.tuning.unwrap();
    assert_eq!((tuning.promiscuous, tuning.all_multicast), (Some(true), Some(true)));
    assert_eq!((tuning.tx_queue, tuning.sysctls.len()), (Some(77), 1));
    assert_eq!(made.dns.nameservers, ["9.9.9.9"]);
    let routing = attached(&json!({"sourceRouting": {"table": 200, "addSourceHints": true}}));
    let routing = routing.wiring.source_routing.unwrap();
    assert_eq!((routing.table, routing.source_hints), (Some(200), true));
    assert!(attached(&json!({"sourceRouting": true})).wiring.source_routing.is_some());
    assert!(attached(&json!({"vrf": "blue"})).wiring.vrf.unwrap().table.is_none());
}

/// A link that is not made for the container is changed afterwards.
#[test]
fn what_a_link_cannot_be_made_with_is_tuned() {
    let given = json!({"driver": "dummy", "mac": "02:00:00:00:00:09", "mtu": 1400});
    let wiring = attached(&given).wiring;
    let (link, tuning) = (wiring.link.unwrap(), wiring.tuning.unwrap());
    assert_eq!((link.mac, link.mtu), (None, None));
    assert!(tuning.mac.is_some() && tuning.mtu.is_some());
}

#[test]
fn addresses_of_a_server() {
    for ipam in [json!({"type": "dhcp"}), json!({"mode": "dhcp"})] {
        let rig = Rig::new();
        let asking = with(&json!({"driver": "macvlan", "parent": "eth9", "ipam": ipam}));
        rig.command("DEL", Plugin::Spoke, "c1", &asking);
        assert!(matches!(rig.last().1.ipam, Ipam::Dhcp(_)), "{asking}");
        let bridge = with(&json!({"ipam": ipam}));
        rig.command("DEL", Plugin::Spoke, "c1", &bridge);
        let LinkKind::Bridge(bridge) = rig.last().1.wiring.link.unwrap().kind else { panic!() };
        assert_eq!(bridge.gateway, Gateway::None, "the server names the gateway");
    }
}

#[test]
fn bandwidth_is_the_runtime_s_to_limit_too() {
    let limits = json!({"bandwidth": {"egressRate": 8000, "egressBurst": 80}});
    let given = json!({"runtimeConfig": limits});
    assert!(attached(&given).wiring.bandwidth.unwrap().egress.is_some());
    let (code, msg) = refused(&json!({"runtimeConfig": {"bandwidth": {"egressRate": 8000}}}));
    assert!(code == 7 && msg.contains("burst must also be set"), "{msg}");
    let none = json!({"runtimeConfig": {"bandwidth": {"egressRate": 0}}});
    assert_eq!(attached(&none).wiring.bandwidth, None);
}

/// Refused with what is said of a value that is wrong.
fn refuse_all(rows: &[(Value, &str)]) {
    for (fields, msg) in rows {
        let (code, was) = refused(fields);
        assert!(code == 7 && was.starts_with(msg), "{fields}: {code} {was}");
    }
}

/// On a parent's segment, with more.
fn lan(fields: Value) -> Value {
    let mut all = json!({"driver": "macvlan", "parent": "eth9"});
    fields.as_object().unwrap().iter().for_each(|(key, value)| all[key] = value.clone());
    all
}

#[test]
fn senseless_fields_are_refused_by_name_value_and_what_is_accepted() {
    refuse_all(&[
        (json!({"driver": "vxlan"}), "\"driver\" is \"vxlan\", which is none of bridge, ptp, mac"),
        (json!({"driver": 5}), "\"driver\" is 5, which is not a string"),
        (
            json!({"parent": "eth9"}),
            "\"parent\" is \"eth9\", but driver bridge has no such option; it is of drivers macvlan, ipvlan, vlan",
        ),
        (lan(json!({"bridge": "br0"})), "\"bridge\" is \"br0\", but driver macvlan has no such"),
        (lan(json!({"ipMasq": true})), "\"ipMasq\" is true, but driver macvlan"),
        (lan(json!({"ingressPolicy": "isolated"})), "\"ingressPolicy\" is \"isolated\""),
        (lan(json!({"master": "eth8"})), "\"master\" is \"eth8\", but \"parent\" says the same"),
        (lan(json!({"mode": "l3"})), "unknown macvlan mode: \"l3\""),
        (lan(json!({"vlan": 4095})), "\"vlan\" is 4095, which is no VLAN; they are 1 to 4094"),
        (lan(json!({"vlan": 5, "linkInContainer": true})), "\"vlan\" is 5, but a VLAN of a parent"),
        (lan(json!({"hostAccess": true, "mode": "vepa"})), "\"hostAccess\" is true, but only"),
        (
            lan(json!({"hostAccess": true, "linkInContainer": true})),
            "\"hostAccess\" is true, but \"linkInContainer\"",
        ),
        (lan(json!({"probe": true, "ipam": {}})), "no IP ranges specified"),
        (
            lan(json!({"bandwidth": {"egressRate": 8}})),
            "\"bandwidth\" is {\"egressRate\":8}, but driver macvlan",
        ),
        (
            lan(json!({"runtimeConfig": {"bandwidth": {"egressRate": 8, "egressBurst": 8}}})),
            "\"bandwidth\" is for drivers bridge and ptp",
        ),
        (
            lan(json!({"runtimeConfig": {"portMappings":
                [{"hostPort": 8, "containerPort": 8, "protocol": "tcp"}]}})),
            "\"runtimeConfig.portMappings\" is not empty, but ports",
        ),
    ]);
    // Off is off.
    assert!(matches!(kind(&lan(json!({"ipMasq": false, "vlan": 0}))), LinkKind::Macvlan(_)));
}

#[test]
fn senseless_combinations_are_refused() {
    refuse_all(&[
        (
            json!({"driver": "ipvlan", "mac": "02:00:00:00:00:09"}),
            "\"mac\" is \"02:00:00:00:00:09\", but driver ipvlan",
        ),
        (
            json!({"driver": "ipvlan", "mode": "l3", "ipam": {"type": "dhcp"}}),
            "\"ipam\" is {\"type\":\"dhcp\"}, but DHCP needs broadcasts",
        ),
        (
            json!({"driver": "ptp", "ipam": {"type": "dhcp"}}),
            "\"ipam\" is {\"type\":\"dhcp\"}, but no DHCP",
        ),
        (
            json!({"isGateway": true, "ipam": {"type": "dhcp"}}),
            "\"ipam\" is {\"type\":\"dhcp\"}, but the gateway",
        ),
        (
            json!({"ipam": {"mode": "dhcp6"}}),
            "\"ipam.mode\" is \"dhcp6\", which is neither dhcp nor book",
        ),
        (
            json!({"disableContainerInterface": true}),
            "\"ipam\" is {\"subnet\":\"10.9.0.0/24\"}, but \"disable",
        ),
        (json!({"driver": "ptp", "ipam": null}), "driver ptp needs an address"),
        (json!({"driver": "vlan", "parent": "eth9"}), "driver vlan needs a \"vlan\""),
        (
            json!({"driver": "vlan", "vlan": 5, "vlanId": 5}),
            "\"vlanId\" is 5, but \"vlan\" says the same",
        ),
        (json!({"driver": "host-device"}), "specify either \"device\""),
        (
            json!({"driver": "ptp", "ingressPolicy": "isolated"}),
            "\"ingressPolicy\" is \"isolated\", but",
        ),
        (json!({"vrf": "blue", "sourceRouting": true}), "\"sourceRouting\" is true, but VRF blue"),
        (json!({"vrf": {"table": 5}}), "\"vrf\" is {\"table\":5}, which has no \"name\""),
        (json!({"vrf": true}), "\"vrf\" is true, which is neither a name nor an object"),
        (
            json!({"sourceRouting": 5}),
            "\"sourceRouting\" is 5, which is neither true, false nor an",
        ),
    ]);
    for (fields, msg) in [
        (json!({"bandwidth": {"rate": 5}}), "\"bandwidth.rate\" is 5, but bandwidth has no such"),
        (json!({"sourceRouting": {"tables": 5}}), "\"sourceRouting.tables\" is 5, but there is no"),
    ] {
        let (code, was) = refused(&fields);
        assert!(code == 2 && was.starts_with(msg), "{fields}: {code} {was}");
    }
}

/// The runtime's words about one container (capability `dns`) replace those of the configuration, list by list, and
/// the network stays as the configuration describes it.
#[test]
fn a_container_resolves_as_its_runtime_says() {
    let rig = Rig::new();
    let described = |runtime: &Value| {
        config(json!({
            "name": "pods", "type": "spoke", "names": true, "ipam": {"subnet": "10.9.0.0/24"},
            "dns": {"nameservers": ["192.0.2.1"], "search": ["lan.example"], "options": ["ndots:2"]},
            "runtimeConfig": runtime,
        }))
    };
    // What a host's file may say, and no query can reach from here.
    let servers = ["fe80::1%eth0", "192.0.2.9", "resolver"];
    let dns = json!({"servers": servers, "searches": ["corp.example"], "options": null});
    rig.add(Plugin::Spoke, "a", &described(&json!({ "dns": dns })));
    let own = rig.last().1.dns;
    assert_eq!(own.nameservers, ["192.0.2.9"]);
    assert_eq!((own.search, own.options), (vec!["corp.example".into()], vec!["ndots:2".into()]));
    rig.add(Plugin::Spoke, "b", &described(&json!({})));
    assert_eq!(rig.last().1.dns.nameservers, ["192.0.2.1"]);
    rig.engine(|engine| {
        let network = engine.records.network(&"pods".parse().unwrap()).unwrap();
        assert_eq!(network.dns.nameservers, ["192.0.2.1"]);
    });
    let many: Vec<String> = (0..40).map(|it| format!("d{it}.example")).collect();
    for (dns, word) in [
        (json!({"servers": [9]}), "runtimeConfig.dns.servers[0]"),
        (json!({"searches": ["a b"]}), "runtimeConfig.dns.searches[0]"),
        (json!({"searches": many}), "more than 32"),
        (json!({"options": ["a\nnameserver 192.0.2.66"]}), "runtimeConfig.dns.options[0]"),
        (json!({"servers": "192.0.2.1"}), "not a list"),
    ] {
        let wrong = described(&json!({ "dns": dns }));
        let (code, message) = rig.refused(Plugin::Spoke, "", &wrong);
        assert!(code == 7 && message.contains(word), "{code} {message}");
        // What was wrong then keeps nothing.
        assert_eq!(rig.command("DEL", Plugin::Spoke, "c", &wrong).code, 0);
    }
    // The reference's pass over it.
    let bridge = config(json!({
        "name": "plain", "type": "bridge", "ipam": rig.host_local("10.8.0.0/24"),
        "runtimeConfig": {"dns": {"servers": ["192.0.2.9"]}},
    }));
    rig.add(Plugin::Bridge, "a", &bridge);
    assert_eq!(rig.last().1.dns, model::Dns::default());
}
