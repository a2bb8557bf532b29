use std::net::IpAddr;

use model::{Family, Gateway, IfName, Mtu, NetworkName, Passage, Reach};

use super::*;

fn options(internal: bool, texts: &[(&str, &str)]) -> libnetwork::NetworkOptions {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    libnetwork::NetworkOptions {
        generic: texts.iter().map(own).collect(),
        ipv4: Some(true),
        ipv6: false,
        internal,
    }
}

pub(super) fn read(texts: &[(&str, &str)]) -> Result<NetworkSpec> {
    super::read(&options(false, texts))
}

const BRIDGE_KEY: &str = "com.docker.network.bridge";

#[test]
fn says_nothing_by_default() {
    let spec = read(&[]).unwrap();
    assert_eq!(spec.default_route(), DefaultRoute::Bridge);
    assert!(spec.masquerades() && spec.publisher.is_none() && spec.ingress.is_none());
    let spec = super::read(&options(true, &[])).unwrap();
    assert_eq!(spec.default_route(), DefaultRoute::Nowhere);
    assert!(!spec.masquerades() && spec.egress == EgressPolicy::Internal);
}

#[test]
fn understands_our_own_keys() {
    let spec = read(&[
        ("bridge", "br7"),
        ("mtu", "1400"),
        ("isolation", "container"),
        ("publish", "lan"),
        ("ports", "docker"),
        ("interfaces", "docker"),
        ("network", "front"),
        ("gateway", "address"),
        ("masquerade", "true"),
        ("promiscuous", "1"),
        ("hairpin", "false"),
    ])
    .unwrap();
    assert_eq!(spec.bridge.as_ref().map(IfName::as_str), Some("br7"));
    assert_eq!(spec.mtu.map(Mtu::bytes), Some(1400));
    assert_eq!(spec.ingress, Some(IngressPolicy::Isolated));
    assert_eq!(spec.reach, Some(Reach::Lan));
    assert_eq!(spec.publisher, Some(Publisher::Runtime));
    assert_eq!(spec.handoff, Some(Handoff::Caller));
    let spec_of = |text| read(&[("interfaces", text)]).unwrap().handoff;
    assert_eq!((spec_of("spoke"), spec_of("")), (Some(Handoff::Finish), None));
    assert_eq!(spec.network.as_ref().map(NetworkName::as_str), Some("front"));
    assert_eq!(spec.default_route(), DefaultRoute::Nowhere);
    assert!(spec.masquerades());
    assert_eq!((spec.promiscuous, spec.hairpin), (Some(true), Some(false)));
}

#[test]
fn words_mean_what_they_say() {
    for (text, policy) in [
        ("none", IngressPolicy::Open),
        ("container", IngressPolicy::Isolated),
        ("network", IngressPolicy::SameBridge),
    ] {
        assert_eq!(read(&[("isolation", text)]).unwrap().ingress, Some(policy));
    }
    for (text, reach) in [("any", Reach::Any), ("lan", Reach::Lan), ("local", Reach::Local)] {
        assert_eq!(read(&[("publish", text)]).unwrap().reach, Some(reach));
    }
    for (text, route, gateway) in [
        ("default", DefaultRoute::Bridge, Gateway::Default),
        ("address", DefaultRoute::Nowhere, Gateway::Address),
        ("none", DefaultRoute::Segment, Gateway::None),
    ] {
        let spec = read(&[("gateway", text)]).unwrap();
        assert_eq!((spec.default_route(), spec.default_route().gateway()), (route, gateway));
        assert_eq!(spec.masquerades(), text == "default");
    }
}

