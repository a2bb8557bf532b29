use super::*;

pub(super) fn two_networks() -> Fixture {
    let host = Fixture::new();
    assert_eq!(host.spoke("network create front"), "front\n");
    host.spoke("network create --subnet 10.70.1.0/24 --subnet fd00:70::/64 --mtu 1450 back");
    host
}

#[test]
fn create_takes_a_free_subnet() {
    let mut host = two_networks();
    host.spoke("network rm front");
    host.facts
        .routes
        .push(HostRoute { dst: "10.200.0.0/23".parse().unwrap(), device: "wg0".into() });
    host.spoke("network create other");
    assert!(host.spoke("network inspect other").contains("10.200.2.0/24"));
}

#[test]
fn lists_networks() {
    let host = two_networks();
    host.attach("back", "c1", Some("web"));
    assert_eq!(
        host.spoke("network ls"),
        "\
NAME   DRIVER  RUNTIME  SUBNETS                      DEVICE    ATTACHED
back   bridge  spoke    10.70.1.0/24,fd00:70::/64  sp-back   1
front  bridge  spoke    10.200.0.0/24              sp-front  0
"
        .replace("SUBNETS                      DEVICE", "SUBNETS                    DEVICE")
    );
    assert_eq!(host.spoke("network ls -q --filter name=fro"), "front\n");
    assert_eq!(host.spoke("network ls -q --filter driver=ptp"), "");
    assert_eq!(host.refused("network ls --filter size=3").0, 2);
    assert_eq!(
        host.spoke("network ls --format {{.Name}}:{{.Driver}}"),
        "back:bridge\nfront:bridge\n"
    );
    assert_eq!(
        host.try_spoke(&["network", "ls", "--format", "table {{.Name}}\\t{{.MTU}}"]).1,
        "NAME   MTU\nback   1450\nfront  <no value>\n"
    );
    assert_eq!(host.spoke("network ls --format json").lines().count(), 2);
    let json: serde_json::Value = serde_json::from_str(&host.spoke("network ls -o json")).unwrap();
    assert_eq!(json[0]["subnets"][1]["gateway"], "fd00:70::1");
    let yaml = host.spoke("network ls -o yaml");
    assert!(yaml.starts_with("- address_space: null\n  aliases: []\n  attached: 1\n"), "{yaml}");
}

#[test]
fn inspects_networks() {
    let host = two_networks();
    let format =
        ["network", "inspect", "back", "--format", "{{range .Subnets}}{{.Gateway}} {{end}}"];
    assert_eq!(host.try_spoke(&format).1, "10.70.1.1 fd00:70::1 \n");
    let json: serde_json::Value =
        serde_json::from_str(&host.spoke("network inspect front")).unwrap();
    assert_eq!(json[0]["created"], "2026-11-18T12:00:00Z");
    assert_eq!(json[0]["masquerade"], true);
    assert_eq!(
        host.refused("network inspect nix"),
        (3, "spoke: no network nix; `spoke network ls` lists them".to_owned())
    );
}

#[test]
fn options_reach_the_network() {
    let host = Fixture::new();
    host.spoke(
        "network create --subnet 10.9.0.0/24 --gateway 10.9.0.254 --ip-range 10.9.0.128/25 \
         --internal --ingress isolated --bridge br9 n",
    );
    let network = host.engine().records.network(&"n".parse().unwrap()).unwrap();
    let range = &network.ipam.pools()[0].ranges[0];
    assert_eq!(
        (range.first.to_string(), range.last.to_string()),
        ("10.9.0.128".into(), "10.9.0.254".into())
    );
    assert_eq!(range.gateway, Some("10.9.0.254".parse().unwrap()));
    assert!(network.wiring.masquerade.is_none());
    assert!(network.wiring.publish.is_none());
    let firewall = network.wiring.firewall.unwrap();
    assert_eq!(firewall.egress, model::EgressPolicy::Internal);
    assert_eq!(firewall.ingress, model::IngressPolicy::Isolated);
    assert_eq!(firewall.bridge.unwrap().as_str(), "br9");
}

