//! Addresses that are requested by themselves: which, in which order, and when not.

use doubles::Memory;
use engine::{Purpose, SubnetRequest};
use model::*;

use super::common::{network, pool, request};
use super::subnet_rig::{Rig, exactly, for_network};

/// Any address, a serial one, `=` an exact one or `-` one given back; and what comes of it.
const ORDERS: &[(&str, &[(&str, &str)])] = &[
    ("192.168.0.0/16", &[("255 any", "192.168.0.255/16"), ("any", "192.168.1.0/16")]),
    ("10.0.0.0/8", &[("255 any", "10.0.0.255/8"), ("any", "10.0.1.0/8")]),
    ("192.168.0.0/24", &[("254 any", "192.168.0.254/24"), ("any", "Exhausted")]),
    ("192.168.0.0/24", &[("=192.168.0.1", "192.168.0.1/24"), ("any", "192.168.0.2/24")]),
    (
        "192.168.0.0/24",
        &[("2 any", "192.168.0.2/24"), ("-192.168.0.1", ""), ("any", "192.168.0.1/24")],
    ),
    (
        "172.28.0.0/16 172.28.30.0/24",
        &[
            ("256 any", "172.28.30.255/16"),
            ("any", "Exhausted"),
            ("-172.28.30.97", ""),
            ("any", "172.28.30.97/16"),
            ("any", "Exhausted"),
            ("-172.28.30.97", ""),
            ("-172.28.30.97", ""),
            ("=172.28.30.97", "172.28.30.97/16"),
        ],
    ),
    (
        "10.2.0.0/16 10.2.2.0/24",
        &[("=10.2.2.1", "10.2.2.1/16"), ("any", "10.2.2.0/16"), ("any", "10.2.2.2/16")],
    ),
    (
        "10.2.0.0/16 10.2.2.0/24",
        &[
            ("3 serial", "10.2.2.2/16"),
            ("-10.2.2.0", ""),
            ("serial", "10.2.2.3/16"),
            ("serial", "10.2.2.4/16"),
            ("any", "10.2.2.0/16"),
            ("any", "10.2.2.5/16"),
            ("-10.2.2.4", ""),
            ("serial", "10.2.2.6/16"),
            ("any", "10.2.2.4/16"),
        ],
    ),
    (
        "10.2.0.0/29",
        &[
            ("6 serial", "10.2.0.6/29"),
            ("serial", "Exhausted"),
            ("-10.2.0.3", ""),
            ("-10.2.0.5", ""),
            ("serial", "10.2.0.3/29"),
            ("serial", "10.2.0.5/29"),
            ("any", "Exhausted"),
        ],
    ),
    (
        "192.168.0.2/31",
        &[("any", "192.168.0.2/31"), ("any", "192.168.0.3/31"), ("any", "Exhausted")],
    ),
    ("192.168.0.5/32", &[("any", "192.168.0.5/32"), ("any", "Exhausted")]),
    (
        "10.1.0.0/24",
        &[
            ("=10.1.0.0", "Invalid"),
            ("=10.1.0.255", "Invalid"),
            ("=10.1.1.1", "Invalid"),
            ("=fd00::1", "Invalid"),
            ("=10.1.0.7", "10.1.0.7/24"),
            ("=10.1.0.7", "Conflict"),
        ],
    ),
    (
        // An exact address may lie outside of the part.
        "10.1.0.0/16 10.1.4.0/24",
        &[
            ("=10.1.9.9", "10.1.9.9/16"),
            ("=10.1.9.9", "Conflict"),
            ("-10.1.9.9", ""),
            ("=10.1.9.9", "10.1.9.9/16"),
        ],
    ),
    (
        "10.1.0.0/16 10.1.0.0/30",
        &[("any", "10.1.0.1/16"), ("2 any", "10.1.0.3/16"), ("any", "Exhausted")],
    ),
    (
        "fd00::/64",
        &[
            ("any", "fd00::1/64"),
            ("=fd00::", "Invalid"),
            ("=fd00::ffff:ffff:ffff:ffff", "fd00::ffff:ffff:ffff:ffff/64"),
            ("any", "fd00::2/64"),
        ],
    ),
    ("fd00::/64 fd00::100/126", &[("4 any", "fd00::103/64"), ("any", "Exhausted")]),
    ("fd00::4/127", &[("2 any", "fd00::5/127"), ("any", "Exhausted")]),
    ("fd00::4/128", &[("any", "fd00::4/128"), ("any", "Exhausted")]),
    ("10.0.0.0/30", &[("2 any", "10.0.0.2/30"), ("any", "Exhausted")]),
];

