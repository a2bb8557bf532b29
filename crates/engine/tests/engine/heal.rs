//! Putting back what was lost.

use std::collections::BTreeSet;

use super::endpoint_world::*;
use engine::port::{Damaged, Host, Key, Presence, Record, Store, Stray, Txn, Versioned};
use engine::{AtOnce, Backoff, Engine, Garbage, Healed, Mode, Remedy, Siblings};
use model::*;

#[test]
fn networks_come_back_after_a_reboot() {
    let rig = Rig::new();
    rig.with(|engine| drop(up(engine, &front(), "a", "s")));
    rig.reboot();
    rig.with(|engine| {
        assert!(engine.records.attachments().unwrap().is_empty(), "the containers are gone");
        engine.repair.raise_networks().unwrap();
        assert!(rig.kernel().bridges.contains(&front().name));
        *rig.fails.lock().unwrap() = Some("up");
        let error = engine.repair.raise_networks().unwrap_err();
        assert!(error.to_string().contains("making network front"), "{error}");
    });
}

#[test]
fn the_filter_comes_back() {
    let rig = Rig::new();
    rig.with(|engine| {
        let a = up(engine, &front(), "a", "s");
        engine
            .attachments
            .publish(&a, &publishing(vec![map(None, 80)], Siblings::TakeOver))
            .unwrap();
        let before = rig.kernel();
        rig.kernel.lock().unwrap().ports.clear();
        rig.calls();
        assert!(engine.repair.restore(&mut AtOnce).unwrap());
        assert_eq!(rig.kernel(), before);
        assert_eq!(rig.calls().len(), 2);
        assert!(!engine.repair.restore(&mut AtOnce).unwrap(), "nothing was missing");
    });
}

/// Where nothing is put back before [`Backoff::is_busy`] says so.
#[derive(Default)]
struct Noting(Vec<AttachmentId>);

impl Backoff for Noting {
    fn is_due(&mut self, _: Healed<'_>) -> bool {
        true
    }

