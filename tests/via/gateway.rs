//! Routers and containers as the way.

use tests::{Serve, World};

use crate::bed::{SPOKE, count, outside, prepare, remains, seen, send, subject, until, until_more};

/// A router on the segment of the uplink is the way: not the uplink's own router, and no other host there.
#[test]
fn a_router_beside_another_is_the_way() {
    let world = World::new(&subject());
    prepare(&world);
    outside(&world, "other");
    // One segment with two routers.
    world.sh(
        "ip link add sw0 type bridge; ip link set sw0 up
        ip link add up1 type veth peer name out1 netns other
        ip link set up1 master sw0 up; ip -n other link set out1 up
        ip -n uplink link set out0 down; ip link delete up0
        ip link add up0 type veth peer name port0; ip link set port0 master sw0 up; ip link set up0 up
        ip link add port1 type veth peer name out0 netns uplink; ip link set port1 master sw0 up
        ip -n uplink link set out0 up
        ip address add 203.0.113.254/24 dev up0; ip address add 2001:db8:113::254/64 nodad dev up0
        ip -n uplink address add 203.0.113.1/24 dev out0
        ip -n uplink address add 2001:db8:113::1/64 nodad dev out0
        ip -n other address add 203.0.113.2/24 dev out1
        ip -n other address add 2001:db8:113::2/64 nodad dev out1
        ip route add default via 203.0.113.1; ip -6 route add default via 2001:db8:113::1",
    );
    let before = remains(&world);
    let _serve = Serve::start(&world, &[]);
    let spoke = |command: &str| world.sh(&format!("{SPOKE} {command}"));
    world.netns("box");
    spoke(
        "network create --via 203.0.113.2,2001:db8:113::2 --subnet 10.80.0.0/24 --subnet fd80::/64 vpn",
    );
    spoke("network connect vpn box");
    send(&world, "/run/netns/box");
    until_more(&world, "other", &["four", "six"]);
    // Who calls by a port is answered, also from the segment, and by no other router.
    for family in ["four", "six"] {
        assert_eq!(count(&world, "uplink", family), 0);
    }
    let held = format!("test \"$({SPOKE} network inspect vpn -f '{{{{.via.held}}}}')\" = true");
    for taken in [
        "ip rule flush; ip rule add priority 32766 lookup main; ip -6 rule flush; ip -6 rule add priority 32766 \
         lookup main",
        "nft flush ruleset",
        "ip -n other link set out1 down; ip -n other link set out1 up; \
         ip -n other address add 2001:db8:113::2/64 nodad dev out1 || true",
    ] {
        world.sh(taken);
        until(&world, &held);
        until_more(&world, "other", &["four", "six"]);
    }
    assert_eq!(seen(&world, "uplink"), (0, 0));
    // A way of one family lets nothing of the other one out.
    spoke("network disconnect vpn box");
    spoke("network rm vpn");
    spoke("network create --via 203.0.113.2 --subnet 10.80.0.0/24 --subnet fd80::/64 vpn");
    spoke("network connect vpn box");
    until_more(&world, "other", &["four"]);
    let six = count(&world, "other", "six");
    until_more(&world, "other", &["four"]);
    assert_eq!(count(&world, "other", "six"), six);
    assert_eq!(seen(&world, "uplink"), (0, 0));
    spoke("network disconnect vpn box");
    spoke("network rm vpn");
    until(&world, "! nft list tables | grep -q spoke_via");
    assert_eq!(remains(&world), before);
    let refused = world
        .try_sh(&format!("{SPOKE} network create --via wg0 --internal --subnet 10.80.0.0/24 x"));
    assert!(refused.stderr.contains("internal"), "{refused:?}");
    let refused =
        world.try_sh(&format!("{SPOKE} network create --via 127.0.0.1 --subnet 10.80.0.0/24 x"));
    assert!(refused.stderr.contains("is no router's address"), "{refused:?}");
}

/// A container is the way: followed by its name when it comes back, and never taken for the next one that has its
/// address.
#[test]
fn a_container_is_the_way_again_and_again() {
    let world = World::new(&subject());
    prepare(&world);
    let before = remains(&world);
    let serve = Serve::start(&world, &[]);
    let spoke = |command: &str| world.sh(&format!("{SPOKE} {command}"));
    world.netns("box");
    outside(&world, "gluetun");
    outside(&world, "other");
    spoke("network create --subnet 10.82.0.0/24 --subnet fd82::/64 side");
    spoke(
        "network create --via container:spoke/gluetun --subnet 10.80.0.0/24 --subnet fd80::/64 vpn",
    );
    spoke("network connect vpn box");
    // Whatever else is on its network would forward, too.
    world.sh("ip netns exec other sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding'");
    send(&world, "/run/netns/box");
    let rounds = std::env::var("VIA_RESTARTS").map_or(40, |it| it.parse().expect("a number"));
    for round in 0..rounds {
        spoke(&format!("network connect --ip 10.82.0.{} side gluetun", 10 + round % 3));
        until_more(&world, "gluetun", &["four", "six"]);
        if round % 20 == 0 {
            // The answer finds back: this host is who sends.
            assert_eq!(spoke("network inspect vpn -f '{{.via.held}}'").trim(), "true");
            spoke("network disconnect side gluetun");
            spoke(&format!("network connect --ip 10.82.0.{} side other", 10 + round % 3));
            world.try_sh("ip netns exec box ping -c2 -i0.2 -W1 198.51.100.7");
            spoke("network disconnect side other");
        } else {
            spoke("network disconnect side gluetun");
        }
    }
    assert_eq!((seen(&world, "uplink"), seen(&world, "other")), ((0, 0), (0, 0)));
    // The daemon is dead, and another container gets its address.
    spoke("network connect --ip 10.82.0.9 side gluetun");
    until_more(&world, "gluetun", &["four", "six"]);
    serve.kill();
    spoke("network disconnect side gluetun");
    spoke("network connect --ip 10.82.0.9 side other");
    world.try_sh("ip netns exec box ping -c2 -i0.2 -W1 198.51.100.7");
    assert_eq!((seen(&world, "uplink"), seen(&world, "other")), ((0, 0), (0, 0)));
    let _serve = Serve::start(&world, &[]);
    spoke("network disconnect side other");
    spoke("network disconnect vpn box");
    spoke("network rm vpn");
    spoke("network rm side");
    until(&world, "! nft list tables | grep -q spoke_via");
    assert_eq!(remains(&world), before);
}
