//! The life of attachments in one book: who gets what, who is refused, and what dies.

use std::num::NonZeroU16;

use super::common::{World, book, ip, network, pool, request};
use engine::port::{Outcome, Store, Txn};
use engine::{Garbage, Members, Mode};
use model::*;
use proptest::prelude::*;

#[test]
fn addresses_follow_one_another_and_rest_when_freed() {
    let (world, network) = (World::new(), book("10.0.0.0/29"));
    let engine = world.engine();
    assert_eq!(ip(&engine.attachments.attach(&request(&network, "a")).unwrap()), "10.0.0.2");
    assert_eq!(ip(&engine.attachments.attach(&request(&network, "b")).unwrap()), "10.0.0.3");
    engine.links.detach(&request(&network, "a")).unwrap();
    assert_eq!(ip(&engine.attachments.attach(&request(&network, "c")).unwrap()), "10.0.0.4");
}

#[test]
fn the_lowest_free_is_found_again() {
    let world = World::new();
    let pools = vec![pool("front", "10.0.0.0/29", Order::LowestFree)];
    let network = network("front", Ipam::Book { pools });
    let engine = world.engine();
    for container in ["a", "b", "c"] {
        engine.attachments.attach(&request(&network, container)).unwrap();
    }
    engine.links.detach(&request(&network, "a")).unwrap();
    assert_eq!(ip(&engine.attachments.attach(&request(&network, "d")).unwrap()), "10.0.0.2");
    assert_eq!(ip(&engine.attachments.attach(&request(&network, "e")).unwrap()), "10.0.0.5");
}

#[test]
fn attaching_twice_is_a_conflict_and_changes_nothing() {
    let (world, network) = (World::new(), book("10.0.0.0/29"));
    let engine = world.engine();
    engine.attachments.attach(&request(&network, "a")).unwrap();
    let error = engine.attachments.attach(&request(&network, "a")).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict);
    assert_eq!(engine.records.holders().unwrap().len(), 1);
    assert_eq!(world.dataplane.made.borrow().len(), 1);
}

#[test]
fn detaching_can_be_repeated() {
    let (world, network) = (World::new(), book("10.0.0.0/29"));
    let engine = world.engine();
    engine.attachments.attach(&request(&network, "a")).unwrap();
    engine.links.detach(&request(&network, "a")).unwrap();
    engine.links.detach(&request(&network, "a")).unwrap();
    engine.links.detach(&request(&network, "never")).unwrap();
    assert!(
        engine.records.holders().unwrap().is_empty()
            && engine.records.attachments().unwrap().is_empty()
    );
}

#[test]
fn a_failed_attach_leaves_nothing() {
    let (world, network) = (World::new(), book("10.0.0.0/29"));
    world.dataplane.fails.set(true);
    let engine = world.engine();
    assert_eq!(
        engine.attachments.attach(&request(&network, "a")).unwrap_err().kind(),
        Kind::Kernel
    );
    assert!(
        engine.records.holders().unwrap().is_empty()
            && engine.records.attachments().unwrap().is_empty()
    );
    assert!(world.dataplane.made.borrow().is_empty());
}

#[test]
fn a_dead_process_bequeaths_its_address() {
    let (world, network) = (World::new(), book("10.0.0.0/29"));
    let record = begun(&world, &network);
    let engine = world.engine();
    assert_eq!(
        engine.attachments.attach(&request(&network, "a")).unwrap_err().kind(),
        Kind::TryAgain
    );
    world.machine.dead.borrow_mut().insert(7);
    assert_eq!(ip(&engine.attachments.attach(&request(&network, "a")).unwrap()), ip(&record));
}

/// The record that process 7 had committed when it was killed.
fn begun(world: &World, network: &Network) -> Attachment {
    use engine::port::{Key, Outcome, Record, Store, Txn};
    let mut record = world.engine().attachments.attach(&request(network, "a")).unwrap();
    record.phase = Phase::Attaching { by: Process { pid: 7, start: 1 } };
    let key = Key::Attachment(record.id.clone(), record.layer);
    let txn = Txn::new().put(key, Record::Attachment(Box::new(record.clone())));
    assert!(matches!(world.store.commit(&txn).unwrap(), Outcome::Done(_)));
    record
}