    fn looked(&mut self, _: Healed<'_>, _: bool) {}

    fn is_busy(&mut self, what: Healed<'_>) {
        if let Healed::Own(id, _) = what {
            self.0.push(id.clone());
        }
    }
}

/// A thread waits for a third-party plugin, and holds its attachment's lock meanwhile.
#[test]
fn an_attachment_that_is_worked_on_keeps_no_other_waiting() {
    let rig = Rig::new();
    rig.with(|engine| {
        let ids = ["a", "b", "c"].map(|name| up(engine, &front(), name, name));
        for (id, port) in ids.iter().zip(80..) {
            engine
                .attachments
                .publish(id, &publishing(vec![map(None, port)], Siblings::TakeOver))
                .unwrap();
        }
        let settings = Settings { mtu: Mtu::new(1400), ..Settings::default() };
        *rig.fails.lock().unwrap() = Some("revise");
        let change = NetworkChange { settings, ..NetworkChange::default() };
        engine.networks.set_network(&front().name, &change).unwrap_err();
        *rig.fails.lock().unwrap() = None;
        let before = rig.kernel();
        rig.kernel.lock().unwrap().ports.clear();
        let held = rig.lock_attachment(&ids[0]);
        let mut noting = Noting::default();
        assert!(engine.repair.restore(&mut noting).unwrap());
        let healed: BTreeSet<AttachmentId> = rig.kernel().ports.into_values().collect();
        assert_eq!(healed, ids[1..].iter().cloned().collect());
        assert_eq!(noting.0, [ids[0].clone(), ids[0].clone()], "both of its layers");

        drop(held);
        let mut noting = Noting::default();
        assert!(engine.repair.restore(&mut noting).unwrap());
        assert_eq!((rig.kernel(), noting.0), (before, Vec::new()));
    });
}

/// Another process's turn is no lock to this one.
#[test]
fn what_another_process_withdraws_meanwhile_does_not_come_back() {
    let rig = Rig::new();
    rig.with(|engine| {
        let a = up(engine, &front(), "a", "s");
        let ports = vec![map(None, 80), map(None, 81)];
        engine.attachments.publish(&a, &publishing(ports, Siblings::TakeOver)).unwrap();
        let of = |rig: &Rig| -> BTreeSet<u16> {
            rig.kernel().ports.keys().map(|(_, port, _)| *port).collect()
        };
        let key = Key::Attachment(a.clone(), Layer::Publish);
        let (changed, at) = (key.clone(), Txn::new());
        *rig.meanwhile.lock().unwrap() = Some(Box::new(move |rig| {
            let Some(Versioned { record: Record::Attachment(mut record), .. }) =
                rig.get(&changed).unwrap()
            else {
                panic!("no record")
            };
            let publish = record.wiring.publish.as_mut().unwrap();
            publish.ports.retain(|map| map.host_port.get() == 80);
            rig.commit(&at.put(changed, Record::Attachment(record))).unwrap();
            rig.kernel.lock().unwrap().ports.retain(|(_, port, _), _| *port == 80);
        }));
        engine.repair.restore(&mut AtOnce).unwrap();
        assert_eq!(of(&rig), BTreeSet::from([80]), "the other was withdrawn");

        *rig.meanwhile.lock().unwrap() = Some(Box::new(move |rig| {
            rig.commit(&Txn::new().delete(key)).unwrap();
            rig.kernel.lock().unwrap().ports.clear();
        }));
        engine.repair.restore(&mut AtOnce).unwrap();
        assert_eq!(of(&rig), BTreeSet::new(), "the record is gone");
    });
}

#[test]
fn garbage_that_is_worked_on_keeps_no_other() {
    let rig = Rig::new();
    rig.with(|engine| {
        let ids = ["a", "b"].map(|name| up(engine, &front(), name, name));
        rig.gone.lock().unwrap().extend(ids.clone());
        let held = rig.lock_attachment(&ids[0]);
        engine.repair.reconcile(Mode::Mend).unwrap();
        let left = || engine.records.attachments().unwrap().into_iter().map(|record| record.id);
        assert_eq!(left().collect::<BTreeSet<_>>(), BTreeSet::from([ids[0].clone()]));
        drop(held);
        engine.repair.reconcile(Mode::Mend).unwrap();
        assert_eq!(left().count(), 0);
    });
}

#[test]
fn what_is_put_back_in_part_goes_with_its_record() {
    let rig = Rig::new();
    rig.with(|engine| {
        let a = up(engine, &front(), "a", "s");
        engine
            .attachments
            .publish(&a, &publishing(vec![map(None, 80)], Siblings::TakeOver))
            .unwrap();
        *rig.meanwhile.lock().unwrap() = Some(Box::new(move |rig| {
            for layer in Layer::ALL {
                rig.commit(&Txn::new().delete(Key::Attachment(a.clone(), layer))).unwrap();
            }
            rig.kernel.lock().unwrap().ports.clear();
        }));
        *rig.fails.lock().unwrap() = Some("restore");
        engine.repair.restore(&mut AtOnce).unwrap_err();
        assert!(rig.kernel().ports.is_empty());
    });
}

/// The record changes between reading and writing, or another thread has its attachment's lock.
#[test]
fn names_are_learned_although_the_record_changes() {
    let rig = Rig::new();
    rig.with(|engine| {
        let mut network = front();
        network.wiring.names = true;
        let a = up(engine, &network, "a", "s");
        let (owner, names) = ("web".parse().unwrap(), ["www".parse().unwrap()]);
        let key = Key::Attachment(a.clone(), Layer::Link);
        *rig.before_commit.lock().unwrap() = Some(Box::new(move |rig| {
            let Some(Versioned { record: Record::Attachment(mut record), .. }) =
                rig.get(&key).unwrap()
            else {
                panic!("no record")
            };
            record.link_local = vec!["169.254.7.1".parse().unwrap()];
            rig.commit(&Txn::new().put(key, Record::Attachment(record))).unwrap();
        }));
        engine.attachments.set_names(&a, Some(&owner), &names).unwrap();
        let now = engine.records.attachment(&a).unwrap().unwrap();
        assert_eq!((now.owner.as_ref(), &now.names[..]), (Some(&owner), &names[..]));
        assert_eq!(now.link_local.len(), 1, "the other change is kept");

        let _held = rig.lock_attachment(&a);
        let busy = engine.attachments.set_names(&a, Some(&owner), &[]).unwrap_err();
        assert_eq!(busy.kind(), Kind::TryAgain, "it is learned later: {busy}");
        engine.attachments.set_owner(&a, &"db".parse().unwrap()).unwrap();
    });
}

/// A DEL and an ADD of another process while healing works: what healing has put back for the first address is
/// stays.
#[test]
fn what_stands_for_a_lost_address_goes() {
    for (address, expected) in [("10.1.0.77/24", 1), ("", 0)] {
        let rig = Rig::new();
        rig.with(|engine| {
            let a = up(engine, &front(), "a", "s");
            let key = Key::Attachment(a.clone(), Layer::Link);
            *rig.meanwhile.lock().unwrap() = Some(Box::new(move |rig| {
                let Some(Versioned { record: Record::Attachment(mut record), .. }) =
                    rig.get(&key).unwrap()
                else {
                    panic!("no record")
                };
                record.phase = Phase::Attaching { by: Process { pid: 4_000_000, start: 1 } };
                // Nothing is known yet where others give the addresses.
                record.addresses.truncate(usize::from(!address.is_empty()));
                for held in &mut record.addresses {
                    held.address = address.parse().unwrap();
                }
                rig.commit(&Txn::new().put(key, Record::Attachment(record))).unwrap();
            }));
            rig.calls();
            engine.repair.restore(&mut AtOnce).unwrap();
            let of_lost = |call: &String| call.starts_with("withdraw_addresses");
            let calls = rig.calls();
            assert_eq!(calls.iter().filter(|call| of_lost(call)).count(), expected, "{calls:?}");
        });
    }
}

/// A running machine's tap, and a pair that Docker has yet to move, are in no container.
/// An attach that began after the records were read for strays makes elements of the stray's mark.
#[test]
fn what_has_a_record_by_now_is_no_stray() {
    let rig = Rig::new();
    rig.with(|engine| {
        let attached = up(engine, &front(), "a", "s");
        let its = Stray::Elements(attached.to_string());
        let others = Stray::Elements("other".to_owned());
        *rig.strays.lock().unwrap() = vec![(its.clone(), Presence::Gone), (others, Presence::Gone)];
        let found = engine.repair.reconcile(Mode::Mend).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(*rig.strays.lock().unwrap(), [(its, Presence::Gone)]);
    });
}

#[test]
fn nothing_goes_that_a_damaged_record_may_be_of() {
    let rig = Rig::new();
    let tap = Stray::Link("sp1".parse().unwrap());
    rig.strays.lock().unwrap().push((tap.clone(), Presence::Gone));
    let damaged = Damaged { path: "attachments/front/a".to_owned(), why: "cut".to_owned() };
    rig.damaged.lock().unwrap().push(damaged);
    let found = |engine: &Engine<'_>| -> Vec<Remedy> {
        let mut found = engine.repair.reconcile(Mode::Mend).unwrap();
        found.retain(|it| it.what == Garbage::Stray(tap.clone()));
        found.into_iter().map(|it| it.remedy).collect()
    };
    rig.with(|engine| {
        assert_eq!(found(engine), [Remedy::Quarantine]);
        assert_eq!(rig.strays.lock().unwrap().len(), 1, "it was removed");
        assert_eq!(engine.records.attachments().unwrap(), [], "lists go on");
        let refused = engine.records.intact_attachments().unwrap_err();
        assert_eq!(refused.kind(), Kind::Conflict, "{refused}");
        rig.damaged.lock().unwrap().clear();
        assert_eq!(engine.records.intact_attachments().unwrap(), []);
        assert_eq!(found(engine), [Remedy::Free]);
        assert!(rig.strays.lock().unwrap().is_empty());
    });
}

