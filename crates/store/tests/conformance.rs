//! The rules of the store port, for each implementation.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use doubles::Memory;
use engine::port::{Expect, Key, Outcome, Prefix, Store, Txn};
use model::Space;
use proptest::prelude::*;
use store::Embedded;

/// A store that can live through a reboot.
trait Subject {
    fn store(&self) -> &dyn Store;
    fn reboot(&mut self);
    fn reopen(&mut self);
}

impl Subject for Memory {
    fn store(&self) -> &dyn Store {
        self
    }
    fn reboot(&mut self) {
        Memory::reboot(self);
    }
    fn reopen(&mut self) {}
}

struct OnDisk {
    directory: tempfile::TempDir,
    boot: u32,
    /// Of two processes.
    stores: [Embedded; 2],
}

impl OnDisk {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let stores = Self::open(&directory, 0);
        Self { directory, boot: 0, stores }
    }

    fn open(directory: &tempfile::TempDir, boot: u32) -> [Embedded; 2] {
        [(); 2].map(|()| embedded(directory.path(), &boot_number(boot)))
    }
}

impl Subject for OnDisk {
    fn store(&self) -> &dyn Store {
        &self.stores[0]
    }
    fn reboot(&mut self) {
        self.boot += 1;
        self.reopen();
    }
    fn reopen(&mut self) {
        self.stores = Self::open(&self.directory, self.boot);
    }
}

fn boot_number(number: u32) -> String {
    format!("{number:08x}-1111-4000-8000-000000000001")
}

fn each(rule: impl Fn(&mut dyn Subject)) {
    rule(&mut Memory::new());
    rule(&mut OnDisk::new());
}

#[test]
fn an_empty_store_holds_nothing() {
    each(|subject| {
        let store = subject.store();
        assert_eq!(get(store, &lease_key("10.0.0.1")), None);
        assert_eq!(get(store, &Key::Network("n".parse().unwrap())), None);
        for prefix in every_prefix() {
            assert_eq!(store.list(&prefix).unwrap(), Vec::new(), "{prefix:?}");
        }
    });
}

#[test]
fn each_kind_of_record_comes_back() {
    each(|subject| {
        let (name, other) = ("podman".parse::<model::NetworkName>().unwrap(), "host".parse());
        let mut records = vec![
            (Key::Network(name.clone()), network("podman")),
            (Key::Configured(name.clone()), network("podman")),
            (attachment_key("podman", "c1"), attachment("podman", "c1")),
            (lease_key("10.0.0.1"), lease("10.0.0.1", "c1")),
            (
                Key::Lease(Space::Network(other.unwrap()), "2001:db8::1".parse().unwrap()),
                lease("2001:db8::1", "c1"),
            ),
            (cursor_key(0), cursor(7)),
            (port_key(80), port("c1")),
            (reservation_key("10.0.0.9"), reservation("10.0.0.9")),
            (sticky_key("default/web-0"), sticky(&["10.0.0.1", "2001:db8::1"])),
            (alias_key("4be1d7a0c3f2"), alias("4be1d7a0c3f2", "podman")),
            (lease_key("10.0.0.2"), requested("10.0.0.2")),
            (Key::Sandbox("c1".parse().unwrap()), sandbox_record("c1")),
            (amendment_key("default/web-0"), amendment("default/web-0")),
            (usage_key("default/web-0"), usage(7)),
        ];
        let subnets = [
            subnet_id(Space::Host, "10.1.0.0/16", None),
            subnet_id(Space::Host, "10.1.0.0/16", Some("10.1.4.0/24")),
            subnet_id(Space::Global, "10.1.0.0/16", None),
            subnet_id(Space::Host, "fd00::/64", Some("fd00::100/120")),
        ];
        let subnets = subnets.iter().zip(1..);
        records.extend(subnets.map(|(id, n)| (Key::Subnet(id.clone()), subnet(id, n))));
        for (key, record) in &records {
            done(subject.store(), Txn::new().put(key.clone(), record.clone()));
        }
        subject.reopen();
        for (key, record) in records {
            assert_eq!(get(subject.store(), &key).unwrap().record, record, "{key:?}");
        }
        for prefix in every_prefix() {
            assert!(!subject.store().list(&prefix).unwrap().is_empty(), "{prefix:?}");
        }
    });
}

