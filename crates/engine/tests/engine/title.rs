//! What networks are, and were, called: each name once, also where several processes give it at the same time.

use super::common::{World, book, request};
use super::overtaken::Between;
use engine::port::{Key, Record, Store, Txn};
use model::*;

fn name(text: &str) -> NetworkName {
    text.parse().unwrap()
}

fn named(text: &str, subnet: &str) -> Network {
    let made = book(subnet);
    made.instance(name(text), Runtime::Spoke, Timestamp(1))
}

/// A network with a container on it.
fn used(world: &World, text: &str, subnet: &str) -> Network {
    let network = named(text, subnet);
    world.engine().networks.create(&network).unwrap();
    world.engine().attachments.attach(&request(&network, text)).unwrap();
    network
}

fn rename(world: &World, from: &str, to: &str) {
    world.engine().networks.rename(&name(from), &name(to)).unwrap();
}

/// The name in the book of the network that is found so.
fn found(world: &World, called: &str) -> String {
    world.engine().records.network(&name(called)).unwrap().name.to_string()
}

fn called(world: &World, wanted: &str) -> usize {
    let networks = world.engine().records.networks().unwrap();
    networks.iter().filter(|network| network.called().as_str() == wanted).count()
}

#[test]
fn each_former_name_leads_to_the_network() {
    let world = World::new();
    used(&world, "front", "10.0.0.0/24");
    for (from, to) in [("front", "edge"), ("edge", "third"), ("edge", "fourth"), ("third", "last")]
    {
        rename(&world, from, to);
    }
    for former in ["front", "edge", "third", "fourth", "last"] {
        assert_eq!(found(&world, former), "front", "{former}");
    }
    rename(&world, "last", "edge");
    assert_eq!(called(&world, "edge"), 1);
    assert_eq!(found(&world, "last"), "front");
}

#[test]
fn a_former_name_is_that_of_the_network_that_took_it() {
    let world = World::new();
    used(&world, "front", "10.0.0.0/24");
    rename(&world, "front", "edge");
    rename(&world, "edge", "third");
    world.engine().networks.create(&named("edge", "10.0.1.0/24")).unwrap();
    assert_eq!((found(&world, "edge"), found(&world, "third")), ("edge".into(), "front".into()));
    world.engine().networks.remove(&name("edge"), false).unwrap();
    assert_eq!(found(&world, "edge"), "front");
    // Of networks that all left it, it is the last one's.
    used(&world, "other", "10.0.2.0/24");
    rename(&world, "other", "edge");
    rename(&world, "edge", "back");
    assert_eq!(found(&world, "edge"), "other");
    rename(&world, "third", "edge");
    rename(&world, "edge", "third");
    assert_eq!(found(&world, "edge"), "front");
}

#[test]
fn a_network_that_was_in_use_keeps_its_names_as_it_moves() {
    let world = World::new();
    let network = used(&world, "front", "10.0.0.0/24");
    rename(&world, "front", "edge");
    world.engine().links.detach(&request(&network, "front")).unwrap();
    rename(&world, "edge", "third");
    for former in ["front", "edge", "third"] {
        assert_eq!(found(&world, former), "third", "{former}");
    }
    world.engine().networks.remove(&name("third"), false).unwrap();
    let networks = world.engine().records.networks().unwrap();
    assert!(networks.is_empty());
    world.engine().networks.create(&named("third", "10.0.0.0/24")).unwrap();
}

fn gives_a_name(txn: &Txn) -> bool {
    txn.changes.iter().any(|(key, to)| {
        matches!((key, to), (Key::Network(_), Some(Record::Network(it))) if it.called().as_str() == "edge")
    })
}

/// Another process calls its network so just before this one does, which is killed then.
#[test]
fn two_networks_never_have_one_name() {
    let takes: [fn(&World); 2] = [
        |world| rename(world, "other", "edge"),
        |world| world.engine().networks.create(&named("edge", "10.0.9.0/24")).unwrap(),
    ];
    for (at, take) in takes.into_iter().enumerate() {
        for created in [false, true] {
            let world = World::new();
            used(&world, "front", "10.0.0.0/24");
            used(&world, "other", "10.0.1.0/24");
            let between = Between::new(&world, gives_a_name, || take(&world)).dying();
            let engine = between.engine();
            let refused = match created {
                true => engine.networks.create(&named("edge", "10.0.2.0/24")).unwrap_err(),
                false => engine.networks.rename(&name("front"), &name("edge")).unwrap_err(),
            };
            assert!(between.has_come());
            assert_eq!(called(&world, "edge"), 1, "{at} {created}: {refused}");
            assert_eq!(refused.kind(), Kind::Conflict, "{refused}");
            assert!(
                refused.to_string().contains("a network named edge already exists"),
                "{refused}"
            );
        }
    }
}

/// A container comes while an unused network is being called otherwise.
#[test]
fn an_attach_to_a_network_that_is_being_renamed_says_so() {
    let world = World::new();
    let network = named("front", "10.0.0.0/24");
    world.engine().networks.create(&network).unwrap();
    let come = || {
        let refused = world.engine().attachments.attach(&request(&network, "a")).unwrap_err();
        assert_eq!(refused.kind(), Kind::TryAgain);
        assert!(refused.to_string().contains("network front is being renamed by"), "{refused}");
    };
    let between = Between::new(&world, gives_a_name, come);
    between.engine().networks.rename(&name("front"), &name("edge")).unwrap();
    assert!(between.has_come());
    assert_eq!(found(&world, "edge"), "edge");
}

/// Another process changes a configuration while it is removed.
#[test]
fn a_template_that_changed_meanwhile_is_removed() {
    let world = World::new();
    let template = Network { stage: Stage::Template, ..named("front", "10.0.0.0/24") };
    world.engine().networks.create(&template).unwrap();
    let change = || {
        let changed = Network { since: Timestamp(2), ..template.clone() };
        let put = Record::Network(Box::new(changed));
        world.store.commit(&Txn::new().put(Key::Network(name("front")), put)).unwrap();
    };
    let ends = |txn: &Txn| matches!(txn.changes.first(), Some((Key::Network(_), None)));
    let between = Between::new(&world, ends, change);
    between.engine().networks.remove(&name("front"), false).unwrap();
    assert!(between.has_come());
    assert!(world.engine().records.networks().unwrap().is_empty());
    world.engine().networks.create(&template).unwrap();
}
