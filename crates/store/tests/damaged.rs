//! One damaged record of each kind: no other one is stopped, it is reported, and it is kept.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::*;
use engine::port::{Expect, Key, Prefix, Record, Store, Txn};
use model::Space;

/// A kind of record, twice: one is damaged, the other one must not suffer.
struct Row {
    bad: (Key, Record),
    good: (Key, Record),
    prefix: Option<Prefix>,
}

fn rows() -> Vec<Row> {
    let subnets = ["10.1.0.0/16", "10.2.0.0/16"].map(|net| {
        let id = subnet_id(Space::Host, net, None);
        (Key::Subnet(id.clone()), subnet(&id, 1))
    });
    let row = |prefix, [bad, good]: [(Key, Record); 2]| Row { bad, good, prefix };
    let name = |name: &str| name.parse().unwrap();
    vec![
        row(Some(Prefix::Networks), ["a", "b"].map(|n| (Key::Network(name(n)), network(n)))),
        row(Some(Prefix::Configured), ["a", "b"].map(|n| (Key::Configured(name(n)), network(n)))),
        row(
            Some(Prefix::Attachments),
            ["a", "b"].map(|c| (attachment_key("n", c), attachment("n", c))),
        ),
        row(
            Some(Prefix::AllLeases),
            ["10.0.0.1", "10.0.0.2"].map(|a| (lease_key(a), lease(a, "c"))),
        ),
        row(None, [0, 1].map(|index| (cursor_key(index), cursor(7)))),
        row(Some(Prefix::Ports), [80, 81].map(|at| (port_key(at), port("c")))),
        row(
            Some(Prefix::Reservations),
            ["10.0.0.1", "10.0.0.2"].map(|a| (reservation_key(a), reservation(a))),
        ),
        row(
            Some(Prefix::StickyOf(name_of("podman"))),
            ["a", "b"].map(|owner| (sticky_key(owner), sticky(&["10.0.0.9"]))),
        ),
        row(Some(Prefix::Subnets), subnets),
        row(Some(Prefix::Aliases), ["a1", "b2"].map(|id| (alias_key(id), alias(id, "n")))),
        row(
            Some(Prefix::Sandboxes),
            ["a", "b"].map(|c| (Key::Sandbox(c.parse().unwrap()), sandbox_record(c))),
        ),
    ]
}

fn name_of(name: &str) -> model::NetworkName {
    name.parse().unwrap()
}

type Fault = (&'static str, fn(&Path));

/// What a disk, a crash or a person can leave in a record's place.
const FAULTS: [Fault; 8] = [
    ("truncated", |at| {
        let whole = fs::read(at).unwrap();
        fs::write(at, &whole[..whole.len() / 2]).unwrap();
    }),
    ("garbage", |at| fs::write(at, b"\xff\xfe\x00garbage").unwrap()),
    ("another version", |at| fs::write(at, br#"{"version":9,"revision":1,"record":{}}"#).unwrap()),
    ("zero length", |at| fs::write(at, b"").unwrap()),
    ("too large", |at| fs::write(at, vec![b' '; 2 << 20]).unwrap()),
    ("a directory", |at| {
        fs::remove_file(at).unwrap();
        fs::create_dir(at).unwrap();
        fs::write(at.join("within"), b"x").unwrap();
    }),
    ("a symbolic link", |at| {
        fs::remove_file(at).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", at).unwrap();
    }),
    ("a fifo", |at| {
        fs::remove_file(at).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(at).status().unwrap().success());
    }),
];

/// The file that holds this key: the one that appears with it.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => open.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    found
}

#[test]
fn one_damaged_record_stops_no_other() {
    for fault in FAULTS {
        for row in rows() {
            one(&row, fault);
        }
    }
}

fn one(row: &Row, (fault, damage): Fault) {
    let what = format!("{fault}: {:?}", row.bad.0);
    let directory = tempfile::tempdir().unwrap();
    let store = embedded(directory.path(), BOOT);
    done(&store, Txn::new().put(row.good.0.clone(), row.good.1.clone()));
    let before = files(directory.path());
    done(&store, Txn::new().put(row.bad.0.clone(), row.bad.1.clone()));
    let made = files(directory.path());
    let mut new = made.iter().filter(|path| !before.contains(path) && !path.ends_with("lock"));
    let at = new.next().unwrap_or_else(|| panic!("{what}: no file"));
    damage(at);

    let store = embedded(directory.path(), BOOT);
    if let Some(prefix) = &row.prefix {
        let listed = store.list(prefix).unwrap_or_else(|error| panic!("{what}: {error}"));
        let keys: Vec<&Key> = listed.iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [&row.good.0], "{what}");
        assert_eq!(store.damaged(Some(prefix)).unwrap().len(), 1, "{what}");
    }
    let reported = store.damaged(None).unwrap();
    assert_eq!(reported.len(), 1, "{what}: {reported:?}");
    assert_eq!(reported[0].path, at.display().to_string(), "{what}");
    assert_eq!(get(&store, &row.good.0).unwrap().record, row.good.1, "{what}");
    hidden(&store, row, &what);

    // Whatever is done in its place goes on, now and afterwards, and what was there is kept.
    done(&store, Txn::new().delete(row.bad.0.clone()).delete(lease_key("10.9.9.9")));
    assert_eq!(get(&store, &row.bad.0), None, "{what}");
    done(&store, Txn::new().put(row.bad.0.clone(), row.bad.1.clone()));
    assert_eq!(get(&store, &row.bad.0).unwrap().record, row.bad.1, "{what}");
    if fault == "a directory" {
        let kept = files(directory.path()).into_iter().filter(|path| path.ends_with("within"));
        assert_eq!(kept.count(), 1, "{what}: not kept");
    }
}

/// What is damaged is neither there nor absent, unless it only saves work.
fn hidden(store: &dyn Store, row: &Row, what: &str) {
    let absent = Txn::new()
        .require(row.bad.0.clone(), Expect::Absent)
        .put(row.bad.0.clone(), row.bad.1.clone());
    match &row.bad.0 {
        Key::Cursor(_) | Key::Configured(_) | Key::Title(_) => {
            assert_eq!(store.get(&row.bad.0).unwrap(), None, "{what}");
            done(store, absent);
            let aside = store.damaged(None).unwrap();
            assert!(aside.len() == 1 && aside[0].path.contains("/damaged/"), "{what}: {aside:?}");
        }
        _ => {
            let error = store.get(&row.bad.0).unwrap_err();
            assert_eq!(error.kind(), model::Kind::Invalid, "{what}: {error}");
            assert!(store.commit(&absent).is_err(), "{what}");
        }
    }
}

#[test]
fn what_is_no_directory_of_a_network_stops_no_other_network() {
    let directory = tempfile::tempdir().unwrap();
    let store = embedded(directory.path(), BOOT);
    done(&store, Txn::new().put(attachment_key("n", "c"), attachment("n", "c")));
    fs::write(directory.path().join("run").join(BOOT).join("attachments/m"), b"").unwrap();
    assert_eq!(store.list(&Prefix::Attachments).unwrap().len(), 1);
    assert_eq!(store.damaged(None).unwrap().len(), 1);
}
