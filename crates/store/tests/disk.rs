//! What a disk can do to a store: be full, be read-only, hold damaged files; and what it costs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use common::*;
use engine::port::{Expect, Prefix, Store, Txn};
use model::Space;

const LEASE: &str = "leases/@host/10.0.0.1";

fn boot_root(directory: &Path) -> std::path::PathBuf {
    directory.join("run").join(BOOT)
}

fn lease_txn() -> Txn {
    Txn::new().put(lease_key("10.0.0.1"), lease("10.0.0.1", "c1"))
}

#[test]
fn opening_and_reading_make_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = embedded(directory.path(), BOOT);
    assert_eq!(get(&store, &lease_key("10.0.0.1")), None);
    assert!(store.list(&Prefix::Networks).unwrap().is_empty());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// A file that can be neither replaced nor removed, because something is mounted there, in a mount
/// namespace of its own.
#[test]
fn what_does_not_happen_is_not_promised() {
    if std::env::var_os(CASE).is_none() {
        let this = std::env::current_exe().unwrap();
        let mut command = Command::new("unshare");
        command.arg("--mount").arg(this).env(CASE, "1");
        let output = command.args(["--exact", "what_does_not_happen_is_not_promised"]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let store = embedded(directory.path(), BOOT);
    done(&store, lease_txn());
    let record = boot_root(directory.path()).join(LEASE);
    let folder = record.parent().unwrap().to_owned();
    let names = || fs::read_dir(&folder).unwrap().count();
    let mount = |command: &str| {
        let status = Command::new(command).arg(&record).args(extra(command, &record)).status();
        assert!(status.unwrap().success(), "{command}");
    };
    mount("mount");
    for txn in [lease_txn(), Txn::new().delete(lease_key("10.0.0.1"))] {
        let error = store.commit(&txn).unwrap_err().to_string();
        assert!(error.contains("repeat the command") && !error.contains("next command"), "{error}");
        assert_eq!(names(), 1, "a draft was left");
    }
    // Of several there is a note.
    let both = lease_txn().put(lease_key("10.0.0.2"), lease("10.0.0.2", "c2"));
    let error = store.commit(&both).unwrap_err().to_string();
    assert!(error.contains("the next command will finish it"), "{error}");
    mount("umount");
    assert_eq!(store.list(&Prefix::AllLeases).unwrap().len(), 2, "the next one finished it");
}

const CASE: &str = "STORE_DISK_APART";

/// What the command needs besides the file.
fn extra(command: &str, record: &Path) -> Vec<std::ffi::OsString> {
    match command {
        "mount" => vec!["--bind".into(), record.into()],
        _ => Vec::new(),
    }
}

#[test]
fn only_the_owner_can_read() {
    let directory = tempfile::tempdir().unwrap();
    done(&embedded(directory.path(), BOOT), lease_txn());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let root = boot_root(directory.path());
    for path in [directory.path().join("run"), root.clone(), root.join("leases/@host")] {
        assert_eq!(mode(&path), 0o700, "{path:?}");
    }
    for path in [root.join("lock"), root.join(LEASE)] {
        assert_eq!(mode(&path), 0o600, "{path:?}");
    }
}

/// A process was killed before it put its files in place.
#[test]
fn a_draft_that_was_left_does_not_lend_its_mode() {
    let directory = tempfile::tempdir().unwrap();
    let store = embedded(directory.path(), BOOT);
    let root = boot_root(directory.path());
    let mode = || fs::metadata(root.join(LEASE)).unwrap().permissions().mode() & 0o777;
    done(&store, lease_txn());
    for (left, txn) in
        [(0o644, lease_txn()), (0o700, lease_txn()), (0o600, lease_txn().unreported())]
    {
        let draft = root.join("leases/@host/.0.new");
        fs::write(&draft, "a longer text than that of any record, which is not to stay".repeat(9))
            .unwrap();
        fs::set_permissions(&draft, fs::Permissions::from_mode(left)).unwrap();
        let is_unreported = txn.unreported;
        done(&store, txn);
        assert!(!draft.exists());
        assert_eq!(mode(), if is_unreported { 0o700 } else { 0o600 });
        assert_eq!(store.is_answered(&lease_key("10.0.0.1")).unwrap(), !is_unreported);
    }
}

#[test]
fn the_next_boot_removes_the_last_ones_records() {
    let directory = tempfile::tempdir().unwrap();
    done(&embedded(directory.path(), BOOT), lease_txn());
    let foreign = directory.path().join("run/docker.sock");
    fs::write(&foreign, "").unwrap();
    done(&embedded(directory.path(), NEXT_BOOT), lease_txn());
    assert!(!boot_root(directory.path()).exists() && foreign.exists());
}

#[test]
fn a_store_that_was_removed_is_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    let store = embedded(directory.path(), BOOT);
    let first = done(&store, lease_txn());
    fs::remove_dir_all(directory.path().join("run")).unwrap();
    assert_eq!(get(&store, &lease_key("10.0.0.1")), None);
    let second = done(&store, lease_txn());
    assert!(second.0 > first.0 && boot_root(directory.path()).join(LEASE).exists());
    fs::remove_dir_all(directory.path().join("run")).unwrap();
    assert!(store.list(&Prefix::AllLeases).unwrap().is_empty());
}

#[test]
fn a_damaged_record_is_an_error_that_names_the_file() {
    let directory = tempfile::tempdir().unwrap();
    done(&embedded(directory.path(), BOOT), lease_txn());
    let store = embedded(directory.path(), BOOT);
    let file = boot_root(directory.path()).join(LEASE);
    let whole = fs::read(&file).unwrap();
    let other = String::from_utf8(whole.clone()).unwrap().replace("10.0.0.1", "10.0.0.2");
    let huge = vec![b' '; 2 << 20];
    for bad in [&b""[..], &whole[..whole.len() / 2], b"\xff\xfe", b"{}", other.as_bytes(), &huge] {
        fs::write(&file, bad).unwrap();
        let error = store.get(&lease_key("10.0.0.1")).unwrap_err();
        assert_eq!(error.kind(), model::Kind::Invalid);
        assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
    }
    fs::write(&file, b"{").unwrap();
    let txn = lease_txn().require(lease_key("10.0.0.1"), Expect::Absent);
    assert!(store.commit(&txn).is_err(), "a damaged record is not absent");
    done(&store, lease_txn());
    assert_eq!(get(&store, &lease_key("10.0.0.1")).unwrap().record, lease("10.0.0.1", "c1"));
}

/// Until another process has written, anything.
#[test]
fn what_the_process_wrote_itself_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let (store, other) = (embedded(directory.path(), BOOT), embedded(directory.path(), BOOT));
    let key = lease_key("10.0.0.1");
    let written = done(&store, lease_txn());
    fs::write(boot_root(directory.path()).join(LEASE), b"{").unwrap();
    assert_eq!(get(&store, &key).unwrap().revision, written);
    assert!(other.get(&key).is_err());
    done(&other, Txn::new().put(lease_key("10.0.0.2"), lease("10.0.0.2", "c2")));
    assert!(store.get(&key).is_err());
    let again = done(&store, lease_txn());
    done(&store, Txn::new().delete(lease_key("10.0.0.2")));
    assert_eq!(get(&store, &key).unwrap().revision, again);
    assert_eq!(get(&store, &lease_key("10.0.0.2")), None);
}

