//! What each plugin asks of the engine, and what it answers.

mod rig;

use cni::Plugin;
use model::{Backend, Gateway, Ipam, Layer, LinkKind, Space};
use rig::{Rig, config, json_of, previous};
use serde_json::{Value, json};

fn bridge(rig: &Rig) -> Value {
    config(
        json!({"type": "bridge", "bridge": "br7", "isGateway": true, "ipMasq": true, "mtu": 1400,
        "ipam": rig.host_local("10.9.0.0/24")}),
    )
}

#[test]
fn a_bridge_with_addresses() {
    let rig = Rig::new();
    let result = rig.add(Plugin::Bridge, "c1", &bridge(&rig));
    assert_eq!(
        result["ips"],
        json!([{"address": "10.9.0.2/24", "gateway": "10.9.0.1", "interface": 1}])
    );
    assert_eq!(result["interfaces"][1]["sandbox"], "/ns/one");
    let (verb, reported) = rig.last();
    assert_eq!((verb, reported.layer), ("attach", Layer::Link));
    let link = reported.wiring.link.unwrap();
    let LinkKind::Bridge(bridge) = &link.kind else { panic!("{link:?}") };
    assert_eq!((bridge.name.as_str(), bridge.gateway), ("br7", Gateway::Address));
    assert_eq!(link.mtu.unwrap().bytes(), 1400);
    assert_eq!(reported.wiring.masquerade.unwrap().backend, Backend::Nftables);
    assert_eq!(reported.leases[0].space, Space::Host);
    let file = rig.root.path().join("net/10.9.0.2");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "c1\r\neth0");
    let twice = rig.command(
        "ADD",
        Plugin::Bridge,
        "c1",
        &config(json!({"ipam": rig.host_local("10.9.0.0/24")})),
    );
    assert!(twice.stdout.contains("\"code\":101"), "{twice:?}");
    for _ in 0..2 {
        let del = rig.command("DEL", Plugin::Bridge, "c1", &self::bridge(&rig));
        assert_eq!((del.code, del.stdout.as_str()), (0, ""));
        assert_eq!(rig.last().0, "detach");
        assert!(!file.exists());
    }
}

#[test]
fn what_one_container_asks_for() {
    let rig = Rig::new();
    let mut asks = bridge(&rig);
    asks["runtimeConfig"] = json!({"mac": "02:00:00:00:00:0a", "ips": ["10.9.0.9/24"]});
    asks["args"] = json!({"cni": {"mac": "02:00:00:00:00:0b"}});
    let output = rig.with("ADD", Plugin::Bridge, ("c1", "MAC=02:00:00:00:00:0c"), &asks);
    assert_eq!(json_of(&output)["ips"][0]["address"], "10.9.0.9/24");
    let mac = rig.last().1.wiring.link.unwrap().mac.unwrap();
    assert_eq!(mac.to_string(), "02:00:00:00:00:0a");
    let podman = "IgnoreUnknown=1;K8S_POD_NAME=web;IP=10.9.0.7";
    let output = rig.with("ADD", Plugin::Bridge, ("c2", podman), &bridge(&rig));
    assert_eq!(json_of(&output)["ips"][0]["address"], "10.9.0.7/24");
    let reported = rig.last().1;
    assert_eq!(
        (reported.runtime, reported.owner.unwrap().as_str()),
        (model::Runtime::Podman, "podman/web")
    );
    let (code, msg) = rig.refused(Plugin::Bridge, "IP=10.9.0.7", &bridge(&rig));
    assert!(code == 101 && msg.contains("requested IP address 10.9.0.7"), "{code} {msg}");
    let (code, _) = rig.refused(Plugin::Bridge, "IP=10.9.0.1", &bridge(&rig));
    assert_eq!(code, 7, "the gateway");
}

#[test]
fn every_version_of_every_result() {
    for version in ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        let rig = Rig::new();
        for plugin in [Plugin::Bridge, Plugin::Ptp, Plugin::Spoke, Plugin::HostLocal] {
            let config = json!({"cniVersion": version, "name": "net", "ipam": rig.host_local("10.9.0.0/24")});
            let result = rig.add(plugin, plugin.name(), &config);
            assert_eq!(result["cniVersion"], version);
            let old = version < "0.3.0";
            assert_eq!(result.get("ip4").is_some(), old, "{result}");
            assert_eq!(result.get("dns").is_some(), version < "1.0.0", "{result}");
            let is_main = plugin != Plugin::HostLocal;
            assert_eq!(result.get("interfaces").is_some(), !old && is_main, "{result}");
        }
        let mut chained = json!({"cniVersion": version, "name": "net", "prevResult": previous()});
        for plugin in [Plugin::Portmap, Plugin::Firewall, Plugin::Tuning] {
            assert_eq!(rig.add(plugin, "c", &chained)["cniVersion"], version);
        }
        chained["cniVersion"] = json!("1.1.0");
        assert_eq!(rig.add(Plugin::Portmap, "c", &chained), previous());
    }
}

