//! A host that does not hear of etcd, while packets between hosts still arrive.

use crate::bed::{Host, Segment, entries, until, until_equal, until_reached};

pub(crate) const LS: &str = "/opt/cni/bin/spoke host ls 2>&1";
/// Lets nothing of etcd through, and everything of other hosts.
pub(crate) const CUT: &str = "nft add table ip cut
    nft 'add chain ip cut in { type filter hook input priority -300; }'
    nft 'add chain ip cut out { type filter hook output priority -300; }'
    nft add rule ip cut in ip saddr 192.0.2.100 drop; nft add rule ip cut out ip daddr 192.0.2.100 drop";

/// Echo requests that a container has received.
fn heard(host: &Host, name: &str) -> String {
    host.sh(&format!(
        "ip netns exec {name} awk '/^Icmp:/ {{ if (at) print $at; \
         for (i = 1; i <= NF; i++) if ($i == \"InEchos\") at = i }}' /proc/net/snmp"
    ))
}

pub(crate) fn connect(host: &Host, name: &str, address: &str) {
    host.world.netns(name);
    let connect = format!("/opt/cni/bin/spoke network connect --ip {address} front {name}");
    until(&host.world, &format!("{connect} 2>/dev/null"));
}

/// One host is cut off from etcd alone. What others take of it then, it uses no more towards them, by its own
/// clock; they do not take its packets. When it hears again, it detaches that first, and goes on with the rest.
#[test]
fn a_host_that_etcd_alone_does_not_reach_keeps_apart() {
    let segment = Segment::new();
    let [a, b, c] = segment.cluster_with("[hosts]\ntakeover_seconds = 1\n", ["a", "b", "c"]);
    a.spoke("network create --hosts all front");
    let (three, free) = (c.attach("front", "three"), "10.64.200.7");
    connect(&b, "db", free);
    let (own, stays) = (b.attach("front", "own"), b.attach("front", "stays"));
    for address in [free, &own, &stays] {
        until_reached(&c.world, "three", address);
    }
    b.sh(CUT);
    connect(&a, "db", free);
    // From the moment on at which it may be another's, nothing of it arrives at hosts that hear of etcd.
    until(&c.world, "! nft list table ip spoke_overlay | grep -q 192.0.2.2");
    let before = heard(&c, "three");
    for name in ["db", "own"] {
        b.sh(&format!("ip netns exec {name} ping -q -c 2 -i 0.2 -W 1 {three} || true"));
    }
    assert_eq!(heard(&c, "three"), before, "c takes what b sends, whose address a has");
    until_reached(&c.world, "three", free);
    // It says so, and leads to no container of the others any more.
    until(
        &b.world,
        &format!("{LS} | grep -q 'others may have its addresses, and no answer comes from a, c'"),
    );
    let others = entries(&b.world, "front");
    assert!(others.iter().all(|[address, ..]| address.ends_with(".1")), "{others:#?}");
    b.sh(&format!("ip netns exec own ping -q -c 1 -W 3 {stays}"));
    assert_eq!(b.sh("grep -c '\"event\":\"host-isolated\"' /run/spoke/events"), "1\n");
    connect(&a, "own", &own);
    b.sh("nft delete table ip cut");
    until(&b.world, "grep -q '\"event\":\"host-isolation-over\"' /run/spoke/events");
    for name in ["db", "own"] {
        assert_ne!(b.world.try_sh(&format!("ip -n {name} link show eth0")).status, 0, "{name}");
    }
    until_reached(&c.world, "three", &stays);
    b.sh(&format!("ip netns exec stays ping -q -c 1 -W 3 {three}"));
    assert!(!b.sh(LS).contains("no answer"));
    // Gateways, and: db and own of a, three of c, stays of b.
    for (host, name, count) in [(&a, "a", 4), (&b, "b", 5), (&c, "c", 5)] {
        until_equal(&segment, &host.world, "front", name, count);
    }
}

/// etcd is gone for all of them, for longer than addresses are kept: those that answer each other go on; only one
/// that does not answer may have heard of a takeover.
#[test]
fn hosts_that_none_of_them_hears_of_etcd_go_on() {
    let mut segment = Segment::new();
    let [a, b, c] = segment.cluster_with("[hosts]\ntakeover_seconds = 1\n", ["a", "b", "c"]);
    a.spoke("network create --hosts all front");
    let (one, two) = (a.attach("front", "one"), b.attach("front", "two"));
    let three = c.attach("front", "three");
    until_reached(&a.world, "one", &two);
    until_reached(&b.world, "two", &three);
    until_equal(&segment, &b.world, "front", "b", 4);
    segment.stop_etcd();
    c.sh("ip link set eth0 down");
    until(&b.world, &format!("{LS} | grep -q 'and no answer comes from c'"));
    until(&a.world, &format!("{LS} | grep -q 'and no answer comes from c'"));
    b.sh(&format!("ip netns exec two ping -q -c 1 -W 3 {one}"));
    a.sh(&format!("ip netns exec one ping -q -c 1 -W 3 {two}"));
    let known = entries(&b.world, "front");
    assert!(known.iter().any(|[address, ..]| *address == one), "{known:#?}");
    assert!(!known.iter().any(|[address, ..]| *address == three), "{known:#?}");
    c.sh("ip link set eth0 up");
    until_reached(&b.world, "two", &three);
    until(&b.world, &format!("! {LS} | grep -q 'others may have'"));
}