/// A daemon that brings back what a name keeps, and a command that has it forgotten.
#[test]
fn what_is_forgotten_meanwhile_is_not_brought_back() {
    let rate = Rate { rate: 8_000, burst: 8_000 };
    let limits = Bandwidth { ingress: Some(rate), ..Bandwidth::default() };
    let port = PortMap { host: Some("0.0.0.0".parse().unwrap()), ..map(None, 80) };
    for (bandwidth, ports) in [(Some(limits), Vec::new()), (None, vec![port])] {
        for is_forgotten in [false, true] {
            let rig = Rig::new();
            rig.with(|engine| {
                let a = up(engine, &front(), "a", "s");
                let name: OwnerName = "web".parse().unwrap();
                let (network, runtime) = (front().name, Runtime::Docker);
                let key = Key::Amendment(network.clone(), runtime, name.clone());
                let (bandwidth, ports) = (bandwidth.clone(), ports.clone());
                let layer = if ports.is_empty() { Layer::Link } else { Layer::Publish };
                let name_of = name.clone();
                let kept = Amendment {
                    network,
                    runtime,
                    name,
                    is_of_endpoint: false,
                    layer,
                    ports,
                    bandwidth,
                    egress: None,
                };
                let kept = Record::Amendment(Box::new(kept));
                rig.commit(&Txn::new().put(key.clone(), kept)).unwrap();
                let forget: Meanwhile = Box::new(move |rig| {
                    rig.commit(&Txn::new().delete(key)).unwrap();
                });
                // The first commit gives the container its name.
                *rig.before_commit.lock().unwrap() = Some(Box::new(move |rig| {
                    *rig.before_commit.lock().unwrap() = is_forgotten.then_some(forget);
                }));
                engine.attachments.set_owner(&a, &name_of).unwrap();
                let has = engine.records.attachments().unwrap().iter().any(|record| {
                    let wiring = &record.wiring;
                    wiring.publish.is_some() || wiring.bandwidth.is_some()
                });
                assert_eq!(has, !is_forgotten, "{:?}", engine.records.attachments());
            });
        }
    }
}
