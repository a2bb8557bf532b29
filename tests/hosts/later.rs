//! Records that a later version wrote: what this one does not know of them is kept, not used, and told.

use crate::bed::{SPOKE, Segment, until};

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
    // What is known of them is used, and the rest is told, also by doctor.
    until(
        &a.world,
        &format!("{SPOKE} network inspect engines && [ -s /etc/cni/net.d/engines.conflist ]"),
    );
    for words in [
        "network engines: it is not made in lxd, an unknown engine",
        "network places: on which hosts it is, is said in an unknown way",
        "network ways is not used: its packets go from host to host in a way that this Spoke does not know",
        "address 10.71.200.7 of network engines: whose it is, is said in an unknown way",
    ] {
        until(&a.world, &format!("{SPOKE} host ls 2>&1 | grep -qF '{words}'"));
        let said = a.world.try_sh(&format!("{SPOKE} doctor"));
        assert!(said.stdout.contains(words), "{words}: {said:?}");
    }
    a.sh(&format!("! {SPOKE} network inspect places && ! {SPOKE} network inspect ways"));
    // They are there: nobody else gets their addresses.
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
