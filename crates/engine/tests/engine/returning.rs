//! A container that is detached to be attached again keeps its addresses for a moment.

use engine::{Mode, Request};
use model::*;

use super::common::{World, book, ip, request};

const ASKED: &str = "10.0.0.7";

fn web(network: &Network) -> Request {
    Request {
        owner: Some("web".parse().unwrap()),
        wanted: vec![ASKED.parse().unwrap()],
        ..request(network, "one")
    }
}

fn thief(network: &Network) -> Request {
    let other = Request { container: "two".parse().unwrap(), ..web(network) };
    Request { owner: Some("thief".parse().unwrap()), ..other }
}

/// The world, after the runtime undid the container's network and before it makes it again.
fn between(world: &World, network: &Network) {
    let engine = world.engine();
    assert_eq!(ip(&engine.attachments.attach(&web(network)).unwrap()), ASKED);
    engine.records.keep_for_return(&web(network).id()).unwrap();
    engine.links.detach(&web(network)).unwrap();
}

#[test]
fn no_other_gets_its_address_meanwhile() {
    let (world, network) = (World::new(), book("10.0.0.0/28"));
    between(&world, &network);
    let engine = world.engine();
    world.machine.at.set(1_004);
    let refused = engine.attachments.attach(&thief(&network)).unwrap_err();
    assert_eq!(refused.kind(), Kind::Conflict);
    let text = refused.to_string();
    assert!(text.contains("kept for web") && text.contains("6 more seconds"), "{text}");
    let any = Request { wanted: Vec::new(), ..thief(&network) };
    assert_ne!(ip(&engine.attachments.attach(&any).unwrap()), ASKED);
    assert_eq!(ip(&engine.attachments.attach(&web(&network)).unwrap()), ASKED);
    // It is back, so nothing is kept once it goes for good.
    engine.links.detach(&web(&network)).unwrap();
    engine.links.detach(&any).unwrap();
    assert_eq!(ip(&engine.attachments.attach(&thief(&network)).unwrap()), ASKED);
}

#[test]
fn a_container_that_does_not_come_back_keeps_no_other_away() {
    for (later, backwards) in [(10, false), (0, true)] {
        let (world, network) = (World::new(), book("10.0.0.0/28"));
        between(&world, &network);
        world.machine.at.set(if backwards { 7 } else { 1_000 + later });
        let engine = world.engine();
        assert_eq!(ip(&engine.attachments.attach(&thief(&network)).unwrap()), ASKED);
        assert!(engine.records.reservations().unwrap().is_empty());
    }
}

/// A pool that is full makes no room of it, and the time ends it without a request for it.
#[test]
fn it_is_no_room_for_others_and_goes_by_itself() {
    let (world, network) = (World::new(), book("10.0.0.0/28"));
    between(&world, &network);
    let engine = world.engine();
    let others = (0..).map(|n| request(&network, &format!("c{n}")));
    let refused = others.map_while(|it| engine.attachments.attach(&it).ok()).take(20).count();
    assert_eq!(refused, 12, "of thirteen addresses without the gateway's");
    assert_eq!(ip(&engine.attachments.attach(&web(&network)).unwrap()), ASKED);
    engine.records.keep_for_return(&web(&network).id()).unwrap();
    engine.links.detach(&web(&network)).unwrap();
    assert_eq!(engine.records.reservations().unwrap().len(), 1);
    world.machine.at.set(1_011);
    engine.repair.reconcile(Mode::Mend).unwrap();
    world.machine.at.set(1_001);
    assert!(engine.records.reservations().unwrap().is_empty(), "the record is gone");
}

#[test]
fn it_ends_with_its_network() {
    let (world, network) = (World::new(), book("10.0.0.0/28"));
    world.engine().networks.create(&network).unwrap();
    between(&world, &network);
    world.engine().repair.reconcile(Mode::Mend).unwrap();
    assert_eq!(world.engine().records.reservations().unwrap().len(), 1);
    world.engine().networks.remove(&network.name, false).unwrap();
    world.engine().repair.reconcile(Mode::Mend).unwrap();
    assert!(world.engine().records.reservations().unwrap().is_empty());
}

/// What a user reserved, and what a name keeps for good, is not for a moment.
#[test]
fn other_reservations_stay() {
    let (world, network) = (World::new(), book("10.0.0.0/28"));
    let owner = Some((network.name.clone(), "web".parse().unwrap()));
    world.engine().addresses.reserve_address(&Space::Host, ASKED.parse().unwrap(), owner).unwrap();
    between(&world, &network);
    world.machine.at.set(1_100);
    let refused = world.engine().attachments.attach(&thief(&network)).unwrap_err().to_string();
    assert!(refused.contains("reserved for web"), "{refused}");
}