#[test]
fn a_network_says_who_reaches_its_ports() {
    let host = Fixture::new();
    host.spoke("network create --publish local home");
    let network = host.engine().records.network(&"home".parse().unwrap()).unwrap();
    assert_eq!(network.wiring.publish.unwrap().reach, model::Reach::Local);
    let json: serde_json::Value =
        serde_json::from_str(&host.spoke("network inspect home")).unwrap();
    assert_eq!((&json[0]["publish"], &json[0]["internal"]), (&"local".into(), &false.into()));
}

fn alias(network: &Network, title: &str, publisher: model::Publisher) -> model::Alias {
    model::Alias {
        runtime: match publisher {
            model::Publisher::Runtime => model::Runtime::Docker,
            _ => model::Runtime::Spoke,
        },
        since: Timestamp(NOW),
        title: Some(title.parse().unwrap()),
        publisher,
        handoff: model::Handoff::Caller,
        ..doubles::alias("0123456789abcdef", network)
    }
}

/// Has a runtime call a network so.
pub(super) fn entitle(
    host: &Fixture,
    network: &str,
    title: &str,
    publisher: model::Publisher,
) -> model::Alias {
    let engine = host.engine();
    let network = engine.records.network(&network.parse().unwrap()).unwrap();
    let alias = alias(&network, title, publisher);
    engine.networks.enroll(&alias, &network).unwrap();
    alias
}

#[test]
fn runtimes_call_networks_as_they_like() {
    let host = two_networks();
    entitle(&host, "back", "shop", model::Publisher::Spoke);
    host.attach("back", "c1", None);
    assert_eq!(host.spoke("ps shop"), host.spoke("ps back"));
    assert!(host.spoke("ps").contains("shop"));
    let json: serde_json::Value = serde_json::from_str(&host.spoke("ps -o json")).unwrap();
    assert_eq!((&json[0]["network"], &json[0]["title"]), (&"back".into(), &"shop".into()));
    assert!(host.spoke("network inspect shop").contains("\"id\": \"0123456789abcdef\""));
}

#[test]
fn listings_call_a_network_as_its_runtime_does() {
    let host = two_networks();
    entitle(&host, "back", "shop", model::Publisher::Spoke);
    host.attach("back", "c1", Some("db"));
    host.spoke("port add db 8443:443");
    for (line, of_shop) in [("ports", "ports shop"), ("port ls", "port ls --network shop")] {
        let out = host.spoke(line);
        let rows: Vec<&str> = out.lines().skip(1).collect();
        assert!(rows.len() == 1 && rows[0].contains("shop"), "{out}");
        assert!(!rows[0].contains("back"), "{out}");
        assert_eq!(host.spoke(of_shop), out);
        let json: serde_json::Value =
            serde_json::from_str(&host.spoke(&format!("{line} -o json"))).unwrap();
        assert_eq!((&json[0]["network"], &json[0]["title"]), (&"back".into(), &"shop".into()));
    }
}

