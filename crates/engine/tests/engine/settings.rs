//! Settings of networks that change while containers are on them.

use super::endpoint_world::*;
use engine::{AtOnce, Engine, Mode};
use model::*;

fn mtu(bytes: u32) -> NetworkChange {
    let settings = Settings { mtu: Mtu::new(bytes), ..Settings::default() };
    NetworkChange { settings, ..NetworkChange::default() }
}

fn mtu_of(engine: &Engine<'_>, id: &AttachmentId) -> Option<u32> {
    let link = engine.records.attachment(id).unwrap().unwrap().wiring.link;
    link.unwrap().mtu.map(Mtu::bytes)
}

/// Killed at each step, the change is completed by the next look, or did not begin.
#[test]
fn all_follow_after_any_death() {
    let mut deaths = 0;
    for steps in 0.. {
        let rig = Rig::new();
        let ids = rig.with(|engine| ["a", "b"].map(|name| up(engine, &front(), name, name)));
        rig.die_before(steps);
        let done =
            rig.with(|engine| engine.networks.set_network(&front().name, &mtu(1400)).is_ok());
        rig.reborn();
        rig.with(|engine| {
            engine.repair.reconcile(Mode::Mend).unwrap();
            let said = engine.records.network(&front().name).unwrap().settings.mtu;
            assert_eq!(said.is_some(), steps > 0, "the book has it before the kernel");
            for id in &ids {
                assert_eq!(mtu_of(engine, id), said.map(Mtu::bytes), "{steps}");
            }
            rig.calls();
            engine.repair.restore(&mut AtOnce).unwrap();
            assert!(!rig.calls().iter().any(|call| call.starts_with("revise")), "once is enough");
        });
        if done {
            break;
        }
        deaths += 1;
    }
    assert_eq!(deaths, 6, "the book, the bridge, and two of each container");
}

/// It read its network before the change, and is complete after it.
#[test]
fn a_container_that_is_being_made_follows() {
    let rig = Rig::new();
    *rig.meanwhile.lock().unwrap() = Some(Box::new(|rig: &Rig| {
        rig.with(|engine| drop(engine.networks.set_network(&front().name, &mtu(1400)).unwrap()));
    }));
    rig.with(|engine| {
        let a = up(engine, &front(), "a", "s");
        assert_eq!(mtu_of(engine, &a), None);
        engine.repair.restore(&mut AtOnce).unwrap();
        assert_eq!(mtu_of(engine, &a), Some(1400));
    });
}

/// One that cannot follow keeps no other one from it, and is tried again.
#[test]
fn a_failure_is_reported_and_tried_again() {
    let rig = Rig::new();
    rig.with(|engine| {
        let a = up(engine, &front(), "a", "s");
        *rig.fails.lock().unwrap() = Some("revise");
        let error = engine.networks.set_network(&front().name, &mtu(1400)).unwrap_err();
        assert!(error.to_string().contains("changing container a"), "{error}");
        *rig.fails.lock().unwrap() = None;
        engine.repair.restore(&mut AtOnce).unwrap();
        assert_eq!(mtu_of(engine, &a), Some(1400));
        let error = engine.networks.set_network(&front().name, &mtu(1279)).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
    });
}