#[test]
fn reconciling_frees_the_dead_and_only_them() {
    let (world, network) = (World::new(), book("10.0.0.0/29"));
    let engine = world.engine();
    let dead = engine.attachments.attach(&request(&network, "a")).unwrap();
    engine.attachments.attach(&request(&network, "b")).unwrap();
    world.dataplane.gone.borrow_mut().insert(dead.id.clone());
    let seen = engine.repair.reconcile(Mode::DryRun).unwrap();
    assert_eq!(seen[0].what, Garbage::Attachment(dead.id));
    assert_eq!(engine.records.holders().unwrap().len(), 2);
    assert_eq!(engine.repair.reconcile(Mode::Mend).unwrap(), seen);
    assert_eq!(engine.records.holders().unwrap().len(), 1);
    assert!(engine.repair.reconcile(Mode::Mend).unwrap().is_empty());
}

#[test]
fn a_full_pool_says_so_unless_a_holder_is_dead() {
    let (world, network) = (World::new(), book("10.0.0.0/30"));
    let engine = world.engine();
    let only = engine.attachments.attach(&request(&network, "a")).unwrap();
    assert_eq!(engine.attachments.status(&network).unwrap_err().kind(), Kind::Exhausted);
    assert_eq!(
        engine.attachments.attach(&request(&network, "b")).unwrap_err().kind(),
        Kind::Exhausted
    );
    world.dataplane.gone.borrow_mut().insert(only.id.clone());
    assert_eq!(ip(&engine.attachments.attach(&request(&network, "b")).unwrap()), ip(&only));
}

#[test]
fn an_exact_address_is_given_or_its_holder_named() {
    let (world, network) = (World::new(), book("10.0.0.0/24"));
    let engine = world.engine();
    let mut exact = request(&network, "a");
    exact.wanted = vec!["10.0.0.77".parse().unwrap()];
    assert_eq!(ip(&engine.attachments.attach(&exact).unwrap()), "10.0.0.77");
    exact.container = "b".parse().unwrap();
    let error = engine.attachments.attach(&exact).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(error.to_string().contains("container a (eth0) on network front"), "{error}");
    for refused in ["10.0.0.1", "10.0.1.77"] {
        exact.wanted = vec![refused.parse().unwrap()];
        assert_eq!(
            engine.attachments.attach(&exact).unwrap_err().kind(),
            Kind::Invalid,
            "{refused}"
        );
    }
}

#[test]
fn two_networks_with_one_subnet_share_its_addresses() {
    let world = World::new();
    let of = |name: &str| {
        let pools = vec![pool(name, "10.0.0.0/29", Order::NextAfterLast)];
        network(name, Ipam::Book { pools })
    };
    let engine = world.engine();
    let one = engine.attachments.attach(&request(&of("one"), "a")).unwrap();
    let other = engine.attachments.attach(&request(&of("other"), "a")).unwrap();
    assert_ne!(ip(&one), ip(&other));
}

#[test]
fn reserved_addresses_wait_for_their_owner() {
    let (world, network) = (World::new(), book("10.0.0.0/29"));
    let engine = world.engine();
    let web: OwnerName = "web".parse().unwrap();
    let address = "10.0.0.2".parse().unwrap();
    engine
        .addresses
        .reserve_address(&Space::Host, address, Some((network.name.clone(), web.clone())))
        .unwrap();
    assert_eq!(ip(&engine.attachments.attach(&request(&network, "other")).unwrap()), "10.0.0.3");
    let mut owner = request(&network, "a");
    owner.owner = Some(web);
    assert_eq!(ip(&engine.attachments.attach(&owner).unwrap()), "10.0.0.2");
    engine.links.detach(&owner).unwrap();
    owner.container = "b".parse().unwrap();
    assert_eq!(ip(&engine.attachments.attach(&owner).unwrap()), "10.0.0.2");
}

#[test]
fn a_sticky_network_remembers_its_owners() {
    let (world, mut network) = (World::new(), book("10.0.0.0/29"));
    network.sticky = true;
    let engine = world.engine();
    let mut named = request(&network, "a");
    named.owner = Some("web".parse().unwrap());
    let first = engine.attachments.attach(&named).unwrap();
    engine.links.detach(&named).unwrap();
    engine.attachments.attach(&request(&network, "other")).unwrap();
    named.container = "a2".parse().unwrap();
    assert_eq!(ip(&engine.attachments.attach(&named).unwrap()), ip(&first));
}

