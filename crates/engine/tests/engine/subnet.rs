//! Subnets that are handed out by themselves: which, to whom, and when not.

use doubles::Memory;
use engine::port::{Key, Occupied, Outcome, Prefix, Record, Store, Txn};
use engine::{Purpose, SubnetRequest, SubnetSpec};
use model::*;

use super::common::{book, network, pool, request};
use super::subnet_rig::{Rig, exactly, for_network, wanting};

fn any(family: Family, prefix_len: Option<u8>) -> SubnetRequest {
    wanting(SubnetSpec::Any { family, prefix_len })
}

fn tried(rig: &Rig, request: &SubnetRequest) -> String {
    match rig.engine().subnets.request_subnet(request) {
        Ok(subnet) => format!("{} {} ({})", subnet.network, subnet.id, subnet.references),
        Err(error) => format!("{:?}: {error}", error.kind()),
    }
}

#[test]
fn what_overlaps_is_refused() {
    for (first, second, fits) in [
        ("10.0.0.0/8", "10.0.0.0/8", false),
        ("10.0.0.0/8", "10.128.0.0/9", false),
        ("10.128.0.0/9", "10.0.0.0/8", false),
        ("10.0.0.0/8", "11.0.0.0/8", true),
        ("10.0.0.0/9", "10.128.0.0/9", true),
        ("172.16.0.0/16", "172.17.0.0/16", true),
        ("172.16.0.0/15", "172.17.0.0/16", false),
        ("192.168.0.0/31", "192.168.0.2/31", true),
        ("192.168.0.0/30", "192.168.0.2/31", false),
        ("192.168.0.1/32", "192.168.0.1/32", false),
        ("192.168.0.1/32", "192.168.0.2/32", true),
        ("fd00::/48", "fd00:0:0:1::/64", false),
        ("fd00::/64", "fd00:0:0:1::/64", true),
        ("fd00::/64", "10.0.0.0/8", true),
        // Parts of one subnet.
        ("10.0.0.0/16 10.0.1.0/24", "10.0.0.0/16 10.0.2.0/24", true),
        ("10.0.0.0/16 10.0.1.0/24", "10.0.0.0/16 10.0.1.0/24", false),
        ("10.0.0.0/16 10.0.1.0/24", "10.0.0.0/16 10.0.1.128/25", false),
        ("10.0.0.0/16 10.0.1.0/24", "10.0.0.0/16", false),
        ("10.0.0.0/16", "10.0.0.0/16 10.0.1.0/24", false),
        ("10.0.0.0/16 10.0.1.0/24", "10.0.0.0/15 10.1.0.0/24", false),
        ("10.0.0.0/16 10.0.1.0/24", "10.0.2.0/24", false),
        ("fd00::/64 fd00::/80", "fd00::/64 fd00:0:0:0:1::/80", true),
    ] {
        let store = Memory::new();
        let rig = Rig::new(&store);
        rig.subnet(first);
        let second = tried(&rig, &exactly(second));
        assert_eq!(!second.starts_with("Conflict"), fits, "{first}: {second}");
        assert!(fits || second.contains("docker network docker-"), "{second}");
    }
}

#[test]
fn a_subnet_must_be_one() {
    let store = Memory::new();
    let rig = Rig::new(&store);
    for (text, why) in [
        ("10.1.2.3/16", "the subnet is 10.1.0.0/16"),
        ("10.1.0.0/16 10.2.0.0/24", "IP range 10.2.0.0/24 is not in subnet 10.1.0.0/16"),
        ("10.1.0.0/16 10.1.2.3/24", "the range is 10.1.2.0/24"),
        ("10.1.0.0/16 fd00::/64", "is not in subnet"),
        ("10.1.0.0/16 10.0.0.0/8", "is not in subnet"),
        ("127.0.0.0/24", "no host may have"),
    ] {
        let refused = tried(&rig, &exactly(text));
        assert!(refused.starts_with("Invalid") && refused.contains(why), "{text}: {refused}");
    }
    assert!(rig.engine().records.subnets().unwrap().is_empty());
}

