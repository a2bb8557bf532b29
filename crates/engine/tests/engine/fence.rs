//! Egress rules that a command changes while containers come, and ways that lead nowhere.

use std::sync::Arc;

use super::common::request;
use super::endpoint_world::*;
use engine::port::{Damaged, Key, Record, Store};
use engine::{Mode, Request};

use model::*;

fn fenced() -> Network {
    let mut network = front();
    let link = network.wiring.link.as_mut().unwrap();
    if let LinkKind::Bridge(bridge) = &mut link.kind {
        bridge.gateway = Gateway::Default;
    }
    network.wiring.fence = Some("a.example:443".parse().unwrap());
    network.wiring.firewall = Some(Firewall::open(Backend::Nftables));
    network
}

fn allow(engine: &engine::Engine<'_>, rules: &str) {
    let rules: Fence = rules.parse().unwrap();
    let changed =
        engine.networks.change_fence(&fenced().name, &|fence| *fence = rules.clone()).unwrap();
    assert_eq!(changed.wiring.fence, Some(rules));
}

/// The endpoint's record has a copy of the rules from when it was created.
#[test]
fn who_joins_has_the_rules_of_then() {
    let rig = Rig::new();
    rig.with(|engine| {
        let network = fenced();
        engine.networks.enroll(&alias("n", &network), &network).unwrap();
        let made = engine.attachments.reserve(&both(&network, "a", 2), &id("n")).unwrap();
        allow(engine, "none");
        rig.calls();
        let joined = engine.attachments.join(&made.id, &joining("s", Handoff::Finish)).unwrap();
        assert_eq!(joined.wiring.fence, Some(Fence::default()));
        assert_eq!(rig.calls(), ["attach link of a"]);
    });
}

/// What was made by the former rules follows those of now before the container is complete.
#[test]
fn rules_that_change_during_a_join_hold_afterwards() {
    let rig = Arc::new(Rig::new());
    let made = rig.with(|engine| {
        let network = fenced();
        engine.networks.enroll(&alias("n", &network), &network).unwrap();
        engine.attachments.reserve(&both(&network, "a", 2), &id("n")).unwrap()
    });
    let of_rig = Arc::clone(&rig);
    let change = move |_: &Rig| of_rig.with(|engine| allow(engine, "none"));
    *rig.meanwhile.lock().unwrap() = Some(Box::new(change));
    rig.calls();
    rig.with(|engine| engine.attachments.join(&made.id, &joining("s", Handoff::Finish))).unwrap();
    assert_eq!(rig.calls(), ["attach link of a", "up front"]);
}

/// A configuration loses its rules and its way, and the next container comes: what is attached is put back as the
/// network is now, and not as it was.
#[test]
fn what_is_put_back_has_the_rules_and_the_way_of_now() {
    let rig = Rig::new();
    rig.with(|engine| {
        let mut network = fenced();
        network.wiring.via = Some("wg0".parse().unwrap());
        let old = network.clone();
        engine.attachments.attach(&both(&network, "a", 2)).unwrap();
        (network.wiring.fence, network.wiring.via) = (None, None);
        engine.attachments.attach(&both(&network, "b", 3)).unwrap();
        let recorded = engine.records.attachment(&both(&network, "a", 2).id()).unwrap().unwrap();
        assert_eq!(recorded.wiring.fence, old.wiring.fence, "as it was attached");
        rig.restored.lock().unwrap().clear();
        engine.repair.restore(&mut engine::AtOnce).unwrap();
        for restored in rig.restored.lock().unwrap().iter() {
            assert_eq!((&restored.fence, &restored.via), (&None, &None));
        }
        assert_eq!(rig.restored.lock().unwrap().len(), 2);
    });
}

fn leave(engine: &engine::Engine<'_>, by: &str) -> Result<Network> {
    let settings = Settings { way: Some(by.parse()?), ..Settings::default() };
    let change = NetworkChange { settings, ..NetworkChange::default() };
    engine.networks.set_network(&fenced().name, &change)
}

