//! Many requests: at once, in any order, in a full subnet, over a reboot.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use doubles::Memory;
use engine::{Purpose, SubnetSpec};
use model::*;
use proptest::prelude::*;

use super::subnet_rig::{Rig, container, exactly, wanting};

const THREADS: usize = 16;

#[test]
fn threads_never_get_the_same_address() {
    let store = Memory::new();
    let id = Rig::new(&store).subnet("10.1.0.0/24");
    let work = |_| {
        let rig = Rig::new(&store);
        let mut mine = Vec::new();
        for round in 0..30 {
            mine.push(
                rig.engine().subnets.request_address(&container(&id, None)).unwrap().address.addr(),
            );
            if round % 3 == 2 {
                let freed = mine.remove(0);
                rig.engine().subnets.release_address(&id, freed).unwrap();
            }
            if mine.len() > 10 {
                let freed = mine.remove(0);
                rig.engine().subnets.release_address(&id, freed).unwrap();
            }
        }
        mine
    };
    let all: Vec<IpAddr> = at_once(work).into_iter().flatten().collect();
    let unique: BTreeSet<&IpAddr> = all.iter().collect();
    assert_eq!(unique.len(), all.len());
    let rig = Rig::new(&store);
    assert_eq!(rig.engine().records.holders().unwrap().len(), all.len());
    // Nothing was forgotten: what is free below the highest comes first.
    let mut held: BTreeSet<IpAddr> = all.into_iter().collect();
    while held.len() < 254 {
        let lowest = (1..255).map(|last| IpAddr::from([10, 1, 0, last]));
        let lowest = lowest.into_iter().find(|address| !held.contains(address)).unwrap();
        assert_eq!(rig.any(&id), format!("{lowest}/24"));
        held.insert(lowest);
    }
    assert!(rig.any(&id).starts_with("Exhausted"));
}

#[test]
fn threads_never_get_overlapping_subnets() {
    let store = Memory::new();
    let work = |thread: usize| {
        let rig = Rig::new(&store);
        let sizes = [24_u8, 20, 28, 16];
        let prefix_len = Some(sizes[thread % sizes.len()]);
        let request = wanting(SubnetSpec::Any { family: Family::V4, prefix_len });
        (0..6)
            .map(|_| rig.engine().subnets.request_subnet(&request).unwrap().id.net)
            .collect::<Vec<_>>()
    };
    let all: Vec<IpNet> = at_once(work).into_iter().flatten().collect();
    assert_eq!(all.len(), THREADS * 6);
    for (at, one) in all.iter().enumerate() {
        assert!(!all[at + 1..].iter().any(|other| overlap(one, other)), "{one}");
    }
}

#[test]
fn of_two_overlapping_exact_wishes_one_is_granted() {
    for _ in 0..50 {
        let store = Memory::new();
        let work = |thread: usize| {
            let rig = Rig::new(&store);
            let net = ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.0.0.0/9"][thread % 4];
            rig.engine().subnets.request_subnet(&exactly(net)).is_ok()
        };
        let granted = at_once(work).into_iter().filter(|granted| *granted).count();
        let there = Rig::new(&store).engine().records.subnets().unwrap();
        assert_eq!((granted, there.len()), (1, 1));
    }
}