#[test]
fn addresses_come_in_their_order() {
    for (subnet, steps) in ORDERS {
        let store = Memory::new();
        let rig = Rig::new(&store);
        let id = rig.subnet(subnet);
        for (what, expected) in *steps {
            let (times, verb) = what.split_once(' ').unwrap_or(("1", what));
            let mut got = String::new();
            for _ in 0..times.parse::<usize>().unwrap() {
                got = match verb.split_at(1) {
                    ("=", address) => rig.exact(&id, address),
                    ("-", address) => {
                        rig.release(&id, address);
                        String::new()
                    }
                    _ if verb == "serial" => rig.serial(&id),
                    _ => rig.any(&id),
                };
            }
            assert!(
                got.starts_with(expected) && got.is_empty() == expected.is_empty(),
                "{subnet} {what}: {got}"
            );
        }
    }
}

#[test]
fn refusals_name_the_holder() {
    let store = Memory::new();
    let rig = Rig::new(&store);
    let id = rig.subnet("10.1.0.0/29");
    assert_eq!(rig.purpose(&id, Purpose::Gateway, ""), "10.1.0.1/29");
    assert_eq!(rig.purpose(&id, Purpose::Auxiliary, "10.1.0.3"), "10.1.0.3/29");
    let refused = [rig.exact(&id, "10.1.0.1"), rig.exact(&id, "10.1.0.3")];
    assert!(
        refused[0].contains("requested as a gateway of network docker-10.1.0.0-29"),
        "{refused:?}"
    );
    assert!(refused[1].contains("requested as an auxiliary address"), "{refused:?}");
    // A container of that name is no gateway.
    assert!(rig.named(&id, "@gateway").starts_with("10.1.0.2"));
    assert!(rig.exact(&id, "10.1.0.2").contains("a request from subnet 10.1.0.0/29"));
    rig.any(&id);
    rig.any(&id);
    rig.any(&id);
    assert_eq!(
        rig.any(&id),
        "Exhausted: no address is free in network docker-10.1.0.0-29: all 6 of 10.1.0.1-10.1.0.6 \
         are taken; `spoke ipam show docker-10.1.0.0-29` lists the holders"
    );
    rig.release(&id, "10.1.0.3");
    assert_eq!(rig.any(&id), "10.1.0.3/29");
    rig.engine().subnets.release_subnet(&id).unwrap();
    assert!(rig.any(&id).starts_with("NotFound"));
}

#[test]
fn only_what_was_requested_from_a_subnet_is_released() {
    let store = Memory::new();
    let rig = Rig::new(&store);
    let front = network(
        "front",
        Ipam::Book { pools: vec![pool("front", "10.1.0.0/29", Order::LowestFree)] },
    );
    rig.engine().networks.create(&front).unwrap();
    let ours = rig.engine().attachments.attach(&request(&front, "c")).unwrap();
    let shared = for_network("front", exactly("10.1.0.0/29"));
    let id = rig.engine().subnets.request_subnet(&shared).unwrap().id;
    assert_eq!(rig.any(&id), "10.1.0.3/29");
    rig.release(&id, "10.1.0.2");
    rig.release(&id, "10.1.0.1");
    let other = rig.subnet("10.9.0.0/24");
    rig.release(&other, "10.1.0.3");
    assert_eq!(rig.engine().records.holders().unwrap().len(), 2);
    assert!(rig.exact(&id, "10.1.0.2").contains(&ours.id.to_string()));
    // Either frees for the other, and the lowest is found.
    rig.engine().links.detach(&request(&front, "c")).unwrap();
    assert_eq!(rig.any(&id), "10.1.0.2/29");
    rig.release(&id, "10.1.0.2");
    let next = rig.engine().attachments.attach(&request(&front, "d")).unwrap();
    assert_eq!(next.leases[0].address.to_string(), "10.1.0.2/29");
}

