//! Where a sandbox's ports lead, while networks come and go.

use engine::Mode;
use model::*;

use super::default_gateway::{BOTH, V4, publishing, world};
use super::plugin_networks::to;
use super::plugin_world::{Fault, World};

/// A sandbox on `a`, with the ports 80 and 81.
fn published() -> World {
    let world = world(&[("a", V4), ("b", V4), ("c", BOTH), ("d", &[])]);
    let first = publishing(to(&world, "a", "s", "eth0"), &[80, 81]);
    world.engine().networks.connect(&first, 0).unwrap();
    assert_eq!(world.served("s"), ["a: [80, 81]"]);
    world.take_log();
    world
}

#[track_caller]
fn holds(world: &World, count: usize) {
    let ports = world.engine().records.ports().unwrap();
    assert_eq!(ports.len(), count);
    for (_, port, claims) in ports {
        assert!(claims.iter().all(|claim| claim.holder.container.as_str() == "s"), "{port}");
    }
}

#[test]
fn they_lead_to_the_default_gateway() {
    let world = published();
    let engine = world.engine();
    engine.networks.connect(&to(&world, "b", "s", "eth1"), 1).unwrap();
    assert_eq!(world.take_log(), ["attach b", "lead a []", "lead b [V4]"], "never to both");
    assert_eq!(world.served("s"), ["b: [80, 81]"]);
    // With the one that they were named with they do not go.
    engine.networks.disconnect(&to(&world, "a", "s", "eth0").id()).unwrap();
    assert_eq!(world.served("s"), ["b: [80, 81]"]);
    holds(&world, 2);
    // More are programmed where the others are.
    engine.networks.connect(&publishing(to(&world, "d", "s", "eth2"), &[82]), 0).unwrap();
    assert_eq!(world.served("s"), ["b: [80, 81, 82]"]);
    // The leader goes: the one that leads nowhere is led out beside.
    engine.networks.disconnect(&to(&world, "b", "s", "eth1").id()).unwrap();
    assert_eq!(world.served("s"), ["gwbridge: [80, 81, 82]"]);
    engine.networks.connect(&to(&world, "c", "s", "eth9"), 0).unwrap();
    assert_eq!(world.served("s"), ["c: [80, 81, 82]"]);
    holds(&world, 3);
    for (network, ifname) in [("c", "eth9"), ("d", "eth2")] {
        engine.networks.disconnect(&to(&world, network, "s", ifname).id()).unwrap();
    }
    holds(&world, 0);
}

/// A container that was never there has no ports.
#[test]
fn what_failed_leaves_no_port_behind() {
    for name in ["b", "d"] {
        for point in 0..100 {
            let world = published();
            let asked = publishing(to(&world, name, "s", "eth1"), &[82]);
            let (came, done) =
                world.with(Fault::Fails(point), || world.engine().networks.connect(&asked, 5));
            if !came {
                break;
            }
            if done.unwrap().is_err() {
                let when = format!("{name} at {point}");
                assert_eq!(world.served("s"), ["a: [80, 81]"], "{when}");
                holds(&world, 2);
            }
        }
    }
}

/// Of a port that another container has, the sandbox learns before anything is made.
#[test]
fn the_port_of_another_is_refused() {
    let world = published();
    let engine = world.engine();
    engine.networks.connect(&publishing(to(&world, "b", "t", "eth0"), &[83]), 0).unwrap();
    world.take_log();
    let asked = publishing(to(&world, "b", "s", "eth1"), &[83]);
    assert_eq!(engine.networks.connect(&asked, 5).unwrap_err().kind(), Kind::Conflict);
    assert_eq!(world.take_log(), Vec::<String>::new());
    // Also while the sandbox's own lead elsewhere.
    engine.networks.connect(&to(&world, "c", "s", "eth1"), 5).unwrap();
    let asked = publishing(to(&world, "b", "u", "eth0"), &[80]);
    assert_eq!(engine.networks.connect(&asked, 0).unwrap_err().kind(), Kind::Conflict);
    assert!(engine.repair.reconcile(Mode::Mend).unwrap().is_empty());
}
