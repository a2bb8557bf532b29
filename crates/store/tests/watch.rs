//! What a watcher hears of changes that other openings of the store make.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{BOOT, attachment, attachment_key, embedded, lease, lease_key};
use engine::port::{Key, Prefix, Store, Txn};
use store::{Changed, Watch};

const LONG: Duration = Duration::from_secs(10);

/// The next changes, as `+key` and `-key`.
fn next(watch: &mut Watch) -> Vec<String> {
    watch.wait(LONG).unwrap().iter().map(shown).collect()
}

fn shown(change: &Changed) -> String {
    let sign = if change.now.is_some() { '+' } else { '-' };
    match &change.key {
        Key::Attachment(id, _) => format!("{sign}{}", id.container),
        other => format!("{sign}{other:?}"),
    }
}

#[test]
fn tells_of_what_others_write_and_delete() {
    let directory = tempfile::tempdir().unwrap();
    let other = embedded(directory.path(), BOOT);
    let put = |container: &str| {
        let txn = Txn::new()
            .put(attachment_key("n", container), attachment("n", container))
            .put(lease_key("10.0.0.9"), lease("10.0.0.9", container));
        other.commit(&txn).unwrap();
    };
    put("first");
    let store = embedded(directory.path(), BOOT);
    let mut watch = store.watch(&[Prefix::Attachments, Prefix::Networks]).unwrap();
    assert_eq!(next(&mut watch), ["+first"]);
    assert!(watch.wait(Duration::ZERO).unwrap().is_empty());
    put("second");
    assert_eq!(next(&mut watch), ["+second"]);
    other.commit(&Txn::new().delete(attachment_key("n", "first"))).unwrap();
    assert_eq!(next(&mut watch), ["-first"]);
    let txn = Txn::new().put(attachment_key("new", "third"), attachment("new", "third"));
    other.commit(&txn).unwrap();
    assert_eq!(next(&mut watch), ["+third"]);
}

#[test]
fn tells_of_a_damaged_record_that_is_mended_in_place() {
    let directory = tempfile::tempdir().unwrap();
    let store = embedded(directory.path(), BOOT);
    store.commit(&Txn::new().put(attachment_key("n", "a"), attachment("n", "a"))).unwrap();
    let file = record_of_a(directory.path());
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, "").unwrap();
    let mut watch = store.watch(&[Prefix::Attachments]).unwrap();
    assert!(watch.wait(Duration::ZERO).unwrap().is_empty());
    std::fs::write(&file, &whole).unwrap();
    assert_eq!(next(&mut watch), ["+a"]);
}

#[test]
fn a_copy_beside_a_record_is_no_record() {
    let directory = tempfile::tempdir().unwrap();
    let store = embedded(directory.path(), BOOT);
    store.commit(&Txn::new().put(attachment_key("n", "a"), attachment("n", "a"))).unwrap();
    let mut watch = store.watch(&[Prefix::Attachments]).unwrap();
    assert_eq!(next(&mut watch), ["+a"]);
    let file = record_of_a(directory.path());
    let copy = file.with_extension("bak");
    std::fs::copy(&file, &copy).unwrap();
    assert!(watch.wait(Duration::ZERO).unwrap().is_empty());
    std::fs::remove_file(&copy).unwrap();
    assert!(watch.wait(Duration::ZERO).unwrap().is_empty(), "the record is there");
    // As an editor does: it writes another file, and moves that into place.
    std::fs::copy(&file, &copy).unwrap();
    std::fs::rename(&copy, &file).unwrap();
    assert_eq!(next(&mut watch), ["+a"]);
    store.commit(&Txn::new().delete(attachment_key("n", "a"))).unwrap();
    assert_eq!(next(&mut watch), ["-a"]);
}

#[test]
fn a_record_that_is_moved_away_is_gone_and_a_damaged_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let store = embedded(directory.path(), BOOT);
    store.commit(&Txn::new().put(attachment_key("n", "a"), attachment("n", "a"))).unwrap();
    let mut watch = store.watch(&[Prefix::Attachments]).unwrap();
    assert_eq!(next(&mut watch), ["+a"]);
    let file = record_of_a(directory.path());
    let good = std::fs::read(&file).unwrap();
    std::fs::write(&file, b"damaged").unwrap();
    assert!(watch.wait(Duration::ZERO).unwrap().is_empty());
    std::fs::write(&file, good).unwrap();
    assert_eq!(next(&mut watch), ["+a"]);
    let elsewhere = directory.path().join("elsewhere");
    std::fs::rename(&file, &elsewhere).unwrap();
    assert_eq!(next(&mut watch), ["-a"]);
    std::fs::rename(&elsewhere, &file).unwrap();
    assert_eq!(next(&mut watch), ["+a"]);
}

#[test]
fn finds_its_way_after_the_directory_was_removed() {
    let directory = tempfile::tempdir().unwrap();
    let store = embedded(directory.path(), BOOT);
    let mut watch = store.watch(&[Prefix::Attachments]).unwrap();
    assert!(watch.wait(Duration::ZERO).unwrap().is_empty());
    store.commit(&Txn::new().put(attachment_key("n", "a"), attachment("n", "a"))).unwrap();
    assert_eq!(next(&mut watch), ["+a"]);
    std::fs::remove_dir_all(directory.path().join("run")).unwrap();
    let mut reported = Vec::new();
    while reported.is_empty() {
        reported = next(&mut watch);
    }
    assert_eq!(reported, ["-a"]);
    let other = embedded(directory.path(), BOOT);
    other.commit(&Txn::new().put(attachment_key("n", "b"), attachment("n", "b"))).unwrap();
    assert_eq!(next(&mut watch).last().unwrap(), "+b");
}

/// The file of the only attachment.
fn record_of_a(root: &Path) -> PathBuf {
    let boot = std::fs::read_dir(root.join("run")).unwrap().flatten();
    let of = boot.map(|it| it.path().join("attachments/n")).find(|it| it.is_dir()).unwrap();
    std::fs::read_dir(of).unwrap().flatten().next().unwrap().path()
}
