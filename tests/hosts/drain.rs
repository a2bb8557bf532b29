//! A host that is being emptied, and labels.

use crate::bed::{Segment, until, until_equal, until_reached};

/// A host that is drained keeps its containers and takes no more, not even by CNI; an address moves away with its
/// container. It takes them again when that is undone.
#[test]
fn a_drained_host_takes_no_containers() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all front");
    let free = "10.64.200.7";
    let one = a.attach("front", "one");
    b.world.netns("db");
    b.spoke(&format!("network connect --ip {free} front db"));
    b.spoke("host drain");
    assert!(
        a.spoke("host ls").contains("draining") || {
            until(&a.world, "/opt/cni/bin/spoke host ls | grep '^b ' | grep -q draining");
            true
        }
    );
    b.world.netns("two");
    for options in ["", "--ip 10.64.200.8"] {
        let said = b.refused(&format!("network connect {options} front two"));
        assert!(
            said.contains("takes no more containers here: this host is being drained"),
            "{said}"
        );
    }
    let said = b.world.try_sh(
        "mkdir -p /etc/cni/net.d; echo '{\"cniVersion\":\"1.0.0\",\"name\":\"front\",\"plugins\":[{\"type\":\
         \"spoke\",\"network\":\"front\"}]}' >/etc/cni/net.d/front.conflist; CNI_PATH=/opt/cni/bin \
         /opt/cni/bin/spoke cni add front /run/netns/two",
    );
    assert!(said.status != 0, "{said:?}");
    assert!(format!("{said:?}").contains("being drained"), "{said:?}");
    // A network that is new is no way around it.
    a.spoke("network create --hosts all late");
    until(&b.world, "/opt/cni/bin/spoke network connect late two 2>&1 | grep -q 'being drained'");
    // What is there goes on, also over a restart of the daemon, and moves.
    until_reached(&a.world, "one", free);
    b.spoke("network disconnect front db");
    a.world.netns("db");
    a.spoke(&format!("network connect --ip {free} front db"));
    a.sh(&format!("ip netns exec db ping -q -c 1 -W 3 {one}"));
    until_equal(&segment, &b.world, "front", "b", 3);
    // Another host may say it too.
    a.spoke("host drain --undo b");
    until(&b.world, "/opt/cni/bin/spoke network connect front two 2>/dev/null");
    until_reached(&b.world, "two", free);
    let said = a.refused("host drain nobody");
    assert!(said.contains("no host nobody"), "{said}");
    a.spoke("host drain b");
    b.spoke("network disconnect front two");
    b.spoke("host remove b");
    until(&a.world, "! /opt/cni/bin/spoke host ls | grep -q '^b '");
}

/// A network is where its labels are, also on hosts that get them later, and goes from those that lose them.
#[test]
fn labels_choose_hosts() {
    let segment = Segment::new();
    let [a, b, c] = segment.cluster(["a", "b", "c"]);
    a.spoke("host label a zone=eu disk=ssd");
    a.spoke("host label b zone=eu");
    a.spoke("network create --hosts zone=eu front");
    let (one, two) = (a.attach("front", "one"), b.attach("front", "two"));
    until_reached(&a.world, "one", &two);
    assert!(c.refused("network inspect front").contains("no network front"));
    assert!(b.spoke("host ls").contains("disk=ssd,zone=eu"), "{}", b.spoke("host ls"));
    b.spoke("host label c zone=eu");
    until(&c.world, "/opt/cni/bin/spoke network inspect front 2>/dev/null");
    let three = c.attach("front", "three");
    until_reached(&b.world, "two", &three);
    // It stays while a container is on it.
    a.spoke("host label b --remove zone");
    until(&b.world, "/opt/cni/bin/spoke host ls 2>&1 | grep -q 'front'");
    b.spoke("network disconnect front two");
    until(&b.world, "! /opt/cni/bin/spoke network inspect front 2>/dev/null");
    until_equal(&segment, &a.world, "front", "a", 2);
    c.sh(&format!("ip netns exec three ping -q -c 1 -W 3 {one}"));
    let said = a.refused("network create --hosts zone=eu,b back");
    assert!(said.contains("is no label of hosts"), "{said}");
}