#[test]
fn a_commit_tells_the_revision_of_all_it_wrote() {
    each(|subject| {
        let store = subject.store();
        let txn = Txn::new()
            .put(lease_key("10.0.0.1"), lease("10.0.0.1", "c1"))
            .put(sticky_key("o"), sticky(&["10.0.0.1"]))
            .put(cursor_key(0), cursor(1));
        let revision = done(store, txn);
        for key in [lease_key("10.0.0.1"), sticky_key("o"), cursor_key(0)] {
            assert_eq!(get(store, &key).unwrap().revision, revision);
        }
        let txn = Txn::new().require(sticky_key("o"), Expect::At(revision)).delete(sticky_key("o"));
        done(store, txn);
    });
}

#[test]
fn expectations_hold_or_nothing_happens() {
    each(|subject| {
        let store = subject.store();
        let (a, b) = (lease_key("10.0.0.1"), lease_key("10.0.0.2"));
        let create = || {
            let txn =
                Txn::new().require(a.clone(), Expect::Absent).require(b.clone(), Expect::Absent);
            txn.put(a.clone(), lease("10.0.0.1", "c1")).put(b.clone(), lease("10.0.0.2", "c1"))
        };
        let first = done(store, create());
        assert_eq!(store.commit(&create()).unwrap(), Outcome::Lost(a.clone()));
        done(store, Txn::new().delete(a.clone()));
        assert_eq!(store.commit(&create()).unwrap(), Outcome::Lost(b.clone()));
        assert_eq!(get(store, &a), None, "nothing of a lost transaction is written");
        let stale = Txn::new()
            .require(b.clone(), Expect::At(first))
            .put(b.clone(), lease("10.0.0.2", "c2"));
        done(store, stale.clone());
        assert_eq!(store.commit(&stale).unwrap(), Outcome::Lost(b.clone()));
        let gone = Txn::new().require(a.clone(), Expect::At(first)).delete(b.clone());
        assert_eq!(store.commit(&gone).unwrap(), Outcome::Lost(a.clone()));
        let both = Txn::new().require(b.clone(), Expect::Absent).require(a, Expect::At(first));
        assert_eq!(store.commit(&both).unwrap(), Outcome::Lost(b), "the first in order");
    });
}

#[test]
fn an_empty_transaction_only_checks() {
    each(|subject| {
        let store = subject.store();
        done(store, Txn::new());
        done(store, Txn::new().require(sticky_key("o"), Expect::Absent));
        done(store, Txn::new().delete(sticky_key("o")).delete(lease_key("10.0.0.1")));
    });
}

#[test]
fn the_last_of_several_changes_of_a_key_stands() {
    each(|subject| {
        let store = subject.store();
        let key = cursor_key(0);
        let txn =
            Txn::new().put(key.clone(), cursor(1)).delete(key.clone()).put(key.clone(), cursor(2));
        done(store, txn);
        assert_eq!(get(store, &key).unwrap().record, cursor(2));
        done(store, Txn::new().put(key.clone(), cursor(3)).delete(key.clone()));
        assert_eq!(get(store, &key), None);
    });
}

#[test]
fn a_revision_never_comes_again() {
    each(|subject| {
        let mut seen = std::collections::HashSet::new();
        for key in [lease_key("10.0.0.1"), sticky_key("o")] {
            for _ in 0..5 {
                let record = if key.is_durable() { sticky(&[]) } else { lease("10.0.0.1", "c") };
                done(subject.store(), Txn::new().put(key.clone(), record));
                assert!(seen.insert((key.clone(), get(subject.store(), &key).unwrap().revision)));
                done(subject.store(), Txn::new().delete(key.clone()));
                subject.reopen();
            }
        }
    });
}

/// Of two that were written at the same time, the later can tell.
#[test]
fn durable_revisions_ascend() {
    each(|subject| {
        let mut last = None;
        for round in 0..6 {
            done(subject.store(), Txn::new().put(cursor_key(0), cursor(round)));
            let id = subnet_id(Space::Host, &format!("10.{round}.0.0/16"), None);
            let name = format!("n{round}").parse().unwrap();
            for (key, record) in [
                (Key::Subnet(id.clone()), subnet(&id, 1)),
                (Key::Network(name), network(&format!("n{round}"))),
            ] {
                done(subject.store(), Txn::new().put(key.clone(), record));
                let revision = get(subject.store(), &key).unwrap().revision;
                assert!(last < Some(revision), "{key:?}");
                last = Some(revision);
                subject.reopen();
            }
            subject.reboot();
        }
    });
}