#[test]
fn understands_docker_s_keys() {
    let key = |name: &str| format!("{BRIDGE_KEY}.{name}");
    let spec = |name: &str, value: &str| read(&[(key(name).as_str(), value)]);
    assert_eq!(spec("name", "br7").unwrap().bridge.unwrap().as_str(), "br7");
    assert!(!spec("enable_ip_masquerade", "false").unwrap().masquerades());
    assert_eq!(spec("enable_icc", "false").unwrap().ingress, Some(IngressPolicy::Isolated));
    assert_eq!(spec("enable_icc", "true").unwrap().ingress, None);
    assert_eq!(
        spec("host_binding_ipv4", "127.0.0.1").unwrap().publish_on,
        Some(IpAddr::from([127, 0, 0, 1]))
    );
    assert_eq!(spec("host_binding_ipv4", "0.0.0.0").unwrap().publish_on, None);
    assert_eq!(spec("inhibit_ipv4", "true").unwrap().default_route(), DefaultRoute::Router);
    let routed = spec("gateway_mode_ipv4", "routed").unwrap();
    assert!(!routed.masquerades() && routed.publisher == Some(Publisher::None));
    assert_eq!((routed.direct, routed.passage), (None, Some(Passage::Everybody)));
    let open = spec("gateway_mode_ipv4", "nat-unprotected").unwrap();
    assert!(open.masquerades() && open.publisher.is_none() && open.direct == Some(true));
    assert_eq!(spec("gateway_mode_ipv4", "nat").unwrap().direct, None);
    assert_eq!(spec("gateway_mode_ipv4", "nat").unwrap(), read(&[]).unwrap());
    let trusting = spec("trusted_host_interfaces", "eth1:eth2:eth1").unwrap().passage.unwrap();
    assert_eq!(trusting.trusted(), ["eth1".parse().unwrap(), "eth2".parse().unwrap()]);
    let sources = read(&[
        ("com.docker.network.host_ipv4", "192.0.2.9"),
        ("com.docker.network.host_ipv6", "2001:db8::9"),
    ]);
    let sources = sources.unwrap().sources;
    assert_eq!(sources.v4, Some([192, 0, 2, 9].into()));
    assert_eq!(sources.v6, Some("2001:db8::9".parse().unwrap()));
    assert_eq!(
        read(&[("com.docker.network.driver.mtu", "9000")]).unwrap().mtu.map(Mtu::bytes),
        Some(9000)
    );
    assert_eq!(
        read(&[("com.docker.network.container_iface_prefix", "web")]).unwrap().prefix.unwrap(),
        "web".parse().unwrap()
    );
}

#[test]
fn an_isolated_network_has_no_gateway() {
    let mode = format!("{BRIDGE_KEY}.gateway_mode_ipv4");
    let spec = super::read(&options(true, &[(&mode, "isolated")])).unwrap();
    assert_eq!(spec.default_route(), DefaultRoute::Segment);
    assert_eq!(spec.host_absent, model::Absence::EVERYWHERE);
    assert!(read(&[(&mode, "isolated")]).unwrap_err().to_string().contains("--internal"));
}

#[test]
fn each_family_has_its_mode() {
    let (v4, v6) =
        (format!("{BRIDGE_KEY}.gateway_mode_ipv4"), format!("{BRIDGE_KEY}.gateway_mode_ipv6"));
    let of = |ipv4, ipv6, texts: &[(&str, &str)]| {
        super::read(&libnetwork::NetworkOptions { ipv4, ipv6, ..options(false, texts) })
    };
    let both = [(v4.as_str(), "routed"), (v6.as_str(), "routed")];
    assert!(!of(Some(true), true, &both).unwrap().masquerades());
    assert!(!of(Some(false), true, &both[1..]).unwrap().masquerades());
    assert!(of(Some(true), false, &both[1..]).unwrap().masquerades());
    let routed = of(None, true, &both[1..]).unwrap();
    assert!(routed.masquerades() && routed.masquerade_only == Some(Family::V4));
    assert_eq!((routed.publisher, routed.passage), (None, Some(Passage::EverybodyOf(Family::V6))));
    let open = [(v4.as_str(), "nat-unprotected"), (v6.as_str(), "routed")];
    let open = of(None, true, &open).unwrap();
    let isolated = [(v4.as_str(), "nat"), (v6.as_str(), "isolated")];
    assert!(of(None, true, &isolated).unwrap_err().to_string().contains("--internal"));
    let isolated = libnetwork::NetworkOptions { ipv6: true, ..options(true, &isolated) };
    let isolated = super::read(&isolated).unwrap();
    assert_eq!(isolated.host_absent, model::Absence::only(Family::V6));
    assert_ne!(isolated.default_route(), DefaultRoute::Segment);
    assert_eq!((open.direct, open.direct_only), (Some(true), Some(Family::V4)));
    for (more, words) in [
        (("ports", "docker"), "ports=docker"),
        (("host_ipv6", "2001:db8::9"), "host_ipv6=2001:db8::9"),
        (("trusted_host_interfaces", "eth1"), "trusted_host_interfaces"),
    ] {
        let error = of(None, true, &[both[1], more]).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains(&v6), "{error}");
    }
}

