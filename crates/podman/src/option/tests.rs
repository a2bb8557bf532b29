use model::{IngressPolicy, InterfaceNamespace, Macvlan, Mtu, Parent, Passage, Reach, VlanId};

use super::*;
use serde_json::{Value, json};

fn read(with: Value) -> Result<Spec> {
    let mut config = json!({"name": "n"});
    for (key, value) in with.as_object().unwrap() {
        config[key] = value.clone();
    }
    Spec::read(&NetworkConfig::read(&config).unwrap())
}

fn options(options: Value) -> Result<NetworkSpec> {
    match read(json!({"options": options}))? {
        Spec::New(new) => Ok(*new),
        Spec::Join(name) => panic!("joins {name}"),
    }
}

#[test]
fn an_unknown_option_names_the_accepted_ones() {
    let error = options(json!({"mtuu": "1400"})).unwrap_err().to_string();
    assert!(
        error.starts_with("-o mtuu=…: no such option; did you mean mtu? Spoke has bridge, mtu,"),
        "{error}"
    );
    let long = options(json!({"x".repeat(500): "\u{7}"})).unwrap_err().to_string();
    assert!(long.len() < error.len() + 100, "{long}");
}

#[test]
fn each_option_is_understood() {
    let new = options(json!({
        "mtu": "1400", "isolate": "true", "bridge": "br7", "vlan": "7", "hairpin": "false",
        "no_default_route": "1", "metric": "300", "masquerade": "false", "publish": "lan",
        "trusted_host_interfaces": "eth1:eth2",
        "sticky": "false", "names": "true",
    }))
    .unwrap();
    assert_eq!(
        new,
        NetworkSpec {
            kind: Some(KindSpec::Bridge),
            bridge: Some("br7".parse().unwrap()),
            vlan: VlanId::new(7),
            hairpin: Some(false),
            names: Some(true),
            mtu: Mtu::new(1400),
            ingress: Some(IngressPolicy::SameBridge),
            route: Some(DefaultRoute::Nowhere),
            default_route: Some(false),
            metric: Some(300),
            masquerade: Some(false),
            passage: Some(Passage::Trusted(vec!["eth1".parse().unwrap(), "eth2".parse().unwrap()])),
            reach: Some(Reach::Lan),
            sticky: Some(false),
            ..NetworkSpec::default()
        }
    );
}

#[test]
fn a_parent_makes_a_network_on_the_segment() {
    let parent = |name: Option<&str>, vlan| Parent {
        name: name.map(|name| name.parse().unwrap()),
        place: InterfaceNamespace::Host,
        vlan,
    };
    let bridge = MacvlanMode::Bridge;
    let plain = |parent, mode| Macvlan {
        parent,
        mode,
        broadcast_queue: None,
        host_access: false,
        probe: false,
    };
    let macvlan = |parent, mode| KindSpec::Macvlan(plain(parent, mode));
    for (given, expected, source) in [
        (
            json!({"parent": "eth0", "vlan": "5"}),
            macvlan(parent(Some("eth0"), VlanId::new(5)), bridge),
            Source::Book,
        ),
        (
            json!({"mode": "dhcp", "parent": "eth0"}),
            macvlan(parent(Some("eth0"), None), bridge),
            Source::Dhcp,
        ),
        (
            json!({"mode": "private"}),
            macvlan(parent(None, None), MacvlanMode::Private),
            Source::Book,
        ),
        (
            json!({"parent": "eth0", "host_access": "true", "probe": "1"}),
            KindSpec::Macvlan(Macvlan {
                host_access: true,
                probe: true,
                ..plain(parent(Some("eth0"), None), bridge)
            }),
            Source::Book,
        ),
        (
            json!({"mode": "l3", "parent": "eth0"}),
            KindSpec::Ipvlan(model::Ipvlan {
                parent: parent(Some("eth0"), None),
                mode: IpvlanMode::L3,
            }),
            Source::Book,
        ),
    ] {
        let new = options(given).unwrap();
        assert_eq!((new.kind.unwrap(), new.source), (expected, source));
    }
}

#[test]
fn contradictions_are_refused() {
    for (given, word) in [
        (json!({"options": {"bridge": "a"}, "network_interface": "b"}), "--interface-name b"),
        (json!({"options": {"mode": "dhcp", "bridge": "a"}}), "-o bridge"),
        (json!({"options": {"mode": "unmanaged", "parent": "a"}}), "leave one out"),
        (json!({"options": {"network": "front", "mtu": "1400"}}), "-o mtu"),
        (json!({"options": {"mode": "vepa", "host_access": "true"}}), "-o host_access"),
        (json!({"options": {"mode": "dhcp", "probe": "true"}}), "always probed"),
        (json!({"options": {"mode": "dhcp"}, "internal": true}), "--internal"),
        (json!({"options": {"mode": "l2", "probe": "true"}}), "-o probe is of macvlans"),
        (json!({"options": {"mode": "unmanaged", "probe": "true"}}), "-o probe of networks"),
        (json!({"options": {"bridge": "b", "host_access": "true"}}), "-o bridge is of bridges"),
        (json!({"options": {"mode": "wild"}}), "-o mode=wild"),
        (json!({"options": {"vlan": "4095"}}), "1 to 4094"),
        (json!({"options": {"isolate": "strict"}}), "isolate=strict"),
        (json!({"options": {"bridge": "a/b"}}), "interface name"),
        (json!({"ipam_options": {"driver": "dhcp"}}), "parent device"),
        (json!({"ipam_options": {"driver": "mine"}}), "--ipam-driver mine"),
        (
            json!({"ipam_options": {"driver": "none"}, "subnets": [{"subnet": "10.1.0.0/24"}]}),
            "--subnet 10.1.0.0/24",
        ),
    ] {
        let error = read(given.clone()).unwrap_err().to_string();
        assert!(error.contains(word), "{given}: {error}");
    }
}

