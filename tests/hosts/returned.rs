//! Hosts that come back as others than they went: with an older state directory, as of a snapshot of the machine, and after
//! they were removed.

use crate::bed::{Segment, address, join, until, until_equal, until_reached};
use crate::sticky::{stop, until_kept};

const STATE: &str = "/var/lib/spoke";

/// What the host gave away since is another's, a block that it took since is its own, a network that is gone goes, and one
/// that came is made. No address has two holders.
#[test]
fn a_host_with_an_older_state_is_a_member_as_before() {
    let mut segment = Segment::new();
    let [mut a, b, c] = segment.cluster(["a", "b", "c"]);
    for network in ["front --subnet 10.99.0.0/25 --block 29", "gone"] {
        a.spoke(&format!("network create --hosts all --sticky {network}"));
    }
    let three = c.attach("front", "three");
    let db = [a.attach("front", "db")];
    until_kept(&segment, &db, "db", "a");
    let free = "10.99.0.100";
    a.world.netns("exact");
    a.spoke(&format!("network connect --ip {free} front exact"));
    until_reached(&c.world, "three", free);
    a.kill();
    a.sh(&format!("cp -a {STATE} /world/older"));
    a.start();
    until(&a.world, "! /opt/cni/bin/spoke host ls 2>&1 | grep -q -e lost -e 'not heard of'");
    // Since then.
    stop(&a, "db");
    stop(&a, "exact");
    assert_eq!(b.attach("front", "db"), db[0]);
    until_kept(&segment, &db, "db", "b");
    c.world.netns("exact");
    until(&c.world, &format!("/opt/cni/bin/spoke network connect --ip {free} front exact"));
    for number in 0..7 {
        a.attach("front", &format!("box{number}"));
    }
    segment.until_blocks("front", "a", 2);
    until(&a.world, "/opt/cni/bin/spoke network rm gone 2>/dev/null");
    a.spoke("network create --hosts all came");
    // The machine ends, and all that ran on it.
    for number in 0..7 {
        stop(&a, &format!("box{number}"));
    }
    a.kill();
    a.sh(&format!("rm -r {STATE}; cp -a /world/older {STATE}"));
    // Before it hears anything its name has what it had then.
    segment.stop_etcd();
    a.start();
    assert_eq!(a.attach("front", "db"), db[0]);
    segment.start_etcd();
    until(&a.world, "! ip -n db link show eth0 2>/dev/null");
    assert_eq!(a.sh("grep -c '\"event\":\"lease-lost\"' /run/spoke/events"), "1\n");
    a.sh("ip netns del db");
    until(&a.world, "/opt/cni/bin/spoke network inspect came >/dev/null 2>&1");
    until(&a.world, "! /opt/cni/bin/spoke network inspect gone 2>/dev/null");
    for address in [&db[0], free] {
        until_reached(&c.world, "three", address);
    }
    a.world.netns("exact");
    let said = a.refused(&format!("network connect --ip {free} front exact"));
    assert!(said.contains("is held by exact on host c"), "{said}");
    // The name has a container on b: this one has another address.
    until(&a.world, &format!("! find {STATE} -path '*sticky/front/db' | grep -q ."));
    let other = a.attach("front", "db");
    assert_ne!(other, db[0]);
    until_reached(&c.world, "three", &other);
    a.sh(&format!("ip netns exec db ping -q -c 1 -W 3 {three}"));
    b.sh(&format!("ip netns exec db ping -q -c 1 -W 3 {other}"));
    assert_eq!(address(&b.world, "db"), db[0]);
    // It has one more block than it needs, and gives it back. Gateways, and: three and exact of c, db of a, db of b.
    segment.until_blocks("front", "a", 1);
    for (host, name, count) in [(&a, "a", 5), (&b, "b", 5), (&c, "c", 4)] {
        until_equal(&segment, &host.world, "front", name, count);
    }
}

/// A host is removed while it is away, and others have its addresses by then: when it is back it is in no cluster, takes
/// nothing from anybody, and its containers go on among themselves until they are stopped. Then it joins again.
#[test]
fn a_host_that_was_removed_while_it_was_away_keeps_apart() {
    let segment = Segment::new();
    let [a, mut b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all front");
    let one = a.attach("front", "one");
    let two = b.attach("front", "two");
    b.attach("front", "more");
    until_reached(&a.world, "one", &two);
    until_reached(&b.world, "two", &one);
    b.kill();
    until(&a.world, "/opt/cni/bin/spoke host ls | grep -q 'b .* lost'");
    a.spoke("host remove b");
    a.world.netns("taken");
    a.spoke(&format!("network connect --ip {two} front taken"));
    b.start();
    until(&b.world, "/opt/cni/bin/spoke host ls 2>&1 | grep -q 'in no cluster'");
    until(&b.world, "! ip link show type vxlan | grep -q .");
    b.sh(&format!("ip netns exec more ping -q -c 1 -W 3 {two}"));
    a.sh(&format!("ip netns exec one ping -q -c 1 -W 3 {two}"));
    assert_ne!(
        b.world.try_sh(&format!("ip netns exec two ping -q -c 2 -i 0.2 -W 1 {one}")).status,
        0
    );
    stop(&b, "two");
    stop(&b, "more");
    until(&b.world, "/opt/cni/bin/spoke network rm --force front");
    join(&a.world, &b.world, "b");
    until(&b.world, "/opt/cni/bin/spoke network inspect front >/dev/null");
    let again = b.attach("front", "again");
    assert!(again != two && again != one, "{again}");
    until_reached(&a.world, "one", &again);
}
