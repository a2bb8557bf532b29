//! Endpoints in libnetwork's order of calls: each verb once, twice, and out of order.

use super::endpoint_world::*;
use super::subnet_rig::exactly;
use engine::{AtOnce, Engine, Mode};
use model::*;

fn user(engine: &Engine<'_>, address: &str) -> Option<Option<AttachmentId>> {
    let holder = engine.records.holder(&Space::Host, address.parse().unwrap()).unwrap()?;
    match holder.tenant {
        Tenant::Request { user, .. } => Some(user),
        Tenant::Attachment { id, .. } => Some(Some(id)),
    }
}

#[test]
fn an_endpoint_from_its_creation_to_its_deletion() {
    let rig = Rig::new();
    rig.with(|engine| {
        let network = front();
        engine.networks.enroll(&alias("n", &network), &network).unwrap();
        rig.calls();
        let made = engine.attachments.reserve(&both(&network, "a", 2), &id("n")).unwrap();
        assert_eq!(made.phase, Phase::Reserved);
        assert_eq!((made.runtime, made.alias.clone()), (Runtime::Docker, Some(id("n"))));
        assert_eq!(made.wiring.link.as_ref().unwrap().mac, Some(Mac::local([0, 0, 0, 0, 0, 2])));
        assert_eq!(user(engine, "10.0.0.2"), Some(Some(made.id.clone())));
        assert!(rig.calls().is_empty(), "nothing is made yet");

        let joined = engine.attachments.join(&made.id, &joining("s", Handoff::Finish)).unwrap();
        assert!(matches!(joined.phase, Phase::Attached(_)));
        assert_eq!(joined.wiring.link.unwrap().name, Some("eth0".parse().unwrap()));
        assert_eq!(rig.calls(), ["attach link of a"]);
        engine
            .attachments
            .publish(&made.id, &publishing(vec![map(None, 80)], engine::Siblings::TakeOver))
            .unwrap();
        rig.calls();

        engine.attachments.leave(&made.id).unwrap();
        let ports = "detach publish of a 0.0.0.0:80->80/tcp [::]:80->80/tcp";
        assert_eq!(rig.calls(), [ports, "detach link of a"]);
        assert_eq!(
            engine.records.attachment(&made.id).unwrap().unwrap(),
            made,
            "reserved as before"
        );
        assert!(engine.records.ports().unwrap().is_empty());

        engine.links.remove(&made.id).unwrap();
        assert_eq!(engine.records.attachments().unwrap(), []);
        assert_eq!(user(engine, "10.0.0.2"), Some(None), "only a release frees it");
        assert!(engine.repair.reconcile(Mode::Mend).unwrap().is_empty());
        assert_eq!(engine.records.holders().unwrap().len(), 2);
        assert!(rig.kernel().links.is_empty());
    });
}

#[test]
fn everything_can_be_said_twice() {
    let rig = Rig::new();
    rig.with(|engine| {
        let network = front();
        let known = alias("n", &network);
        engine.networks.enroll(&known, &network).unwrap();
        engine.networks.enroll(&known, &network).unwrap();
        let asked = both(&network, "a", 2);
        let made = engine.attachments.reserve(&asked, &known.id).unwrap();
        assert_eq!(engine.attachments.reserve(&asked, &known.id).unwrap(), made);
        let how = joining("s", Handoff::Finish);
        let joined = engine.attachments.join(&made.id, &how).unwrap();
        rig.calls();
        assert_eq!(engine.attachments.join(&made.id, &how).unwrap(), joined);
        assert_eq!(engine.attachments.reserve(&asked, &known.id).unwrap(), joined);
        assert!(rig.calls().is_empty());
        let ports = publishing(vec![map(None, 80)], engine::Siblings::TakeOver);
        let published = engine.attachments.publish(&made.id, &ports).unwrap();
        assert_eq!(engine.attachments.publish(&made.id, &ports).unwrap(), published);
        assert_eq!(engine.attachments.published(&made.id).unwrap(), published);
        for _ in 0..2 {
            engine.attachments.unpublish(&made.id).unwrap();
        }
        for _ in 0..2 {
            engine.attachments.leave(&made.id).unwrap();
        }
        for _ in 0..2 {
            engine.links.remove(&made.id).unwrap();
        }
        engine.attachments.leave(&made.id).unwrap();
        assert_eq!(engine.attachments.join(&made.id, &how).unwrap_err().kind(), Kind::NotFound);
        assert_eq!(
            engine.attachments.publish(&made.id, &ports).unwrap_err().kind(),
            Kind::NotFound
        );
        for _ in 0..2 {
            engine.networks.withdraw(&known.id).unwrap();
        }
        assert_eq!(rig.kernel(), Kernel::default());
    });
}

