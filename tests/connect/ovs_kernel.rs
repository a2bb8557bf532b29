//! Segments of an Open vSwitch whose frames the kernel forwards. Here the host's end of a pair limits: the kernel
//! sends by its queue.

use std::process::Command;

use serde_json::json;
use tests::neutron_switch::Switch;
use tests::{Answer, Cni, Feature, Plugins, World};

use crate::bed::{Bed, SPOKE};

const BRIDGE: &str = "-d ovs --opt bridge=br-int";

#[track_caller]
fn reaches(world: &World, name: &str, address: &str) {
    world.sh(&format!("ip netns exec {name} ping -c 1 -W 10 {address}"));
}

#[track_caller]
fn does_not_reach(world: &World, name: &str, address: &str) {
    let said = world.try_sh(&format!("ip netns exec {name} ping -c 1 -W 2 {address}"));
    assert_ne!(said.status, 0, "{name} reaches {address}: {said:?}");
}

/// The packets that buckets have let pass, each in a word, in the host (`""`) or in a namespace (`-n a`).
fn passed(world: &World, of: &str) -> Vec<u64> {
    let said = world.sh(&format!(
        "tc -s {of} qdisc show | sed -n '/^qdisc tbf/{{n;s/.* bytes \\([0-9]*\\) pkt.*/\\1/p}}'"
    ));
    said.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

#[test]
fn containers_of_one_vlan_meet_and_are_limited() {
    if Feature::OpenVswitch.is_missing() {
        return;
    }
    let bed = Bed::new(&["a", "b", "d"]);
    let world = &bed.world;
    let switch = Switch::in_kernel(world);
    let links = || world.sh("ip -o link | wc -l");
    let before = links();
    for (name, vlan) in [("ten", 10), ("twenty", 20)] {
        bed.spoke(&format!(
            "network create {BRIDGE} --opt vlan={vlan} --internal --address-space {name} --subnet 10.0.0.0/24 {name}"
        ));
    }
    for (network, name, ip) in
        [("ten", "a", "10.0.0.5"), ("ten", "b", "10.0.0.6"), ("twenty", "d", "10.0.0.7")]
    {
        bed.spoke(&format!("network connect --ip {ip} {network} {name}"));
    }
    reaches(world, "a", "10.0.0.6");
    does_not_reach(world, "a", "10.0.0.7");
    // An access port: a frame that the container tags itself goes nowhere.
    world.sh("ip -n a link add link eth0 name v20 type vlan id 20
        ip -n a addr add 10.0.0.8/24 dev v20; ip -n a link set v20 up
        ip -n a route replace 10.0.0.7/32 dev v20");
    does_not_reach(world, "a", "10.0.0.7");
    world.sh("ip -n a link del v20");

    bed.spoke("limit a 3mbit");
    reaches(world, "a", "10.0.0.6");
    let buckets = passed(world, "");
    assert!(buckets.len() == 2 && buckets.iter().all(|packets| *packets > 0), "{buckets:?}");
    assert_eq!(passed(world, "-n a").len(), 0);
    bed.spoke("limit a none");
    assert_eq!(passed(world, "").len(), 0);

    for (network, name) in [("ten", "a"), ("ten", "b"), ("twenty", "d")] {
        bed.spoke(&format!("network disconnect {network} {name}"));
    }
    assert_eq!(switch.ports(), Vec::<String>::new());
    bed.spoke("network rm ten twenty");
    assert_eq!(bed.json("gc -o json"), json!([]));
    assert_eq!(links(), before);
}

#[test]
fn pods_of_one_segment_meet() {
    if Feature::OpenVswitch.is_missing() {
        return;
    }
    let bed = Bed::new(&[]);
    let world = &bed.world;
    let switch = Switch::in_kernel(world);
    let links = || world.sh("ip -o link | wc -l");
    let before = links();
    let list = json!({"name": "own", "cniVersion": "1.1.0", "plugins": [{
        "type": "spoke", "driver": "ovs", "ovs": {"bridge": "br-int", "vlan": 30},
        "ipam": {"ranges": [[{"subnet": "10.3.0.0/24"}]]},
    }]});
    let ok = |answers: Vec<Answer>| assert!(answers.iter().all(Answer::ok), "{answers:?}");
    let (mut one, mut two) = (Cni::container(world, "one"), Cni::container(world, "two"));
    ok(one.add(&list));
    ok(two.add(&list));
    let result = two.result.as_ref().unwrap();
    let address = result["ips"][0]["address"].as_str().unwrap().split('/').next().unwrap();
    bed.spoke("limit one 3mbit");
    reaches(world, "one", address);
    assert_eq!((passed(world, "").len(), passed(world, "-n one").len()), (2, 0));
    ok(one.check(&list));
    let ports = switch.ports();
    switch.vsctl(&format!("del-port br-int {}", ports[0]));
    assert!(![one.check(&list), two.check(&list)].concat().iter().all(Answer::ok), "{ports:?}");
    ok(one.del(&list));
    ok(two.del(&list));
    assert_eq!(switch.ports(), Vec::<String>::new());
    assert_eq!(links(), before);
    bed.spoke("network rm own");
    assert_eq!(bed.json("gc -o json"), json!([]));
}

/// Two hosts with one segment: VXLAN from kernel to kernel.
#[test]
fn a_segment_reaches_the_other_host() {
    if Feature::OpenVswitch.is_missing() {
        return;
    }
    let hosts = ["192.0.2.1", "192.0.2.2"].map(|address| {
        let world = World::new(&Plugins::subject());
        let switch = Switch::in_kernel(&world);
        (world, switch, address)
    });
    let [near, far] = &hosts;
    let wire = Command::new("nsenter")
        .arg(format!("--net=/proc/{}/ns/net", near.0.pid()))
        .args(["ip", "link", "add", "phy0", "type", "veth", "peer", "name", "phy0"])
        .args(["netns", &far.0.pid().to_string()])
        .output()
        .unwrap();
    assert!(wire.status.success(), "{wire:?}");
    for (world, _, address) in &hosts {
        world.sh(&format!("ip address add {address}/24 dev phy0; ip link set phy0 up"));
        world.netns("a");
    }
    for ((world, ..), other, range) in
        [(near, far.2, "10.0.0.16/28"), (far, near.2, "10.0.0.32/28")]
    {
        world.sh(&format!(
            "{SPOKE} network create {BRIDGE} --opt vlan=10 --opt vni=5000 --opt remote={other} \
             --address-space t --subnet 10.0.0.0/24 --ip-range {range} wide
             {SPOKE} network connect wide a"
        ));
    }
    let shown = far.0.sh("ip -n a -4 -o address show dev eth0");
    let there = shown.split_whitespace().find(|word| word.contains('/')).unwrap();
    reaches(&near.0, "a", there.split('/').next().unwrap());
    for (world, switch, _) in &hosts {
        world.sh(&format!("{SPOKE} network disconnect wide a; {SPOKE} network rm wide"));
        assert_eq!(switch.ports(), Vec::<String>::new());
    }
}
