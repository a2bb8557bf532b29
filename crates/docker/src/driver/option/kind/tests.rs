use std::collections::BTreeMap;

use super::super::tests::read as read_all;
use super::*;
use model::{InterfaceNamespace, Parent};
use spec::DefaultRoute;

fn read_kind(texts: &[(&str, &str)]) -> Result<KindOptions> {
    let map: BTreeMap<String, String> =
        texts.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let texts = Texts { flag: "-o", map: &map };
    read(&texts, &texts.network(FRONT)?)
}

fn macvlan_of(texts: &[(&str, &str)]) -> Macvlan {
    match read_kind(texts).unwrap().kind {
        Some(KindSpec::Macvlan(macvlan)) => macvlan,
        other => panic!("{other:?}"),
    }
}

fn parent_of(texts: &[(&str, &str)]) -> (Option<String>, Option<u16>) {
    let Parent { name, place, vlan } = macvlan_of(texts).parent;
    assert_eq!(place, InterfaceNamespace::Host);
    (name.map(|name| name.to_string()), vlan.map(VlanId::number))
}

#[test]
fn nothing_is_said_by_default() {
    let read_kind = read_kind(&[("mtu", "1400"), ("bridge", "br0"), ("parent", "")]).unwrap();
    assert!(read_kind.kind.is_none() && !read_kind.dhcp && !read_kind.is_elsewhere());
}

