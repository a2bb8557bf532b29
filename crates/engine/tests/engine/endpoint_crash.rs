//! The process dies before each of its side effects. The next one goes on, or clears up.

use super::endpoint_world::*;
use engine::{AtOnce, Engine, Mode, Siblings};
use model::*;

type Call = fn(&Engine<'_>) -> Result<()>;

fn asked() -> engine::Request {
    both(&front(), "a", 2)
}

fn sibling() -> AttachmentId {
    both(&docker("back", "10.1.0.0/29", "fd01::/125"), "b", 3).id()
}

/// A container's life, as Docker calls it: its first network, a second one that takes its ports
/// over, and its end.
const LIFE: &[Call] = &[
    |engine| engine.networks.enroll(&alias("n", &front()), &front()).map(drop),
    |engine| engine.attachments.reserve(&asked(), &id("n")).map(drop),
    |engine| engine.attachments.join(&asked().id(), &joining("s", Handoff::Finish)).map(drop),
    |engine| {
        let ports = vec![map(None, 80), map(None, 90)];
        engine.attachments.publish(&asked().id(), &publishing(ports, Siblings::TakeOver)).map(drop)
    },
    |engine| {
        let network = docker("back", "10.1.0.0/29", "fd01::/125");
        engine.networks.enroll(&alias("m", &network), &network)?;
        engine.attachments.reserve(&both(&network, "b", 3), &id("m"))?;
        engine.attachments.join(&sibling(), &joining("s", Handoff::Caller)).map(drop)
    },
    |engine| {
        let ports = vec![map(None, 80)];
        engine.attachments.publish(&sibling(), &publishing(ports, Siblings::TakeOver)).map(drop)
    },
    |engine| {
        let ports = vec![map(None, 80), map(None, 70)];
        engine.attachments.publish(&asked().id(), &publishing(ports, Siblings::TakeOver)).map(drop)
    },
    |engine| engine.attachments.unpublish(&asked().id()),
    |engine| engine.attachments.leave(&asked().id()),
    |engine| engine.links.remove(&asked().id()),
    |engine| engine.networks.withdraw(&id("n")),
    |engine| engine.attachments.leave(&sibling()),
    |engine| engine.links.remove(&sibling()),
    |engine| engine.networks.withdraw(&id("m")),
];

/// Runs until the process dies; which call it was that it died in.
fn live_until(rig: &Rig, effect: i64) -> Option<usize> {
    rig.die_before(effect);
    for (place, call) in LIFE.iter().enumerate() {
        match rig.with(call) {
            Ok(()) => {}
            Err(error) => {
                assert!(rig.is_dead(), "call {place}: {error}");
                return Some(place);
            }
        }
    }
    None
}

fn each_death(mut then: impl FnMut(&Rig, usize)) {
    for effect in 0.. {
        let rig = Rig::new();
        let Some(place) = live_until(&rig, effect) else { return assert!(effect > 40, "{effect}") };
        rig.reborn();
        then(&rig, place);
        let kernel = rig.kernel();
        assert_eq!(kernel, Kernel::default(), "effect {effect}, call {place}");
        rig.with(|engine| {
            assert_eq!(engine.records.attachments().unwrap(), [], "effect {effect}, call {place}");
            assert_eq!(engine.records.networks().unwrap(), [], "effect {effect}, call {place}");
            assert_eq!(engine.records.aliases().unwrap(), [], "effect {effect}, call {place}");
            assert!(engine.records.ports().unwrap().is_empty(), "effect {effect}, call {place}");
            let held = engine.records.holders().unwrap();
            assert!(held.iter().all(|holder| holder.attachment().is_none()), "{held:?}");
        });
    }
}

#[test]
fn the_same_call_again_goes_on() {
    each_death(|rig, place| {
        for call in &LIFE[place..] {
            rig.with(call).unwrap();
        }
    });
}

#[test]
fn after_a_reconciliation_the_same_call_goes_on_too() {
    each_death(|rig, place| {
        rig.with(|engine| engine.repair.reconcile(Mode::Mend)).unwrap();
        for call in &LIFE[place..] {
            rig.with(call).unwrap();
        }
    });
}

#[test]
fn deleting_at_once_leaves_nothing() {
    each_death(|rig, _| {
        rig.with(|engine| {
            engine.links.remove(&asked().id()).unwrap();
            engine.networks.withdraw(&id("n")).unwrap();
            engine.links.remove(&sibling()).unwrap();
            engine.networks.withdraw(&id("m")).unwrap();
        });
    });
}

#[test]
fn withdrawing_the_networks_leaves_nothing() {
    each_death(|rig, _| {
        rig.with(|engine| {
            engine.networks.withdraw(&id("n")).unwrap();
            engine.networks.withdraw(&id("m")).unwrap();
        });
    });
}

#[test]
fn healing_makes_the_kernel_what_the_book_says() {
    each_death(|rig, _| {
        rig.with(|engine| {
            engine.repair.reconcile(Mode::Mend).unwrap();
            engine.repair.raise_networks().unwrap();
            engine.repair.restore(&mut AtOnce).unwrap();
            let kernel = rig.kernel();
            let mut claimed: Vec<(Protocol, u16, AttachmentId)> = Vec::new();
            for (protocol, port, claims) in engine.records.ports().unwrap() {
                claimed.extend(claims.into_iter().map(|claim| (protocol, port, claim.holder)));
            }
            let mut served: Vec<(Protocol, u16, AttachmentId)> = kernel
                .ports
                .into_iter()
                .map(|((protocol, port, _), holder)| (protocol, port, holder))
                .collect();
            claimed.sort();
            served.sort();
            assert_eq!(served, claimed);
            engine.networks.withdraw(&id("n")).unwrap();
            engine.networks.withdraw(&id("m")).unwrap();
        });
    });
}
