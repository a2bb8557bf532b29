//! The outlines in their file are what the records say, whichever process changes these.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::*;
use engine::port::{Key, Outline, Prefix, Record, Store, Txn};
use model::{Bridge, BridgePort, Gateway, Ipam, Link, LinkKind, Order, Pool, PoolId, Range, Space};
use proptest::prelude::*;
use store::Embedded;

/// So many that the file is worth while.
const MANY: u16 = 50;

fn file(directory: &Path) -> PathBuf {
    directory.join("run").join(BOOT).join("outlines")
}

fn key(number: u16) -> Key {
    Key::Network(format!("n{number}").parse().unwrap())
}

/// With a bridge and a subnet.
fn bridged(number: u16, third: u8) -> Record {
    let Record::Network(mut made) = network(&format!("n{number}")) else { panic!() };
    let [high, low] = number.to_be_bytes();
    let subnet = format!("10.{high}.{low}.{third}/29").parse().unwrap();
    made.wiring.link = Some(Link {
        kind: LinkKind::Bridge(Bridge {
            name: format!("br{number}").parse().unwrap(),
            gateway: Gateway::Default,
            host_absent: model::Absence::default(),
            force_address: false,
            hairpin: true,
            promiscuous: false,
            port: BridgePort::default(),
        }),
        name: None,
        mac: None,
        mtu: None,
    });
    made.ipam = Ipam::Book {
        pools: vec![Pool {
            id: PoolId { network: made.name.clone(), index: 0 },
            space: Space::Host,
            ranges: vec![Range::of_hosts(subnet, None, None).unwrap()],
            order: Order::NextAfterLast,
        }],
    };
    Record::Network(made)
}

fn filled(directory: &Path) -> Embedded {
    let store = embedded(directory, BOOT);
    for number in 0..MANY {
        done(&store, Txn::new().put(key(number), bridged(number, 0)));
    }
    assert_true(&store, "filled");
    assert!(file(directory).exists());
    store
}

fn reported(store: &dyn Store) -> Vec<String> {
    let mut all = Vec::new();
    store.outline(&mut |outline| all.push(format!("{outline:?}"))).unwrap();
    all.sort();
    all
}

/// Read from the records themselves.
fn derived(store: &dyn Store) -> Vec<String> {
    let mut all = Vec::new();
    for prefix in [Prefix::Networks, Prefix::Subnets] {
        for (key, held) in store.list(&prefix).unwrap() {
            Outline::each_of(&key, &held.record, &mut |it| all.push(format!("{it:?}")));
        }
    }
    all.sort();
    all
}

#[track_caller]
fn assert_true(store: &dyn Store, when: &str) {
    assert_eq!(reported(store), derived(store), "{when}");
}

/// What a record says now is damage; what it said is still reported, so it was not read.
#[test]
fn no_record_is_read_for_them() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(directory.path());
    let before = reported(&store);
    assert_eq!(before.len(), 2 * usize::from(MANY));
    for number in 0..MANY {
        fs::write(directory.path().join(format!("state/networks/n{number}")), b"{").unwrap();
    }
    assert_eq!(reported(&embedded(directory.path(), BOOT)), before);
    done(&store, Txn::new().put(key(MANY), bridged(MANY, 0)));
    assert_eq!(reported(&embedded(directory.path(), BOOT)).len(), before.len() + 2);
    assert_eq!(derived(&store).len(), 2);
}

#[test]
fn a_few_records_and_none_leave_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let few = embedded(directory.path(), BOOT);
    done(&few, Txn::new().put(key(1), bridged(1, 0)));
    assert_eq!(reported(&few).len(), 2);
    assert!(!file(directory.path()).exists());
    let store = filled(directory.path());
    for number in 0..MANY {
        done(&store, Txn::new().delete(key(number)));
    }
    assert!(reported(&store).is_empty());
    assert!(!file(directory.path()).exists());
}

/// The test waits until the directory's time has changed, as a person's hands do.
fn by_hand(directory: &Path, act: impl FnOnce(&Path)) {
    let networks = directory.join("state/networks");
    let time = || fs::metadata(&networks).map(|it| (it.ctime(), it.ctime_nsec())).unwrap();
    let before = time();
    while time() == before {
        fs::write(networks.join(".hand"), b"").unwrap();
        fs::remove_file(networks.join(".hand")).unwrap();
    }
    act(&networks);
}

