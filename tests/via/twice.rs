//! Two commands that change a way at the same time, and one that was killed.

use tests::{Serve, World};

use crate::bed::{
    OTHER_TUNNEL_UP, SPOKE, TUNNEL_UP, outside, prepare, remains, seen, send, subject, until,
    until_more,
};

const CREATE: &str =
    "network create --via wg0 --names --subnet 10.80.0.0/24 --subnet fd80::/64 vpn";

/// What the record says is what the kernel does, whichever of the commands comes to it last; no daemon puts it right.
#[test]
fn of_two_commands_at_once_the_recorded_way_leads() {
    let world = World::new(&subject());
    prepare(&world);
    ["vpn", "other"].iter().for_each(|name| outside(&world, name));
    world.netns("box");
    let spoke = |command: &str| world.sh(&format!("{SPOKE} {command}"));
    [TUNNEL_UP, OTHER_TUNNEL_UP].iter().for_each(|up| drop(world.sh(up)));
    let serve = Serve::start(&world, &[]);
    spoke(CREATE);
    spoke("network connect vpn box");
    serve.kill();
    for _ in 0..30 {
        world.sh(&format!(
            "for way in wg0 wg1 wg0 wg1; do {SPOKE} network set vpn --via $way & done; wait"
        ));
        let shown = spoke("network inspect vpn -o json");
        let (way, other) = match shown.contains("\"wg0\"") {
            true => ("wg0", "wg1"),
            false => ("wg1", "wg0"),
        };
        let kernel = world.sh("nft list set inet spoke_via links; ip route show table all default");
        let is_led = |device: &str| kernel.contains(&format!("\"{device}\""));
        assert!(is_led(way) && !is_led(other), "{shown}: {kernel}");
        assert!(kernel.contains(&format!("dev {way} table")), "{shown}: {kernel}");
        assert!(!kernel.contains(&format!("dev {other} table")), "{shown}: {kernel}");
    }
}

/// What a killed command left of the filter keeps the network shut: the daemon removes it at its start.
#[test]
fn a_daemon_opens_what_a_killed_command_left_shut() {
    let world = World::new(&subject());
    prepare(&world);
    outside(&world, "vpn");
    world.netns("box");
    let before = remains(&world);
    let spoke = |command: &str| world.sh(&format!("{SPOKE} {command}"));
    world.sh(TUNNEL_UP);
    let serve = Serve::start(&world, &[]);
    spoke(CREATE);
    spoke("network connect vpn box");
    send(&world, "/run/netns/box");
    until_more(&world, "vpn", &["four", "six"]);
    serve.kill();
    // The rules of routing go before the filter.
    let held = world.sh("nft list table inet spoke_via");
    spoke("network set vpn --via none");
    world.sh(&format!("nft -f - <<'END'\n{held}END"));
    // What left while the network was open has arrived after the first of these.
    let asks = || drop(world.sh("ip netns exec box ping -c3 -i0.3 -W1 198.51.100.7 || true"));
    asks();
    let shut = seen(&world, "uplink");
    asks();
    assert_eq!(seen(&world, "uplink"), shut);
    let _serve = Serve::start(&world, &[]);
    until(&world, "! nft list tables | grep -q spoke_via");
    until_more(&world, "uplink", &["four", "six"]);
    assert_eq!(remains(&world), before);
}
