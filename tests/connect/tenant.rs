//! Networks of two address spaces with one subnet, on one host.

use serde_json::{Value, json};
use tests::{Cni, Plugins, World};

use crate::bed::{Bed, SPOKE};

/// Two tenants, each with the network `10.0.0.0/24` and namespaces `NAME1` and `NAME2`.
fn bed() -> Bed {
    let bed = Bed::new(&["red1", "red2", "blue1", "blue2"]);
    for tenant in ["red", "blue"] {
        bed.spoke(&format!(
            "network create --address-space {tenant} --subnet 10.0.0.0/24 {tenant}"
        ));
        for number in [1, 2] {
            bed.spoke(&format!("network connect {tenant} {tenant}{number}"));
        }
    }
    bed
}

impl Bed {
    fn inside(&self, name: &str, command: &str) -> String {
        self.world.sh(&format!("ip netns exec {name} {command}"))
    }

    #[track_caller]
    fn does_not_reach(&self, name: &str, address: &str) {
        let said = self.world.try_sh(&format!("ip netns exec {name} ping -c 1 -W 1 {address}"));
        assert_ne!(said.status, 0, "{name} reaches {address}: {said:?}");
    }
}

/// A host behind this one that has no way back to containers, and counts who asks.
fn far(bed: &Bed) {
    bed.world.netns("far");
    bed.world.sh(
        "ip link add lan type veth peer name eth0 netns far
         ip address add 198.51.100.1/24 dev lan
         ip link set lan up
         ip -n far address add 198.51.100.2/24 dev eth0
         ip -n far link set eth0 up
         ip netns exec far nft 'add table ip seen; add chain ip seen in { type filter hook input priority 0; }; \
             add rule ip seen in icmp type echo-request counter'",
    );
}

/// How many requests of ping have come to it.
fn pings(bed: &Bed) -> u64 {
    let shown = bed.inside("far", "nft list chain ip seen in");
    let mut words = shown.split_whitespace().skip_while(|word| *word != "packets");
    words.nth(1).unwrap().parse().unwrap()
}

/// The hardware address that `name` finds behind `address`.
fn neighbour(bed: &Bed, name: &str, address: &str) -> String {
    bed.inside(name, &format!("ping -c 1 -W 5 {address}"));
    let shown = bed.inside(name, &format!("ip neighbour show {address} dev eth0"));
    let mut words = shown.split(' ').skip_while(|word| *word != "lladdr");
    words.nth(1).unwrap().to_owned()
}

#[test]
fn two_tenants_have_the_same_addresses_and_do_not_meet() {
    let bed = bed();
    for tenant in ["red", "blue"] {
        let first = bed.inside(&format!("{tenant}1"), "ip -4 -o address show dev eth0");
        assert!(first.contains("10.0.0.1/24"), "{first}");
        let second = format!("{tenant}2");
        let mac = bed.inside(&second, "cat /sys/class/net/eth0/address");
        assert_eq!(neighbour(&bed, &format!("{tenant}1"), "10.0.0.2"), mac.trim());
        let asked = format!("{SPOKE} explain -o json {tenant}1 10.0.0.2");
        let found: Value = serde_json::from_str(&bed.world.try_sh(&asked).stdout).unwrap();
        assert_eq!(found["to"], second.as_str(), "{found:#}");
    }
    // A third address is on one of the bridges only.
    bed.world.netns("red3");
    bed.spoke("network connect red red3");
    bed.inside("red1", "ping -c 1 -W 5 10.0.0.3");
    bed.does_not_reach("blue1", "10.0.0.3");
    // The host has no route to either, and does not carry anything between them.
    let routes = bed.world.sh("ip route");
    assert!(!routes.contains("10.0.0."), "{routes}");
    far(&bed);
    bed.inside("blue1", "ip route replace 198.51.100.0/24 via 10.0.0.250 dev eth0");
    let bridge = bed.world.sh("cat /sys/class/net/sp-blue/address");
    let permanent = format!("ip neighbour replace 10.0.0.250 lladdr {} dev eth0", bridge.trim());
    bed.inside("blue1", &permanent);
    bed.does_not_reach("blue1", "198.51.100.2");
    assert_eq!(pings(&bed), 0, "the host forwards by itself");
    bed.inside("blue1", "ip route del 198.51.100.0/24");
    bed.inside("blue1", "ping -c 1 -W 5 198.51.100.2");
    assert_eq!(pings(&bed), 1, "by the gateway network");
    let ruleset = bed.world.sh("nft list set inet spoke internal");
    assert!(ruleset.contains("sp-red") && ruleset.contains("sp-blue"), "{ruleset}");
    // Where br_netfilter is on, the same connection of both would be one.
    let untracked = bed.world.sh("nft list set inet spoke switched4");
    for element in ["\"sp-red\" . 10.0.0.1", "\"sp-blue\" . 10.0.0.1"] {
        assert!(untracked.contains(element), "{untracked}");
    }
    for name in ["red1", "red2", "red3"] {
        bed.spoke(&format!("network disconnect red {name}"));
    }
    // One tenant's end takes nothing from the other.
    bed.spoke("network rm red");
    bed.inside("blue1", "ping -c 1 -W 5 10.0.0.2");
    bed.spoke("network disconnect blue blue1");
    bed.spoke("network disconnect blue blue2");
    bed.spoke("network rm blue gwbridge");
    assert_eq!(bed.json("gc -o json"), json!([]));
    assert!(!bed.world.sh("ip link").contains("sp-blue"));
}

