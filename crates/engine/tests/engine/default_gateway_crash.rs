//! What becomes of a sandbox when something fails, or its process dies, at any point.

use engine::Mode;
use model::*;

use super::default_gateway::{BOTH, V4, publishing, world};
use super::plugin_networks::to;
use super::plugin_world::{Fault, World};

/// Without what goes wrong it goes well: no fault comes after so many points.
const MANY: usize = 400;

/// The steps of one life of a sandbox.
pub(crate) fn live(world: &World, step: usize) -> Result<()> {
    let engine = world.engine();
    let ports = |request| publishing(request, &[8080]);
    match step {
        0 => engine.networks.connect(&ports(to(world, "a", "s", "eth0")), 0).map(|_| ()),
        1 => engine.networks.connect(&ports(to(world, "b", "s", "eth1")), 0).map(|_| ()),
        2 => engine.networks.connect(&to(world, "c", "s", "eth2"), 7).map(|_| ()),
        3 => engine.networks.disconnect(&to(world, "c", "s", "eth2").id()),
        4 => engine.networks.disconnect(&to(world, "b", "s", "eth1").id()),
        _ => engine.networks.disconnect(&to(world, "a", "s", "eth0").id()),
    }
}

pub(crate) fn life() -> World {
    world(&[("a", &[]), ("b", V4), ("c", BOTH)])
}

/// What leads after a step.
fn led(step: usize) -> &'static [&'static str] {
    const LED: [&[&str]; 6] = [
        &["gwbridge: [V4]"],
        &["b: [V4]"],
        &["c: [V4, V6]"],
        &["b: [V4]"],
        &["gwbridge: [V4]"],
        &[],
    ];
    LED[step]
}

/// The records agree with the drivers' calls, and with the choice.
pub(crate) fn assert_led(world: &World, led: &[&str], when: &str) {
    assert_eq!(world.default_gateways("s"), led, "{when}");
    for record in world.engine().records.attachments().unwrap() {
        let reported = world.state().gateway_families.get(&record.id).cloned().unwrap_or_default();
        if let Some(served) = world.state().serves.get(&record.id) {
            let ports = record.wiring.publish.iter().flat_map(|publish| &publish.ports);
            let held: Vec<u16> = ports.map(|map| map.host_port.get()).collect();
            assert_eq!(*served, held, "{when}");
        }
        assert_eq!(record.gateway_role.unwrap().families, reported, "{when}");
    }
}

#[test]
fn every_failure_of_a_connect_leaves_the_sandbox_as_it_was() {
    for step in 0..3 {
        let mut came = 0;
        for point in 0..MANY {
            let world = life();
            for before in 0..step {
                live(&world, before).unwrap();
            }
            let before = world.engine().records.attachments().unwrap();
            let addresses = world.state().addresses;
            let (is_hit, done) = world.with(Fault::Fails(point), || live(&world, step));
            if !is_hit {
                break;
            }
            came += 1;
            // What fails on the way of something that goes well all the same does not count.
            if done.unwrap().is_ok() {
                assert_led(&world, led(step), "done all the same");
                continue;
            }
            let when = format!("step {step} point {point}");
            assert_led(&world, if step == 0 { &[] } else { led(step - 1) }, &when);
            let ids = |all: &[Attachment]| {
                let mut ids: Vec<_> = all.iter().map(|record| record.id.network.clone()).collect();
                ids.sort();
                ids
            };
            assert_eq!(ids(&world.engine().records.attachments().unwrap()), ids(&before), "{when}");
            assert_eq!(world.state().addresses, addresses, "{when}");
            live(&world, step).unwrap();
            assert_led(&world, led(step), &when);
        }
        assert!(came >= 6, "{came}");
    }
}

#[test]
fn every_failure_of_a_disconnect_is_mended_by_the_next() {
    for step in 3..6 {
        for point in 0..MANY {
            let world = life();
            for before in 0..step {
                live(&world, before).unwrap();
            }
            let (is_hit, _) = world.with(Fault::Fails(point), || live(&world, step));
            if !is_hit {
                break;
            }
            live(&world, step).unwrap();
            assert_led(&world, led(step), &format!("step {step} point {point}"));
        }
    }
}

/// Whatever a dead process was at: the next call for its sandbox, or the reconciler, finishes it.
#[test]
fn every_kill_is_mended_by_the_next_call_or_the_reconciler() {
    for is_reconciled in [true, false] {
        for step in 0..6 {
            let mut came = 0;
            for point in 0..MANY {
                let world = life();
                for before in 0..step {
                    live(&world, before).unwrap();
                }
                let (is_hit, _) = world.with(Fault::Kills(point), || live(&world, step));
                if !is_hit {
                    break;
                }
                came += 1;
                let when = format!("step {step} point {point}");
                if is_reconciled {
                    world.engine().repair.reconcile(Mode::Mend).unwrap();
                    let again = world.engine().repair.reconcile(Mode::Mend).unwrap();
                    assert!(again.is_empty(), "{when}: {again:?}");
                }
                // It is there already where the process died before it could say so.
                match live(&world, step) {
                    Ok(()) => {}
                    Err(error) => assert_eq!(error.kind(), Kind::Conflict, "{when}: {error}"),
                }
                for after in step + 1..6 {
                    live(&world, after).unwrap();
                    assert_led(&world, led(after), &format!("{when}: {after}"));
                }
                for network in ["a", "b", "c"] {
                    world.engine().networks.remove(&network.parse().unwrap(), false).unwrap();
                }
                world.assert_empty(&when);
            }
            assert!(came > 8, "{came}");
        }
    }
}

/// What went wrong with the first network, which leads at once, is undone, or mended by the next call.
#[test]
fn every_fault_of_one_that_leads_at_once() {
    for fault in [Fault::Fails, Fault::Kills] {
        let mut came = 0;
        for point in 0..MANY {
            let world = world(&[("a", BOTH), ("b", V4)]);
            let connect = |network: &str, ifname: &str| {
                let request = publishing(to(&world, network, "s", ifname), &[8080]);
                world.engine().networks.connect(&request, 0)
            };
            let (is_hit, done) = world.with(fault(point), || connect("a", "eth0"));
            if !is_hit {
                break;
            }
            came += 1;
            let when = format!("{:?}", fault(point));
            if done.is_some_and(|done| done.is_err()) {
                assert_led(&world, &[], &when);
                assert!(world.engine().records.attachments().unwrap().is_empty(), "{when}");
            }
            // Whatever is left of it, another one's coming says who leads.
            connect("b", "eth1").unwrap();
            match connect("a", "eth0") {
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), Kind::Conflict, "{when}: {error}"),
            }
            assert_led(&world, &["a: [V4, V6]"], &when);
            for (network, ifname) in [("a", "eth0"), ("b", "eth1")] {
                world.engine().networks.disconnect(&to(&world, network, "s", ifname).id()).unwrap();
                world.engine().networks.remove(&network.parse().unwrap(), false).unwrap();
            }
            world.assert_empty(&when);
        }
        assert!(came >= 8, "{came}");
    }
}
