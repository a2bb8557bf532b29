//! What becomes of an endpoint when something fails, or its process dies, at any point.

use engine::{Connecting, Mode};
use model::*;

use super::default_gateway::publishing;
use super::kept::{apart, into, networks};
use super::plugin_world::{Fault, World};

/// Without what goes wrong it goes well: no fault comes after so many points.
const MANY: usize = 400;

const STEPS: usize = 6;

/// The steps of an endpoint's life; each is repeated until it is done.
fn live(world: &World, network: &str, step: usize) -> Result<()> {
    let engine = world.engine();
    let request = publishing(apart(world, network, "web"), &[8080]);
    let id = request.id();
    match step {
        0 => match engine.networks.create_endpoint(&request, &Connecting::default()) {
            // Done before it was reported.
            Err(error) if error.kind() == Kind::Conflict => Ok(()),
            made => made.map(|_| ()),
        },
        1 | 3 => engine.networks.join_endpoint(&id, &into("s", "eth0")).map(|_| ()),
        2 | 4 => engine.networks.leave_endpoint(&id),
        _ => match engine.networks.remove_endpoint(&id, false) {
            Err(error) if error.kind() == Kind::NotFound => Ok(()),
            removed => removed,
        },
    }
}

fn each(fault: fn(usize) -> Fault, between: fn(&World)) -> usize {
    let mut came = 0;
    for network in ["a", "b"] {
        for step in 0..STEPS {
            for point in 0..MANY {
                let world = networks();
                for before in 0..step {
                    live(&world, network, before).unwrap();
                }
                let had = address(&world);
                let (is_hit, _) = world.with(fault(point), || live(&world, network, step));
                if !is_hit {
                    break;
                }
                came += 1;
                let when = format!("{network} step {step} point {point}");
                between(&world);
                for again in step..STEPS {
                    let done = live(&world, network, again);
                    assert!(done.is_ok(), "{when}: {again}: {done:?}");
                    let led = led(network, again);
                    world_is_led(&world, led, &when);
                    if again < STEPS - 1 && step > 0 {
                        assert_eq!(address(&world), had, "{when}");
                    }
                }
                let engine = world.engine();
                assert!(engine.repair.reconcile(Mode::Mend).unwrap().is_empty(), "{when}");
                for network in ["a", "b"] {
                    engine.networks.remove(&network.parse().unwrap(), false).unwrap();
                }
                world.assert_empty(&when);
            }
        }
    }
    came
}

fn address(world: &World) -> Option<IpNet> {
    let found = world.engine().records.attachments().unwrap();
    found.first().and_then(|record| record.addresses.first()).map(|held| held.address)
}

fn led(network: &str, step: usize) -> &'static [&'static str] {
    match (network, step) {
        ("a", 1 | 3) => &["a: [V4]"],
        ("b", 1 | 3) => &["b: [V4, V6]"],
        _ => &[],
    }
}

#[track_caller]
fn world_is_led(world: &World, led: &[&str], when: &str) {
    assert_eq!(world.default_gateways("web"), led, "{when}");
    let ports = world.engine().records.ports().unwrap().len();
    assert_eq!(ports, usize::from(!led.is_empty()), "{when}");
    if !led.is_empty() {
        let attachments = world.engine().records.attachments().unwrap();
        assert!(attachments.iter().all(|it| it.gateway_role.is_some()), "{when}");
    }
}

#[test]
fn a_kill_at_any_point_is_repaired_by_the_next_call() {
    assert!(each(Fault::Kills, |_| {}) > 80);
}

#[test]
fn a_kill_at_any_point_is_mended_by_the_collector() {
    let mended = |world: &World| {
        world.engine().repair.reconcile(Mode::Mend).unwrap();
    };
    assert!(each(Fault::Kills, mended) > 80);
}

#[test]
fn a_kill_and_a_reboot_leave_what_was_made() {
    let rebooted = |world: &World| {
        world.reboot();
        world.engine().networks.revive_endpoints(None).unwrap();
    };
    assert!(each(Fault::Kills, rebooted) > 80);
}

#[test]
fn a_failure_at_any_point_can_be_repeated() {
    assert!(each(Fault::Fails, |_| {}) > 20);
}

/// A join that is repeated because the sandbox has no default gateway yet, and fails at that again.
#[test]
fn a_repetition_that_fails_takes_nothing_out() {
    for network in ["a", "b"] {
        let mut stayed = 0;
        for kills in 0..MANY {
            let world = networks();
            let request = apart(&world, network, "web");
            let id = request.id();
            world.engine().networks.create_endpoint(&request, &Connecting::default()).unwrap();
            let join = || drop(world.engine().networks.join_endpoint(&id, &into("s", "eth0")));
            let (was_killed, _) = world.with(Fault::Kills(kills), join);
            let is_in = || {
                let record = world.engine().records.attachment(&id).unwrap().unwrap();
                matches!(record.phase, Phase::Attached(_))
            };
            for fails in (0..MANY).take_while(|_| is_in()) {
                if !world.with(Fault::Fails(fails), join).0 {
                    break;
                }
                assert!(is_in(), "{network}: killed at {kills}, failed at {fails}");
                stayed += 1;
            }
            if !was_killed {
                break;
            }
        }
        assert!(stayed > 0, "{network}: no failure came");
    }
}