#[test]
fn what_others_do_to_the_files_is_seen() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(directory.path());
    by_hand(directory.path(), |networks| fs::remove_file(networks.join("n7")).unwrap());
    assert_true(&store, "a record was removed");
    let old = fs::read(file(directory.path())).unwrap();
    done(&store, Txn::new().put(key(7), bridged(7, 0)));
    // Another version does not know of the file.
    fs::write(file(directory.path()), old).unwrap();
    assert_true(&store, "another version has declared a network");
    assert!(reported(&store).iter().any(|outline| outline.contains("\"n7\"")));
}

/// A backup that is put back may come to the same sequence number by another way.
#[test]
fn a_restored_backup_is_seen() {
    let directory = tempfile::tempdir().unwrap();
    let (state, backup) = (directory.path().join("state"), directory.path().join("backup"));
    let store = filled(directory.path());
    let copy = |from: &Path, to: &Path| {
        let copied = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
        assert!(copied.success());
    };
    copy(&state, &backup);
    done(&store, Txn::new().delete(key(3)));
    let lock = fs::read(state.join("lock")).unwrap();
    fs::remove_dir_all(&state).unwrap();
    copy(&backup, &state);
    fs::write(state.join("lock"), lock).unwrap();
    let store = embedded(directory.path(), BOOT);
    assert_true(&store, "restored");
    assert!(reported(&store).iter().any(|outline| outline.contains("\"n3\"")));
}

#[test]
fn a_damaged_file_is_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(directory.path());
    let whole = fs::read(file(directory.path())).unwrap();
    for cut in [0, 1, 40, whole.len() - 1] {
        fs::write(file(directory.path()), &whole[..cut]).unwrap();
        assert_true(&store, "cut short");
    }
    let mut other = whole.clone();
    other[whole.len() / 2..].fill(0xff);
    fs::write(file(directory.path()), other).unwrap();
    assert_true(&store, "overwritten");
    fs::remove_file(file(directory.path())).unwrap();
    fs::create_dir(file(directory.path())).unwrap();
    assert_true(&store, "a directory");
    done(&store, Txn::new().put(key(MANY), bridged(MANY, 0)));
    assert_true(&store, "a directory, and a commit");
}

#[derive(Clone, Debug)]
enum Act {
    Declare(u16, u8),
    Remove(u16),
    HandOut(u8),
    TakeBack(u8),
    /// Durable, and no business of theirs.
    Other(u8),
    Boot,
    Forget,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..MANY + 20, 0u8..200).prop_map(|(number, third)| Act::Declare(number, third)),
        3 => (0..MANY + 20).prop_map(Act::Remove),
        2 => (0u8..20).prop_map(Act::HandOut),
        2 => (0u8..20).prop_map(Act::TakeBack),
        2 => any::<u8>().prop_map(Act::Other),
        1 => Just(Act::Boot),
        1 => Just(Act::Forget),
    ]
}

fn transaction(act: &Act) -> Txn {
    let id = |third: u8| subnet_id(Space::Host, &format!("172.16.{third}.0/24"), None);
    match act {
        Act::Declare(number, third) => Txn::new().put(key(*number), bridged(*number, *third)),
        Act::Remove(number) => Txn::new().delete(key(*number)),
        Act::HandOut(third) => Txn::new()
            .put(Key::Subnet(id(*third)), subnet(&id(*third), 1))
            .put(port_key(1), port("c")),
        Act::TakeBack(third) => Txn::new().delete(Key::Subnet(id(*third))),
        Act::Other(last) => Txn::new().put(sticky_key("o"), sticky(&[&format!("10.0.0.{last}")])),
        Act::Boot => Txn::new().put(lease_key("10.0.0.1"), lease("10.0.0.1", "c")),
        Act::Forget => Txn::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn they_follow_every_transaction(acts in prop::collection::vec((act(), any::<bool>()), 1..40)) {
        let directory = tempfile::tempdir().unwrap();
        let store = filled(directory.path());
        let other = embedded(directory.path(), BOOT);
        for (act, of_other) in &acts {
            if let Act::Forget = act {
                let _ = fs::remove_file(file(directory.path()));
            }
            done(if *of_other { &other } else { &store }, transaction(act));
            assert_true(&store, &format!("{act:?}"));
        }
        assert_true(&embedded(directory.path(), NEXT_BOOT), "the next boot");
    }
}
