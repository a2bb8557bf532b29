//! Networks of many hosts: where they are, their blocks, their end.

use crate::bed::{Segment, until, until_equal, until_reached};

/// A network is where it was placed. Each host gives addresses from its block, from another one when that is
/// full, and says when there is none.
#[test]
fn a_host_has_as_many_blocks_as_it_needs() {
    let segment = Segment::new();
    let [a, b, c] = segment.cluster(["a", "b", "c"]);
    let said = a.refused("network create --hosts a,nobody front");
    assert!(said.contains("the cluster has no host nobody"), "{said}");
    a.spoke("network create --hosts a,b --subnet 10.99.0.0/27 --block 29 front");
    until(&b.world, "/opt/cni/bin/spoke network inspect front");
    assert!(c.refused("network inspect front").contains("no network front"));
    for (subnet, why) in [
        ("10.99.0.0/25", "overlaps 10.99.0.0/27 of network front of the cluster"),
        ("10.98.0.1/24", "is no subnet"),
        ("10.96.0.0/16 --subnet fd99::/112", "is not between a /8 and a /104"),
        ("10.98.0.0/16 --subnet 10.97.0.0/16", "has one IPv4 subnet"),
    ] {
        let said = c.refused(&format!("network create --hosts all --subnet {subnet} back"));
        assert!(said.contains(why), "{subnet}: {said}");
    }
    let first = |host: &str| -> u32 {
        let block = segment.block("front", host);
        let last = block.trim_start_matches("10.99.0.").trim_end_matches("/29");
        last.parse::<u32>().expect("a number") + 2
    };
    let said = c.refused("network create --hosts all --no-masquerade back");
    assert!(said.contains("does not have --no-masquerade yet"), "{said}");
    // Asked once: later a has several, in another order.
    let mine = first("a");
    // The last block is one shorter: the subnet's broadcast address is no host's.
    let own = if mine == 26 { 5 } else { 6 };
    for number in mine..mine + own {
        let address = a.attach("front", &format!("box{number}"));
        assert_eq!(address, format!("10.99.0.{number}"));
    }
    // The next block comes with the last address but one; there are four, and one is b's.
    segment.until_blocks("front", "a", 2);
    let attach = |numbers: std::ops::Range<u32>| -> Vec<String> {
        numbers.map(|number| a.attach("front", &format!("more{number}"))).collect()
    };
    attach(0..5);
    segment.until_blocks("front", "a", 3);
    let all = if segment.block("front", "b").contains(".24/") { 18 } else { 17 };
    let last = all - own;
    let more = attach(5..last);
    let two = b.attach("front", "two");
    assert_eq!(two, format!("10.99.0.{}", first("b")));
    until_equal(&segment, &b.world, "front", "b", 1 + all as usize);
    until_reached(&b.world, "two", more.last().expect("one"));
    a.world.netns("last");
    let said = a.refused("network connect front last");
    assert!(said.contains("no IP addresses available in range set: 10.99.0."), "{said}");
    // Empty blocks are given back that are not needed, and not the one with the host's own address.
    for number in mine..mine + 3 {
        a.spoke(&format!("network disconnect front box{number}"));
    }
    for number in 0..last {
        a.spoke(&format!("network disconnect front more{number}"));
    }
    segment.until_blocks("front", "a", 1);
    until_reached(&b.world, "two", &format!("10.99.0.{}", mine + 3));
    until_equal(&segment, &b.world, "front", "b", own as usize - 2);
}

/// A later block that is empty is given back once no container can get an address of it: not while the book could
/// not be written. Meanwhile the network goes on as it is there. With the network all its blocks are given back.
#[test]
fn a_block_is_kept_while_containers_get_addresses_of_it() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all --subnet 10.99.0.0/26 --block 29 front");
    b.attach("front", "two");
    for number in 0..6 {
        a.attach("front", &format!("box{number}"));
    }
    segment.until_blocks("front", "a", 2);
    // The daemon cannot write which blocks it has.
    let place = "/var/lib/spoke/hosts/networks/.front.new";
    a.sh(&format!("mkdir {place}"));
    for number in 0..5 {
        a.spoke(&format!("network disconnect front box{number}"));
    }
    until(&a.world, "grep -q 'containers still get addresses of block' /run/spoke/events");
    segment.until_blocks("front", "a", 2);
    until(&a.world, "/opt/cni/bin/spoke host ls 2>&1 | grep -q 'networks/front: Is a dir'");
    let more = a.attach("front", "more");
    until_reached(&b.world, "two", &more);
    a.spoke("network disconnect front more");
    a.sh(&format!("rmdir {place}"));
    segment.until_blocks("front", "a", 1);
    for number in 0..5 {
        a.attach("front", &format!("again{number}"));
    }
    segment.until_blocks("front", "a", 2);
    for number in 0..5 {
        a.spoke(&format!("network disconnect front again{number}"));
    }
    a.spoke("network disconnect front box5");
    b.spoke("network disconnect front two");
    // The later block rests.
    until(&a.world, "/opt/cni/bin/spoke network rm front 2>/dev/null");
    segment.until_blocks("front", "a", 0);
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