#[test]
fn refuses_what_a_network_cannot_have() {
    let mut host = two_networks();
    host.facts.links.push(HostLink { name: "sp-taken".into(), mtu: 1500, is_bridge: true });
    host.facts
        .routes
        .push(HostRoute { dst: "172.17.0.0/16".parse().unwrap(), device: "docker0".into() });
    host.write(
        "etc/containers/networks/p.json",
        r#"{"name":"p","subnets":[{"subnet":"10.89.0.0/24"}]}"#,
    );
    for (line, code, error) in [
        ("front", 4, "a network named front already exists"),
        ("taken", 4, "device sp-taken already exists"),
        ("x --bridge sp-back", 4, "bridge sp-back belongs to network back"),
        ("x --subnet 10.70.0.0/16", 4, "overlaps 10.70.1.0/24 (spoke network back)"),
        ("x --subnet 172.17.3.0/24", 4, "overlaps 172.17.0.0/16 (docker network bridge)"),
        (
            "x --subnet 10.89.0.0/24",
            4,
            "(podman network p); attach to that network, or pick one of: 10.200.1.0/24, 10.200.2.0/24",
        ),
        ("x --subnet 10.1.0.5/24", 2, "the subnet is 10.1.0.0/24"),
        ("x --subnet 0.0.0.0/0", 2, "no host may have"),
        ("x --subnet 240.0.0.0/8", 2, "no host may have"),
        ("x --subnet fe80::/64", 2, "no host may have"),
        ("x --subnet 10.1.0.0/31", 2, "too small"),
        ("x --subnet 10.1.0.0/24 --subnet 10.2.0.0/24", 2, "one subnet of each address family"),
        ("x --subnet 10.1.0.0/24 --gateway 10.2.0.1", 2, "gateway 10.2.0.1 is in none"),
        ("x --subnet 10.1.0.0/24 --gateway 10.1.0.255", 2, "gateway 10.1.0.255 is no host"),
        ("x --subnet 10.1.0.0/24 --ip-range 10.1.0.0/16", 2, "IP range 10.1.0.0/16 is in none"),
        ("x --driver ptp --bridge b", 2, "driver ptp has no bridge"),
        ("x --mtu 5", 2, "an MTU is a number from 68 to 65535"),
    ] {
        let (refused, sentence) = host.refused(&format!("network create {line}"));
        assert!(sentence.contains(error), "{line}: {sentence}");
        assert_eq!(refused, code, "{line}: {sentence}");
    }
    assert_eq!(host.spoke("network ls -q"), "back\nfront\n");
}

#[test]
fn networks_on_the_segment_of_a_parent() {
    let host = Fixture::new();
    host.spoke(
        "network create -d macvlan --parent eth0 --vlan 20 --subnet 192.168.1.0/24 --ip-range \
         192.168.1.128/25 --mode bridge --host-access --probe lab",
    );
    host.spoke("network create -d macvlan --dhcp lan");
    host.spoke("network create -d ipvlan --parent eth0 --mode l3 --subnet 10.9.0.0/24 routed");
    let lab = host.engine().records.network(&"lab".parse().unwrap()).unwrap();
    let wiring = &lab.wiring;
    assert!(wiring.masquerade.is_none() && wiring.firewall.is_none());
    assert_eq!(lab.routes.len(), 1, "through the segment's own gateway");
    let model::LinkKind::Macvlan(macvlan) = &wiring.link.as_ref().unwrap().kind else { panic!() };
    assert!(macvlan.host_access && macvlan.probe);
    let lan = host.engine().records.network(&"lan".parse().unwrap()).unwrap();
    assert!(matches!(lan.ipam, model::Ipam::Dhcp(_)) && lan.routes.is_empty());
    let shown: Vec<Vec<String>> = host
        .spoke("network ls")
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .collect();
    assert_eq!(shown[0], ["lab", "macvlan", "spoke", "192.168.1.0/24", "eth0.20", "0"]);
    assert_eq!(shown[1], ["lan", "macvlan", "spoke", "dhcp", "default", "0"]);
    let json: serde_json::Value =
        serde_json::from_str(&host.spoke("network inspect lab routed")).unwrap();
    assert_eq!((&json[0]["parent"], &json[0]["vlan"]), (&"eth0".into(), &20.into()));
    assert_eq!((&json[0]["mode"], &json[0]["host_access"]), (&"bridge".into(), &true.into()));
    assert_eq!((&json[1]["mode"], &json[1]["probe"]), (&"l3".into(), &false.into()));
    assert_eq!(host.spoke("network ls -q --filter driver=ipvlan"), "routed\n");
}