/// A container of the name comes and goes.
fn come_and_go(world: &World, network: &Network, name: &str) {
    let mut named = request(network, name);
    named.owner = Some(name.parse().unwrap());
    let engine = world.engine();
    engine.attachments.attach(&named).unwrap();
    engine.links.detach(&named).unwrap();
}

/// Jobs have another name each time.
#[test]
fn a_sticky_network_forgets_its_oldest_owners() {
    let (world, mut network) = (World::new(), book("10.0.0.0/20"));
    network.sticky = true;
    for job in 0..1300 {
        come_and_go(&world, &network, &format!("job-{job}"));
    }
    let engine = world.engine();
    let kept = engine.records.reservations().unwrap();
    assert!((1024..1024 + 64).contains(&kept.len()), "{}", kept.len());
    let is_kept = |job: &str| kept.iter().any(|it| it.owner.as_ref().unwrap().as_str() == job);
    assert!(is_kept("job-1299") && !is_kept("job-0"));
}

/// An attach to a full network does not make room one commit at a time: each is written through to disk.
#[test]
fn room_is_made_in_few_commits() {
    let (world, mut network) = (World::new(), book("10.0.0.0/23"));
    network.sticky = true;
    let owner = |job: u32| Some((network.name.clone(), format!("job-{job}").parse().unwrap()));
    for job in 0..16 * 20 {
        come_and_go(&world, &network, &format!("job-{job}"));
    }
    for job in 16 * 20..509 {
        let address = u32::from(std::net::Ipv4Addr::new(10, 0, 0, 2)) + job;
        let address = std::net::IpAddr::from(std::net::Ipv4Addr::from(address));
        world.engine().addresses.reserve_address(&Space::Host, address, owner(job)).unwrap();
    }
    let commits = || match world.store.commit(&Txn::new()).unwrap() {
        Outcome::Done(revision) => revision.0,
        Outcome::Lost(key) => panic!("{key:?}"),
    };
    let before = commits();
    let kept = || world.engine().records.reservations().unwrap().len();
    let all = kept();
    world.engine().attachments.attach(&request(&network, "late")).unwrap();
    assert_eq!(all - kept(), 21, "a sixteenth of what was learned");
    assert!(commits() - before < 10, "{}", commits() - before);
}

#[test]
fn addresses_held_outside_the_book_are_passed_over() {
    let world = World::new();
    let pools = vec![pool("front", "10.0.0.0/29", Order::NextAfterLast)];
    let directory = "/var/lib/cni/networks/front".into();
    let network = network("front", Ipam::HostLocal { pools, directory });
    for held in ["10.0.0.2", "10.0.0.3"] {
        world.directory.held.borrow_mut().insert(held.parse().unwrap());
    }
    let engine = world.engine();
    assert_eq!(ip(&engine.attachments.attach(&request(&network, "a")).unwrap()), "10.0.0.4");
    assert_eq!(engine.records.holders().unwrap().len(), 1);
    let mut exact = request(&network, "b");
    exact.wanted = vec!["10.0.0.2".parse().unwrap()];
    let error = engine.attachments.attach(&exact).unwrap_err();
    assert!(error.to_string().contains("another program"), "{error}");
    assert_eq!(engine.records.holders().unwrap().len(), 1);
}

fn publish(port: u16, host: Option<&str>) -> Publish {
    let number = NonZeroU16::new(port).unwrap();
    Publish {
        ports: vec![PortMap {
            host: host.map(|host| host.parse().unwrap()),
            host_port: number,
            container_port: number,
            protocol: Protocol::Tcp,
        }],
        ..Publish::new(Backend::Nftables)
    }
}

#[test]
fn a_host_port_has_one_holder() {
    let (world, network) = (World::new(), book("10.0.0.0/24"));
    let engine = world.engine();
    let mut one = request(&network, "a");
    one.wiring.publish = Some(publish(80, None));
    engine.attachments.attach(&one).unwrap();
    let mut other = request(&network, "b");
    other.wiring.publish = Some(publish(80, Some("192.0.2.1")));
    let error = engine.attachments.attach(&other).unwrap_err();
    assert!(error.to_string().contains("held by container a"), "{error}");
    assert_eq!(engine.records.holders().unwrap().len(), 1);
    engine.links.detach(&one).unwrap();
    engine.attachments.attach(&other).unwrap();
    one.wiring.publish = Some(publish(80, Some("192.0.2.2")));
    engine.attachments.attach(&one).unwrap();
    assert_eq!(engine.records.ports().unwrap().len(), 1);
}