#[test]
fn a_damaged_lock_file_can_be_repaired_as_its_error_says() {
    let directory = tempfile::tempdir().unwrap();
    let store = embedded(directory.path(), BOOT);
    let first = done(&store, lease_txn());
    let lock = boot_root(directory.path()).join("lock");
    fs::write(&lock, [0xff; 40]).unwrap();
    let error = store.commit(&lease_txn()).unwrap_err().to_string();
    let repair = error.split("repair it with: ").nth(1).unwrap();
    assert!(Command::new("sh").args(["-c", repair]).status().unwrap().success());
    let second = done(&store, lease_txn());
    assert!(second.0 > first.0);
}

/// Copying tools and tidy operators leave out what looks like a stale lock.
#[test]
fn records_without_a_lock_file_are_there() {
    let directory = tempfile::tempdir().unwrap();
    let first = done(
        &embedded(directory.path(), BOOT),
        lease_txn().put(sticky_key("o"), sticky(&["10.0.0.1"])),
    );
    for root in [boot_root(directory.path()), directory.path().join("state")] {
        fs::remove_file(root.join("lock")).unwrap();
    }
    let store = embedded(directory.path(), BOOT);
    assert!(get(&store, &lease_key("10.0.0.1")).is_some());
    assert!(get(&store, &sticky_key("o")).is_some());
    assert_eq!(store.list(&Prefix::AllLeases).unwrap().len(), 1);
    assert!(done(&store, lease_txn()) > first);
}