#[test]
fn refuses_what_a_driver_does_not_have() {
    let host = Fixture::new();
    for (line, code, error) in [
        ("--parent eth0", 2, "--parent is an option of drivers macvlan and ipvlan"),
        ("--dhcp -d ptp", 2, "--dhcp is an option of drivers macvlan and ipvlan"),
        ("-d macvlan", 2, "need --subnet, the one of the parent's segment, or --dhcp"),
        ("-d macvlan --dhcp --internal", 2, "--internal is no option of drivers macvlan"),
        ("-d macvlan --dhcp --bridge b", 2, "--bridge is no option of drivers macvlan"),
        ("-d ipvlan --dhcp --ingress isolated", 2, "--ingress is no option of drivers macvlan"),
        ("-d macvlan --dhcp --subnet 10.1.0.0/24", 2, "--subnet 10.1.0.0/24: with --dhcp"),
        ("-d macvlan --dhcp --probe", 2, "--probe: what a DHCP server gives is always probed"),
        ("-d macvlan --dhcp --mode l2", 2, "--mode is one of ipvlan; those of macvlan are"),
        ("-d ipvlan --dhcp --mode vepa", 2, "--mode is one of macvlan; those of ipvlan are"),
        ("-d ipvlan --dhcp --mode l3", 2, "--dhcp: DHCP needs broadcasts; --mode l2 has them"),
        ("-d ipvlan --dhcp --host-access", 2, "--host-access is an option of driver macvlan"),
        ("-d macvlan --dhcp --mode vepa --host-access", 2, "--host-access: only --mode bridge"),
        ("-d macvlan --dhcp --parent eth7", 3, "--parent eth7: this host has no such device"),
        ("-d macvlan --dhcp --vlan 4095", 2, "a VLAN is a number from 1 to 4094"),
        ("-d ../vxlan", 2, "driver name"),
    ] {
        let (refused, sentence) = host.refused(&format!("network create {line} x"));
        assert!(sentence.contains(error), "{line}: {sentence}");
        assert_eq!(refused, code, "{line}: {sentence}");
    }
    assert_eq!(host.spoke("network ls -q"), "");
}

#[test]
fn warns_about_a_hidden_route() {
    let host = Fixture::new();
    let (code, out, err) =
        host.try_spoke(&["network", "create", "--subnet", "192.168.1.0/25", "n"]);
    assert_eq!((code, out.as_str()), (0, "n\n"));
    assert_eq!(
        err,
        "spoke: subnet 192.168.1.0/25 hides the route to 192.168.1.0/24 through eth0\n"
    );
}

#[test]
fn removes_networks() {
    let host = two_networks();
    host.attach("back", "c1", None);
    let (code, out, err) = host.try_spoke(&["network", "rm", "back", "front"]);
    assert_eq!((code, out.as_str()), (4, "front\n"));
    assert!(
        err.contains("still has an attachment, container c1") && err.contains("--force"),
        "{err}"
    );
    assert_eq!(host.spoke("network rm -f back nix"), "back\n");
    assert_eq!(*host.kernel.removed.borrow(), ["front", "c1", "back"]);
    assert_eq!(host.refused("network rm back").0, 3);
}

#[test]
fn ps_merges_layers() {
    let host = two_networks();
    host.attach("back", "4be1d7a0c3f24be1d7a0c3f24be1d7a0c3f2", Some("web"));
    let network = host.engine().records.network(&"back".parse().unwrap()).unwrap();
    let mut tuning = request(&network, "4be1d7a0c3f24be1d7a0c3f24be1d7a0c3f2", None);
    (tuning.layer, tuning.ipam) = (Layer::Tuning, model::Ipam::None);
    tuning.wiring = model::Wiring::default();
    host.engine().attachments.attach(&tuning).unwrap();
    host.attach("front", "f00dd7a0c3f24be1d7a0c3f24be1d7a0c3f2", None);
    assert_eq!(
        host.spoke("ps"),
        "\
NAME          RUNTIME  NETWORK  IP                           MAC                DRIVER  PORTS                 UP
f00dd7a0c3f2  spoke    front    10.200.0.2/24               02:00:00:00:00:01  bridge  -                     3d
web           spoke    back     10.70.1.2/24,fd00:70::2/64  02:00:00:00:00:01  bridge  0.0.0.0:8080->80/tcp  3d
"
        .replace("IP                           MAC", "IP                          MAC")
    );
    assert_eq!(host.spoke("ps -q front"), "f00dd7a0c3f2\n");
    assert_eq!(host.spoke("ps -q --no-trunc front"), "f00dd7a0c3f24be1d7a0c3f24be1d7a0c3f2\n");
    let format = "{{.Name}} {{join .Addresses \"+\"}} {{range .Ports}}{{.HostPort}}{{end}}";
    assert_eq!(
        host.try_spoke(&["ps", "back", "--format", format]).1,
        "web 10.70.1.2/24+fd00:70::2/64 8080\n"
    );
    let json: serde_json::Value = serde_json::from_str(&host.spoke("ps -o json back")).unwrap();
    assert_eq!(json[0]["state"], "attached");
    assert_eq!(json[0]["sandbox"], "/run/netns/x");
    assert_eq!(host.refused("ps nix").0, 3);
}