#[test]
fn gc_removes_what_the_runtime_no_longer_lists() {
    let (world, network) = (World::new(), book("10.0.0.0/24"));
    let engine = world.engine();
    for container in ["a", "b", "c"] {
        engine.attachments.attach(&request(&network, container)).unwrap();
    }
    let valid = [("b".parse().unwrap(), "eth0".parse().unwrap())].into();
    engine.repair.gc(&network, &valid).unwrap();
    let left = engine.records.attachments().unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].id.container.as_str(), "b");
    let others = Network { runtime: Runtime::Podman, ..network };
    engine.repair.gc(&others, &Members::new()).unwrap();
    assert_eq!(engine.records.attachments().unwrap().len(), 1, "it is not Podman's to list");
}

#[test]
fn networks_are_refused_where_they_overlap_and_removed_when_empty() {
    let (world, network) = (World::new(), book("10.0.0.0/24"));
    let engine = world.engine();
    engine.networks.create(&network).unwrap();
    let mut other = book("10.0.0.0/25");
    other.name = "other".parse().unwrap();
    assert_eq!(engine.networks.create(&other).unwrap_err().kind(), Kind::Conflict);
    engine.attachments.attach(&request(&network, "a")).unwrap();
    let error = engine.networks.remove(&network.name, false).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict);
    engine.networks.remove(&network.name, true).unwrap();
    assert!(
        engine.records.networks().unwrap().is_empty()
            && engine.records.attachments().unwrap().is_empty()
    );
}

#[test]
fn what_a_caller_made_is_not_taken_by_a_configuration() {
    let (world, made) = (World::new(), book("10.0.0.0/24"));
    let engine = world.engine();
    engine.networks.create(&made).unwrap();
    let pools = vec![pool("described", "10.0.0.128/25", Order::LowestFree)];
    let mut described = network("described", Ipam::Book { pools });
    let error = engine.attachments.attach(&request(&described, "a")).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(error.to_string().contains("10.0.0.128/25 overlaps network front"), "{error}");
    assert!(engine.records.attachments().unwrap().is_empty());
    assert_eq!(engine.records.networks().unwrap(), std::slice::from_ref(&made));
    // On the bridge of the other it does no harm; nor where no caller made the other.
    let bridge = Bridge {
        name: "sp-front".parse().unwrap(),
        gateway: Gateway::None,
        host_absent: model::Absence::default(),
        force_address: false,
        hairpin: false,
        promiscuous: false,
        port: model::BridgePort::default(),
    };
    let link = Link { kind: LinkKind::Bridge(bridge), name: None, mac: None, mtu: None };
    engine.networks.remove(&made.name, false).unwrap();
    let made = Network { wiring: Wiring { link: Some(link), ..Wiring::default() }, ..made };
    engine.networks.create(&made).unwrap();
    described.wiring = made.wiring.clone();
    engine.attachments.attach(&request(&described, "b")).unwrap();
    engine.networks.remove(&made.name, true).unwrap();
    engine.attachments.attach(&request(&made, "c")).unwrap();
}

proptest! {
    #[test]
    fn no_address_is_ever_held_twice(
        moves in prop::collection::vec((0_u8..12, any::<bool>()), 1..80),
        lowest in any::<bool>(),
    ) {
        let order = if lowest { Order::LowestFree } else { Order::NextAfterLast };
        let world = World::new();
        let ipam = Ipam::Book { pools: vec![pool("front", "10.0.0.0/29", order)] };
        let network = network("front", ipam);
        let engine = world.engine();
        for (container, attach) in moves {
            let request = request(&network, &format!("c{container}"));
            if attach {
                let _ = engine.attachments.attach(&request);
            } else {
                engine.links.detach(&request).unwrap();
            }
            let attachments = engine.records.attachments().unwrap();
            let mut held: Vec<String> = attachments.iter().map(ip).collect();
            held.sort();
            held.dedup();
            prop_assert_eq!(held.len(), attachments.len());
            prop_assert_eq!(engine.records.holders().unwrap().len(), attachments.len());
            prop_assert!(attachments.len() <= 5);
        }
    }
}
