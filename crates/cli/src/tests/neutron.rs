use super::*;

#[test]
fn a_network_of_neutron_is_described_by_its_words() {
    let host = Fixture::new();
    host.spoke(
        "network create -d neutron --opt network=front --opt subnet=four --opt neutron.subnet=six \
         --opt security_groups=web --opt port_security=true --opt floating_ip=public cloud",
    );
    let json: serde_json::Value =
        serde_json::from_str(&host.spoke("network inspect cloud")).unwrap();
    let neutron = &json[0]["neutron"];
    assert_eq!(
        (json[0]["driver"].as_str(), json[0]["ipam"].as_str()),
        (Some("neutron"), Some("neutron"))
    );
    assert_eq!(neutron["network"], "front");
    assert_eq!(neutron["subnets"], serde_json::json!(["four", "six"]));
    assert_eq!(neutron["security_groups"], serde_json::json!(["web"]));
    assert_eq!((neutron["port_security"].as_bool(), neutron["port"].as_str()), (Some(true), None));
    let listed = host.spoke("network ls");
    let shown: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(shown, ["cloud", "neutron", "spoke", "neutron", "front", "0"]);
    assert_eq!(host.spoke("network ls -q --filter driver=neutron"), "cloud\n");
}

#[test]
fn what_neutron_decides_is_no_option() {
    let host = Fixture::new();
    for (line, code, error) in [
        ("-d neutron x", 2, "--opt neutron.network=NETWORK"),
        ("-d neutron --opt network x", 2, "an option is KEY=VALUE"),
        ("-d neutron --opt vlan=5 x", 2, "--opt vlan: no such option; there are network, net.uuid"),
        ("-d neutron --opt network=a --opt network=b x", 2, "--opt network is there twice"),
        ("-d neutron --opt network=a --opt port=/ x", 2, "--opt neutron.port=/"),
        ("-d neutron --opt network=a --subnet 10.1.0.0/24 x", 2, "--subnet is no option of driver"),
        ("-d neutron --opt network=a --mtu 1400 x", 2, "--mtu is no option of driver neutron"),
        ("-d neutron --opt network=a --parent eth0 x", 2, "--parent is an option of drivers macvl"),
        ("--opt network=a x", 2, "--opt network is an option of driver neutron"),
    ] {
        let (refused, sentence) = host.refused(&format!("network create {line}"));
        assert!(sentence.contains(error), "{line}: {sentence}");
        assert_eq!(refused, code, "{line}: {sentence}");
    }
    assert_eq!(host.spoke("network ls -q"), "");
}

#[test]
fn a_container_s_port_is_reported() {
    let host = Fixture::new();
    host.spoke("network create -d neutron --opt network=front cloud");
    host.attach("cloud", "c1", None);
    let shown = host.spoke("ps");
    assert!(shown.contains("neutron:0f2c8d5e-6a "), "{shown}");
    let json: serde_json::Value = serde_json::from_str(&host.spoke("ps -o json")).unwrap();
    assert_eq!(json[0]["driver"], "neutron");
    assert_eq!(json[0]["neutron"]["port"], "0f2c8d5e-6a1b-4c3d-9e8f-7a6b5c4d3e2f");
    assert_eq!(json[0]["addresses"][0], "10.5.0.9/24");
}
