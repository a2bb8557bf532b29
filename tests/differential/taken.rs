//! What the reference plugins attached, checked by ours.

use serde_json::{Value, json};
use tests::{Cni, Plugins, World};

/// Where the reference plugins are in the world.
const REFERENCE: &str = "/run/reference";

/// ADD of the reference plugin; the configuration that CHECK gets.
fn attached(world: &World, cni: &Cni<'_>, mut config: Value) -> Value {
    world.sh(&format!("mkdir {REFERENCE}"));
    for plugin in ["bridge", "ptp", "host-local"] {
        let to = world.path(&format!("{REFERENCE}/{plugin}"));
        std::fs::copy(Plugins::reference().dir().join(plugin), to).expect("a reference plugin");
    }
    std::fs::write(world.path("/run/config"), config.to_string()).expect("a configuration");
    let plugin = config["type"].as_str().expect("a type").to_owned();
    let said = world.sh(&format!(
        "CNI_COMMAND=ADD CNI_CONTAINERID={} CNI_NETNS={} CNI_IFNAME=eth0 CNI_PATH={REFERENCE} \
         {REFERENCE}/{plugin} </run/config",
        cni.container, cni.netns
    ));
    config["prevResult"] = serde_json::from_str(&said).expect("a result");
    config
}

/// The reference puts neither MTU nor MSS on a route, and in CHECK looks at nothing but where it leads.
#[test]
fn routes_with_attributes() {
    for plugin in ["bridge", "ptp"] {
        let world = World::new(&Plugins::subject());
        let cni = Cni::new(&world);
        let routes = json!([
            {"dst": "192.0.2.0/24", "mtu": 1300, "advmss": 1200},
            {"dst": "198.51.100.0/24", "priority": 50, "scope": 0},
            {"dst": "203.0.113.0/24", "table": 300},
        ]);
        let config = json!({
            "cniVersion": "1.1.0", "name": "net", "type": plugin, "isGateway": true,
            "ipam": {"type": "host-local", "subnet": "10.9.0.0/24", "routes": routes},
        });
        let config = attached(&world, &cni, config);
        let checked = cni.execute(plugin, "CHECK", &config.to_string());
        assert!(checked.ok(), "{plugin}: {checked:?}");
        world.sh("ip -n c1 route del 192.0.2.0/24");
        let missed = cni.execute(plugin, "CHECK", &config.to_string());
        assert!(missed.output.stdout.contains("192.0.2.0"), "{plugin}: {missed:?}");
    }
}

/// A container that the reference gave an address is added by ours all the same; a second ADD of ours
/// is refused, and DEL gives everything back.
#[test]
fn a_second_add_and_del() {
    let world = World::new(&Plugins::subject());
    let cni = Cni::new(&world);
    let config = json!({
        "cniVersion": "1.0.0", "name": "net", "type": "host-local",
        "ipam": {"type": "host-local", "subnet": "10.9.0.0/24"},
    });
    let config = attached(&world, &cni, config).to_string();
    let taken = cni.execute("host-local", "ADD", &config);
    assert!(taken.output.stdout.contains("10.9.0.2/24"), "it keeps its address: {taken:?}");
    let other = Cni::container(&world, "c2");
    assert!(other.execute("host-local", "ADD", &config).ok());
    let twice = cni.execute("host-local", "ADD", &config);
    assert!(twice.output.stdout.contains("duplicate allocation is not allowed"), "{twice:?}");
    assert!(cni.execute("host-local", "DEL", &config).ok());
    assert!(cni.execute("host-local", "ADD", &config).ok());
    for one in [&cni, &other] {
        assert!(one.execute("host-local", "DEL", &config).ok());
    }
    assert_eq!(world.sh("ls /var/lib/cni/networks/net | grep -c '^10' || true").trim(), "0");
}

/// Our chained plugins behind the reference's `bridge`, on a network that its operator renames: DEL under the new name
/// comes without the result, which the runtime keeps under the old one, and gives back what ADD made. A plain `firewall`
/// is found by the result's addresses.
#[test]
fn a_renamed_network() {
    let world = World::new(&Plugins::subject());
    let cni = Cni::new(&world);
    let bridge = json!({
        "cniVersion": "1.0.0", "name": "net", "type": "bridge", "bridge": "br9", "isGateway": true,
        "ipam": {"type": "host-local", "subnet": "10.9.0.0/24"},
    });
    let attached = attached(&world, &cni, bridge);
    let ports = json!([{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]);
    let chained = [
        json!({"type": "portmap", "backend": "iptables", "runtimeConfig": {"portMappings": ports}}),
        json!({"type": "firewall", "backend": "iptables"}),
        json!({"type": "tuning", "mtu": 1300}),
        json!({"type": "bandwidth", "ingressRate": 8_000_000, "ingressBurst": 1_600_000}),
    ];
    for mut plugin in chained {
        let kind = plugin["type"].as_str().unwrap().to_owned();
        plugin["cniVersion"] = json!("1.0.0");
        plugin["name"] = json!("net");
        let mut now = plugin.clone();
        now["name"] = json!("renamed");
        plugin["prevResult"] = attached["prevResult"].clone();
        let before = made(&world);
        assert!(cni.execute(&kind, "ADD", &plugin.to_string()).ok(), "{kind}");
        assert_ne!(made(&world), before, "{kind}");
        plugin["name"] = json!("renamed");
        let checked = cni.execute(&kind, "CHECK", &plugin.to_string());
        assert!(checked.ok(), "{kind}: {checked:?}");
        let there = made(&world);
        let gone = cni.execute(&kind, "DEL", &now.to_string());
        assert!(gone.ok(), "{kind}: {gone:?}");
        if kind == "firewall" {
            assert_eq!(made(&world), there, "another list may have asked the same");
            let gone = cni.execute(&kind, "DEL", &plugin.to_string());
            assert!(gone.ok(), "{kind}: {gone:?}");
        }
        assert_eq!(made(&world), before, "{kind}");
    }
}

/// What chained plugins make of a container: rules and chains of its own, limits, values; and the records.
fn made(world: &World) -> String {
    world.sh("iptables-save -t nat | grep -E 'CNI-DN|10.9.0' || true
         iptables-save -t filter | grep -E '10.9.0' || true
         tc qdisc show | grep tbf || true
         ip -n c1 -o link show eth0 | grep -o 'mtu [0-9]*'
         /opt/cni/bin/spoke ps -a 2>/dev/null || true")
}