#[test]
fn loopback_passes_on_what_was_before_it() {
    let rig = Rig::new();
    let result = rig.add(Plugin::Loopback, "c", &config(json!({})));
    assert_eq!(result["interfaces"][0]["name"], "lo");
    assert_eq!(rig.last().1.id.ifname.as_str(), "lo");
    rig.command("DEL", Plugin::Loopback, "c", &config(json!({})));
    let chained = config(json!({"prevResult": previous()}));
    assert_eq!(rig.add(Plugin::Loopback, "c", &chained), previous());
    assert_eq!(rig.command("CHECK", Plugin::Loopback, "c", &config(json!({}))).code, 0);
}

#[test]
fn published_ports() {
    let rig = Rig::new();
    let mut ports = config(json!({"prevResult": previous(), "snat": false, "masqAll": true,
        "runtimeConfig": {"portMappings": [
            {"hostPort": 8080, "containerPort": 80, "protocol": "TCP", "hostIP": ""},
            {"hostPort": 53, "containerPort": 53, "protocol": "udp", "hostIP": "0.0.0.0"}]}}));
    assert_eq!(rig.add(Plugin::Portmap, "c1", &ports), previous());
    let reported = rig.last().1;
    let publish = reported.wiring.publish.unwrap();
    assert_eq!(publish.behind.unwrap().as_str(), "br0");
    assert_eq!(
        (publish.backend, publish.snat, publish.masquerade_all),
        (Backend::Nftables, false, true)
    );
    assert_eq!(publish.ports[0].to_string(), "8080->80/tcp");
    assert_eq!(publish.ports[1].to_string(), "0.0.0.0:53->53/udp");
    assert_eq!(reported.addresses.len(), 2);
    let taken = rig.command("ADD", Plugin::Portmap, "c2", &ports);
    assert!(taken.stdout.contains("\"code\":101") && taken.stdout.contains("c1"), "{taken:?}");
    assert_eq!(rig.command("CHECK", Plugin::Portmap, "c1", &ports).code, 0);
    ports["conditionsV4"] = json!(["-s", "10.0.0.0/8"]);
    assert_eq!(rig.command("DEL", Plugin::Portmap, "c1", &ports).code, 0);
    rig.add(Plugin::Portmap, "c2", &ports);
    assert_eq!(rig.last().1.wiring.publish.unwrap().backend, Backend::Iptables);
}

#[test]
fn the_host_s_back_end_is_the_default() {
    let mut rig = Rig::new();
    rig.backend = Backend::Iptables;
    rig.add(
        Plugin::Firewall,
        "c1",
        &config(json!({"prevResult": previous(), "ingressPolicy": "same-bridge"})),
    );
    let firewall = rig.last().1.wiring.firewall.unwrap();
    assert_eq!((firewall.backend, firewall.bridge.unwrap().as_str()), (Backend::Iptables, "br0"));
    rig.add(
        Plugin::Firewall,
        "c2",
        &config(json!({"prevResult": previous(), "backend": "nftables"})),
    );
    assert_eq!(rig.last().1.wiring.firewall.unwrap().backend, Backend::Nftables);
    let mut named = bridge(&rig);
    named["ipMasqBackend"] = json!("nftables");
    rig.add(Plugin::Bridge, "c3", &named);
    assert_eq!(rig.last().1.wiring.masquerade.unwrap().backend, Backend::Nftables);
}

#[test]
fn tuning_tells_the_new_address() {
    let rig = Rig::new();
    let tune = config(json!({"prevResult": previous(), "mac": "02:00:00:00:00:01", "mtu": 1300,
        "sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1", "net.core.somaxconn": "9"}, "promisc": false,
        "runtimeConfig": {"mac": "02:00:00:00:00:02"},
        "args": {"cni": {"mac": "02:00:00:00:00:03", "sysctl": {"net.core.somaxconn": "5"}}}}));
    let result = rig.with("ADD", Plugin::Tuning, ("c1", "MAC=02:00:00:00:00:04"), &tune);
    assert_eq!(json_of(&result)["interfaces"][2]["mac"], "02:00:00:00:00:03");
    let tuning = rig.last().1.wiring.tuning.unwrap();
    let sysctls: Vec<String> =
        tuning.sysctls.iter().map(|s| format!("{}={}", s.path.display(), s.value)).collect();
    assert_eq!(sysctls.len(), 2);
    assert!(sysctls.contains(&"net/ipv4/conf/eth0/arp_filter=1".into()), "{sysctls:?}");
    assert!(sysctls.contains(&"net/core/somaxconn=5".into()), "{sysctls:?}");
    assert_eq!((tuning.promiscuous, tuning.mtu.unwrap().bytes()), (None, 1300));
    assert_eq!(tuning.backup.unwrap().to_str(), Some("/run/cni/tuning/c1_eth0.json"));
}