/// By a network of the host's own that they share, on which they do not reach each other either.
#[test]
fn tenants_leave_and_publish_ports_by_the_gateway_network() {
    let bed = bed();
    far(&bed);
    for (tenant, port) in [("red", 8081), ("blue", 8082)] {
        let name = format!("{tenant}3");
        bed.world.netns(&name);
        bed.spoke(&format!("network connect -p {port}:80 {tenant} {name}"));
        let route = bed.inside(&name, "ip route show default");
        assert!(route.contains("dev eth1"), "{route}");
        bed.inside(&name, "ping -c 1 -W 5 198.51.100.2");
        bed.inside(
            &name,
            &format!("sh -c '(echo {tenant} | busybox nc -l -p 80) >/dev/null 2>&1 &'"),
        );
        let listens =
            "until grep -q ':0050 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done";
        bed.inside(&name, &format!("bash -c \"{listens}\""));
        let gateway = bed.inside(&name, "ip -4 -o address show dev eth1");
        assert!(!gateway.contains("10.0.0."), "{gateway}");
        let asked = format!("busybox nc -w 5 198.51.100.1 {port}");
        let page = bed.world.sh(&format!("ip netns exec far {asked} </dev/null"));
        assert_eq!(page.trim(), tenant);
    }
    let own = bed.inside("blue3", "ip -4 -o address show dev eth1");
    let own = own.split(' ').find(|word| word.contains('/')).unwrap();
    bed.does_not_reach("red3", own.split('/').next().unwrap());
}

#[test]
fn a_subnet_is_one_network_s_within_its_space() {
    let bed = bed();
    let said = bed.world.try_sh(&format!(
        "{SPOKE} network create --address-space red --subnet 10.0.0.128/25 other"
    ));
    assert_eq!((said.status, said.stderr.contains("network red")), (4, true), "{said:?}");
    // Without a subnet: the first that the tenant has not.
    bed.spoke("network create --address-space green --bridge sp-g green");
    let shown = bed.json("network inspect green");
    assert_eq!(shown[0]["address_space"], "green");
    assert_eq!(shown[0]["subnets"][0]["gateway"], Value::Null);
    // The host's own networks are another space.
    bed.spoke("network create --subnet 10.0.0.0/24 host");
    assert!(!bed.spoke("doctor || true").contains("10.0.0.0/24"));
    for (options, words) in [
        ("-d ptp --subnet 10.0.0.0/24", "ptp"),
        ("-d macvlan --subnet 10.0.0.0/24", "drivers bridge"),
        ("--subnet 10.0.0.0/24 --gateway 10.0.0.1", "--gateway"),
        ("--subnet 10.0.0.0/24 --direct", "--direct"),
        ("--subnet 10.0.0.0/24 --host-ipv4 192.0.2.1", "--host-ipv4"),
    ] {
        let said = bed.refused(&format!("network create --address-space red {options} no"));
        assert!(said.contains(words), "{options}: {said}");
    }
    let said = bed.refused("network create --address-space host no");
    assert!(said.contains("neither host nor global"), "{said}");
}

/// `addressSpace` of type `spoke`, with and without a second network that leads out.
#[test]
fn a_configuration_names_its_space() {
    let world = World::new(&Plugins::subject());
    let list = |name: &str, space: &str| {
        json!({"name": name, "cniVersion": "1.0.0", "plugins": [{
            "type": "spoke", "addressSpace": space, "capabilities": {"portMappings": true},
            "ipam": {"ranges": [[{"subnet": "10.0.0.0/24"}]]},
        }]})
    };
    let mut cni = Cni::new(&world);
    let red = cni.add(&list("red", "red")).last().unwrap().json().unwrap();
    assert_eq!(red["ips"][0]["address"], "10.0.0.1/24", "{red}");
    assert_eq!(red["routes"], Value::Null, "{red}");
    let blue = cni.add(&list("blue", "blue"));
    let said = blue.last().unwrap();
    assert!(!said.ok() && said.output.stdout.contains("eth0"), "one interface name: {said:?}");
    cni.del(&list("blue", "blue"));
    let published = json!({"hostPort": 8093, "containerPort": 80, "protocol": "tcp"});
    cni.runtime = json!({"portMappings": [published]});
    cni.del(&list("red", "red"));
    let said = cni.add(&list("red", "red"));
    let said = said.last().unwrap();
    assert!(!said.ok() && said.output.stdout.contains("second one"), "{said:?}");
    let mut named = list("red", "red");
    named["plugins"][0]["ipam"]["ranges"][0][0]["gateway"] = "10.0.0.1".into();
    let said = cni.add(&named).pop().unwrap();
    assert!(!said.ok() && said.output.stdout.contains("no gateway"), "{said:?}");
    world.sh(&format!("{SPOKE} network create --subnet 10.71.1.0/24 front"));
    world.sh(&format!("{SPOKE} network create --address-space blue --subnet 10.0.0.0/24 pool"));
    let both = json!({"name": "both", "cniVersion": "1.0.0", "plugins": [{
        "type": "spoke", "networks": ["pool", "front"], "capabilities": {"portMappings": true},
    }]});
    let made = cni.add(&both).last().unwrap().json().unwrap();
    assert_eq!(made["ips"].as_array().unwrap().len(), 2, "{made}");
    assert!(world.sh("nft list map inet spoke dnat4_any").contains("10.71.1."));
    cni.del(&both);
    assert_eq!(world.sh(&format!("{SPOKE} ps -o json")).trim(), "[]");
}
