//! Sources that containers forge, and those that look so and are not.

use tests::{Serve, World};

use crate::bed::{SPOKE, TUNNEL_UP, outside, prepare, reading, send, subject, until, until_more};

const FORGE: &str = include_str!("forge.py");
const BOTH: &[&str] = &["four", "six"];
/// Whom the host would answer, by its uplink.
const FORGED: [&str; 2] = ["198.51.100.9", "2001:db8:77::9"];
/// What comes to them, and what a container sends in their names.
pub(crate) const COUNTED: &str = "ip netns exec uplink nft 'add counter inet seen answers
    add rule inet seen in ip daddr 198.51.100.9 counter name answers
    add rule inet seen in ip6 daddr 2001:db8:77::9 counter name answers'
    nft 'add table inet seen; add counter inet seen sent
    add chain inet seen in { type filter hook prerouting priority -500; }
    add rule inet seen in ip saddr 198.51.100.9 counter name sent
    add rule inet seen in ip6 saddr 2001:db8:77::9 counter name sent'
    echo 0 >/proc/sys/net/ipv4/icmp_ratelimit; echo 0 >/proc/sys/net/ipv6/icmp/ratelimit
    echo 1 >/proc/sys/net/ipv4/ipfrag_time
    echo 1 >/proc/sys/net/netfilter/nf_conntrack_frag6_timeout || true";

/// `then`: what comes before it asks the host whether all of it has come.
pub(crate) fn forge(world: &World, netns: &str, then: impl FnOnce()) {
    let addresses = ["10.80.0.1", "fd80::1", "198.51.100.7", "2001:db8:77::7"];
    let mut sends = world.command("ip");
    sends.args(["netns", "exec", netns, "python3", "-c", FORGE]).args(addresses).args(FORGED);
    let sent = sends.output().expect("ip starts");
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    then();
    // What the host says to the last of it, it has said before it answers this.
    until_answered(world, netns);
}

/// The container's neighbour is the host, which answers it.
#[track_caller]
fn until_answered(world: &World, netns: &str) {
    for gateway in ["10.80.0.1", "fd80::1"] {
        until(world, &format!("ip netns exec {netns} ping -c1 -W1 {gateway} >/dev/null"));
    }
}

/// Where the host has begun to put fragments together it reports that they never came.
#[track_caller]
pub(crate) fn until_forgotten(world: &World) {
    until(world, "test $(cat /proc/net/nf_conntrack_frag6 2>/dev/null | wc -l) = 0");
    until(world, "! grep -Eq '^FRAG6?: inuse [1-9]' /proc/net/sockstat /proc/net/sockstat6");
}

/// The host answers no outside host in whose name a container sends, and containers go on as before.
#[test]
fn the_host_answers_no_forged_sender() {
    let world = World::new(&subject());
    prepare(&world);
    outside(&world, "vpn");
    world.netns("box");
    world.sh(TUNNEL_UP);
    let spoke = |command: &str| world.sh(&format!("{SPOKE} {command}"));
    spoke("network create --via wg0 --subnet 10.80.0.0/24 --subnet fd80::/64 vpn");
    spoke("network connect vpn box");
    world.sh(COUNTED);
    // In its own name it finds the host. For a forged sender the address of its link would ask, which a new link has
    // not yet.
    until_answered(&world, "box");
    forge(&world, "box", || {});
    let sent = world.sh("nft list counter inet seen sent | grep -o 'packets [0-9]*'");
    assert_eq!(sent.trim(), "packets 15");
    until_forgotten(&world);
    let answers = world.sh(&reading("uplink", "answers"));
    assert_eq!(answers.trim(), "0", "{}", world.sh("nft list table inet spoke_via"));
    send(&world, "/run/netns/box");
    until_more(&world, "vpn", BOTH);
}

