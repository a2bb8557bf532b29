//! Segments of a real Open vSwitch.

use std::process::Command;

use serde_json::json;
use tests::neutron_switch::Switch;
use tests::{Plugins, World};

use crate::bed::{Bed, SPOKE};

const BRIDGE: &str = "-d ovs --opt bridge=br-int";

/// A host with the networks `ten` and `twenty`, VLANs of one bridge with the same subnet.
fn bed(namespaces: &[&str]) -> (Bed, Switch) {
    let bed = Bed::new(namespaces);
    let switch = Switch::start(&bed.world);
    for (name, vlan) in [("ten", 10), ("twenty", 20)] {
        bed.spoke(&format!(
            "network create {BRIDGE} --opt vlan={vlan} --address-space {name} --subnet 10.0.0.0/24 {name}"
        ));
    }
    (bed, switch)
}

#[track_caller]
fn does_not_reach(world: &World, name: &str, address: &str) {
    let said = world.try_sh(&format!("ip netns exec {name} ping -c 1 -W 1 {address}"));
    assert_ne!(said.status, 0, "{name} reaches {address}: {said:?}");
}

#[test]
fn containers_of_one_vlan_meet() {
    let (bed, switch) = bed(&["a", "b", "c", "d"]);
    for (network, name, ip) in [
        ("ten", "a", "10.0.0.5"),
        ("ten", "b", "10.0.0.6"),
        ("twenty", "c", "10.0.0.5"),
        ("twenty", "d", "10.0.0.7"),
    ] {
        bed.spoke(&format!("network connect --ip {ip} {network} {name}"));
    }
    assert_eq!(switch.ports().len(), 4);
    bed.world.sh("ip netns exec a ping -c 1 -W 5 10.0.0.6");
    bed.world.sh("ip netns exec c ping -c 1 -W 5 10.0.0.7");
    does_not_reach(&bed.world, "a", "10.0.0.7");
    does_not_reach(&bed.world, "d", "10.0.0.6");
    // An access port: the container can choose no VLAN.
    let mut tags =
        switch.ports().into_iter().map(|port| switch.vsctl(&format!("get port {port} tag")));
    assert!(tags.all(|tag| ["10", "20"].contains(&tag.trim())));
    // Out through the network beside; ports are another network's to publish.
    bed.world.netns("e");
    let said = bed.refused("network connect -p 8081:80 ten e");
    assert!(said.contains("past this host's packet filter"), "{said}");
    bed.spoke("network connect ten e");
    assert!(bed.world.sh("ip -n e route show default").contains("dev eth1"));
    bed.spoke("network disconnect ten e");
    // A router on the segment.
    bed.spoke(&format!(
        "network create {BRIDGE} --opt vlan=30 --subnet 10.3.0.0/24 --gateway 10.3.0.254 routed"
    ));
    bed.spoke("network connect routed e");
    let way = bed.world.sh("ip -n e route show default");
    assert!(way.contains("via 10.3.0.254 dev eth0"), "{way}");
    bed.spoke("network disconnect routed e");
    let listed = bed.spoke("network ls");
    assert!(listed.contains("ovs") && listed.contains("br-int"), "{listed}");
    assert_eq!(bed.json("network inspect ten")[0]["ovs"]["vlan"], 10);
    for (network, name) in [("ten", "a"), ("ten", "b"), ("twenty", "c"), ("twenty", "d")] {
        bed.spoke(&format!("network disconnect {network} {name}"));
    }
    assert_eq!(switch.ports(), Vec::<String>::new());
    bed.spoke("network rm ten twenty routed gwbridge");
    assert_eq!(bed.json("gc -o json"), json!([]));
}

/// A namespace that ends by itself takes its device; the switch's row goes with the record.
#[test]
fn a_port_goes_with_its_namespace() {
    let (bed, switch) = bed(&["a"]);
    bed.spoke("network connect ten a");
    assert_eq!(switch.ports().len(), 1);
    bed.world.sh(&format!(
        "ip netns del a; while {SPOKE} ps -o json | grep -q '\"ten\"'; do {SPOKE} gc; done"
    ));
    assert_eq!(switch.ports(), Vec::<String>::new());
}

