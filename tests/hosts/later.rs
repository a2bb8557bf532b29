//! Records that a later version wrote: what this one does not know of them is kept, not used, and reported.

use std::time::{Duration, Instant};

use crate::bed::{Host, SPOKE, Segment, entries, until, until_reached};

#[test]
fn values_of_a_later_version_are_read_and_left_alone() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    let network = |name: &str, vni: u32, net: u8, more: &str| {
        let record = format!(
            "{{\"vni\":{vni},\"subnet\":\"10.{net}.0.0/16\",\"block\":24,\"mtu\":1450,\"since\":1,\"colour\":\"blue\",{more}}}"
        );
        segment.etcdctl(&format!("put /spoke/v1/vni/{vni} '\"{name}\"'"));
        segment.etcdctl(&format!("put /spoke/v1/network/{name} '{record}'"));
    };
    network("engines", 5001, 71, "\"hosts\":\"all\",\"in\":[\"cni\",\"lxd\"]");
    network("places", 5002, 72, "\"hosts\":{\"nearest\":3}");
    network("ways", 5003, 73, "\"hosts\":\"all\",\"transport\":\"quic\"");
    segment.etcdctl(
        "put /spoke/v1/pin/engines/10.71.200.7 '{\"host\":\"b\",\"by\":\"db\",\"state\":{\"lent\":\"x\"},\"until\":9}'",
    );
    segment.etcdctl(
        "put /spoke/v1/host/b '{\"address\":\"192.0.2.2\",\"since\":1,\"rack\":{\"row\":7}}'",
    );
    // What is known of them is used, and the rest is reported, also by doctor.
    until(
        &a.world,
        &format!("{SPOKE} network inspect engines && [ -s /etc/cni/net.d/engines.conflist ]"),
    );
    for words in [
        "network engines: it is not made in lxd, an unknown engine",
        "network places: the list of its hosts has an unknown form",
        "network ways is not used: its packets go from host to host in a way that this Spoke does not know",
        "address 10.71.200.7 of network engines: unknown form of owner",
    ] {
        until(&a.world, &format!("{SPOKE} host ls 2>&1 | grep -qF '{words}'"));
        let said = a.world.try_sh(&format!("{SPOKE} doctor"));
        assert!(said.stdout.contains(words), "{words}: {said:?}");
    }
    a.sh(&format!("! {SPOKE} network inspect places && ! {SPOKE} network inspect ways"));
    // They are there: no other network gets their addresses.
    for net in [71, 72, 73] {
        let said = a.refused(&format!("network create --hosts all --subnet 10.{net}.1.0/24 more"));
        assert!(said.contains(&format!("overlaps 10.{net}.0.0/16 of network")), "{said}");
    }
    a.world.netns("box");
    let said = a.refused("network connect --ip 10.71.200.7 engines box");
    assert!(said.contains("held by db on host b"), "{said}");
    // What a host does not know of another one's record it leaves as it is.
    a.spoke("host label b zone=eu");
    a.spoke("host drain b");
    let record = segment.etcdctl("get /spoke/v1/host/b");
    for words in ["\"rack\":{\"row\":7}", "\"draining\":true", "\"zone\":\"eu\""] {
        assert!(record.contains(words), "{record}");
    }
    drop(b);
}

/// A network whose transport only a later version knows takes no container, and has no link to other hosts: neither
/// when it changes under a host that has it, nor on a host that had the later version before.
#[test]
fn a_network_of_an_unknown_transport_is_not_served() {
    let segment = Segment::new();
    let [a, mut b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all front");
    let (one, _) = (a.attach("front", "one"), b.attach("front", "two"));
    until_reached(&b.world, "two", &one);
    let key = "/spoke/v1/network/front";
    let said = segment.etcdctl(&format!("get --print-value-only {key}"));
    let vni = said.split("\"vni\":").nth(1).unwrap().split(',').next().unwrap();
    segment.etcdctl(&format!("put /spoke/v1/encrypted-vni/{vni} '\"front\"'"));
    let known = said.trim().trim_end_matches('}');
    segment.etcdctl(&format!("put {key} '{known},\"transport\":{{\"tunnel\":7}}}}'"));
    refuses(&segment, &b);

    // As after a later version, which has written the same on this host.
    segment.etcdctl(&format!("put {key} '{known},\"transport\":\"quic\"}}'"));
    b.kill();
    b.sh(
        "sed -i 's/\"vni\":/\"transport\":\"quic\",\"vni\":/' /var/lib/spoke/hosts/networks/front; \
          grep -q quic /var/lib/spoke/hosts/networks/front; rm -f /run/spoke/events",
    );
    b.start();
    refuses(&segment, &b);
    b.sh("ip -n two link show eth0");

    // It is served again where it is known.
    b.sh("sed -i 's/\"transport\":\"quic\",//' /var/lib/spoke/hosts/networks/front");
    segment.etcdctl(&format!("put {key} '{known}}}'"));
    until(&b.world, &format!("{SPOKE} network connect front more"));
    until_reached(&b.world, "more", &one);
}

/// Neither served nor silently left out.
#[track_caller]
fn refuses(segment: &Segment, host: &Host) {
    let words = "network front is not used: its packets go from host to host in a way that this Spoke does not know";
    until(&host.world, &format!("{SPOKE} host ls 2>&1 | grep -qF '{words}'"));
    until(
        &host.world,
        &format!("grep '\"event\":\"failed\"' /run/spoke/events | grep -qF '{words}'"),
    );
    let doctor = host.world.try_sh(&format!("{SPOKE} doctor"));
    assert!(doctor.stdout.contains(words), "{doctor:?}");
    segment.until_gone(&format!("/endpoint/{}/front/", host.name));
    host.sh("ip netns add more 2>/dev/null || true");
    let said = host.refused("network connect front more");
    assert!(said.contains("in a way that this Spoke does not know"), "{said}");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !entries(&host.world, "front").is_empty() {
        assert!(Instant::now() < deadline, "{:?}", entries(&host.world, "front"));
        tests::glance();
    }
    host.sh("! ls /sys/class/net/sp-front/brif | grep spokevx");
}
