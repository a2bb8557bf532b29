//! A network that gets another way while its containers run.

use tests::{Serve, World};

use crate::bed::{
    OTHER_TUNNEL_UP, SPOKE, TUNNEL_UP, count, outside, prepare, reading, remains, run, seen, send,
    subject, until, until_more,
};
use crate::life::ASKS;

/// How the port has frames to addresses of the link's own protocols handled.
const SWITCHED: &str =
    "ip -d link show master sp-vpn | grep -o 'group_fwd_mask [^ ]*' | cut -d' ' -f2";
const BOTH: &[&str] = &["four", "six"];

/// Whose address packets have that leave there.
const SOURCES: [(&str, &str); 3] =
    [("vpn", "10.99.0.2"), ("other", "10.98.0.2"), ("uplink", "203.0.113.254")];

/// What is sent all the time leaves by one way, or by the other: not by a third one, and not by the former one
/// afterwards.
#[test]
fn a_network_that_runs_gets_another_way() {
    let world = World::new(&subject());
    prepare(&world);
    ["vpn", "other"].iter().for_each(|name| outside(&world, name));
    world.netns("box");
    // What began by another way does not go on by this one.
    for (name, own) in SOURCES {
        world.sh(&format!(
            "ip netns exec {name} nft 'add counter inet seen former
             add rule inet seen in ip daddr 198.51.100.7 ip saddr != {own} counter name former'"
        ));
    }
    let before = remains(&world);
    let serve = Serve::start(&world, &[]);
    let spoke = |command: &str| world.sh(&format!("{SPOKE} {command}"));
    world.sh(TUNNEL_UP);
    world.sh(OTHER_TUNNEL_UP);
    spoke("network create --via wg0 --names --subnet 10.80.0.0/24 --subnet fd80::/64 vpn");
    spoke("network connect vpn box");
    send(&world, "/run/netns/box");
    until_more(&world, "vpn", BOTH);
    let moves = |(way, to): (&str, &str), from: &str| {
        spoke(&format!("network set vpn --via {way}"));
        let left = seen(&world, from);
        until_more(&world, to, BOTH);
        assert_eq!(seen(&world, from), left, "{way}: {}", world.logs());
    };
    for _ in 0..20 {
        moves(("wg1", "other"), "vpn");
        moves(("wg0", "vpn"), "other");
    }
    assert_eq!(seen(&world, "uplink"), (0, 0));
    assert!(spoke("ps -o json").contains("box"));
    // As the host leaves, and by the way again.
    for _ in 0..3 {
        let switched = world.sh(SWITCHED);
        moves(("none", "uplink"), "vpn");
        until_remains(&world, &before);
        assert_eq!([switched, world.sh(SWITCHED)], ["0xfffd\n", "0\n"]);
        asks(&world, "uplink", "vpn");
        moves(("wg0", "vpn"), "uplink");
        asks(&world, "vpn", "uplink");
    }
    for (name, _) in SOURCES {
        assert_eq!(count(&world, name, "former"), 0, "{name}");
    }
    // What is not there yet shuts the network, and without the daemon all is the same.
    serve.kill();
    let way_out = seen(&world, "uplink");
    spoke("network set vpn --via wg7");
    let shut = seen(&world, "vpn");
    world.sh("ip netns exec box ping -c2 -i0.2 -W1 198.51.100.7 || true");
    assert_eq!((seen(&world, "vpn"), seen(&world, "uplink")), (shut, way_out));
    moves(("wg1", "other"), "vpn");
    moves(("none", "uplink"), "other");
    assert_eq!(remains(&world), before, "no daemon runs");

    let _serve = Serve::start(&world, &[]);
    // A container that is the way is followed.
    outside(&world, "gluetun");
    spoke("network create --subnet 10.82.0.0/24 --subnet fd82::/64 side");
    spoke("network connect side gluetun");
    moves(("container:spoke/gluetun", "gluetun"), "uplink");
    refuses(&world);
    spoke("network disconnect side gluetun");
    spoke("network connect --ip 10.82.0.77 side gluetun");
    let left = seen(&world, "uplink");
    until_more(&world, "gluetun", BOTH);
    assert_eq!(seen(&world, "uplink"), left);
    ["network disconnect vpn box", "network disconnect side gluetun", "network rm vpn side"]
        .iter()
        .for_each(|command| drop(spoke(command)));
    until(&world, "! nft list tables | grep -q spoke_via");
    assert_eq!(remains(&world), before);
    let events = spoke("events");
    assert!(!events.contains("put back"), "{events}");
}

/// The daemon may put back something of the former way until it has read that there is none. Nothing leaves by it.
#[track_caller]
fn until_remains(world: &World, before: &str) {
    until(
        world,
        "! nft list tables | grep -q spoke_via && ! { ip rule; ip -6 rule; } | grep -q '^15[345]:'",
    );
    assert_eq!(remains(world), before);
}

/// What the daemon asks others for a container leaves by the way of now, too.
#[track_caller]
fn asks(world: &World, to: &str, former: &str) {
    let (asked, left) = (count(world, to, "asked"), count(world, former, "asked"));
    run(world, "/run/netns/box", &["python3", "-c", ASKS, "udp"]);
    until(world, &format!("test $({}) -gt {asked}", reading(to, "asked")));
    assert_eq!(count(world, former, "asked"), left, "{former}");
}

/// Nothing is recorded of a way that cannot be.
#[track_caller]
fn refuses(world: &World) {
    world.sh(&format!("{SPOKE} network create --internal --subnet 10.83.0.0/24 inner"));
    world.sh(&format!("{SPOKE} network create --bridge br9 --subnet 10.84.0.0/24 foreign"));
    world.sh("ip link add br9 type bridge");
    for (command, why) in [
        ("vpn --via sp-vpn", "the network's own bridge"),
        ("vpn --via 127.0.0.1", "is no router's address"),
        ("inner --via wg0", "internal"),
        ("side --via container:spoke/gluetun", "is on network side itself"),
        ("foreign --via wg0", "a bridge that Spoke makes"),
    ] {
        let refused = world.try_sh(&format!("{SPOKE} network set {command}"));
        assert!(refused.status != 0 && refused.stderr.contains(why), "{command}: {refused:?}");
    }
    let shown = world.sh(&format!("{SPOKE} network inspect vpn inner foreign -o json"));
    assert_eq!(shown.matches("\"way\":").count(), 1, "{shown}");
    world.sh(&format!("{SPOKE} network rm inner foreign; ip link delete br9"));
}