#[test]
fn a_parent_may_be_a_vlan_of_it() {
    let eth0 = |vlan| (Some("eth0".to_owned()), vlan);
    assert_eq!(parent_of(&[("parent", "eth0")]), eth0(None));
    assert_eq!(parent_of(&[("parent", "eth0.100")]), eth0(Some(100)));
    assert_eq!(parent_of(&[("parent", "eth0"), ("vlan", "100")]), eth0(Some(100)));
    assert_eq!(parent_of(&[("parent", "eth0.100"), ("vlan", "100")]), eth0(Some(100)));
    assert_eq!(parent_of(&[("vlan", "7")]), (None, Some(7)));
    for device in ["eth0.0", "eth0.4095", "eth0.lan", "eth0.007"] {
        assert_eq!(parent_of(&[("parent", device)]), (Some(device.to_owned()), None));
    }
    assert_eq!(parent_of(&[("parent", "a.b.5")]), (Some("a.b".to_owned()), Some(5)));
    for (vlan, word) in [("0", "4094"), ("4095", "4094"), ("lan", "4094")] {
        let error = read_kind(&[("parent", "eth0"), ("vlan", vlan)]).err().unwrap().to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn a_kind_follows_from_what_only_it_has() {
    for (texts, mode) in [
        (&[("driver", "macvlan")][..], MacvlanMode::Bridge),
        (&[("host_access", "false")], MacvlanMode::Bridge),
        (&[("macvlan_mode", "vepa")], MacvlanMode::Vepa),
        (&[("mode", "private")], MacvlanMode::Private),
        (&[("mode", "passthru"), ("macvlan_mode", "passthru")], MacvlanMode::Passthru),
        (&[("mode", "dhcp"), ("macvlan_mode", "private")], MacvlanMode::Private),
    ] {
        assert_eq!(macvlan_of(texts).mode, mode, "{texts:?}");
    }
    for (texts, mode) in [
        (&[("driver", "ipvlan"), ("parent", "eth0")][..], IpvlanMode::L2),
        (&[("ipvlan_mode", "l3"), ("parent", "eth0")], IpvlanMode::L3),
        (&[("mode", "l3s")], IpvlanMode::L3s),
    ] {
        match read_kind(texts).unwrap().kind {
            Some(KindSpec::Ipvlan(ipvlan)) => assert_eq!(ipvlan.mode, mode, "{texts:?}"),
            other => panic!("{texts:?} {other:?}"),
        }
    }
    let shim = macvlan_of(&[("parent", "eth0"), ("host_access", "true"), ("probe", "1")]);
    assert!(shim.host_access && shim.probe);
}

#[test]
fn a_server_may_give_addresses_on_any_segment() {
    let lan = read_kind(&[("mode", "dhcp")]).unwrap();
    assert!(lan.dhcp && matches!(lan.kind, Some(KindSpec::Macvlan(_))));
    let bridge = read_kind(&[("mode", "dhcp"), ("bridge", "br0")]).unwrap();
    assert!(bridge.dhcp && bridge.kind.is_none() && bridge.is_elsewhere());
    let bridge = read_kind(&[("mode", "dhcp"), ("driver", "bridge")]).unwrap();
    assert!(bridge.dhcp && bridge.kind == Some(KindSpec::Bridge));
}

#[test]
fn a_list_is_named_plainly() {
    for (text, path) in [
        ("lan.conflist", "/etc/cni/net.d/lan.conflist"),
        ("/srv/cni/lan.conflist", "/srv/cni/lan.conflist"),
    ] {
        assert_eq!(read_kind(&[("cni", text)]).unwrap().kind, Some(KindSpec::Plugins(path.into())));
    }
    for text in ["../lan.conflist", "a/b", "/srv/../etc/x", "/", ".", ".."] {
        let error = read_kind(&[("cni", text)]).err().map(|error| error.kind());
        assert_eq!(error, Some(model::Kind::Invalid), "{text}");
    }
}

#[test]
fn what_contradicts_is_named_with_both_keys() {
    for (one, other) in [
        (("driver", "bridge"), ("parent", "eth0")),
        (("driver", "bridge"), ("mode", "l2")),
        (("driver", "bridge"), ("host_access", "true")),
        (("driver", "macvlan"), ("ipvlan_mode", "l2")),
        (("driver", "macvlan"), ("mode", "l2")),
        (("driver", "ipvlan"), ("mode", "dhcp")),
        (("driver", "ipvlan"), ("probe", "true")),
        (("driver", "ipvlan"), ("cni", "a.conflist")),
        (("parent", "eth0"), ("bridge", "br0")),
        (("parent", "eth0"), ("masquerade", "true")),
        (("parent", "eth0"), ("com.docker.network.bridge.enable_icc", "false")),
        (("parent", "eth0"), ("ports", "spoke")),
        (("parent", "eth0"), ("gateway", "address")),
        (("parent", "eth0.5"), ("vlan", "6")),
        (("parent", "eth0"), ("cni", "a.conflist")),
        (("mode", "dhcp"), ("cni", "a.conflist")),
        (("mode", "dhcp"), ("gateway", "none")),
        (("mode", "private"), ("macvlan_mode", "vepa")),
        (("host_access", "true"), ("macvlan_mode", "private")),
        (("host_access", "true"), ("mode", "vepa")),
        (("cni", "a.conflist"), ("isolation", "none")),
        (("cni", "a.conflist"), ("mtu", "1400")),
        (("cni", "a.conflist"), ("gateway", "none")),
    ] {
        let error = read_all(&[one, other]).unwrap_err().to_string();
        for (key, value) in [one, other] {
            assert!(error.contains(&format!("-o {key}={value}")), "{one:?} {other:?}: {error}");
        }
    }
}

#[test]
fn the_way_out_of_a_segment_is_a_router_on_it() {
    let route = |texts: &[(&str, &str)]| read_all(texts).unwrap().default_route();
    assert_eq!(route(&[("parent", "eth0")]), DefaultRoute::Router);
    assert_eq!(route(&[("parent", "eth0"), ("gateway", "default")]), DefaultRoute::Router);
    assert_eq!(route(&[("parent", "eth0"), ("gateway", "none")]), DefaultRoute::Segment);
    assert_eq!(route(&[("mode", "dhcp"), ("bridge", "br0")]), DefaultRoute::Router);
    assert!(!read_all(&[("mode", "dhcp"), ("bridge", "br0")]).unwrap().masquerades());
}

#[test]
fn what_is_on_a_segment_needs_no_published_ports() {
    let publisher = |texts: &[(&str, &str)]| read_all(texts).unwrap().publisher;
    assert_eq!(publisher(&[("parent", "eth0")]), Some(model::Publisher::None));
    let docker = [("parent", "eth0"), ("ports", "docker")];
    assert_eq!(publisher(&docker), Some(model::Publisher::Runtime));
    assert_eq!(publisher(&[("cni", "a.conflist")]), None);
}

#[test]
fn a_segment_of_open_vswitch_has_one_set_of_words() {
    let whole = [("driver", "ovs"), ("ovs.bridge", "br0"), ("ovs.vlan", "10")];
    let Some(KindSpec::Ovs(ovs)) = read_kind(&whole).unwrap().kind else { panic!() };
    assert_eq!((ovs.bridge.as_str(), ovs.vlan.unwrap().number()), ("br0", 10));
    let implied = read_kind(&[("ovs.bridge", "br0")]).unwrap();
    assert!(matches!(implied.kind, Some(KindSpec::Ovs(_))) && implied.is_elsewhere());
    let publisher = read_all(&[("ovs.bridge", "br0")]).unwrap().publisher;
    assert_eq!(publisher, Some(model::Publisher::None), "its packets do not pass this host");
    for (given, words) in [
        (&[("driver", "ovs")][..], "-o ovs.bridge"),
        (&[("driver", "macvlan"), ("ovs.bridge", "br0")], "ovs.bridge"),
        (&[("driver", "ovs"), ("ovs.bridge", "br0"), ("mode", "dhcp")], "mode"),
        (&[("ovs.bridge", "br0"), ("parent", "eth0")], "parent"),
        (&[("ovs.bridge", "br0"), ("ports", "spoke")], "ports"),
        (&[("ovs.bridge", "br0"), ("neutron.network", "front")], "neutron.network"),
    ] {
        let error = read_all(given).unwrap_err().to_string();
        assert!(error.contains(words), "{given:?}: {error}");
    }
}

#[test]
fn a_network_of_neutron_has_one_set_of_words() {
    let of = |texts: &[(&str, &str)]| match read_kind(texts).unwrap().kind {
        Some(KindSpec::Neutron(link)) => link,
        other => panic!("{other:?}"),
    };
    let by_name = of(&[("driver", "neutron"), ("neutron.net.name", "front")]);
    assert_eq!(by_name, of(&[("neutron.network", "front")]));
    assert_eq!(by_name.network.to_string(), "front");
    let groups = of(&[("neutron.network", "front"), ("neutron.security_groups", "none")]);
    assert_eq!(groups.spec.security_groups, Some(Vec::new()));
    let reported = read_kind(&[("neutron.network", "front")]).unwrap();
    assert!(reported.is_external() && reported.is_elsewhere() && !reported.dhcp);
}

#[test]
fn what_contradicts_neutron_is_named() {
    let front = ("neutron.network", "front");
    for (other, word) in [
        (("driver", "bridge"), "-o driver=bridge"),
        (("parent", "eth0"), "-o parent=eth0"),
        (("mode", "dhcp"), "-o mode=dhcp"),
        (("mtu", "1400"), "-o mtu=1400"),
        (("bridge", "br0"), "-o bridge=br0"),
        (("masquerade", "true"), "-o masquerade=true"),
        (("gateway", "none"), "-o gateway=none"),
        (("cni", "a.conflist"), "-o cni=a.conflist"),
        (("neutron.port", "a b"), "-o neutron.port=a b"),
        (("neutron.net.name", "back"), "neutron.net.name names another"),
        (("neutron.vlan", "5"), "-o neutron.vlan=…: no such option; Spoke has neutron.network"),
    ] {
        let error = read_all(&[front, other]).unwrap_err().to_string();
        assert!(error.contains(word), "{other:?}: {error}");
    }
    let nameless = read_all(&[("driver", "neutron")]).unwrap_err().to_string();
    assert!(nameless.contains("-o neutron.network=NETWORK"), "{nameless}");
}
