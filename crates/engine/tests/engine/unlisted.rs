//! Freeing what no engine of Docker's lists any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::common::Directory;
use super::endpoint_world::*;
use super::subnet_rig::{for_network, wanting};
use engine::port::{Host, Key, Outcome, Prefix, Store, Txn, Versioned};
use engine::{
    AddressRequest, Engine, Finding, Garbage, Live, Mode, Purpose, Siblings, SubnetRequest,
    SubnetSpec,
};
use model::*;

const GRACE: Duration = Duration::from_secs(30);

fn live(networks: &[(&str, Option<&[&str]>)]) -> Live {
    let endpoints = |names: &&[&str]| -> BTreeSet<ContainerId> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    };
    let networks: BTreeMap<_, _> =
        networks.iter().map(|(alias, known)| (id(alias), known.as_ref().map(endpoints))).collect();
    Live { networks, ..Live::default() }
}

fn absent(engine: &Engine<'_>, live: &Live, mode: Mode) -> Vec<Garbage> {
    let found = engine.repair.reclaim_unlisted(Runtime::Docker, live, GRACE, mode).unwrap();
    assert!(found.failures.is_empty(), "{:?}", found.failures);
    found.findings.into_iter().map(|Finding { what, .. }| what).collect()
}

#[test]
fn forgotten_endpoints_and_networks_are_freed_once_they_are_old() {
    let rig = Rig::new();
    rig.with(|engine| {
        let (a, b) = (up(engine, &front(), "a", "s"), up(engine, &front(), "b", "t"));
        let knows_b = live(&[("id-front", Some(&["b"]))]);
        let of_network = |what: &[Garbage]| -> Vec<AttachmentId> {
            let id = |found: &Garbage| match found {
                Garbage::Attachment(id) => Some(id.clone()),
                _ => None,
            };
            what.iter().filter_map(id).collect()
        };
        assert!(absent(engine, &knows_b, Mode::DryRun).is_empty(), "they are young");
        *rig.now.lock().unwrap() += 31;
        assert_eq!(of_network(&absent(engine, &knows_b, Mode::DryRun)), std::slice::from_ref(&a));
        assert_eq!(engine.records.attachments().unwrap().len(), 2);
        assert!(of_network(&absent(engine, &live(&[("id-front", None)]), Mode::DryRun)).is_empty());
        let either = knows_b.clone().or(&live(&[("id-front", Some(&["a"]))]));
        assert!(of_network(&absent(engine, &either, Mode::DryRun)).is_empty());

        engine.links.remove(&a).unwrap();
        let nothing = live(&[]);
        let found = absent(engine, &nothing, Mode::DryRun);
        assert!(of_network(&found).is_empty(), "b lives, and the network with it");
        assert!(!found.contains(&Garbage::Alias(id("id-front"))));
        rig.gone.lock().unwrap().insert(b.clone());
        let found = absent(engine, &nothing, Mode::DryRun);
        assert_eq!(of_network(&found), [b]);
        assert!(found.contains(&Garbage::Alias(id("id-front"))));
    });
}

/// Docker's release of a network's subnet was lost, and the next network shares the subnet all the same.
#[test]
fn a_lost_release_keeps_no_network_from_a_shared_subnet() {
    let rig = Rig::new();
    rig.with(|engine| {
        let front = Network { runtime: Runtime::Spoke, ..front() };
        engine.networks.create(&front).unwrap();
        let any = SubnetSpec::Any { family: Family::V4, prefix_len: None };
        let share = || engine.subnets.request_subnet(&for_network("front", wanting(any.clone())));
        let references = |id: &SubnetId| engine.records.subnet(id).unwrap().unwrap().references;
        let shared = share().unwrap().id;
        assert_eq!(share().unwrap_err().kind(), Kind::Conflict, "it is repeated");
        engine.networks.enroll(&alias("one", &front), &front).unwrap();
        share().unwrap();
        engine.networks.enroll(&alias("two", &front), &front).unwrap();
        engine.networks.withdraw(&id("two")).unwrap();
        assert_eq!((share().unwrap_err().kind(), references(&shared)), (Kind::Conflict, 2));

        *rig.now.lock().unwrap() += 60;
        share().unwrap();
        engine.networks.enroll(&alias("three", &front), &front).unwrap();
        assert_eq!(share().unwrap_err().kind(), Kind::Conflict);
        let mut live = live(&[("one", None), ("three", None)]);
        live.shares.insert(shared.clone(), 2);
        engine.subnets.lower_references(Runtime::Docker, &live, GRACE).unwrap();
        assert_eq!(references(&shared), 3, "it is young");
        *rig.now.lock().unwrap() += 31;
        engine.subnets.lower_references(Runtime::Docker, &Live::default(), GRACE).unwrap();
        assert_eq!(references(&shared), 3, "no engine says how many there are");
        engine.subnets.lower_references(Runtime::Docker, &live, GRACE).unwrap();
        assert_eq!(references(&shared), 2);
        share().unwrap();
    });
}