#[test]
fn the_gateway_of_a_shared_network_is_granted_as_it_is() {
    let store = Memory::new();
    let rig = Rig::new(&store);
    let front = network(
        "front",
        Ipam::Book { pools: vec![pool("front", "10.1.0.0/29", Order::NextAfterLast)] },
    );
    rig.engine().networks.create(&front).unwrap();
    let id = rig
        .engine()
        .subnets
        .request_subnet(&for_network("front", exactly("10.1.0.0/29")))
        .unwrap()
        .id;
    assert_eq!(rig.purpose(&id, Purpose::Gateway, ""), "10.1.0.1/29");
    assert_eq!(rig.purpose(&id, Purpose::Gateway, "10.1.0.1"), "10.1.0.1/29");
    let other = rig.purpose(&id, Purpose::Gateway, "10.1.0.5");
    assert!(other.starts_with("Conflict") && other.contains("has 10.1.0.1"), "{other}");
    assert!(rig.exact(&id, "10.1.0.1").contains("is the gateway of network front"));
    assert!(rig.engine().records.reservations().unwrap().is_empty());
    rig.release(&id, "10.1.0.1");
    // The network's own order holds for all who share it.
    assert_eq!((rig.any(&id), rig.any(&id)), ("10.1.0.2/29".into(), "10.1.0.3/29".into()));
    rig.release(&id, "10.1.0.2");
    assert_eq!(rig.any(&id), "10.1.0.4/29");
}

#[test]
fn a_requested_gateway_stays_while_others_share_it() {
    let store = Memory::new();
    let rig = Rig::new(&store);
    let id = rig.subnet("10.1.0.0/24");
    rig.purpose(&id, Purpose::Gateway, "10.1.0.254");
    rig.engine()
        .subnets
        .request_subnet(&for_network("docker-10.1.0.0-24", exactly("10.1.0.0/24")))
        .unwrap();
    rig.release(&id, "10.1.0.254");
    assert_eq!(rig.engine().records.reservations().unwrap().len(), 1);
    rig.engine().subnets.release_subnet(&id).unwrap();
    rig.release(&id, "10.1.0.254");
    assert!(rig.engine().records.reservations().unwrap().is_empty());
}

/// A network with these subnets, made for the first of them.
fn made(rig: &Rig, nets: &[&str]) -> Vec<SubnetId> {
    let ids: Vec<SubnetId> = nets.iter().map(|net| rig.subnet(net)).collect();
    let name = rig.engine().records.subnet(&ids[0]).unwrap().unwrap().network;
    let mut pool = pool(name.as_str(), nets[0], Order::LowestFree);
    pool.ranges.clear();
    for id in &ids {
        rig.engine().subnets.relabel_subnet(id, &name).unwrap();
        pool.ranges.push(Range::of_hosts(id.net, id.part, None).unwrap());
    }
    rig.engine()
        .networks
        .create(&network(name.as_str(), Ipam::Book { pools: vec![pool] }))
        .unwrap();
    ids
}

#[test]
fn a_full_subnet_flows_over_into_its_sibling() {
    let store = Memory::new();
    let rig = Rig::new(&store);
    // The second is lower than the first: ranges have an order of their own.
    let ids = made(&rig, &["10.2.0.0/30", "10.1.0.0/16 10.1.4.0/31"]);
    let got: Vec<String> = (0..5).map(|_| rig.any(&ids[0])).collect();
    assert_eq!(got[..4], ["10.2.0.1/30", "10.2.0.2/30", "10.1.4.0/16", "10.1.4.1/16"]);
    assert!(
        got[4].contains("all 4 of 10.2.0.1-10.2.0.2 and 10.1.4.0-10.1.4.1 are taken"),
        "{got:?}"
    );
    rig.release(&ids[0], "10.1.4.0");
    rig.release(&ids[0], "10.2.0.2");
    assert_eq!((rig.any(&ids[1]), rig.any(&ids[1])), ("10.1.4.0/16".into(), "10.2.0.2/30".into()));
}