#[test]
fn a_network_of_neutron_is_described_with_its_words() {
    let new = options(json!({
        "driver": "neutron", "neutron.network": "front", "neutron.security_groups": "web",
        "publish": "local", "metric": "7",
    }))
    .unwrap();
    let Some(KindSpec::Neutron(link)) = &new.kind else { panic!("{new:?}") };
    assert_eq!((link.network.to_string(), link.binding.clone()), ("front".to_owned(), None));
    assert_eq!(link.spec.security_groups.as_ref().unwrap().len(), 1);
    assert_eq!((new.source, new.reach, new.metric), (Source::Cloud, Some(Reach::Local), Some(7)));
    assert_eq!(new.sticky, None);
    let short = options(json!({"neutron.net.name": "front"})).unwrap();
    assert!(matches!(short.kind, Some(KindSpec::Neutron(_))));
    let subnets =
        json!({"options": {"neutron.network": "front"}, "subnets": [{"subnet": "10.5.0.0/24"}]});
    assert!(read(subnets).is_ok(), "Podman hears what may be asked for");
}

#[test]
fn a_segment_of_open_vswitch_is_described_with_its_words() {
    let new = options(json!({
        "driver": "ovs", "ovs.bridge": "br0", "ovs.vlan": "10", "address_space": "acme",
    }))
    .unwrap();
    let Some(KindSpec::Ovs(ovs)) = &new.kind else { panic!("{new:?}") };
    assert_eq!((ovs.bridge.as_str(), ovs.vlan.unwrap().number()), ("br0", 10));
    assert_eq!((new.source, new.sticky), (Source::Book, Some(true)));
    assert!(matches!(options(json!({"ovs.bridge": "br0"})).unwrap().kind, Some(KindSpec::Ovs(_))));
    for (given, words) in [
        (json!({"driver": "ovs"}), "-o ovs.bridge"),
        (json!({"driver": "neutron", "ovs.bridge": "br0"}), "-o driver=neutron contradicts"),
        (json!({"driver": "ovs", "neutron.network": "front"}), "-o neutron.network"),
        (json!({"driver": "ovs", "ovs.bridge": "br0", "parent": "eth0"}), "-o parent"),
        (json!({"driver": "ovs", "ovs.bridge": "br0", "mode": "dhcp"}), "-o mode"),
        (json!({"network": "ten", "ovs.bridge": "br0"}), "leave out -o ovs.bridge"),
        (json!({"ovs.typo": "1"}), "ovs.bridge, ovs.vlan"),
    ] {
        let error = options(given.clone()).unwrap_err().to_string();
        assert!(error.contains(words), "{given}: {error}");
    }
}

#[test]
fn what_neutron_decides_is_not_an_option() {
    let front = |more: Value| {
        let mut all = json!({"options": {"neutron.network": "front"}});
        for (key, value) in more.as_object().unwrap() {
            match key.as_str() {
                "options" => value.as_object().unwrap().iter().for_each(|(key, value)| {
                    all["options"][key] = value.clone();
                }),
                _ => all[key] = value.clone(),
            }
        }
        read(all).unwrap_err().to_string()
    };
    for (more, word) in [
        (json!({"options": {"mtu": "1400"}}), "-o mtu: Neutron decides that"),
        (json!({"options": {"driver": "macvlan"}}), "-o driver=macvlan: macvlan is not neutron"),
        (json!({"options": {"network": "back"}}), "leave out -o neutron.network"),
        (json!({"options": {"neutron.port": "a b"}}), "-o neutron.port=a b"),
        (json!({"options": {"neutron.vlan": "7"}}), "-o neutron.vlan=…: no such option"),
        (json!({"internal": true}), "--internal"),
        (json!({"network_interface": "eth0"}), "--interface-name"),
        (json!({"ipam_options": {"driver": "dhcp"}}), "--ipam-driver dhcp"),
        (
            json!({"subnets": [{"subnet": "10.5.0.0/24", "lease_range": {"start_ip": "10.5.0.9"}}]}),
            "--ip-range",
        ),
    ] {
        let error = front(more.clone());
        assert!(error.contains(word), "{more}: {error}");
    }
    let nameless = options(json!({"driver": "neutron"})).unwrap_err().to_string();
    assert!(nameless.contains("-o neutron.network=NETWORK"), "{nameless}");
}

/// Podman has it in its file, and sends it with each container. What would open a network by mistake is refused all
/// the same.
#[test]
fn what_an_earlier_version_took_goes_on() {
    let recorded = |options: Value| {
        let config = json!({"name": "n", "options": options});
        Spec::recorded(&NetworkConfig::read(&config).unwrap())
    };
    for (given, means) in [
        (json!({"isolate": ""}), json!({})),
        (json!({"isolate": "", "mtu": "1400"}), json!({"mtu": "1400"})),
    ] {
        options(given.clone()).unwrap_err();
        assert_eq!(recorded(given).unwrap(), read(json!({"options": means})).unwrap());
    }
    let named = json!({"egress": "0x0a000001:443"});
    options(named.clone()).unwrap_err();
    let Spec::New(spec) = recorded(named).unwrap() else { panic!("it joins") };
    assert_eq!(spec.fence.unwrap().to_string(), "0x0a000001:443");
    for key in ["egress", "egress-strict", "via"] {
        recorded(json!({key: ""})).unwrap_err();
    }
}