/// Who has a network of that name of his own, or too narrow a device, says so and harms no other host.
#[test]
fn a_host_that_cannot_have_it_says_so() {
    let segment = Segment::new();
    let [a, b, c] = segment.cluster(["a", "b", "c"]);
    b.spoke("network create --subnet 10.97.0.0/24 front");
    c.sh("ip link set eth0 mtu 1400");
    let said = b.refused("network create --hosts all front");
    assert!(said.contains("nothing is declared for the cluster"), "{said}");
    // It was not: the other host's is no second one.
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

/// A file of Podman's or CNI's describes a network of that name, and no container has been on it: the host makes no
/// second one, says so, and makes the cluster's once the file is gone. A list that joins the cluster's is in no host's
/// way.
#[test]
fn a_host_whose_runtime_has_the_name_says_so() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    let podmans = r#"{"name": "front", "driver": "spoke", "network_interface": "sp-front",
        "subnets": [{"subnet": "10.97.0.0/24", "gateway": "10.97.0.1"}]}"#;
    let cnis = r#"{"cniVersion": "1.0.0", "name": "back", "plugins": [{"type": "bridge",
        "ipam": {"type": "host-local", "subnet": "10.96.0.0/24"}}]}"#;
    let joining = r#"{"cniVersion": "1.0.0", "name": "side", "plugins": [{"type": "spoke", "network": "side"}]}"#;
    let (front, back) = ("/etc/containers/networks/front.json", "/etc/cni/net.d/10-back.conflist");
    b.sh(&format!(
        "mkdir -p /etc/containers/networks /etc/cni/net.d
         printf '%s' '{podmans}' >{front}; printf '%s' '{cnis}' >{back}
         printf '%s' '{joining}' >/etc/cni/net.d/20-side.conflist"
    ));
    for name in ["front", "back", "side"] {
        a.spoke(&format!("network create --hosts all {name}"));
    }
    for (by, name, file) in [("Podman", "front", front), ("CNI", "back", back)] {
        for command in ["host ls 2>&1", "doctor 2>&1", "events"] {
            let why = format!("{by} has a network {name} ({file}), so this host does not make");
            until(&b.world, &format!("/opt/cni/bin/spoke {command} | grep -qF '{why}'"));
        }
    }
    let made = |name: &str| {
        format!("/opt/cni/bin/spoke network inspect {name} 2>/dev/null | grep -q 10.6[456].0.0/16")
    };
    until(&b.world, &made("side"));
    b.sh(&format!("! {{ {}; }} && ! {{ {}; }}", made("front"), made("back")));
    assert!(b.spoke("network inspect front").contains("10.97.0.0/24"));
    b.sh(&format!("rm {front} {back}"));
    until(&b.world, &made("front"));
    until(&b.world, &made("back"));
    let (one, two) = (a.attach("front", "one"), b.attach("front", "two"));
    until_reached(&a.world, "one", &two);
    until_reached(&b.world, "two", &one);
}

/// What is asked for and cannot be is refused; what others wrote and cannot be is set aside, and reported once.
#[test]
fn a_network_that_cannot_be_is_set_aside() {
    let segment = Segment::new();
    let [a, mut b] = segment.cluster(["a", "b"]);
    for (options, why) in [
        ("--ipv6 --mtu 1279", "MTU 1279 is less than 1280"),
        ("--mtu 1451", "the device with 192.0.2.1 has 1500, of which VXLAN takes 50"),
        ("--scope global", "cannot be used with"),
    ] {
        let said = a.refused(&format!("network create --hosts all {options} front"));
        assert!(said.contains(why), "{options}: {said}");
    }
    let strange = segment.host("x", 9);
    let said = strange.refused("host init --etcd http://192.0.2.100:2379 --name all");
    assert!(said.contains("a host cannot be called all"), "{said}");
    a.spoke("network create --hosts all front");
    let (one, two) = (a.attach("front", "one"), b.attach("front", "two"));
    until_reached(&a.world, "one", &two);
    let device = "ip -o link show type vxlan";
    let before = a.sh(device);
    let record = |vni: u32, net: u8| {
        format!(
            "'{{\"vni\":{vni},\"subnet\":\"10.{net}.0.0/16\",\"block\":24,\"mtu\":1450,\"hosts\":\"all\",\
             \"since\":1}}'"
        )
    };
    // One takes the number of a network, also in the record that says whose it is; the other claims none.
    segment.etcdctl(&format!("put /spoke/v1/network/evil {}", record(4097, 77)));
    segment.etcdctl("put /spoke/v1/vni/4097 '\"evil\"'");
    segment.etcdctl(&format!("put /spoke/v1/network/stray {}", record(5000, 78)));
    let ls = "/opt/cni/bin/spoke host ls 2>&1 >/dev/null";
    for words in [
        "network evil is not used: its VNI 4097 is that of network front",
        "no host has claimed its VNI 5000",
    ] {
        until(&a.world, &format!("{ls} | grep -q '{words}'"));
        until(&b.world, &format!("{ls} | grep -q '{words}'"));
    }
    let said = a.sh(ls);
    assert_eq!(said.matches("network evil").count(), 1, "{said}");
    assert_eq!(a.sh(device), before);
    a.sh(&format!("ip netns exec one ping -q -c 1 -W 3 {two}"));
    b.sh(&format!("ip netns exec two ping -q -c 1 -W 3 {one}"));
    // Any member ends them, also those that no host has.
    let said = a.refused("network rm front");
    assert!(said.contains("is used on host") && !said.contains("--force"), "{said}");
    a.spoke("network rm evil stray");
    until(&b.world, &format!("! {ls} | grep -q 'is not used'"));
    a.spoke("network create --hosts b back");
    until(&b.world, "/opt/cni/bin/spoke network inspect back");
    b.kill();
    a.spoke("host remove --force b");
    a.spoke("network rm back");
    segment.until_gone("back");
}
