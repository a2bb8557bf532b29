//! Networks of many hosts: where they are, their blocks, their end.

use crate::bed::{Segment, until, until_equal, until_reached};

/// A network is where it was placed, and each host gives addresses from its block until that is full.
#[test]
fn a_full_block_is_told_and_others_go_on() {
    let segment = Segment::new();
    let [a, b, c] = segment.cluster(["a", "b", "c"]);
    let said = a.refused("network create --hosts a,nobody front");
    assert!(said.contains("the cluster has no host nobody"), "{said}");
    a.spoke("network create --hosts a,b --subnet 10.99.0.0/24 --block 29 front");
    until(&b.world, "/opt/cni/bin/spoke network inspect front");
    assert!(c.refused("network inspect front").contains("no network front"));
    for (subnet, why) in [
        ("10.99.0.0/25", "overlaps 10.99.0.0/24 of network front of the cluster"),
        ("10.98.0.1/24", "is no subnet"),
        ("fd99::/64", "IPv6 is not supported there yet"),
    ] {
        let said = c.refused(&format!("network create --hosts all --subnet {subnet} back"));
        assert!(said.contains(why), "{subnet}: {said}");
    }
    let first = |host: &str| -> u32 {
        let block = segment.block("front", host);
        let last = block.trim_start_matches("10.99.0.").trim_end_matches("/29");
        last.parse::<u32>().expect("a number") + 2
    };
    let said = c.refused("network create --hosts all --sticky back");
    assert!(said.contains("does not have --sticky yet"), "{said}");
    for number in first("a")..first("a") + 6 {
        let address = a.attach("front", &format!("box{number}"));
        assert_eq!(address, format!("10.99.0.{number}"));
    }
    a.world.netns("more");
    let said = a.refused("network connect front more");
    assert!(said.contains("no IP addresses available in range set: 10.99.0."), "{said}");
    let two = b.attach("front", "two");
    assert_eq!(two, format!("10.99.0.{}", first("b")));
    until_equal(&segment, &b.world, "front", "b", 7);
    until_reached(&a.world, &format!("box{}", first("a")), &two);
}

/// A network ends on every host, and not before its last container is gone.
#[test]
fn a_network_ends_everywhere() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all front");
    let two = b.attach("front", "two");
    until_equal(&segment, &a.world, "front", "a", 2);
    let said = a.refused("network rm front");
    assert!(said.contains(&format!("network front is used on host b, by {two} ")), "{said}");
    b.spoke("network disconnect front two");
    until_equal(&segment, &a.world, "front", "a", 1);
    a.spoke("network rm front");
    for host in [&a, &b] {
        until(
            &host.world,
            "! ip link show type vxlan | grep -q . && ! ip link show sp-front 2>/dev/null",
        );
        until(&host.world, "! nft list table ip spoke_overlay 2>/dev/null");
    }
    let left = segment.etcdctl("get --prefix --keys-only /spoke/v1/");
    assert!(!left.contains("front"), "{left}");
}

/// A host that was away has the network of its name that is there now.
#[test]
fn a_network_is_made_anew_while_a_host_is_away() {
    let segment = Segment::new();
    let [a, mut b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all front");
    until_equal(&segment, &b.world, "front", "b", 1);
    b.kill();
    a.spoke("network rm front");
    a.spoke("network create --hosts all --subnet 10.98.0.0/16 front");
    b.start();
    until(&b.world, "/opt/cni/bin/spoke network inspect front | grep -q '10.98.0.0/16'");
    let (one, two) = (a.attach("front", "one"), b.attach("front", "two"));
    assert!(one.starts_with("10.98.") && two.starts_with("10.98."), "{one} {two}");
    until_reached(&a.world, "one", &two);
    until_equal(&segment, &b.world, "front", "b", 2);
}

/// Who has a network of that name of his own, or too narrow a device, says so and harms nobody.
#[test]
fn a_host_that_cannot_have_it_says_so() {
    let segment = Segment::new();
    let [a, b, c] = segment.cluster(["a", "b", "c"]);
    b.spoke("network create --subnet 10.97.0.0/24 front");
    c.sh("ip link set eth0 mtu 1400");
    a.spoke("network create --hosts all front");
    until(
        &b.world,
        "/opt/cni/bin/spoke host ls 2>&1 | grep -q 'this host has a network front of its own'",
    );
    until(
        &c.world,
        "/opt/cni/bin/spoke host ls 2>&1 | grep -q 'make the network again with --mtu 1350'",
    );
    assert_eq!(b.attach("front", "two"), "10.97.0.2");
    b.spoke("network disconnect front two");
    b.spoke("network rm front");
    until(&b.world, "/opt/cni/bin/spoke network inspect front 2>/dev/null | grep -q 10.64.0.0/16");
    c.sh("ip link set eth0 mtu 1500");
    let (one, three) = (a.attach("front", "one"), c.attach("front", "three"));
    until_reached(&a.world, "one", &three);
    until_reached(&c.world, "three", &one);
}