#[test]
fn another_boot_id_that_is_a_path_is_refused() {
    let roots = store::Roots { runtime: "/nowhere".into(), state: "/nowhere".into() };
    assert!(store::Embedded::open(roots, "../../etc").is_err());
}

/// Runs one of the `in_a_namespace` tests where it may mount.
fn with_mounts(name: &str) {
    let me = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]).arg(me);
    command.args(["--exact", name, "--ignored", "--nocapture"]);
    let output = command.output().expect("this test needs unshare");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
}

fn mount(arguments: &[&str], at: &Path) {
    assert!(Command::new("mount").args(arguments).arg(at).status().unwrap().success());
}

#[test]
fn a_full_store_says_so_and_applies_nothing() {
    with_mounts("in_a_namespace_full");
}

#[test]
#[ignore = "run by the test above"]
fn in_a_namespace_full() {
    let directory = tempfile::tempdir().unwrap();
    mount(&["-t", "tmpfs", "-o", "size=64k", "tmpfs"], directory.path());
    let store = embedded(directory.path(), BOOT);
    let mut kept = Vec::new();
    let error = loop {
        let at = kept.len();
        let address = format!("10.0.1.{at}");
        let txn = Txn::new()
            .put(lease_key(&address), lease(&address, "c"))
            .put(cursor_key(at.try_into().unwrap()), cursor(1))
            .delete(lease_key("10.9.9.9"));
        match store.commit(&txn) {
            Ok(_) => kept.push(address),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("the store is full"), "{error}");
    let listed = store.list(&Prefix::Leases(Space::Host)).unwrap();
    assert_eq!(listed.len(), kept.len());
    assert!(kept.len() > 3);
    assert_eq!(get(&store, &cursor_key(kept.len().try_into().unwrap())), None);
    done(&store, Txn::new().delete(lease_key(&kept[0])).delete(cursor_key(0)));
    done(&store, lease_txn());
    println!("1 passed");
    drop(store);
    assert!(Command::new("umount").arg("-l").arg(directory.path()).status().unwrap().success());
}

#[test]
fn a_read_only_store_can_be_read() {
    with_mounts("in_a_namespace_read_only");
}

#[test]
#[ignore = "run by the test above"]
fn in_a_namespace_read_only() {
    let directory = tempfile::tempdir().unwrap();
    mount(&["-t", "tmpfs", "tmpfs"], directory.path());
    done(&embedded(directory.path(), BOOT), lease_txn().put(sticky_key("o"), sticky(&[])));
    let copied = directory.path().join("copied");
    done(&embedded(&copied, BOOT), lease_txn());
    fs::remove_file(boot_root(&copied).join("lock")).unwrap();
    mount(&["-o", "remount,ro"], directory.path());
    let store = embedded(directory.path(), BOOT);
    assert!(get(&store, &lease_key("10.0.0.1")).is_some());
    assert_eq!(store.list(&Prefix::AllLeases).unwrap().len(), 1);
    let txns = [
        lease_txn(),
        Txn::new().delete(lease_key("10.0.0.1")),
        Txn::new().put(sticky_key("p"), sticky(&[])),
        lease_txn().put(cursor_key(0), cursor(1)),
    ];
    for txn in txns {
        let error = store.commit(&txn).unwrap_err();
        assert!(error.to_string().contains("the store is read-only"), "{error}");
    }
    let copied = embedded(&directory.path().join("copied"), BOOT);
    let error = copied.get(&lease_key("10.0.0.1")).unwrap_err();
    assert!(error.to_string().contains("the store is read-only"), "{error}");
    let elsewhere = embedded(&directory.path().join("new"), BOOT);
    let error = elsewhere.commit(&lease_txn()).unwrap_err();
    assert!(error.to_string().contains("the store is read-only"), "{error}");
    println!("1 passed");
    drop(store);
    assert!(Command::new("umount").arg("-l").arg(directory.path()).status().unwrap().success());
}

/// Not a test: `cargo test --release -p store --test disk measure -- --ignored --nocapture`, with
/// `STORE_MEASURE=<directory>`.
#[test]
#[ignore = "measures"]
fn measure() {
    let root = std::env::var("STORE_MEASURE").unwrap_or_else(|_| "/tmp".into());
    let directory = tempfile::tempdir_in(&root).unwrap();
    done(&embedded(directory.path(), BOOT), lease_txn().put(cursor_key(0), cursor(0)));
    let open = || embedded(directory.path(), BOOT);
    let three = |store: &dyn Store, at: u32| {
        let txn = Txn::new()
            .put(lease_key("10.0.0.1"), lease("10.0.0.1", "c"))
            .put(attachment_key("n", "c"), attachment("n", "c"))
            .put(cursor_key(0), cursor(at));
        done(store, txn);
    };
    let store = open();
    time("open + get", |_| drop(get(&open(), &lease_key("10.0.0.1"))));
    time("get", |_| drop(get(&store, &lease_key("10.0.0.1"))));
    time("open + commit 1 put", |at| {
        done(&open(), Txn::new().put(cursor_key(0), cursor(at)));
    });
    time("commit 1 put", |at| {
        done(&store, Txn::new().put(cursor_key(0), cursor(at)));
    });
    time("open + commit 3 puts", |at| three(&open(), at));
    time("commit 3 puts", |at| three(&store, at));
    time("commit 1 durable put", |_| {
        done(&store, Txn::new().put(sticky_key("o"), sticky(&["10.0.0.1"])));
    });
    for block in 0..30u32 {
        let txn = (0..1000).fold(Txn::new(), |txn, at| {
            let address = std::net::Ipv4Addr::from(0x0b00_0000 + block * 1000 + at).to_string();
            txn.put(lease_key(&address), lease(&address, "c"))
        });
        done(&store, txn);
    }
    let begun = Instant::now();
    let count = store.list(&Prefix::AllLeases).unwrap().len();
    println!("list of {count} leases: {:?}", begun.elapsed());
    time("commit 3 puts beside them", |at| three(&store, at));
}

fn time(what: &str, mut act: impl FnMut(u32)) {
    let mut times: Vec<u128> = Vec::new();
    for round in 0..500 {
        let begun = Instant::now();
        act(round);
        times.push(begun.elapsed().as_nanos());
    }
    times.sort_unstable();
    let micros = |at: usize| times[at] as f64 / 1000.0;
    println!("{what}: p50 {:.1} us, p99 {:.1} us", micros(250), micros(495));
}

/// Not a test: one operation, to count its system calls under strace.
#[test]
#[ignore = "measures"]
fn one() {
    let Ok(task) = std::env::var("STORE_ONE") else { return };
    let directory = std::env::var("STORE_MEASURE").unwrap();
    let store = embedded(Path::new(&directory), BOOT);
    match task.as_str() {
        "get" => drop(get(&store, &lease_key("10.0.0.1"))),
        "one" => drop(store.commit(&Txn::new().put(cursor_key(0), cursor(1)))),
        "three" => {
            let txn = lease_txn().put(attachment_key("n", "c"), attachment("n", "c"));
            done(&store, txn.put(cursor_key(0), cursor(1)));
        }
        _ => {
            let lost = lease_txn().require(lease_key("10.0.0.1"), Expect::Absent);
            let _ = store.commit(&lost);
        }
    }
}