fn at_once<T: Send>(work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = std::sync::Barrier::new(THREADS);
    let run = |thread| {
        start.wait();
        work(thread)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|n| {
                scope.spawn({
                    let run = &run;
                    move || run(n)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// How often the store is asked for one address, and for its release.
fn cost(rig: &Rig, work: impl FnOnce()) -> (usize, usize, usize) {
    let before = (rig.store.gets.get(), rig.store.lists.get(), rig.store.commits.get());
    work();
    let (gets, lists, commits) =
        (rig.store.gets.get(), rig.store.lists.get(), rig.store.commits.get());
    (gets - before.0, lists - before.1, commits - before.2)
}

#[test]
fn an_address_costs_the_same_however_full_the_subnet_is() {
    let store = Memory::new();
    let rig = Rig::new(&store);
    let id = rig.subnet("10.1.0.0/22");
    rig.any(&id);
    let first = cost(&rig, || drop(rig.any(&id)));
    assert_eq!(first, (5, 0, 1));
    for _ in 0..1000 {
        rig.any(&id);
    }
    assert_eq!(cost(&rig, || drop(rig.any(&id))), first);
    assert_eq!(cost(&rig, || rig.release(&id, "10.1.0.5")), (4, 0, 1));
    rig.release(&id, "10.1.2.7");
    // Holes, and what comes behind them.
    for expected in ["10.1.0.5/22", "10.1.2.7/22", "10.1.3.236/22", "10.1.3.237/22"] {
        assert_eq!(cost(&rig, || assert_eq!(rig.any(&id), expected)), first, "{expected}");
    }
    assert_eq!(cost(&rig, || drop(rig.serial(&id))), first);
    assert_eq!(cost(&rig, || drop(rig.exact(&id, "10.1.3.250"))), (3, 0, 1));
}

#[test]
fn a_reboot_frees_containers_and_nothing_else() {
    let store = Memory::new();
    let rig = Rig::new(&store);
    let id = rig.subnet("10.1.0.0/24");
    rig.purpose(&id, Purpose::Gateway, "");
    rig.purpose(&id, Purpose::Auxiliary, "10.1.0.2");
    assert_eq!((rig.any(&id), rig.any(&id)), ("10.1.0.3/24".into(), "10.1.0.4/24".into()));
    store.reboot();
    assert_eq!(rig.any(&id), "10.1.0.3/24");
    assert!(rig.exact(&id, "10.1.0.1").starts_with("Conflict"));
    assert_eq!(rig.engine().records.subnets().unwrap().len(), 1);
}

/// What libnetwork's own IPAM would do, as a set.
#[derive(Default)]
struct Reference {
    held: BTreeSet<u32>,
    last: Option<u32>,
}

const FIRST: u32 = 0x0a01_0001;
const LAST: u32 = 0x0a01_001e;

impl Reference {
    fn lowest(&mut self) -> Option<u32> {
        let found = (FIRST..=LAST).find(|address| !self.held.contains(address))?;
        self.took(found)
    }

    fn next(&mut self) -> Option<u32> {
        let after = self.last.map_or(FIRST, |last| last + 1);
        let mut round = (after..=LAST).chain(FIRST..after);
        let found = round.find(|address| !self.held.contains(address))?;
        self.took(found)
    }

    fn took(&mut self, address: u32) -> Option<u32> {
        self.held.insert(address);
        self.last = Some(address);
        Some(address)
    }
}

fn text(address: Option<u32>) -> String {
    address.map_or("Exhausted".into(), |address| Ipv4Addr::from(address).to_string())
}

proptest! {
    #[test]
    fn any_order_of_requests_and_releases_is_followed(
        steps in prop::collection::vec((0u8..6, 0u32..30), 1..200),
    ) {
        let store = Memory::new();
        let rig = Rig::new(&store);
        let id = rig.subnet("10.1.0.0/27");
        let mut reference = Reference::default();
        let bare = |got: String| got.split(['/', ':']).next().unwrap_or_default().to_owned();
        for (what, number) in steps {
            let address = FIRST + number;
            match what {
                0 | 1 => prop_assert_eq!(bare(rig.any(&id)), text(reference.lowest())),
                2 => prop_assert_eq!(bare(rig.serial(&id)), text(reference.next())),
                3 => {
                    let is_new = reference.held.insert(address);
                    let got = rig.exact(&id, &text(Some(address)));
                    prop_assert_eq!(got.starts_with("10.1.0"), is_new, "{}", got);
                }
                _ => {
                    reference.held.remove(&address);
                    rig.release(&id, &text(Some(address)));
                }
            }
        }
        let holders = rig.engine().records.holders().unwrap();
        let held: BTreeMap<IpAddr, ()> =
            holders.iter().map(|holder| (holder.lease.address.addr(), ())).collect();
        prop_assert_eq!(held.len(), reference.held.len());
    }
}
