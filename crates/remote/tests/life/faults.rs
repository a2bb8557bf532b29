//! Every call goes wrong in every way, and nothing is left.

use std::panic::{AssertUnwindSafe, catch_unwind};

use libnetwork::Call;
use model::{Attachment, Family, Network, RemotePool};
use remote::DeadEnd;

use crate::model::{Fault, joined, kills_are_quiet};
use crate::rig::{Rig, container, network, pool, publishing, wanting};

const FAULTS: [Fault; 7] = [
    Fault::Dead,
    Fault::Refused,
    Fault::Lost,
    Fault::AnswerLost,
    Fault::Nonsense,
    Fault::KilledBefore,
    Fault::KilledAfter,
];

/// What a life of two containers is made of.
struct World {
    rig: Rig,
    network: Network,
    containers: Vec<Attachment>,
}

impl World {
    fn new() -> Self {
        let rig = Rig::new();
        rig.plugin.state().joined = joined("veth1", "10.1.0.254");
        let mut v4 = pool("10.1.0.0/24");
        v4.gateway = Some("10.1.0.254".parse().unwrap());
        v4.auxiliary.insert("a".into(), "10.1.0.9".parse().unwrap());
        let network = network("n1", vec![v4, pool("fd01::/64")]);
        Self { rig, network, containers: Vec::new() }
    }

    /// A whole life; what fails is undone as the engine undoes it.
    fn live(&mut self) {
        if self.rig.make(&mut self.network).is_err() {
            return;
        }
        for (name, address) in [("c1", None), ("c2", Some("10.1.0.77"))] {
            let mut one = publishing(container(&self.network, name), 8080, 80);
            if let Some(address) = address {
                one = wanting(one, address);
            }
            // The record is there before anything is done.
            self.containers.push(one.clone());
            let _ = self.rig.attach(&mut one);
            let last = self.containers.len() - 1;
            self.containers[last] = one;
        }
        let containers = std::mem::take(&mut self.containers);
        for (n, one) in containers.iter().enumerate() {
            self.containers = containers[n..].to_vec();
            self.rig.detach(one);
        }
        self.containers.clear();
        self.rig.delete(&self.network);
    }

    /// What the next process does, once it knows that the one before is dead.
    fn mend(&mut self) {
        self.rig.plugin.work();
        self.rig.restart("boot-1");
        self.containers.iter().for_each(|one| self.rig.detach(one));
        self.rig.delete(&self.network);
        self.rig.retry();
    }
}

/// A life in which the `n`th call goes wrong; how many calls there were.
fn goes_wrong(n: usize, fault: Fault) -> usize {
    let mut world = World::new();
    world.rig.plugin.fail(move |count, _| (count == n).then_some(fault));
    let _ = catch_unwind(AssertUnwindSafe(|| world.live()));
    let count = world.rig.plugin.count();
    world.mend();
    world.rig.is_clean();
    count
}

#[test]
fn whichever_call_goes_wrong_nothing_is_left() {
    kills_are_quiet();
    for fault in FAULTS {
        let mut n = 0;
        while n < goes_wrong(n, fault) {
            n += 1;
        }
        assert!(n > 25, "{fault:?}: {n}");
    }
}

#[test]
fn two_calls_after_one_another_go_wrong() {
    kills_are_quiet();
    for first in [Fault::AnswerLost, Fault::Lost, Fault::Refused] {
        for second in FAULTS {
            for n in 0..30 {
                let mut world = World::new();
                world.rig.plugin.fail(move |count, _| match count {
                    _ if count == n => Some(first),
                    _ if count == n + 1 => Some(second),
                    _ => None,
                });
                let _ = catch_unwind(AssertUnwindSafe(|| world.live()));
                world.mend();
                world.rig.is_clean();
            }
        }
    }
}

/// A generator of numbers that is the same every time (Marsaglia's xorshift64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Carries on as often as the process is killed.
fn at_last(what: impl Fn()) {
    while catch_unwind(AssertUnwindSafe(&what)).is_err() {}
}

/// A container's round, in which one call in twenty goes wrong; whether its process was killed.
fn round(rig: &Rig, network: &Network, random: &mut Random) -> bool {
    let name = format!("c{}", random.next() % 7);
    let mut one = publishing(container(network, &name), 8080, 80);
    if random.next().is_multiple_of(3) {
        one = wanting(one, &format!("10.1.0.{}", 40 + random.next() % 9));
    }
    let attached = catch_unwind(AssertUnwindSafe(|| rig.attach(&mut one)));
    at_last(|| rig.detach(&one));
    attached.is_err()
}