#[test]
fn what_cannot_be_freed_hides_nothing_that_was() {
    let rig = Rig::new();
    rig.with(|engine| {
        up(engine, &front(), "a", "s");
        let other = subnet(engine, "10.77.0.0/24");
        *rig.now.lock().unwrap() += 31;
        *rig.fails.lock().unwrap() = Some("detach");
        let known = live(&[("id-front", Some(&[]))]);
        let result =
            engine.repair.reclaim_unlisted(Runtime::Docker, &known, GRACE, Mode::Mend).unwrap();
        let freed: Vec<Garbage> = result.findings.into_iter().map(|found| found.what).collect();
        assert!(freed.contains(&Garbage::Subnet(other)), "{freed:?}");
        assert!(!freed.iter().any(|it| matches!(it, Garbage::Attachment(_))), "{freed:?}");
        let [failure] = &result.failures[..] else { panic!("{:?}", result.failures) };
        assert!(failure.to_string().contains("freeing container a"), "{failure}");
    });
}

/// A thread waits for a third-party plugin. Its endpoint is no freed one, and its network is not waited for.
#[test]
fn what_is_worked_on_is_not_freed() {
    let rig = Rig::new();
    rig.with(|engine| {
        let a = up(engine, &front(), "a", "s");
        *rig.now.lock().unwrap() += 31;
        rig.gone.lock().unwrap().insert(a.clone());
        let held = rig.lock_attachment(&a);
        let nothing = live(&[]);
        let result =
            engine.repair.reclaim_unlisted(Runtime::Docker, &nothing, GRACE, Mode::Mend).unwrap();
        let is_of = |found: &Finding| match &found.what {
            Garbage::Attachment(id) => *id == a,
            Garbage::Alias(alias) => *alias == id("id-front"),
            _ => false,
        };
        assert!(!result.findings.iter().any(is_of), "{:?}", result.findings);
        assert_eq!(result.failures.len(), 2, "{:?}", result.failures);
        assert!(result.failures.iter().all(|error| error.kind() == Kind::TryAgain));
        drop(held);
        let freed = absent(engine, &nothing, Mode::Mend);
        assert!(freed.contains(&Garbage::Attachment(a.clone())), "{freed:?}");
        assert!(freed.contains(&Garbage::Alias(id("id-front"))), "{freed:?}");
    });
}

#[test]
fn what_other_runtimes_made_is_never_absent() {
    let rig = Rig::new();
    rig.with(|engine| {
        let pod = super::common::request(&super::common::book("10.9.0.0/29"), "pod");
        engine.attachments.attach(&pod).unwrap();
        *rig.now.lock().unwrap() += 1_000;
        assert!(absent(engine, &Live::default(), Mode::Mend).is_empty());
        assert_eq!(engine.records.attachments().unwrap().len(), 1);
    });
}

fn subnet(engine: &Engine<'_>, net: &str) -> SubnetId {
    let wanted = SubnetRequest {
        space: Space::Host,
        spec: SubnetSpec::Exactly { net: net.parse().unwrap(), part: None },
        network: None,
        runtime: Runtime::Docker,
        order: Order::LowestFree,
        sticky: Sticky::No,
        despite_others: false,
    };
    engine.subnets.request_subnet(&wanted).unwrap().id
}

fn address(engine: &Engine<'_>, subnet: &SubnetId, purpose: Purpose) -> std::net::IpAddr {
    let wanted = AddressRequest { subnet: subnet.clone(), want: Want::Any, purpose, order: None };
    engine.subnets.request_address(&wanted).unwrap().address.addr()
}