#[test]
fn fixed_addresses_by_precedence() {
    let rig = Rig::new();
    let mut fixed = config(json!({"ipam": {"type": "static", "routes": [{"dst": "0.0.0.0/0"}],
        "dns": {"domain": "ipam"}, "addresses": [{"address": "10.0.0.5/24"}]}}));
    let addresses = |container: &str, args: &str, config: &Value| {
        let result = json_of(&rig.with("ADD", Plugin::Static, (container, args), config));
        result["ips"].clone()
    };
    let args = "IP=10.1.0.9/24,fd00::7/64;GATEWAY=10.1.0.1";
    let expected = json!([{"address": "10.0.0.5/24"},
        {"address": "10.1.0.9/24", "gateway": "10.1.0.1"}, {"address": "fd00::7/64"}]);
    assert_eq!(addresses("c1", args, &fixed), expected);
    fixed["args"] = json!({"cni": {"ips": ["10.2.0.2/24"]}});
    assert_eq!(addresses("c2", "IP=10.1.0.8/24", &fixed), json!([{"address": "10.2.0.2/24"}]));
    fixed["runtimeConfig"] = json!({"ips": ["10.3.0.2/24"]});
    assert_eq!(addresses("c3", "", &fixed), json!([{"address": "10.3.0.2/24"}]));
    fixed["isGateway"] = json!(true);
    fixed["dns"] = json!({"nameservers": ["9.9.9.9"]});
    fixed["runtimeConfig"] = json!({"ips": ["10.4.0.2/24"]});
    let main = rig.add(Plugin::Bridge, "c4", &fixed);
    assert_eq!(main["ips"][0]["gateway"], "10.4.0.1");
    assert_eq!(main["dns"], json!({"nameservers": ["9.9.9.9"]}));
}

#[test]
fn everything_in_one() {
    let rig = Rig::new();
    let all = config(json!({"type": "spoke", "ipam": {"subnet": "10.9.0.0/24"}, "sticky": true,
        "ingressPolicy": "isolated", "sysctl": {"net.core.somaxconn": "9"},
        "capabilities": {"portMappings": true},
        "runtimeConfig": {"mac": "02:00:00:00:00:02", "bandwidth": {"ingressRate": 0}, "portMappings":
            [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}}));
    let result =
        json_of(&rig.with("ADD", Plugin::Spoke, ("c1", "IgnoreUnknown=1;K8S_POD_NAME=web"), &all));
    assert_eq!(result["ips"][0]["address"], "10.9.0.2/24");
    let reported = rig.last().1;
    assert!(matches!(reported.ipam, Ipam::Book { .. }));
    let wiring = reported.wiring;
    let (link, publish, firewall) =
        (wiring.link.unwrap(), wiring.publish.unwrap(), wiring.firewall.unwrap());
    let LinkKind::Bridge(bridge) = &link.kind else { panic!() };
    assert_eq!((bridge.name.as_str(), bridge.gateway), ("sp-net", Gateway::Default));
    assert_eq!(
        (&publish.behind, &firewall.bridge),
        (&Some(bridge.name.clone()), &Some(bridge.name.clone()))
    );
    assert!(wiring.masquerade.is_some() && wiring.tuning.is_some());
    rig.command("DEL", Plugin::Spoke, "c1", &all);
    let again = rig.with("ADD", Plugin::Spoke, ("c2", "IgnoreUnknown=1;K8S_POD_NAME=web"), &all);
    assert_eq!(json_of(&again)["ips"][0]["address"], "10.9.0.2/24", "sticky");
}

#[test]
fn about_and_version() {
    let rig = Rig::new();
    let about = rig.call(Plugin::Firewall, &[], "");
    assert_eq!((about.code, about.stdout.as_str()), (0, ""));
    assert!(
        about.stderr.starts_with("CNI firewall plugin") && about.stderr.ends_with("1.0.0, 1.1.0\n")
    );
    let version =
        |input: &str| json_of(&rig.call(Plugin::Firewall, &[("CNI_COMMAND", "VERSION")], input));
    assert_eq!(version("")["cniVersion"], "1.1.0");
    let reported = version(r#"{"cniVersion":"0.4.0"}"#);
    assert_eq!(
        (reported["cniVersion"].as_str(), reported["supportedVersions"].as_array().unwrap().len()),
        (Some("0.4.0"), 7)
    );
    // A plugin that lists a version must work in it.
    let about = rig.call(Plugin::Bandwidth, &[], "").stderr;
    assert!(about.ends_with(": 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0\n"), "{about}");
    let reported = json_of(&rig.call(Plugin::Bandwidth, &[("CNI_COMMAND", "VERSION")], ""));
    assert_eq!(reported["supportedVersions"].as_array().unwrap().len(), 5);
}