#[test]
fn another_address_is_another_endpoint() {
    let rig = Rig::new();
    rig.with(|engine| {
        let network = front();
        engine.networks.enroll(&alias("n", &network), &network).unwrap();
        engine.attachments.reserve(&both(&network, "a", 2), &id("n")).unwrap();
        for other in [both(&network, "a", 3), endpoint(&network, "a", &["10.0.0.2/29"])] {
            let error = engine.attachments.reserve(&other, &id("n")).unwrap_err();
            assert_eq!(error.kind(), Kind::Conflict);
            assert!(error.to_string().contains("10.0.0.2/29"), "{error}");
        }
        let error = engine.attachments.reserve(&both(&network, "b", 2), &id("n")).unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict);
        assert!(error.to_string().contains("held by container a"), "{error}");
        assert_eq!(engine.records.attachments().unwrap().len(), 1);
        let unknown = engine.attachments.reserve(&both(&network, "b", 3), &id("m")).unwrap_err();
        assert_eq!(unknown.kind(), Kind::NotFound);
    });
}

/// The subnet that was asked was full; then the book was lost.
#[test]
fn a_lost_address_of_a_sibling_subnet_is_released_all_the_same() {
    let rig = Rig::new();
    rig.with(|engine| {
        let mut network = front();
        let Ipam::Book { pools } = &mut network.ipam else { unreachable!() };
        pools[0].ranges.push(Range::of_hosts("10.2.0.0/29".parse().unwrap(), None, None).unwrap());
        let [asked, sibling, other] = ["10.0.0.0/29", "10.2.0.0/29", "10.3.0.0/29"]
            .map(|net| engine.subnets.request_subnet(&exactly(net)).unwrap().id);
        for subnet in [&asked, &sibling] {
            engine.subnets.relabel_subnet(subnet, &network.name).unwrap();
        }
        engine.networks.enroll(&alias("n", &network), &network).unwrap();
        for reported in ["10.2.0.3/29", "10.2.0.3/24"] {
            let made = engine
                .attachments
                .reserve(&endpoint(&network, "a", &[reported]), &id("n"))
                .unwrap();
            let Tenant::Request { subnet, .. } = &engine.records.holders().unwrap()[0].tenant
            else {
                unreachable!()
            };
            assert_eq!(*subnet, sibling);
            engine.links.remove(&made.id).unwrap();
            let address = "10.2.0.3".parse().unwrap();
            engine.subnets.release_address(&other, address).unwrap();
            assert_eq!(engine.records.holders().unwrap().len(), 1, "another network's");
            engine.subnets.release_address(&asked, address).unwrap();
            assert!(engine.records.holders().unwrap().is_empty());
        }
    });
}

#[test]
fn addresses_of_dockers_own_book_are_held_in_ours() {
    let rig = Rig::new();
    rig.with(|engine| {
        let network = front();
        engine.networks.enroll(&alias("n", &network), &network).unwrap();
        let fixed = |container: &str| {
            let mut asked = endpoint(&network, container, &["10.0.0.5/29"]);
            let Ipam::Requested { leases } = asked.ipam else { unreachable!() };
            asked.ipam = Ipam::Fixed { leases };
            asked
        };
        let first = engine.attachments.reserve(&fixed("a"), &id("n")).unwrap();
        // Docker's book gives an address again: it has forgotten to delete the first.
        let second = engine.attachments.reserve(&fixed("b"), &id("n")).unwrap();
        assert!(engine.records.attachment(&first.id).unwrap().is_none());
        engine.attachments.join(&second.id, &joining("s", Handoff::Finish)).unwrap();
        let error = engine.attachments.reserve(&fixed("c"), &id("n")).unwrap_err();
        assert!(error.to_string().contains("held by container b"), "{error}");
        engine.links.remove(&second.id).unwrap();
        assert!(engine.records.holders().unwrap().is_empty());
    });
}

#[test]
fn a_failed_join_leaves_the_reservation() {
    let rig = Rig::new();
    rig.with(|engine| {
        let network = front();
        engine.networks.enroll(&alias("n", &network), &network).unwrap();
        let made = engine.attachments.reserve(&both(&network, "a", 2), &id("n")).unwrap();
        *rig.fails.lock().unwrap() = Some("attach");
        let how = joining("s", Handoff::Finish);
        assert_eq!(engine.attachments.join(&made.id, &how).unwrap_err().kind(), Kind::Kernel);
        assert_eq!(engine.records.attachment(&made.id).unwrap().unwrap(), made);
        assert!(rig.kernel().links.is_empty());
        *rig.fails.lock().unwrap() = None;
        engine.attachments.join(&made.id, &how).unwrap();
    });
}