/// Answers of a container on two networks come in by the one that is not theirs.
#[test]
fn a_container_on_two_networks_answers_by_the_other_one() {
    let world = World::new(&subject());
    prepare(&world);
    outside(&world, "vpn");
    world.sh(TUNNEL_UP);
    let _serve = Serve::start(&world, &[]);
    ["two", "third"].iter().for_each(|name| drop(world.netns(name)));
    let spoke = |command: &str| world.sh(&format!("{SPOKE} {command}"));
    spoke("network create --via wg0 --subnet 10.80.0.0/24 --subnet fd80::/64 vpn");
    spoke("network create --subnet 10.81.0.0/24 --subnet fd81::/64 plain");
    spoke("network create --subnet 10.82.0.0/24 --subnet fd82::/64 third");
    spoke("network connect vpn two");
    spoke("network connect --ip 10.81.0.9 --ifname eth1 plain two");
    spoke("network connect third third");
    world.sh("ip -n two rule flush; ip -n two rule add lookup main
        ip -n two -6 rule flush; ip -n two -6 rule add lookup main
        ip -n two route replace default via 10.80.0.1 dev eth0
        ip -n two -6 route replace default via fd80::1 dev eth0
        ip netns exec two sh -c 'echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
            echo 0 >/proc/sys/net/ipv4/conf/eth1/rp_filter'");
    for (address, host) in [("10.81.0.9", "203.0.113.254"), ("fd81::2", "2001:db8:113::254")] {
        // In fragments, too. A neighbour may not be known at once on a busy machine.
        for ping in [
            "ip netns exec third ping -c1 -W1".to_owned(),
            format!("ping -c1 -W1 -I {host}"),
            "ip netns exec third ping -c1 -W1 -s 4000".to_owned(),
        ] {
            until(&world, &format!("{ping} {address} >/dev/null"));
        }
    }
    on_bridges_of_others(&world);
    for address in ["10.84.0.9", "172.30.0.9"] {
        until(&world, &format!("ping -c1 -W1 -I 203.0.113.254 {address} >/dev/null"));
    }
    // This host has got networks, and no program has removed anything.
    let events = spoke("events");
    assert!(!events.contains("put back"), "{events}");
}

/// The container is also on a bridge that the operator named, and on one of another program, as Docker's.
#[track_caller]
fn on_bridges_of_others(world: &World) {
    world.sh(&format!(
        "{SPOKE} network create --bridge br9 --subnet 10.84.0.0/24 foreign
        ip link add br9 type bridge
        {SPOKE} network connect --ip 10.84.0.9 --ifname eth2 foreign two
        ip link add docker9 type bridge; ip link set docker9 up
        ip address add 172.30.0.1/24 dev docker9
        ip link add port9 type veth peer name eth3 netns two
        ip link set port9 master docker9 up; ip -n two link set eth3 up
        ip -n two address add 172.30.0.9/24 dev eth3
        ip -n two rule flush; ip -n two rule add priority 9 lookup main
        ip -n two route replace default via 10.80.0.1 dev eth0
        ip netns exec two sh -c 'for each in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 >$each; done'"
    ));
    until(world, "nft list set inet spoke_via inside4 | grep -q 172.30.0.0/24");
}

/// A way on a network that has one itself: what it forwards has the source of others.
#[test]
fn a_container_behind_a_way_is_the_way_of_another_network() {
    let world = World::new(&subject());
    prepare(&world);
    outside(&world, "vpn");
    outside(&world, "gluetun");
    world.netns("box");
    world.sh(TUNNEL_UP);
    let _serve = Serve::start(&world, &[]);
    let spoke = |command: &str| world.sh(&format!("{SPOKE} {command}"));
    spoke("network create --via wg0 --subnet 10.82.0.0/24 --subnet fd82::/64 side");
    spoke(
        "network create --via container:spoke/gluetun --subnet 10.80.0.0/24 --subnet fd80::/64 vpn",
    );
    spoke("network connect side gluetun");
    spoke("network connect vpn box");
    world.sh("ip -n gluetun address add 198.51.100.7/32 dev lo
        ip -n gluetun address add 2001:db8:77::7/128 nodad dev lo");
    for address in ["198.51.100.7", "2001:db8:77::7"] {
        until(&world, &format!("ip netns exec box ping -c1 -W1 {address}"));
    }
    let lookup = "nft list set inet spoke_via relays | grep -q sp-side";
    until(&world, lookup);
    spoke("network set vpn --via wg0");
    until(&world, &format!("! {lookup}"));
}