#[test]
fn a_reboot_voids_what_is_not_durable() {
    each(|subject| {
        let handed_out = subnet_id(Space::Host, "10.1.0.0/16", None);
        let txn = Txn::new()
            .put(lease_key("10.0.0.1"), lease("10.0.0.1", "c1"))
            .put(attachment_key("n", "c1"), attachment("n", "c1"))
            .put(Key::Sandbox("c1".parse().unwrap()), sandbox_record("c1"))
            .put(Key::Network("n".parse().unwrap()), network("n"))
            .put(sticky_key("o"), sticky(&["10.0.0.1"]))
            .put(alias_key("a"), alias("a", "n"))
            .put(Key::Subnet(handed_out.clone()), subnet(&handed_out, 2));
        let revision = done(subject.store(), txn);
        subject.reboot();
        for key in [Key::Subnet(handed_out.clone()), alias_key("a")] {
            assert_eq!(get(subject.store(), &key).unwrap().revision, revision);
        }
        let store = subject.store();
        assert_eq!(get(store, &lease_key("10.0.0.1")), None);
        assert_eq!(store.list(&Prefix::Attachments).unwrap(), Vec::new());
        assert_eq!(store.list(&Prefix::Sandboxes).unwrap(), Vec::new());
        assert_eq!(get(store, &sticky_key("o")).unwrap().revision, revision);
        assert_eq!(store.list(&Prefix::Networks).unwrap().len(), 1);
        let later = done(store, Txn::new().put(sticky_key("o"), sticky(&[])));
        assert_ne!(later, revision);
    });
}

#[test]
fn a_listing_is_in_the_order_of_the_keys() {
    each(|subject| {
        let mut txn = Txn::new();
        for address in ["10.0.0.10", "10.0.0.9", "2001:db8::1", "9.0.0.1"] {
            txn = txn.put(lease_key(address), lease(address, "c"));
        }
        for (network, container) in [("b", "a"), ("a", "z"), ("a-1", "y"), ("a", "b")] {
            txn = txn.put(attachment_key(network, container), attachment(network, container));
        }
        done(subject.store(), txn);
        for prefix in [Prefix::AllLeases, Prefix::Leases(Space::Host), Prefix::Attachments] {
            let keys: Vec<Key> =
                subject.store().list(&prefix).unwrap().into_iter().map(|(key, _)| key).collect();
            let mut sorted = keys.clone();
            sorted.sort();
            assert_eq!(keys, sorted);
            assert_eq!(keys.len(), 4);
        }
        let of_a = subject.store().list(&Prefix::AttachmentsOf("a".parse().unwrap())).unwrap();
        assert_eq!(of_a.len(), 2);
    });
}

#[test]
fn a_record_of_another_kind_is_refused() {
    let disk = OnDisk::new();
    let txn = Txn::new().put(cursor_key(0), cursor(1)).put(port_key(1), cursor(1));
    assert_eq!(disk.store().commit(&txn).unwrap_err().kind(), model::Kind::Bug);
    assert_eq!(get(disk.store(), &cursor_key(0)), None);
}

fn every_prefix() -> Vec<Prefix> {
    vec![
        Prefix::Networks,
        Prefix::Configured,
        Prefix::Attachments,
        Prefix::AttachmentsOf("podman".parse().unwrap()),
        Prefix::AttachmentsOfContainer("c1".parse().unwrap()),
        Prefix::Leases(Space::Host),
        Prefix::Leases(Space::Network("host".parse().unwrap())),
        Prefix::AllLeases,
        Prefix::Ports,
        Prefix::Reservations,
        Prefix::StickyOf("podman".parse().unwrap()),
        Prefix::Subnets,
        Prefix::Aliases,
        Prefix::Amendments,
        Prefix::AmendmentsOf("podman".parse().unwrap()),
        Prefix::Usages,
        Prefix::UsagesOf("podman".parse().unwrap()),
    ]
}

/// Small enough that transactions meet.
fn some_key() -> impl Strategy<Value = usize> {
    0usize..7
}

fn key(at: usize) -> Key {
    match at {
        0 => lease_key("10.0.0.1"),
        1 => lease_key("10.0.0.2"),
        2 => cursor_key(0),
        3 => sticky_key("a/b"),
        4 => sticky_key("."),
        5 => port_key(80),
        _ => attachment_key("n", "c"),
    }
}