/// The book has another way before the kernel, and each container's record has it afterwards. Who is being attached
/// meanwhile leaves by it, too.
#[test]
fn a_network_that_runs_gets_another_way() {
    let rig = Arc::new(Rig::new());
    let of_rig = Arc::clone(&rig);
    rig.with(|engine| {
        let mut network = fenced();
        network.wiring.via = Some("wg0".parse().unwrap());
        engine.networks.create(&network).unwrap();
        engine.attachments.attach(&both(&network, "a", 2)).unwrap();
        let way = |id: &AttachmentId| engine.records.attachment(id).unwrap().unwrap().wiring.via;
        let a = both(&network, "a", 2).id();
        for (by, via) in [("wg1", Some("wg1")), ("none", None), ("wg1", Some("wg1"))] {
            rig.calls();
            let changed = leave(engine, by).unwrap();
            let via = via.map(|via| via.parse::<Via>().unwrap());
            assert_eq!((&changed.wiring.via, &way(&a)), (&via, &via));
            assert_eq!(rig.calls(), [format!("lead front by {by}")], "nothing is the container's");
        }
        // Nothing is recorded of what is refused.
        *rig.fails.lock().unwrap() = Some("refuse_way");
        leave(engine, "wg2").unwrap_err();
        *rig.fails.lock().unwrap() = None;
        for bad in ["127.0.0.1", &bridge_of(&network)] {
            assert!(leave(engine, bad).is_err(), "{bad}");
        }
        assert_eq!(
            engine.records.network(&network.name).unwrap().wiring.via,
            Some("wg1".parse().unwrap())
        );

        let change = move |_: &Rig| of_rig.with(|engine| drop(leave(engine, "wg3").unwrap()));
        *rig.meanwhile.lock().unwrap() = Some(Box::new(change));
        network = engine.records.network(&network.name).unwrap();
        rig.calls();
        let late = both(&network, "b", 3);
        engine.attachments.attach(&late).unwrap();
        assert_eq!(rig.calls().last().unwrap(), "lead front by wg3");
        engine.repair.restore(&mut engine::AtOnce).unwrap();
        assert_eq!(way(&late.id()), Some("wg3".parse().unwrap()));
    });
}

fn bridge_of(network: &Network) -> String {
    let link = network.wiring.link.as_ref().unwrap();
    link.kind.bridge().unwrap().name.to_string()
}

/// An attachment of Docker's has the id of an endpoint: by that of its container nothing is ever found.
#[test]
fn a_container_of_docker_is_no_way_by_its_id() {
    let rig = Rig::new();
    rig.with(|engine| {
        let mut network = fenced();
        let id = "3f2a".repeat(16);
        for (via, expected) in [
            (format!("container:docker/{id}"), Some(Kind::Unsupported)),
            (format!("container:podman/{id}"), None),
            ("container:docker/gluetun".to_owned(), None),
        ] {
            network.wiring.via = Some(via.parse().unwrap());
            let made = engine.networks.create(&network);
            assert_eq!(made.err().map(|error| error.kind()), expected, "{via}");
            if expected.is_none() {
                engine.networks.remove(&network.name, false).unwrap();
            }
        }
    });
}

/// A renamed container comes back with the rules that it had, and its old name gives them to the next one.
#[test]
fn own_rules_follow_a_container_to_its_new_name() {
    let rig = Rig::new();
    rig.with(|engine| {
        let network = fenced();
        let called = |container: &str, name: &str| Request {
            owner: Some(name.parse().unwrap()),
            ..request(&network, container)
        };
        let come = |container: &str, name: &str| {
            engine.attachments.attach(&called(container, name)).unwrap().id
        };
        let own = |id: &AttachmentId| {
            let key = Key::Attachment(id.clone(), Layer::Link);
            match rig.get(&key).unwrap().unwrap().record {
                Record::Attachment(attachment) => attachment.wiring.own_fence,
                other => panic!("{other:?}"),
            }
        };
        let go = |container: &str| {
            engine.links.detach(&called(container, "web")).unwrap();
        };
        let (none, some): (Fence, Fence) = (Fence::default(), "b.example:1".parse().unwrap());
        let web = come("a", "web");
        engine.attachments.set_egress(&web, Some(&none)).unwrap();
        engine.attachments.set_owner(&web, &"other".parse().unwrap()).unwrap();
        assert_eq!(own(&web), Some(none.clone()));
        go("a");
        for name in ["other", "web"] {
            let next = come("b", name);
            assert_eq!(own(&next), Some(none.clone()), "{name}");
            go("b");
        }
        // What the new name keeps already holds.
        let other = come("c", "other");
        engine.attachments.set_egress(&other, Some(&some)).unwrap();
        go("c");
        let web = come("d", "web");
        engine.attachments.set_owner(&web, &"other".parse().unwrap()).unwrap();
        assert_eq!(own(&web), Some(some));
    });
}

