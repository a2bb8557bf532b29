//! The field `sandbox` of a result's interfaces (CNI 0.3.1 and 1.1.0): the runtime's own words for where the
//! interface is, for each interface in a container; none for the host's. Rows compare it for the reference's
//! plugins; type `spoke` has no reference.

use serde_json::{Value, json};
use tests::{Cni, Plugins, World};

const SPOKE: &str = "/opt/cni/bin/spoke";

/// That what is in the container says so, and really is there, and nothing else.
#[track_caller]
fn says_where_it_is(world: &World, plugin: &Value, version: &str) {
    let mut cni = Cni::container(world, "c1");
    // Another way to say it: it is reported as it was given.
    cni.netns = format!("/run/netns/../netns/{}", cni.container);
    let list = json!({"cniVersion": version, "name": "net", "plugins": [plugin]});
    let answer = cni.add(&list).remove(0);
    assert!(answer.ok(), "{plugin}: {answer:?}");
    let result = answer.json().unwrap();
    let interfaces = result["interfaces"].as_array().unwrap();
    let inside = world.sh("ip -n c1 -o link | cut -d : -f 2 | cut -d @ -f 1");
    let inside: Vec<&str> = inside.split_whitespace().filter(|name| *name != "lo").collect();
    let said = interfaces.iter().filter(|it| it.get("sandbox").is_some());
    for interface in said.clone() {
        assert_eq!(interface["sandbox"], cni.netns.as_str(), "{plugin} {version}: {result}");
    }
    let said: Vec<&str> = said.map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(said, inside, "{plugin} {version}: {result}");
    for ip in result["ips"].as_array().unwrap() {
        let place = usize::try_from(ip["interface"].as_u64().unwrap()).unwrap();
        assert!(interfaces[place].get("sandbox").is_some(), "{plugin} {version}: {result}");
    }
    assert!(cni.del(&list).remove(0).ok());
    world.sh("ip netns delete c1");
}

#[test]
fn type_spoke_says_where_each_interface_is() {
    let world = World::new(&Plugins::subject());
    world.sh("ip link add lan0 type veth peer name far0; ip link set lan0 up");
    for (name, subnet) in [("front", "10.71.1.0/24"), ("back", "10.71.2.0/24")] {
        world.sh(&format!("{SPOKE} network create --subnet {subnet} {name}"));
    }
    let ipam = json!({"subnet": "10.71.3.0/24"});
    for plugin in [
        json!({"type": "spoke", "ipam": ipam}),
        json!({"type": "spoke", "driver": "ptp", "ipam": ipam}),
        json!({"type": "spoke", "driver": "macvlan", "parent": "lan0", "ipam": ipam}),
        json!({"type": "spoke", "network": "front"}),
        json!({"type": "spoke", "networks": ["front", {"name": "back", "ifname": "net1"}]}),
    ] {
        for version in ["0.3.1", "1.0.0", "1.1.0"] {
            says_where_it_is(&world, &plugin, version);
        }
    }
}
