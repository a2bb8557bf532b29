//! Attachments are found by what their containers are called, without reading all of them: on tmpfs, where this boot's
//! half is on a host.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::*;
use engine::port::{Key, Prefix, Store, Txn};
use proptest::prelude::*;
use store::Embedded;

/// So many that the names are kept in a file.
const MANY: usize = 40;

fn on_tmpfs() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

fn boot(directory: &Path) -> PathBuf {
    directory.join("run").join(BOOT)
}

fn put(store: &Embedded, container: &str, owner: Option<&str>) {
    let called = called("n", container, (owner, None));
    done(store, Txn::new().put(attachment_key("n", container), called));
}

fn fill(store: &Embedded) {
    (0..MANY).for_each(|at| put(store, &format!("c{at:02}"), Some(&format!("default/web-{at}"))));
}

/// The outlines are those of the records, whoever wrote what is known of them.
#[track_caller]
fn has_outlines(store: &Embedded) {
    let of = |(_, held): (Key, engine::port::Versioned)| match held.record {
        engine::port::Record::Attachment(held) => model::AttachmentOutline::of(&held),
        record => panic!("{record:?}"),
    };
    let expected: Vec<_> = store.list(&Prefix::Attachments).unwrap().into_iter().map(of).collect();
    assert_eq!(store.attachment_outlines().unwrap(), expected);
}

/// The containers that are found, which are those of the list.
#[track_caller]
fn found(store: &Embedded, name: &str) -> Vec<String> {
    let found = store.attachments_called(name).unwrap();
    let mut expected = store.list(&Prefix::Attachments).unwrap();
    expected.retain(|(_, held)| held.record.may_be_called(name));
    assert_eq!(found, expected, "{name}");
    has_outlines(store);
    let container = |key: Key| match key {
        Key::Attachment(id, _) => id.container.to_string(),
        key => panic!("{key:?}"),
    };
    found.into_iter().map(|(key, _)| container(key)).collect()
}

/// Overwrites the record's file, which stays the same file: who reads it finds no record.
fn spoil(directory: &Path, container: &str) {
    let path = boot(directory).join(format!("attachments/n/{container}:eth0:link"));
    fs::write(path, "{").unwrap();
}

#[test]
fn the_records_of_others_are_not_read() {
    let directory = on_tmpfs();
    let store = embedded(directory.path(), BOOT);
    fill(&store);
    assert_eq!(found(&store, "web-7"), ["c07"]);
    assert!(boot(directory.path()).join("called").exists());
    spoil(directory.path(), "c07");
    let hits = |name: &str| store.attachments_called(name).unwrap().len();
    assert_eq!((hits("web-8"), hits("c09"), hits("default/web-3"), hits("web-7")), (1, 1, 1, 0));
    let damaged = store.damaged(Some(&Prefix::Attachments)).unwrap();
    assert_eq!(damaged.len(), 1, "it is still there, and reported");
}

/// One with thousands of ports, whose outline is longer than a number of 16 bits says.
#[test]
fn a_long_outline_is_not_read_again() {
    let directory = on_tmpfs();
    let store = embedded(directory.path(), BOOT);
    let engine::port::Record::Attachment(mut long) = called("n", "long", (Some("long"), None))
    else {
        panic!("another record")
    };
    let port = |port: u16| model::PortMap {
        host: None,
        host_port: port.try_into().unwrap(),
        container_port: port.try_into().unwrap(),
        protocol: model::Protocol::Tcp,
    };
    let ports = (1..=2000).map(port).collect();
    long.wiring.publish =
        Some(model::Publish { ports, ..model::Publish::new(model::Backend::Nftables) });
    let outline = model::AttachmentOutline::of(&long);
    let size = serde_json::to_string(&outline).unwrap().len();
    assert!(size > usize::from(u16::MAX), "{size}");
    done(
        &store,
        Txn::new().put(attachment_key("n", "long"), engine::port::Record::Attachment(long)),
    );
    fill(&store);
    has_outlines(&store);
    spoil(directory.path(), "long");
    let outlines = store.attachment_outlines().unwrap();
    assert!(outlines.contains(&outline), "it is known without its record");
}