#[test]
fn the_same_name_gets_the_same_address() {
    let store = Memory::new();
    let rig = Rig::new(&store);
    let request = SubnetRequest { sticky: Sticky::Name, ..exactly("10.1.0.0/29") };
    let id = rig.engine().subnets.request_subnet(&request).unwrap().id;
    assert_eq!(
        (rig.named(&id, "web"), rig.named(&id, "db")),
        ("10.1.0.1/29".into(), "10.1.0.2/29".into())
    );
    rig.release(&id, "10.1.0.1");
    rig.release(&id, "10.1.0.2");
    assert_eq!(rig.any(&id), "10.1.0.3/29");
    assert_eq!(
        (rig.named(&id, "db"), rig.named(&id, "web")),
        ("10.1.0.2/29".into(), "10.1.0.1/29".into())
    );
    assert!(rig.exact(&id, "10.1.0.1").starts_with("Conflict"));
    rig.release(&id, "10.1.0.1");
    store.reboot();
    assert_eq!(rig.named(&id, "web"), "10.1.0.1/29");
    // While it lives, another of its name gets another.
    assert_eq!(rig.named(&id, "web"), "10.1.0.3/29");
}

#[test]
fn names_of_long_ago_make_room() {
    let store = Memory::new();
    let rig = Rig::new(&store);
    let request = SubnetRequest { sticky: Sticky::Name, ..exactly("10.1.0.0/29") };
    let id = rig.engine().subnets.request_subnet(&request).unwrap().id;
    let by_hand = "10.1.0.6".parse().unwrap();
    let owner = Some(("docker-10.1.0.0-29".parse().unwrap(), "kept".parse().unwrap()));
    rig.engine().addresses.reserve_address(&Space::Host, by_hand, owner).unwrap();
    assert_eq!(rig.named(&id, "lives"), "10.1.0.1/29");
    for round in 0..20 {
        let got = rig.named(&id, &format!("gone-{round}"));
        rig.release(&id, got.split('/').next().unwrap());
    }
    assert_eq!(rig.named(&id, "lives").split('/').next(), Some("10.1.0.2"));
    let kept = rig.engine().records.reservations().unwrap();
    assert!(kept.iter().any(|reserved| reserved.address == by_hand));
    for got in ["10.1.0.3", "10.1.0.4", "10.1.0.5"] {
        assert!(rig.any(&id).starts_with(got));
    }
    assert!(rig.any(&id).starts_with("Exhausted"));
    assert_eq!(rig.named(&id, "kept"), "10.1.0.6/29");
}

#[test]
fn files_of_others_are_claimed_and_respected() {
    let store = Memory::new();
    let rig = Rig::new(&store);
    let pools = vec![pool("podman", "10.88.0.0/29", Order::NextAfterLast)];
    let directory = "/var/lib/cni/networks/podman".into();
    let podman = network("podman", Ipam::HostLocal { pools, directory });
    rig.engine().networks.create(&podman).unwrap();
    rig.directory.held.borrow_mut().insert("10.88.0.2".parse().unwrap());
    let id = rig
        .engine()
        .subnets
        .request_subnet(&for_network("podman", exactly("10.88.0.0/29")))
        .unwrap()
        .id;
    assert_eq!(rig.any(&id), "10.88.0.3/29");
    let refused = rig.exact(&id, "10.88.0.2");
    assert!(refused.starts_with("Conflict") && refused.contains("another program"), "{refused}");
    assert_eq!(rig.engine().records.holders().unwrap().len(), 1);
    assert!(rig.purpose(&id, Purpose::Auxiliary, "10.88.0.5").starts_with("Unsupported"));
    rig.engine().repair.gc(&podman, &engine::Members::new()).unwrap();
    let kept = rig.directory.kept.borrow();
    assert!(kept.iter().any(|(container, _)| container.as_str() == "requested-10.88.0.3"));
}

#[test]
fn what_was_only_passed_over_is_not_forgotten() {
    let store = Memory::new();
    let rig = Rig::new(&store);
    let pools = vec![pool("podman", "10.88.0.0/29", Order::LowestFree)];
    let podman = network("podman", Ipam::HostLocal { pools, directory: "/n/podman".into() });
    rig.engine().networks.create(&podman).unwrap();
    let shared = for_network("podman", exactly("10.88.0.0/29"));
    let id = rig.engine().subnets.request_subnet(&shared).unwrap().id;
    rig.directory.held.borrow_mut().insert("10.88.0.2".parse().unwrap());
    assert_eq!(rig.any(&id), "10.88.0.3/29");
    rig.directory.held.borrow_mut().clear();
    assert_eq!(rig.any(&id), "10.88.0.2/29");
}