fn record(at: usize, value: u8) -> engine::port::Record {
    match at {
        0 => lease("10.0.0.1", &format!("c{value}")),
        1 => lease("10.0.0.2", &format!("c{value}")),
        2 => cursor(value.into()),
        3 | 4 => sticky(&[&format!("10.0.0.{value}")]),
        5 => port(&format!("c{value}")),
        _ => attachment("n", "c"),
    }
}

#[derive(Clone, Debug)]
enum Act {
    /// By one of two processes, with what the other knows.
    Commit {
        by: usize,
        expect: Vec<(usize, u8)>,
        change: Vec<(usize, Option<u8>)>,
    },
    Reopen,
    Reboot,
}

fn act() -> impl Strategy<Value = Act> {
    let expect = proptest::collection::vec((some_key(), 0u8..5), 0..3);
    let change = proptest::collection::vec((some_key(), proptest::option::of(0u8..9)), 0..4);
    prop_oneof![
        20 => (0usize..2, expect, change)
            .prop_map(|(by, expect, change)| Act::Commit { by, expect, change }),
        1 => Just(Act::Reopen),
        1 => Just(Act::Reboot),
    ]
}

/// Absent, the present revision, or one that never was.
fn transaction(store: &dyn Store, expect: &[(usize, u8)], change: &[(usize, Option<u8>)]) -> Txn {
    let mut txn = Txn::new();
    for (at, how) in expect {
        let found = get(store, &key(*at)).map(|held| held.revision);
        txn = match (how, found) {
            (0, _) => txn.require(key(*at), Expect::At(engine::port::Revision(u64::MAX))),
            (1, _) | (_, None) => txn.require(key(*at), Expect::Absent),
            (_, Some(revision)) => txn.require(key(*at), Expect::At(revision)),
        };
    }
    for (at, value) in change {
        txn = match value {
            Some(value) => txn.put(key(*at), record(*at, *value)),
            None => txn.delete(key(*at)),
        };
    }
    txn
}

fn contents(store: &dyn Store) -> Vec<(Key, engine::port::Record)> {
    let lists = every_prefix().into_iter().flat_map(|prefix| store.list(&prefix).unwrap());
    let listed = lists.map(|(key, held)| (key, held.record));
    let single = (0..7).filter_map(|at| get(store, &key(at)).map(|held| (key(at), held.record)));
    listed.chain(single).collect()
}

fn won(store: &dyn Store, txn: &Txn) -> Result<(), Key> {
    match store.commit(txn).unwrap() {
        Outcome::Done(_) => Ok(()),
        Outcome::Lost(key) => Err(key),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn embedded_does_what_memory_does(acts in proptest::collection::vec(act(), 1..40)) {
        let mut memory = Memory::new();
        let mut disk = OnDisk::new();
        for act in acts {
            match act {
                Act::Commit { by, expect, change } => {
                    let known = transaction(&disk.stores[1 - by], &expect, &change);
                    let ours = won(&disk.stores[by], &known);
                    let theirs = won(&memory, &transaction(&memory, &expect, &change));
                    prop_assert_eq!(ours, theirs);
                }
                Act::Reopen => disk.reopen(),
                Act::Reboot => {
                    disk.reboot();
                    Subject::reboot(&mut memory);
                }
            }
            for store in &disk.stores {
                prop_assert_eq!(contents(store), contents(&memory));
            }
        }
    }

    /// However the names of the others are written.
    #[test]
    fn an_attachment_is_found_by_what_it_is_called(
        containers in proptest::collection::vec(
            ("[ab]{1,3}", proptest::option::of(r#"[ab/"\\é]{1,3}"#), proptest::option::of("[ab]{1,2}")),
            1..6,
        ),
        name in r#"[ab/"\\é]{0,3}"#,
    ) {
        let disk = OnDisk::new();
        for (at, (container, owner, sandbox)) in containers.iter().enumerate() {
            let network = format!("n{at}");
            let called = called(&network, container, (owner.as_deref(), sandbox.as_deref()));
            done(disk.store(), Txn::new().put(attachment_key(&network, container), called));
        }
        let mut expected = disk.store().list(&Prefix::Attachments).unwrap();
        prop_assert_eq!(expected.len(), containers.len());
        expected.retain(|(_, held)| held.record.may_be_called(&name));
        prop_assert_eq!(disk.store().attachments_called(&name).unwrap(), expected);
    }
}