/// Each refusal, and what its sentence names.
#[test]
fn names_what_is_wrong() {
    let icc = format!("{BRIDGE_KEY}.enable_icc");
    let masquerade = format!("{BRIDGE_KEY}.enable_ip_masquerade");
    let mode = format!("{BRIDGE_KEY}.gateway_mode_ipv4");
    let inhibit = format!("{BRIDGE_KEY}.inhibit_ipv4");
    for (texts, words) in [
        (vec![("brdige", "br0")], vec!["brdige", "bridge", "mtu", "inhibit_ipv4"]),
        (vec![("parent", "a/b")], vec!["parent=a/b"]),
        (vec![("vlan", "4095")], vec!["vlan=4095", "1 to 4094"]),
        (
            vec![("driver", "overlay")],
            vec!["driver=overlay", "bridge, macvlan, ipvlan, neutron or ovs"],
        ),
        (vec![("mode", "static")], vec!["mode=static", "dhcp"]),
        (vec![("cni", "a/b")], vec!["cni=a/b", "absolute path"]),
        (vec![("mtu", "9")], vec!["mtu=9", "68 to 65535"]),
        (vec![("mtu", "1\n5")], vec!["mtu=1\\n5"]),
        (vec![("isolation", "yes")], vec!["isolation=yes", "none, container or network"]),
        (vec![("publish", "all")], vec!["publish=all", "any, lan or local"]),
        (vec![("bridge", "a/b")], vec!["bridge=a/b"]),
        (vec![("network", "a b")], vec!["network=a b"]),
        (vec![("hairpin", "maybe")], vec!["hairpin=maybe", "true or false"]),
        (vec![("masquerade", "true"), (&masquerade, "false")], vec!["masquerade=true", "=false"]),
        (vec![("isolation", "container"), (&icc, "true")], vec!["isolation=container", "icc=true"]),
        (vec![("isolation", "none"), (&icc, "false")], vec!["isolation=none", "icc=false"]),
        (vec![("ports", "docker"), ("interfaces", "spoke")], vec!["ports=docker", "interfaces="]),
        (vec![("ports", "docker"), (&mode, "routed")], vec!["ports=docker", "=routed"]),
        (vec![("masquerade", "true"), (&mode, "routed")], vec!["masquerade=true", "=routed"]),
        (vec![("gateway", "none"), (&inhibit, "true")], vec!["gateway=none", "inhibit_ipv4=true"]),
        (vec![("direct", "false"), (&mode, "nat-unprotected")], vec!["direct=false", "=nat-unp"]),
        (vec![("host_ipv4", "localhost")], vec!["host_ipv4=localhost", "an IPv4 address of this"]),
        (vec![("host_ipv4", "127.0.0.1")], vec!["host_ipv4=127.0.0.1", "others can answer"]),
        (vec![("host_ipv4", "2001:db8::9")], vec!["host_ipv4=2001:db8::9"]),
        (vec![("host_ipv6", "fe80::1")], vec!["host_ipv6=fe80::1", "others can answer"]),
        (vec![("host_ipv4", "192.0.2.9"), (&masquerade, "0")], vec!["host_ipv4", "masquerade=0"]),
        (vec![("host_ipv4", "192.0.2.9"), (&mode, "routed")], vec!["host_ipv4", "=routed"]),
        (vec![("trusted_host_interfaces", "a:b/c")], vec!["=a:b/c", "between colons"]),
        (vec![("trusted_host_interfaces", "a::b")], vec!["=a::b", "between colons"]),
        (vec![("trusted_host_interfaces", "a"), ("ports", "docker")], vec!["=a", "ports=docker"]),
        (vec![(&mode, "bridged")], vec!["bridged", "nat, nat-unprotected, routed or isolated"]),
    ] as [(Vec<(&str, &str)>, Vec<&str>); 31]
    {
        let error = read(&texts).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{texts:?}: {error}");
    }
    let error = super::read(&options(true, &[("gateway", "default")])).unwrap_err();
    assert!(error.to_string().contains("--internal"), "{error}");
}

#[test]
fn an_empty_value_says_nothing() {
    assert_eq!(read(&[("mtu", ""), ("bridge", "")]).unwrap(), read(&[]).unwrap());
}
