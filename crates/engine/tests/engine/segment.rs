//! Addresses that devices of a segment have without a lease.

use std::net::IpAddr;

use super::common::{World, book, ip, network, pool, request};
use model::*;

/// A network on a segment that is asked before an address is used.
fn probed(mut network: Network) -> Network {
    let parent = Parent { name: None, place: InterfaceNamespace::Host, vlan: None };
    let kind = LinkKind::Macvlan(Macvlan {
        parent,
        mode: MacvlanMode::Bridge,
        broadcast_queue: None,
        host_access: false,
        probe: true,
    });
    network.wiring.link = Some(Link { kind, name: None, mac: None, mtu: None });
    network
}

fn answering(world: &World, addresses: &[&str]) {
    let addresses = addresses.iter().map(|address| address.parse::<IpAddr>().unwrap());
    world.dataplane.answering.borrow_mut().extend(addresses);
}

#[test]
fn another_address_is_chosen_than_one_that_answers() {
    let (world, network) = (World::new(), probed(book("10.0.0.0/28")));
    answering(&world, &["10.0.0.2", "10.0.0.3"]);
    let engine = world.engine();
    let attached = engine.attachments.attach(&request(&network, "a")).unwrap();
    assert_eq!(ip(&attached), "10.0.0.4");
    let Phase::Attached(became) = &attached.phase else { panic!("{:?}", attached.phase) };
    assert_eq!(became.addresses[0].address.addr().to_string(), "10.0.0.4");
    assert_eq!(engine.records.holders().unwrap().len(), 1, "what answered is not held");
    engine.links.detach(&request(&network, "a")).unwrap();
    assert!(engine.records.holders().unwrap().is_empty());
}

#[test]
fn the_address_that_is_used_is_the_one_that_is_kept() {
    let (world, mut network) = (World::new(), probed(book("10.0.0.0/28")));
    network.sticky = true;
    answering(&world, &["10.0.0.2", "10.0.0.3"]);
    let engine = world.engine();
    let of = |container: &str| {
        let owner = Some("web".parse().unwrap());
        engine::Request { owner, ..request(&network, container) }
    };
    assert_eq!(ip(&engine.attachments.attach(&of("a")).unwrap()), "10.0.0.4");
    engine.links.detach(&of("a")).unwrap();
    let kept: Vec<String> = engine
        .records
        .reservations()
        .unwrap()
        .iter()
        .map(|kept| kept.address.to_string())
        .collect();
    assert_eq!(kept, ["10.0.0.4"], "and not what answered");
    assert_eq!(ip(&engine.attachments.attach(&of("b")).unwrap()), "10.0.0.4");
}

#[test]
fn an_address_that_was_asked_for_is_refused_when_it_answers() {
    let (world, network) = (World::new(), probed(book("10.0.0.0/28")));
    answering(&world, &["10.0.0.5"]);
    let engine = world.engine();
    let mut exact = request(&network, "a");
    exact.wanted = vec!["10.0.0.5".parse().unwrap()];
    let refused = engine.attachments.attach(&exact).unwrap_err();
    assert_eq!(refused.kind(), Kind::Conflict, "{refused}");
    assert!(
        world.dataplane.made.borrow().is_empty() && engine.records.holders().unwrap().is_empty()
    );
    exact.wanted = vec!["10.0.0.6".parse().unwrap()];
    assert_eq!(ip(&engine.attachments.attach(&exact).unwrap()), "10.0.0.6");
}

#[test]
fn a_full_segment_is_said_to_be_full() {
    let (world, network) = (World::new(), probed(book("10.0.0.0/29")));
    answering(&world, &["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]);
    let engine = world.engine();
    let refused = engine.attachments.attach(&request(&network, "a")).unwrap_err();
    assert_eq!(refused.kind(), Kind::Exhausted, "{refused}");
    assert!(
        world.dataplane.made.borrow().is_empty() && engine.records.holders().unwrap().is_empty()
    );
}

#[test]
fn no_probe_is_sent_for_a_network_without_it() {
    let world = World::new();
    let pools = vec![pool("front", "10.0.0.0/29", Order::LowestFree)];
    let network = network("front", Ipam::Book { pools });
    answering(&world, &["10.0.0.2"]);
    assert_eq!(
        ip(&world.engine().attachments.attach(&request(&network, "a")).unwrap()),
        "10.0.0.2"
    );
}