/// Docker's own bridge driver with our addresses: there is neither an id nor an endpoint of ours.
#[test]
fn forgotten_addresses_and_subnets_are_freed() {
    let rig = Rig::new();
    rig.with(|engine| {
        let (kept, lost) = (subnet(engine, "10.7.0.0/24"), subnet(engine, "10.8.0.0/24"));
        for id in [&kept, &lost] {
            address(engine, id, Purpose::Gateway);
        }
        let lives = address(engine, &kept, Purpose::Container(None));
        let dead = address(engine, &kept, Purpose::Container(None));
        let with_it = address(engine, &lost, Purpose::Container(None));
        let global = SubnetRequest {
            space: Space::Global,
            spec: SubnetSpec::Exactly { net: "10.8.0.0/24".parse().unwrap(), part: None },
            network: None,
            runtime: Runtime::Docker,
            order: Order::LowestFree,
            sticky: Sticky::No,
            despite_others: false,
        };
        engine.subnets.request_subnet(&global).unwrap();
        let mut live = Live::default();
        live.subnets.insert(kept.clone());
        live.addresses.insert((Space::Host, lives));
        assert!(absent(engine, &live, Mode::Mend).is_empty());
        *rig.now.lock().unwrap() += 31;
        let late = address(engine, &kept, Purpose::Container(None));
        let found = absent(engine, &live, Mode::DryRun);
        assert_eq!(absent(engine, &live, Mode::Mend), found);
        let freed: Vec<std::net::IpAddr> = found
            .iter()
            .filter_map(|what| match what {
                Garbage::Lease(lease) => Some(lease.address.addr()),
                _ => None,
            })
            .collect();
        assert_eq!(freed, [dead, with_it]);
        assert_eq!(found[2..], [Garbage::Subnet(lost)]);
        let held: Vec<_> =
            engine.records.holders().unwrap().iter().map(|h| h.lease.address.addr()).collect();
        assert_eq!(held, [lives, late]);
        assert_eq!(engine.records.reservations().unwrap().len(), 1, "the gateway of what is kept");
        assert_eq!(engine.records.subnets().unwrap().len(), 2);
        assert!(absent(engine, &live, Mode::Mend).is_empty());
    });
}

/// DeleteEndpoint, ReleaseAddress, ReleasePool and DeleteNetwork were all lost.
#[test]
fn a_whole_network_that_was_forgotten_goes() {
    let rig = Rig::new();
    rig.with(|engine| {
        let pool = subnet(engine, "10.7.0.0/24");
        let of = engine.records.subnet(&pool).unwrap().unwrap();
        let network = docker(of.network.as_str(), "10.7.0.0/24", "fd07::/125");
        address(engine, &pool, Purpose::Gateway);
        let leased = address(engine, &pool, Purpose::Container(None));
        let known = alias("n", &network);
        engine.networks.enroll(&known, &network).unwrap();
        let asked = endpoint(&network, "a", &[&format!("{leased}/24")]);
        let made = engine.attachments.reserve(&asked, &known.id).unwrap();
        engine.attachments.join(&made.id, &joining("s", Handoff::Finish)).unwrap();
        engine
            .attachments
            .publish(&made.id, &publishing(vec![map(None, 80)], Siblings::TakeOver))
            .unwrap();
        *rig.now.lock().unwrap() += 31;
        // A network with a living container is another runtime's.
        assert_eq!(absent(engine, &Live::default(), Mode::Mend), []);
        rig.gone.lock().unwrap().insert(made.id);
        let found = absent(engine, &Live::default(), Mode::Mend);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(
            engine.records.attachments().unwrap().is_empty()
                && engine.records.holders().unwrap().is_empty()
        );
        assert!(
            engine.records.networks().unwrap().is_empty()
                && engine.records.aliases().unwrap().is_empty()
        );
        assert!(
            engine.records.subnets().unwrap().is_empty()
                && engine.records.reservations().unwrap().is_empty()
        );
        assert_eq!(rig.kernel(), Kernel::default());
    });
}

/// Its engine is not asked, and the container has come since the grace time began.
#[test]
fn an_unknown_network_stays_while_a_container_has_just_come() {
    let rig = Rig::new();
    rig.with(|engine| {
        let network = front();
        engine.networks.enroll(&alias("n", &network), &network).unwrap();
        *rig.now.lock().unwrap() += 31;
        let asked = both(&network, "a", 2);
        let made = engine.attachments.reserve(&asked, &id("n")).unwrap();
        assert_eq!(absent(engine, &Live::default(), Mode::Mend), []);
        engine.attachments.join(&made.id, &joining("s", Handoff::Finish)).unwrap();
        assert_eq!(absent(engine, &Live::default(), Mode::Mend), []);
        assert!(engine.records.attachment(&made.id).unwrap().is_some());
    });
}