#[test]
fn networks_of_docker_plugins() {
    let host = Fixture::new();
    host.spoke("network create --config-only --subnet 10.9.0.0/24 --opt mode=fast template");
    host.spoke("network create -d weave --config-from template woven");
    host.spoke("network create -d weave --subnet 10.8.0.0/24 --aux-address router=10.8.0.9 other");
    let network = |name: &str| host.engine().records.network(&name.parse().unwrap()).unwrap();
    let woven = network("woven");
    assert_eq!(woven.ipam.pools()[0].ranges[0].subnet.to_string(), "10.9.0.0/24");
    let json: serde_json::Value =
        serde_json::from_str(&host.spoke("network inspect woven")).unwrap();
    assert_eq!(json[0]["driver"], "weave");
    assert_eq!(json[0]["remote"]["parameters"]["options"]["mode"], "fast");
    assert_eq!(json[0]["remote"]["id"].as_str().unwrap().len(), 64);
    assert_eq!(host.spoke("network ls -q --filter driver=weave"), "other\nwoven\n");
    for (line, word) in [
        ("network create --scope local x", "--driver"),
        ("network create -d weave --config-from woven x", "--config-only"),
        ("network create -d weave --mtu 1400 x", "--opt"),
        ("network create -d weave --ipam-driver null --subnet 10.7.0.0/24 x", "no subnets"),
        ("network create --ipam-opt a=b x", "--ipam-driver"),
        ("network create -d weave --config-only x", "leave out --driver"),
        ("network create -d weave --ipv4=false --subnet 10.7.0.0/24 x", "--ipv4"),
        ("network create --ipv4=false --ipv6 x", "(--subnet fd00:70::/64) makes a network of IPv6"),
    ] {
        let (code, given) = host.refused(line);
        assert!(code == 2 && given.contains(word), "{line}: {code} {given}");
    }
}

#[test]
fn several_pools_of_an_ipam_plugin() {
    let host = Fixture::new();
    host.spoke(
        "network create --ipam-driver pools --ipam-opt color=red --subnet 10.1.0.0/30 \
         --subnet 10.1.1.0/24 --gateway 10.1.1.7 --ip-range 10.1.1.128/25 --ipv6 n",
    );
    let network = host.engine().records.network(&"n".parse().unwrap()).unwrap();
    let asked = network.ipam.remote().unwrap();
    assert_eq!((asked.driver.as_str(), asked.pools.len()), ("pools", 3));
    assert_eq!(asked.pools[1].gateway, Some("10.1.1.7".parse().unwrap()));
    assert_eq!(asked.pools[1].part, Some("10.1.1.128/25".parse().unwrap()));
    assert_eq!((asked.pools[2].family, asked.pools[2].net), (model::Family::V6, None));
    assert_eq!(asked.options["color"], "red");
}

/// A router may lead it here, or the host get it later.
#[test]
fn a_source_that_this_host_lacks_is_warned_of() {
    let host = Fixture::new();
    let create = ["network", "create", "--source", "203.0.113.77", "vpn"];
    let (code, out, said) = host.try_spoke(&create);
    assert_eq!((code, out.as_str()), (0, "vpn\n"), "{said}");
    let what = "packets of network vpn leave with 203.0.113.77, which is no address of this host";
    assert!(said.contains(what), "{said}");
}