#[test]
fn what_cannot_be_undone_is_undone_by_the_next_call() {
    let rig = Rig::new();
    rig.with(|engine| {
        let id = up(engine, &front(), "a", "s");
        *rig.fails.lock().unwrap() = Some("detach");
        assert_eq!(engine.attachments.leave(&id).unwrap_err().kind(), Kind::Kernel);
        assert_eq!(engine.links.remove(&id).unwrap_err().kind(), Kind::Kernel);
        assert!(engine.records.attachment(&id).unwrap().is_some());
        *rig.fails.lock().unwrap() = None;
        engine.links.remove(&id).unwrap();
        assert!(engine.records.attachments().unwrap().is_empty() && rig.kernel().links.is_empty());
    });
}

#[test]
fn one_endpoint_is_in_one_sandbox() {
    let rig = Rig::new();
    rig.with(|engine| {
        let id = up(engine, &front(), "a", "s");
        let error = engine.attachments.join(&id, &joining("t", Handoff::Finish)).unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict);
        assert!(error.to_string().contains("/netns/s"), "{error}");
        rig.gone.lock().unwrap().insert(id.clone());
        rig.calls();
        engine.attachments.join(&id, &joining("t", Handoff::Finish)).unwrap();
        assert_eq!(rig.calls(), ["detach link of a", "attach link of a"]);
    });
}

#[test]
fn what_docker_moved_goes_with_the_endpoint() {
    let rig = Rig::new();
    rig.with(|engine| {
        let network = front();
        engine.networks.enroll(&alias("n", &network), &network).unwrap();
        let made = engine.attachments.reserve(&both(&network, "a", 2), &id("n")).unwrap();
        let how = joining("s", Handoff::Caller);
        let joined = engine.attachments.join(&made.id, &how).unwrap();
        assert_eq!(joined.handoff, Handoff::Caller);
        rig.calls();
        engine.attachments.leave(&made.id).unwrap();
        assert!(rig.calls().is_empty(), "Docker moves it back after Leave");
        assert_eq!(rig.kernel().links.len(), 1);
        engine.attachments.join(&made.id, &how).unwrap();
        assert_eq!(rig.calls(), ["detach link of a", "attach link of a"]);
        engine.attachments.leave(&made.id).unwrap();
        engine.links.remove(&made.id).unwrap();
        assert!(rig.kernel().links.is_empty());
    });
}

#[test]
fn no_other_runtime_collects_a_reservation() {
    let rig = Rig::new();
    rig.with(|engine| {
        let network = front();
        engine.networks.enroll(&alias("n", &network), &network).unwrap();
        engine.attachments.reserve(&both(&network, "a", 2), &id("n")).unwrap();
        let id = up(engine, &network_of_b(), "b", "s");
        assert!(engine.repair.reconcile(Mode::Mend).unwrap().is_empty());
        engine.repair.gc(&network, &engine::Members::new()).unwrap();
        engine.repair.gc(&network_of_b(), &engine::Members::new()).unwrap();
        assert_eq!(
            engine.records.attachments().unwrap().len(),
            2,
            "they are no CNI runtime's to list"
        );
        let pods = engine.records.holders().unwrap();
        assert_eq!(pods.len(), 4);
        engine.links.remove(&id).unwrap();
    });
}

fn network_of_b() -> Network {
    docker("back", "10.1.0.0/29", "fd01::/125")
}

#[test]
fn threads_take_turns_at_an_endpoint() {
    let rig = Rig::new();
    let network = front();
    let asked = both(&network, "a", 2);
    rig.with(|engine| engine.networks.enroll(&alias("n", &network), &network).unwrap());
    let ports = publishing(vec![map(None, 80)], engine::Siblings::TakeOver);
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (rig, asked, ports) = (&rig, &asked, &ports);
            scope.spawn(move || {
                rig.with(|engine| {
                    for round in 0..50 {
                        let acceptable = |error: Error| {
                            let kind = error.kind();
                            assert!(matches!(kind, Kind::NotFound | Kind::TryAgain), "{error}");
                        };
                        match (worker + round) % 4 {
                            0 => drop(
                                engine.attachments.reserve(asked, &id("n")).map_err(acceptable),
                            ),
                            1 => {
                                let how = joining("s", Handoff::Finish);
                                drop(
                                    engine.attachments.join(&asked.id(), &how).map_err(acceptable),
                                );
                                drop(
                                    engine
                                        .attachments
                                        .publish(&asked.id(), ports)
                                        .map_err(acceptable),
                                );
                            }
                            2 => engine.attachments.leave(&asked.id()).unwrap(),
                            _ => engine.links.remove(&asked.id()).unwrap(),
                        }
                        engine.repair.reconcile(Mode::Mend).unwrap();
                        engine.repair.restore(&mut AtOnce).unwrap();
                    }
                });
            });
        }
    });
    rig.with(|engine| {
        engine.links.remove(&asked.id()).unwrap();
        assert!(
            engine.records.attachments().unwrap().is_empty()
                && engine.records.ports().unwrap().is_empty()
        );
    });
    let kernel = rig.kernel();
    assert!(kernel.links.is_empty() && kernel.ports.is_empty(), "{kernel:?}");
}
