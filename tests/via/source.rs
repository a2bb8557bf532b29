//! The address of this host that packets of a network leave with.

use tests::{Serve, World};

use crate::bed::{SPOKE, prepare, subject, until};

const CREATE: &str = "network create --subnet 10.80.0.0/24";

#[track_caller]
fn refused(world: &World, option: &str, words: &str) {
    let tried = world.try_sh(&format!("{SPOKE} {CREATE} {option} no"));
    assert!(tried.status != 0 && tried.stderr.contains(words), "{option}: {tried:?}");
    assert_eq!(world.sh(&format!("{SPOKE} network ls -q")), "", "{option}");
}

/// A router may lead it here, or the host get it later; a broadcast address is nobody's.
#[test]
fn what_is_no_address_of_this_host_is_warned_of() {
    let world = World::new(&subject());
    prepare(&world);
    for (option, lacking) in [
        ("--source 50.0.0.66", "50.0.0.66"),
        ("--source 2001:db8:113::1", "2001:db8:113::1"),
        ("--host-ipv4 203.0.113.1", "203.0.113.1"),
        ("--source 203.0.113.254,fd00::66", "fd00::66"),
    ] {
        let made = world.try_sh(&format!("{SPOKE} {CREATE} {option} yes"));
        let what = format!("leave with {lacking}, which is no address of this host");
        assert!(made.status == 0 && made.stderr.contains(&what), "{option}: {made:?}");
        let again = world.try_sh(&format!("{SPOKE} {CREATE} {option} yes"));
        assert!(again.status != 0 && again.stderr.contains("already exists"), "{again:?}");
        world.sh(&format!("{SPOKE} network rm yes"));
    }
    refused(&world, "--source 203.0.113.255", "which is a broadcast address");
    for of_nobody in ["127.0.0.1", "224.0.0.1", "255.255.255.255", "0.0.0.0", "::1", "fe80::1"] {
        refused(&world, &format!("--source {of_nobody}"), "an address of this host that others");
    }
    world.sh("ip address add 203.0.113.66/24 dev up0");
    refused(&world, "--source 203.0.113.254,203.0.113.66", "two addresses of one family");
    refused(
        &world,
        "--source 203.0.113.254 --host-ipv4 203.0.113.66",
        "another option says otherwise",
    );
    // One that a route leads to this host will do, and one of any device.
    world.sh("ip route add local 192.0.2.0/28 dev lo; ip address add fd00::66/128 dev lo nodad");
    let made = world.try_sh(&format!("{SPOKE} {CREATE} --source 192.0.2.7,fd00::66 any"));
    assert!(made.status == 0 && made.stderr.is_empty(), "{made:?}");
}

/// It leaves with the address all the same, and with no other one.
#[test]
fn an_address_that_goes_is_reported() {
    let world = World::new(&subject());
    prepare(&world);
    world.netns("box");
    // Beyond a router, so that no neighbour of the uplink is asked for it.
    world.sh(
        "ip address add 192.0.2.66/32 dev lo; ip -n uplink route add 192.0.2.66 via 203.0.113.254
        ip -n uplink address add 198.51.100.9/32 dev lo",
    );
    world.sh(&format!(
        "{SPOKE} {CREATE} --source 192.0.2.66 named; {SPOKE} network connect named box"
    ));
    let serve = Serve::start(&world, &[]);
    let doctor = || world.sh(&format!("{SPOKE} doctor || true"));
    let explain = || world.try_sh(&format!("{SPOKE} explain spoke/box 198.51.100.9")).stdout;
    let reported =
        "packets of network named leave with 192.0.2.66, which is no address of this host";
    let pings = "ip netns exec box ping -q -c 1 -W 5 198.51.100.9 >/dev/null";
    world.sh(pings);
    assert!(!doctor().contains(reported) && !explain().contains("no address of this host"));
    let events = |words: &str| format!("{SPOKE} events | grep -q '{words}'");
    world.sh("ip address delete 192.0.2.66/32 dev lo");
    until(&world, &events(reported));
    let found = doctor();
    assert!(found.contains(reported), "{found}");
    assert!(found.contains("fix: ip address add 192.0.2.66/32 dev up0"), "{found}");
    let explained = explain();
    assert!(explained.contains("192.0.2.66, as its network says (--source)"), "{explained}");
    assert!(explained.contains("fix: ip addr add 192.0.2.66 dev up0"), "{explained}");
    world.sh("ip address add 192.0.2.66/32 dev up0");
    until(&world, &events("named do not leave with a missing 192.0.2.66 any more"));
    assert!(!doctor().contains(reported));
    world.sh(pings);
    drop(serve);
}