/// A store in which another process does something once, right after a record was read so often.
struct Interrupted<'r> {
    rig: &'r Rig,
    key: Key,
    reads: AtomicI64,
    then: &'r (dyn Fn() + Sync),
}

impl Store for Interrupted<'_> {
    fn get(&self, key: &Key) -> Result<Option<Versioned>> {
        let read = Store::get(self.rig, key);
        if *key == self.key && self.reads.fetch_sub(1, Ordering::SeqCst) == 1 {
            (self.then)();
        }
        read
    }

    fn list(&self, prefix: &Prefix) -> Result<Vec<(Key, Versioned)>> {
        Store::list(self.rig, prefix)
    }

    fn commit(&self, txn: &Txn) -> Result<Outcome> {
        Store::commit(self.rig, txn)
    }
}

/// Between RequestAddress and CreateEndpoint an engine was stopped for longer than the grace time.
#[test]
fn an_address_that_is_being_freed_is_not_taken_from_who_begins_to_use_it() {
    for reads in 1..=3 {
        let rig = Rig::new();
        let (network, leased) = rig.with(|engine| {
            let pool = subnet(engine, "10.7.0.0/24");
            let of = engine.records.subnet(&pool).unwrap().unwrap();
            let network = docker(of.network.as_str(), "10.7.0.0/24", "fd07::/125");
            engine.networks.enroll(&alias("n", &network), &network).unwrap();
            (network, address(engine, &pool, Purpose::Container(None)))
        });
        *rig.now.lock().unwrap() += 31;
        let asked = endpoint(&network, "a", &[&format!("{leased}/24")]);
        let begin =
            || drop(rig.with(|engine| engine.attachments.reserve(&asked, &id("n")).unwrap()));
        let key = Key::Lease(Space::Host, leased);
        let store = Interrupted { rig: &rig, key, reads: AtomicI64::new(reads), then: &begin };
        let directory = Directory::default();
        let engine = Engine::new(&store, &rig, &directory, &rig);
        absent(&engine, &live(&[("n", Some(&[]))]), Mode::Mend);
        if store.reads.load(Ordering::SeqCst) <= 0 {
            let made = rig.with(|engine| engine.records.attachment(&asked.id()).unwrap());
            assert!(made.is_some(), "interrupted after {reads} reads");
        }
    }
}

/// Docker died with its containers, could not reach us when it began again, and asks anew.
#[test]
fn the_address_of_who_is_gone_without_leaving_can_be_had_again() {
    let rig = Rig::new();
    rig.with(|engine| {
        let pool = subnet(engine, "10.7.0.0/24");
        let of = engine.records.subnet(&pool).unwrap().unwrap();
        let network = docker(of.network.as_str(), "10.7.0.0/24", "fd07::/125");
        address(engine, &pool, Purpose::Gateway);
        let known = alias("n", &network);
        engine.networks.enroll(&known, &network).unwrap();
        let wanted = address(engine, &pool, Purpose::Container(None));
        let again = AddressRequest {
            subnet: pool.clone(),
            want: Want::Exactly(wanted),
            purpose: Purpose::Container(None),
            order: None,
        };
        let asked = endpoint(&network, "a", &[&format!("{wanted}/24")]);
        let made = engine.attachments.reserve(&asked, &known.id).unwrap();
        engine.attachments.join(&made.id, &joining("s", Handoff::Caller)).unwrap();
        assert_eq!(
            engine.subnets.request_address(&again).unwrap_err().kind(),
            Kind::Conflict,
            "it lives"
        );
        rig.gone.lock().unwrap().insert(made.id.clone());
        assert_eq!(engine.subnets.request_address(&again).unwrap().address.addr(), wanted);
        assert!(engine.records.attachments().unwrap().is_empty());
        assert_eq!(engine.records.holders().unwrap().len(), 1);

        // Who has left is about to give it back.
        let made = engine.attachments.reserve(&asked, &known.id).unwrap();
        engine.attachments.join(&made.id, &joining("s", Handoff::Caller)).unwrap();
        engine.attachments.leave(&made.id).unwrap();
        assert_eq!(engine.subnets.request_address(&again).unwrap_err().kind(), Kind::Conflict);
        assert_eq!(engine.subnets.request_address(&again).unwrap_err().kind(), Kind::Conflict);
    });
}