#[test]
fn everybody_counts() {
    let store = Memory::new();
    let rig = Rig::new(&store);
    rig.engine().networks.create(&book("10.1.0.0/24")).unwrap();
    let used = network(
        "podman",
        Ipam::Book { pools: vec![pool("podman", "10.88.0.0/16", Order::NextAfterLast)] },
    );
    rig.engine().attachments.attach(&request(&used, "c")).unwrap();
    rig.host.occupied.borrow_mut().push(Occupied {
        net: "172.17.0.0/16".parse().unwrap(),
        by: "Docker's bridge docker0".into(),
    });
    for (net, holder) in [
        ("10.1.0.0/16", "overlaps 10.1.0.0/24 (cni network front)"),
        ("10.88.5.0/24", "overlaps 10.88.0.0/16 (cni network podman)"),
        ("172.17.3.0/24", "overlaps 172.17.0.0/16 (Docker's bridge docker0)"),
    ] {
        let refused = tried(&rig, &exactly(net));
        assert!(refused.starts_with("Conflict") && refused.contains(holder), "{refused}");
        let same_size = net.rsplit_once('/').unwrap().1;
        let free = refused.split("pick one of: ").nth(1).unwrap();
        assert_eq!(free.matches(&format!("/{same_size}")).count(), 3, "{refused}");
        for free in free.split(", ").take(1) {
            tried(&rig, &exactly(free));
        }
    }
    // What is not ours may be overlapped by who insists; a cluster's addresses are not this host's.
    let insists = SubnetRequest { despite_others: true, ..exactly("172.17.3.0/24") };
    assert!(tried(&rig, &insists).starts_with("docker-172.17.3.0-24"));
    let global = SubnetRequest { space: Space::Global, ..exactly("10.1.0.0/16") };
    assert_eq!(tried(&rig, &global), "docker-global-10.1.0.0-16 10.1.0.0/16 (1)");
    let global = SubnetRequest { space: Space::Global, ..exactly("10.1.2.0/24") };
    assert!(tried(&rig, &global).starts_with("Conflict"));
}

#[test]
fn the_same_subnet_stands_in_both_spaces() {
    let store = Memory::new();
    let rig = Rig::new(&store);
    let host = rig.subnet("10.1.0.0/24");
    let request = SubnetRequest { space: Space::Global, ..exactly("10.1.0.0/24") };
    let global = rig.engine().subnets.request_subnet(&request).unwrap().id;
    assert_eq!((rig.any(&host), rig.any(&global)), ("10.1.0.1/24".into(), "10.1.0.1/24".into()));
    rig.release(&global, "10.1.0.1");
    assert_eq!(rig.any(&host), "10.1.0.2/24");
    assert_eq!(rig.any(&global), "10.1.0.1/24");
}

#[test]
fn subnets_of_our_choice_follow_one_another() {
    let store = Memory::new();
    let rig = Rig::new(&store);
    rig.host
        .occupied
        .borrow_mut()
        .push(Occupied { net: "10.200.1.0/25".parse().unwrap(), by: "x".into() });
    for (request, expected) in [
        (any(Family::V4, None), "docker-10.200.0.0-24 10.200.0.0/24 (1)"),
        (any(Family::V4, None), "docker-10.200.2.0-24 10.200.2.0/24 (1)"),
        (any(Family::V4, Some(28)), "docker-10.200.1.128-28 10.200.1.128/28 (1)"),
        (any(Family::V4, Some(16)), "docker-10.201.0.0-16 10.201.0.0/16 (1)"),
        (any(Family::V6, None), "docker-fd73-706f-6b65---64 fd73:706f:6b65::/64 (1)"),
        (any(Family::V6, Some(80)), "docker-fd73-706f-6b65-1---80 fd73:706f:6b65:1::/80 (1)"),
        (for_network("new", any(Family::V4, None)), "new 10.200.3.0/24 (1)"),
        (for_network("new", any(Family::V4, None)), "new 10.200.4.0/24 (1)"),
    ] {
        assert_eq!(tried(&rig, &request), expected);
    }
}

#[test]
fn a_network_that_is_there_is_shared() {
    let store = Memory::new();
    let rig = Rig::new(&store);
    rig.engine().networks.create(&book("10.1.0.0/24")).unwrap();
    let front = |request| tried(&rig, &for_network("front", request));
    assert_eq!(front(any(Family::V4, None)), "front 10.1.0.0/24 (1)");
    assert_eq!(front(exactly("10.1.0.0/24")), "front 10.1.0.0/24 (2)");
    assert_eq!(
        front(exactly("10.1.0.0/24 10.1.0.128/25")),
        "front 10.1.0.0/24 (10.1.0.128/25) (1)"
    );
    // No runtime made a network of the first: one that asks again would ask for ever.
    let again = front(any(Family::V4, None));
    assert!(again.starts_with("Conflict") && again.contains("--subnet 10.1.0.0/24"), "{again}");
    for (request, why) in [
        (any(Family::V6, None), "no subnet for IPv6; it has these: 10.1.0.0/24"),
        (any(Family::V4, Some(16)), "no subnet of size /16; it has these: 10.1.0.0/24"),
        (exactly("10.2.0.0/24"), "no subnet 10.2.0.0/24; it has these: 10.1.0.0/24"),
    ] {
        let refused = front(request);
        assert!(refused.starts_with("Invalid") && refused.contains(why), "{refused}");
    }
    let id = SubnetId { space: Space::Host, net: "10.1.0.0/24".parse().unwrap(), part: None };
    let engine = rig.engine();
    for left in [Some(1), None, None] {
        engine.subnets.release_subnet(&id).unwrap();
        assert_eq!(engine.records.subnet(&id).unwrap().map(|subnet| subnet.references), left);
    }
    assert!(engine.records.declared(&"front".parse().unwrap()).unwrap().is_some());
}