/// Docker says what a container is called after its start. What was kept until then under the endpoint's id, which no
/// other gets, is its name's; and nothing stays of an endpoint that never had a name.
#[test]
fn what_an_id_keeps_goes_over_to_the_name() {
    let rig = Rig::new();
    rig.with(|engine| {
        let network = Network { runtime: Runtime::Docker, ..fenced() };
        let come = |id: &str| engine.attachments.attach(&request(&network, id)).unwrap().id;
        let kept = || -> Vec<String> {
            let all = engine.attachments.amendments().unwrap().into_iter();
            all.filter(|it| it.egress.is_some()).map(|it| it.name.to_string()).collect()
        };
        let (first, second) = ("a1".repeat(32), "b2".repeat(32));
        let web = come(&first);
        engine.attachments.set_egress(&web, Some(&Fence::default())).unwrap();
        assert_eq!(kept(), std::slice::from_ref(&first));
        engine.repair.reconcile(Mode::Mend).unwrap();
        assert_eq!(kept(), [first], "it is there");
        engine.attachments.set_owner(&web, &"web".parse().unwrap()).unwrap();
        assert_eq!(kept(), ["web"]);

        let nameless = come(&second);
        engine.attachments.set_egress(&nameless, Some(&Fence::default())).unwrap();
        engine.links.detach(&request(&network, &second)).unwrap();
        assert_eq!(kept().len(), 2);
        // A record that cannot be read may be the endpoint's.
        let damaged = |network: &str| Damaged {
            path: format!("attachments/{network}/x"),
            why: "cut".to_owned(),
        };
        rig.damaged.lock().unwrap().push(damaged(network.name.as_str()));
        let _ = engine.repair.reconcile(Mode::Mend);
        assert_eq!(kept().len(), 2);
        rig.damaged.lock().unwrap().clear();
        engine.repair.reconcile(Mode::Mend).unwrap();
        assert_eq!(kept(), ["web"]);
    });
}

/// A container may be named as an endpoint's id is: its name keeps its rules while it is there, and while it is not.
#[test]
fn a_name_of_64_digits_keeps_its_rules() {
    let rig = Rig::new();
    rig.with(|engine| {
        let network = Network { runtime: Runtime::Docker, ..fenced() };
        let digits = "c3".repeat(32);
        let named =
            |id: &str| Request { owner: Some(digits.parse().unwrap()), ..request(&network, id) };
        let own =
            || engine.attachments.amendments().unwrap().first().and_then(|it| it.egress.clone());
        let some = Some(Fence::default());
        let id = engine.attachments.attach(&named("a")).unwrap().id;
        engine.attachments.set_egress(&id, some.as_ref()).unwrap();
        engine.repair.reconcile(Mode::Mend).unwrap();
        assert_eq!(own(), some);
        engine.links.detach(&named("a")).unwrap();
        engine.repair.reconcile(Mode::Mend).unwrap();
        assert_eq!(own(), some);

        // Also where an endpoint of that id was there before.
        engine
            .attachments
            .forget_amendment(
                (Runtime::Docker, &digits.parse().unwrap()),
                None,
                AmendmentPart::Egress,
            )
            .unwrap();
        let nameless = engine.attachments.attach(&request(&network, &digits)).unwrap().id;
        engine.attachments.set_egress(&nameless, some.as_ref()).unwrap();
        let id = engine.attachments.attach(&named("b")).unwrap().id;
        engine.links.detach(&request(&network, &digits)).unwrap();
        engine.repair.reconcile(Mode::Mend).unwrap();
        assert_eq!(own(), some, "a container of that name is there");
        engine.attachments.set_egress(&id, some.as_ref()).unwrap();
        engine.links.detach(&named("b")).unwrap();
        engine.repair.reconcile(Mode::Mend).unwrap();
        assert_eq!(own(), some);
    });
}