#[test]
fn ten_thousand_rounds_with_failures_leave_nothing() {
    kills_are_quiet();
    let mut rig = Rig::new();
    rig.plugin.state().joined = joined("veth1", "10.1.0.1");
    let (mut rounds, mut killed) = (0, 0);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    while rounds < 10_000 {
        let mut chance = Random(random.next() | 1);
        rig.plugin.fail(move |_, _| {
            let n = chance.next();
            n.is_multiple_of(20).then(|| FAULTS[usize::try_from(n / 20 % 7).unwrap()])
        });
        let mut pools = vec![pool("10.1.0.0/24")];
        pools.extend((rounds % 200 == 0).then(|| pool("fd01::/64")));
        let mut made = network("n1", pools);
        let begun = catch_unwind(AssertUnwindSafe(|| rig.make(&mut made).is_ok()));
        if begun.is_ok_and(|is_made| is_made) {
            for _ in 0..50 {
                killed += u32::from(round(&rig, &made, &mut random));
                rounds += 1;
            }
        }
        at_last(|| rig.delete(&made));
        rig.plugin.work();
        rig.restart("boot-1");
        rig.retry();
        rig.is_clean();
        let mut state = rig.plugin.state();
        state.lost_choices = 0;
        state.calls.clear();
        state.log.clear();
    }
    assert!(killed > 100, "{killed}");
}

#[test]
fn a_pool_without_a_known_name_is_reported_until_it_is_forgotten() {
    let rig = Rig::new();
    rig.plugin.fail(|_, call| matches!(call, Call::RequestPool(_)).then_some(Fault::AnswerLost));
    let mut network = network("n1", vec![RemotePool::any(Family::V4)]);
    rig.make(&mut network).unwrap_err();
    rig.plugin.work();
    rig.retry();
    let pending = rig.remote.pending().unwrap();
    assert_eq!(pending.len(), 1, "{pending:?}");
    assert_eq!(pending[0].dead_end, Some(DeadEnd::Lost));
    assert!(pending[0].what.contains("lost"), "{pending:?}");
    // It is in no call's way.
    rig.make(&mut network).unwrap();
    rig.delete(&network);
    assert_eq!(rig.remote.write_off().unwrap(), pending);
    assert_eq!(rig.remote.pending().unwrap(), []);
    assert_eq!(rig.remote.write_off().unwrap(), []);
}

#[test]
fn an_unknown_address_goes_with_its_pool() {
    let rig = Rig::new();
    let mut network = network("n1", vec![pool("10.1.0.0/24")]);
    rig.make(&mut network).unwrap();
    rig.plugin.fail(|_, call| matches!(call, Call::RequestAddress(_)).then_some(Fault::AnswerLost));
    let mut one = container(&network, "c1");
    rig.attach(&mut one).unwrap_err();
    rig.plugin.work();
    let pending = rig.remote.pending().unwrap();
    assert!(pending.len() == 1 && pending[0].dead_end == Some(DeadEnd::Lost), "{pending:?}");
    rig.attach(&mut one).unwrap();
    assert_eq!(one.addresses[0].address.to_string(), "10.1.0.3/24");
    rig.detach(&one);
    rig.delete(&network);
    rig.is_clean();
}

#[test]
fn a_dead_plugin_keeps_no_container_from_detaching() {
    let mut rig = Rig::new();
    let mut network = network("n1", vec![pool("10.1.0.0/24")]);
    rig.make(&mut network).unwrap();
    let mut one = container(&network, "c1");
    rig.attach(&mut one).unwrap();
    rig.plugin.fail(|_, _| Some(Fault::Dead));
    rig.detach(&one);
    rig.delete(&network);
    let cleanups: Vec<String> = rig.remote.pending().unwrap().into_iter().map(|d| d.what).collect();
    assert_eq!(cleanups.len(), 6, "{cleanups:?}");
    // The next call at the same place waits for it.
    let error = rig.attach(&mut one).unwrap_err();
    assert_eq!(error.kind(), model::Kind::TryAgain, "{error}");
    // The name of the network is free.
    rig.restart("boot-1");
    rig.plugin.work();
    rig.plugin.log();
    let settled = rig.remote.retry(remote::Urgency::Now).unwrap();
    assert_eq!((settled.done.len(), settled.remaining.len()), (6, 0), "{settled:?}");
    let expected = [
        "Leave",
        "DeleteEndpoint",
        "ReleaseAddress 10.1.0.2",
        "ReleaseAddress 10.1.0.1",
        "ReleasePool 10.1.0.0/24",
        "DeleteNetwork",
    ];
    assert_eq!(rig.plugin.log(), expected);
    rig.is_clean();
}