#[test]
fn a_configured_network_outlives_the_boot_once_it_is_shared() {
    let store = Memory::new();
    let rig = Rig::new(&store);
    rig.engine().attachments.attach(&request(&book("10.1.0.0/24"), "c")).unwrap();
    assert!(rig.engine().records.declared(&"front".parse().unwrap()).unwrap().is_none());
    assert_eq!(tried(&rig, &for_network("front", any(Family::V4, None))), "front 10.1.0.0/24 (1)");
    store.reboot();
    let declared = rig.engine().records.declared(&"front".parse().unwrap()).unwrap().unwrap();
    assert_eq!(declared.ipam, book("10.1.0.0/24").ipam);
}

#[test]
fn who_cannot_be_shared_says_why() {
    let store = Memory::new();
    let rig = Rig::new(&store);
    let mut lan = pool("lan", "10.3.0.0/24", Order::NextAfterLast);
    lan.space = Space::Network("lan".parse().unwrap());
    rig.engine().networks.create(&network("lan", Ipam::Book { pools: vec![lan] })).unwrap();
    rig.engine().networks.create(&network("none", Ipam::None)).unwrap();
    let lan = tried(&rig, &for_network("lan", any(Family::V4, None)));
    assert!(lan.starts_with("Unsupported") && lan.contains("not routed by this host"), "{lan}");
    let none = tried(&rig, &for_network("none", any(Family::V4, None)));
    assert!(none.contains("it has none: its addresses come from elsewhere"), "{none}");
}

#[test]
fn the_same_subnet_again_is_a_conflict_unless_its_network_is_named() {
    let store = Memory::new();
    let rig = Rig::new(&store);
    assert_eq!(tried(&rig, &exactly("10.1.0.0/24")), "docker-10.1.0.0-24 10.1.0.0/24 (1)");
    assert!(tried(&rig, &exactly("10.1.0.0/24")).starts_with("Conflict"));
    let named = for_network("docker-10.1.0.0-24", exactly("10.1.0.0/24"));
    assert_eq!(tried(&rig, &named), "docker-10.1.0.0-24 10.1.0.0/24 (2)");
    let other = for_network("other", exactly("10.1.0.0/24"));
    assert!(tried(&rig, &other).starts_with("Conflict"));
}

#[test]
fn parts_of_one_subnet_have_networks_of_their_own() {
    let store = Memory::new();
    let rig = Rig::new(&store);
    let one = tried(&rig, &exactly("10.1.0.0/16 10.1.1.0/24"));
    let other = tried(&rig, &exactly("10.1.0.0/16 10.1.2.0/24"));
    assert_eq!(one, "docker-10.1.0.0-16 10.1.0.0/16 (10.1.1.0/24) (1)");
    assert_eq!(other, "docker-10.1.0.0-16-10.1.2.0-24 10.1.0.0/16 (10.1.2.0/24) (1)");
    // Once the first is a network, a third part can still be had, and nothing more.
    let made = network(
        "docker-10.1.0.0-16",
        Ipam::Book { pools: vec![pool("docker-10.1.0.0-16", "10.1.0.0/16", Order::LowestFree)] },
    );
    let key = Key::Network(made.name.clone());
    let txn = Txn::new().put(key, Record::Network(Box::new(made)));
    assert!(matches!(store.commit(&txn).unwrap(), Outcome::Done(_)));
    assert!(tried(&rig, &exactly("10.1.0.0/16 10.1.3.0/24")).ends_with("(10.1.3.0/24) (1)"));
    assert!(tried(&rig, &exactly("10.1.0.0/16 10.1.3.0/25")).starts_with("Conflict"));
}

#[test]
fn the_last_share_takes_what_is_left_with_it() {
    let store = Memory::new();
    let rig = Rig::new(&store);
    let request = SubnetRequest { sticky: Sticky::Name, ..exactly("10.1.0.0/24") };
    let id = rig.engine().subnets.request_subnet(&request).unwrap().id;
    rig.purpose(&id, Purpose::Gateway, "");
    rig.purpose(&id, Purpose::Auxiliary, "10.1.0.9");
    rig.named(&id, "web");
    rig.any(&id);
    let by_hand = "10.1.0.77".parse().unwrap();
    rig.engine().addresses.reserve_address(&Space::Host, by_hand, None).unwrap();
    rig.engine().subnets.release_subnet(&id).unwrap();
    let engine = rig.engine();
    assert!(
        engine.records.subnets().unwrap().is_empty()
            && engine.records.holders().unwrap().is_empty()
    );
    let left = engine.records.reservations().unwrap();
    assert_eq!(left.iter().map(|reserved| reserved.address).collect::<Vec<_>>(), [by_hand]);
    let names = Prefix::StickyOf("docker-10.1.0.0-24".parse().unwrap());
    assert!(store.list(&names).unwrap().is_empty());
    rig.engine().subnets.release_subnet(&id).unwrap();
    let id = rig.subnet("10.1.0.0/24");
    assert_eq!(rig.any(&id), "10.1.0.1/24");
}
