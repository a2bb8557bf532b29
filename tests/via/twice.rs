//! Two commands that change a way at the same time, and one that was killed.

use tests::{Serve, World};

use crate::bed::{
    OTHER_TUNNEL_UP, SPOKE, TUNNEL_UP, count, outside, prepare, remains, seen, send, subject,
    until, until_more,
};

const BOTH: &[&str] = &["four", "six"];
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

/// A command that is killed as soon as it has recorded another way has ended no flows: the daemon ends them at its start.
#[test]
fn a_daemon_ends_the_flows_that_a_killed_command_left() {
    const RECORD: &str = "/var/lib/spoke/networks/vpn";
    let world = World::new(&subject());
    prepare(&world);
    ["vpn", "other"].iter().for_each(|name| outside(&world, name));
    world.netns("box");
    let spoke = |command: &str| world.sh(&format!("{SPOKE} {command}"));
    for (name, own) in [("vpn", "10.82.0.1"), ("other", "10.83.0.1"), ("uplink", "203.0.113.254")] {
        world.sh(&format!(
            "ip netns exec {name} nft 'add counter inet seen former
             add rule inet seen in ip daddr 198.51.100.7 ip saddr != {own} counter name former'"
        ));
    }
    // The address with which packets are sent to a container is no device's, to which the kernel itself would look.
    for (name, net) in [("vpn", 82), ("other", 83)] {
        let subnets = format!("--subnet 10.{net}.0.0/24 --subnet fd{net}::/64");
        spoke(&format!("network create {subnets} side{net}"));
        spoke(&format!("network connect side{net} {name}"));
    }
    spoke(CREATE);
    spoke("network connect vpn box");
    for way in ["other", "none", "vpn"] {
        let via = if way == "none" { way.to_owned() } else { format!("container:spoke/{way}") };
        spoke(&format!("network set vpn --via {via}"));
        world.sh(&format!("cp {RECORD} /tmp/{way}"));
    }
    send(&world, "/run/netns/box");
    let was_killed = |from: &str, way: &str, to: &str| {
        until_more(&world, from, BOTH);
        // It counts those of earlier changes, too.
        let before = count(&world, to, "former");
        world.sh(&format!("cp /tmp/{way} {RECORD}"));
        let serve = Serve::start(&world, &[]);
        until_more(&world, to, BOTH);
        // One packet of each family may have been translated while the way changed. A flow that goes on sends a thousand
        // a second.
        let first = count(&world, to, "former");
        assert!(first - before <= 2, "{from} {to}: {before} {first}");
        (0..3).for_each(|_| until_more(&world, to, BOTH));
        serve.kill();
        assert_eq!(count(&world, to, "former"), first, "{from} {to}");
    };
    was_killed("vpn", "other", "other");
    was_killed("other", "vpn", "vpn");
    was_killed("vpn", "none", "uplink");
    was_killed("uplink", "other", "other");
    // The same flows go on as a daemon starts that finds all as it should be.
    let flows = || world.sh("conntrack -L -d 198.51.100.7 2>/dev/null | grep -c sport= || true");
    let before = flows();
    world.sh("conntrack -U -d 198.51.100.7 --mark 9");
    let _serve = Serve::start(&world, &[]);
    until_more(&world, "other", BOTH);
    assert_eq!(flows(), before);
    world.sh("conntrack -L -d 198.51.100.7 2>/dev/null | grep -q mark=9");
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