/// Who only reads waits for no other process: it has its answer, and leaves the file for another search.
#[test]
fn a_search_waits_for_no_lock() {
    let directory = on_tmpfs();
    let store = embedded(directory.path(), BOOT);
    fill(&store);
    let lock = fs::File::open(boot(directory.path()).join("lock")).unwrap();
    lock.lock().unwrap();
    let outlines = store.attachment_outlines().unwrap();
    assert_eq!(outlines.len(), MANY);
    assert!(!boot(directory.path()).join("called").exists());
    drop(lock);
    has_outlines(&store);
    assert!(boot(directory.path()).join("called").exists());
}

#[test]
fn few_records_are_read_each_time() {
    let directory = on_tmpfs();
    let store = embedded(directory.path(), BOOT);
    put(&store, "c1", Some("web"));
    assert_eq!(found(&store, "web"), ["c1"]);
    assert!(!boot(directory.path()).join("called").exists());
}

#[test]
fn what_changes_later_is_found() {
    let directory = on_tmpfs();
    let [store, other] = [(); 2].map(|()| embedded(directory.path(), BOOT));
    fill(&store);
    assert_eq!(found(&store, "web-7"), ["c07"]);
    put(&other, "c07", Some("shop"));
    assert_eq!(found(&store, "web-7"), Vec::<String>::new());
    assert_eq!(found(&store, "shop"), ["c07"]);
    put(&other, "d1", Some("web-8"));
    assert_eq!(found(&store, "web-8"), ["c08", "d1"]);
    done(&other, Txn::new().delete(attachment_key("n", "c08")));
    assert_eq!(found(&store, "web-8"), ["d1"]);
    let (file, kept) = (boot(directory.path()).join("attachments/n/d1:eth0:link"), "kept");
    let kept = boot(directory.path()).join(kept);
    fs::copy(&file, &kept).unwrap();
    put(&other, "d1", Some("db"));
    assert_eq!(found(&store, "web-8"), Vec::<String>::new());
    fs::rename(&kept, &file).unwrap();
    assert_eq!(found(&store, "web-8"), ["d1"], "a person has put it back");
}

#[test]
fn a_damaged_file_of_names_is_as_good_as_none() {
    let directory = on_tmpfs();
    let store = embedded(directory.path(), BOOT);
    fill(&store);
    assert_eq!(found(&store, "web-7"), ["c07"]);
    let path = boot(directory.path()).join("called");
    let whole = fs::read(&path).unwrap();
    let mut torn = whole.clone();
    torn[whole.len() / 2..].fill(0xff);
    for bytes in [&[][..], b"called_2", &whole[..whole.len() / 2], &torn, &whole[1..]] {
        fs::write(&path, bytes).unwrap();
        assert_eq!(found(&store, "web-7"), ["c07"]);
        assert_eq!(found(&store, "web-33"), ["c33"]);
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(found(&store, "web-7"), ["c07"]);
}

#[derive(Clone, Debug)]
enum Act {
    Put(u8, Option<String>, Option<String>),
    Delete(u8),
    Search(String),
}

fn act() -> impl Strategy<Value = Act> {
    let name = || r#"[ab/"\\é]{1,2}"#;
    prop_oneof![
        3 => (0u8..50, proptest::option::of(name()), proptest::option::of("[ab]{1,2}"))
            .prop_map(|(at, owner, sandbox)| Act::Put(at, owner, sandbox)),
        1 => (0u8..50).prop_map(Act::Delete),
        2 => name().prop_map(Act::Search),
        1 => "c[0-4]".prop_map(Act::Search),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn a_search_finds_what_a_list_has(acts in proptest::collection::vec(act(), 1..60)) {
        let directory = on_tmpfs();
        let [store, other] = [(); 2].map(|()| embedded(directory.path(), BOOT));
        fill(&store);
        found(&store, "c00");
        for act in acts {
            match act {
                Act::Put(at, owner, sandbox) => {
                    let container = format!("c{at:02}");
                    let called = called("n", &container, (owner.as_deref(), sandbox.as_deref()));
                    done(&other, Txn::new().put(attachment_key("n", &container), called));
                }
                Act::Delete(at) => {
                    done(&other, Txn::new().delete(attachment_key("n", &format!("c{at:02}"))));
                }
                Act::Search(name) => drop(found(&store, &name)),
            }
        }
    }
}