#[test]
fn what_cannot_be_is_said() {
    let (bed, switch) = bed(&["a"]);
    for (options, words) in [
        ("-d ovs --subnet 10.1.0.0/24", "bridge"),
        ("-d ovs --opt bridge=br-int", "--subnet"),
        ("-d ovs --opt bridge=br-int --opt vlan=4095 --subnet 10.1.0.0/24", "4094"),
        ("-d ovs --opt bridge=br-int --opt vni=7 --subnet 10.1.0.0/24", "remote"),
        (
            "-d ovs --opt bridge=br-int --opt vni=7 --opt remote=192.0.2.1 --subnet 10.1.0.0/24",
            "vlan",
        ),
        ("-d ovs --opt bridge=br-int --opt remote=192.0.2.1 --subnet 10.1.0.0/24", "vni"),
        ("-d ovs --opt bridge=br-int --direct --subnet 10.1.0.0/24", "--direct"),
        ("--opt bridge=br-int --subnet 10.1.0.0/24", "ovs"),
    ] {
        let said = bed.refused(&format!("network create {options} no"));
        assert!(said.contains(words), "{options}: {said}");
    }
    for (options, status, word) in [
        ("--opt bridge=br-no", 3, "ovs-vsctl add-br br-no"),
        ("--opt bridge=br-int --opt database=unix:/run/none.sock", 75, "none.sock"),
        ("--opt bridge=br-int --opt typo=1", 2, "typo"),
    ] {
        let command = format!("{SPOKE} network create -d ovs {options} --subnet 10.1.0.0/24 no");
        let said = bed.world.try_sh(&command);
        assert_eq!((said.status, said.stderr.contains(word)), (status, true), "{said:?}");
    }
    // Another program's port has the name.
    bed.spoke("network connect ten a");
    let end = switch.ports().pop().unwrap();
    bed.spoke("network disconnect ten a");
    switch.vsctl(&format!("add-port br-int {end} -- set interface {end} type=internal"));
    let said = bed.world.try_sh(&format!("{SPOKE} network connect ten a"));
    assert_ne!(said.status, 0, "{said:?}");
    assert_eq!(switch.ports(), std::slice::from_ref(&end), "it is left alone");
    switch.vsctl(&format!("del-port br-int {end}"));
}

/// Two hosts with one segment: VXLAN from switch to switch.
#[test]
fn a_segment_reaches_the_other_host() {
    let hosts = ["192.0.2.1", "192.0.2.2"].map(|address| {
        let world = World::new(&Plugins::subject());
        let switch = Switch::start(&world);
        (world, switch, address)
    });
    let [near, far] = &hosts;
    let (near_ns, far_ns) = (near.0.pid(), far.0.pid());
    let wire = Command::new("nsenter")
        .arg(format!("--net=/proc/{near_ns}/ns/net"))
        .args(["ip", "link", "add", "phy0", "type", "veth", "peer", "name", "phy0"])
        .args(["netns", &far_ns.to_string()])
        .output()
        .unwrap();
    assert!(wire.status.success(), "{wire:?}");
    for (world, switch, address) in &hosts {
        world.sh("ethtool -K phy0 tx off >/dev/null; ip link set phy0 up");
        switch.vsctl(
            "add-br br-phy -- set bridge br-phy datapath_type=netdev -- add-port br-phy phy0",
        );
        world.sh(&format!("ip address add {address}/24 dev br-phy; ip link set br-phy up"));
    }
    for (world, _, address) in &hosts {
        let other = if *address == near.2 { far.2 } else { near.2 };
        let range = if *address == near.2 { "10.0.0.16/28" } else { "10.0.0.32/28" };
        world.sh(&format!(
            "{SPOKE} network create {BRIDGE} --opt vlan=10 --opt vni=5000 --opt remote={other} \
             --address-space t --subnet 10.0.0.0/24 --ip-range {range} wide"
        ));
        world.netns("a");
        world.sh(&format!("{SPOKE} network connect wide a"));
    }
    let shown = far.0.sh("ip -n a -4 -o address show dev eth0");
    let there = shown.split_whitespace().find(|word| word.contains('/')).unwrap();
    let there = there.split('/').next().unwrap();
    near.0.sh(&format!("ip netns exec a ping -c 1 -W 10 {there}"));
    for (world, switch, _) in &hosts {
        world.sh(&format!("{SPOKE} network disconnect wide a; {SPOKE} network rm wide"));
        assert_eq!(switch.ports(), Vec::<String>::new());
    }
}
