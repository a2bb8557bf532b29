//! Port updates: by many threads, and by those that are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::{AttachmentId, Ownership, ResourceId};
use proptest::prelude::*;
use serde_json::json;

use super::{Cancelled, PortUpdate, UpdateFiles};

/// Tells a process of this test where the book is.
const TELLER: &str = "SPOKE_TEST_TELLER";

fn id(at: u8) -> ResourceId {
    format!("p{at}").parse().unwrap()
}

fn port_update(at: u8) -> PortUpdate {
    let port = json!({
        "id": id(at), "network_id": "n", "mac_address": "fa:16:3e:00:00:01",
        "fixed_ips": [{ "subnet_id": "s", "ip_address": "10.0.0.7" }],
    });
    let of = AttachmentId {
        network: "net".parse().unwrap(),
        container: format!("c{at}").parse().unwrap(),
        ifname: "eth0".parse().unwrap(),
    };
    PortUpdate {
        port: serde_json::from_value(port).unwrap(),
        of,
        ownership: Ownership::Own,
        device_id: Some("d".into()),
        tags: None,
    }
}

/// Every file of the book: which port it is of, and where.
fn places(directory: &Path) -> BTreeMap<String, String> {
    let mut places = BTreeMap::new();
    for place in ["owed", "begun", "void", "lost"] {
        for entry in fs::read_dir(directory.join("naming").join(place)).into_iter().flatten() {
            let name = entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned();
            assert_eq!(places.insert(name, place.to_owned()), None, "in two places");
        }
    }
    places
}

#[test]
fn one_is_at_it_and_it_is_done_once() {
    let directory = tempfile::tempdir().unwrap();
    let book = UpdateFiles::at(directory.path());
    assert!(book.begin(&id(1)).unwrap().is_none() && book.cancel(&id(1)).unwrap().is_none());
    book.enqueue(&port_update(1)).unwrap();
    assert_eq!(book.pending_ports().unwrap(), [id(1)]);
    assert_eq!(book.queued_of(&id(1)).unwrap(), Some(port_update(1)));
    let started = book.begin(&id(1)).unwrap().unwrap();
    assert_eq!((&started.port_update, started.is_again), (&port_update(1), false));
    assert!(book.begin(&id(1)).unwrap().is_none(), "another process is at it");
    assert_eq!(book.pending_ports().unwrap(), [id(1)], "as long as it is unknown");
    drop(started);
    let again = book.begin(&id(1)).unwrap().unwrap();
    assert!(again.is_again, "who was at it died");
    book.done(&again).unwrap();
    assert!(book.all().unwrap().is_empty());
}

#[test]
fn what_is_given_up_is_not_begun() {
    let directory = tempfile::tempdir().unwrap();
    let book = UpdateFiles::at(directory.path());
    book.enqueue(&port_update(1)).unwrap();
    assert_eq!(book.cancel(&id(1)).unwrap(), Some(Cancelled::NotSent));
    assert!(book.begin(&id(1)).unwrap().is_none() && book.pending_ports().unwrap().is_empty());
    assert_eq!(book.all().unwrap(), [port_update(1)], "until it is over");
    // Who was killed before it was over does not know what was said.
    assert_eq!(book.cancel(&id(1)).unwrap(), Some(Cancelled::Unsure));
    book.close(&id(1)).unwrap();
    assert_eq!(book.cancel(&id(1)).unwrap(), None);
    book.enqueue(&port_update(1)).unwrap();
    book.cancel_idle(&id(1)).unwrap();
    assert!(book.all().unwrap().is_empty());
}

#[test]
fn a_port_that_is_gone_is_remembered_until_its_container_is() {
    let directory = tempfile::tempdir().unwrap();
    let book = UpdateFiles::at(directory.path());
    book.enqueue(&port_update(1)).unwrap();
    let started = book.begin(&id(1)).unwrap().unwrap();
    assert!(book.lose(&started).unwrap());
    drop(started);
    assert_eq!(book.lost().unwrap(), [port_update(1)]);
    assert!(book.pending_ports().unwrap().is_empty());
    assert_eq!(book.cancel(&id(1)).unwrap(), None);
    assert!(book.lost().unwrap().is_empty());
}

/// The call that ends a port waits for the answer that is under way, and nothing is said after that.
#[test]
fn who_gives_up_waits_for_the_last_answer() {
    for is_answered in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let book = UpdateFiles::at(directory.path());
        book.enqueue(&port_update(1)).unwrap();
        let started = book.begin(&id(1)).unwrap().unwrap();
        let order = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let ender = scope.spawn(|| {
                let cancelled = book.cancel(&id(1)).unwrap();
                order.lock().unwrap().push("given up");
                cancelled
            });
            while !book.is_given_up(&started) {
                std::thread::yield_now();
            }
            order.lock().unwrap().push("answered");
            if is_answered {
                book.done(&started).unwrap();
            }
            drop(started);
            let expected = if is_answered { None } else { Some(Cancelled::Unsure) };
            assert_eq!(ender.join().unwrap(), expected);
        });
        assert_eq!(order.into_inner().unwrap(), ["answered", "given up"]);
    }
}

/// Eight threads carry out, eight cancel: no call is made for a port whose update was cancelled, and
/// a thread that hears that no call was made hears the truth.
#[test]
fn nothing_is_said_of_what_was_given_up() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let book = UpdateFiles::at(directory.path());
    for at in 0..100 {
        book.enqueue(&port_update(at)).unwrap();
    }
    let sent: Vec<AtomicUsize> = (0..100).map(|_| AtomicUsize::new(0)).collect();
    let ended: Vec<AtomicUsize> = (0..100).map(|_| AtomicUsize::new(0)).collect();
    let report = || {
        for at in (0..100u8).rev() {
            let Some(started) = book.begin(&id(at)).unwrap() else { continue };
            assert_eq!(ended[usize::from(at)].load(Ordering::SeqCst), 0, "{at} is gone");
            sent[usize::from(at)].fetch_add(1, Ordering::SeqCst);
            std::thread::yield_now();
            assert_eq!(ended[usize::from(at)].load(Ordering::SeqCst), 0, "{at} went meanwhile");
            book.done(&started).unwrap();
        }
    };
    let give_up = || {
        for at in 0..100u8 {
            let cancelled = book.cancel(&id(at)).unwrap();
            ended[usize::from(at)].fetch_add(1, Ordering::SeqCst);
            if cancelled == Some(Cancelled::NotSent) {
                assert_eq!(sent[usize::from(at)].load(Ordering::SeqCst), 0, "{at}");
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(report);
            scope.spawn(give_up);
        }
    });
    assert!(sent.iter().all(|times| times.load(Ordering::SeqCst) <= 1));
    assert!(book.pending_ports().unwrap().is_empty());
}

#[test]
fn nothing_that_lies_there_does_harm() {
    let directory = tempfile::tempdir().unwrap();
    let book = UpdateFiles::at(directory.path());
    book.enqueue(&port_update(1)).unwrap();
    let queued = directory.path().join("naming/owed");
    fs::write(queued.join("torn.json"), b"{\"port\":").unwrap();
    fs::write(queued.join("liar.json"), fs::read(queued.join("p1.json")).unwrap()).unwrap();
    fs::write(queued.join("huge.json"), vec![b' '; 1 << 20]).unwrap();
    fs::write(queued.join("..json"), b"").unwrap();
    std::os::unix::fs::symlink("/etc/hostname", queued.join("link.json")).unwrap();
    let mut started = Vec::new();
    for id in book.pending_ports().unwrap() {
        started.extend(book.begin(&id).into_iter().flatten());
    }
    assert_eq!(
        started.iter().map(|started| &started.port_update).collect::<Vec<_>>(),
        [&port_update(1)]
    );
    let _ = book.all();
}

/// What the processes of the test below do; nothing in a test run.
#[test]
fn a_teller() {
    let Ok(directory) = std::env::var(TELLER) else { return };
    let book = UpdateFiles::at(Path::new(&directory));
    book.enqueue(&port_update(1)).unwrap();
    let Some(started) = book.begin(&id(1)).unwrap() else { return };
    fs::write(Path::new(&directory).join("said"), b"").unwrap();
    book.done(&started).unwrap();
    fs::write(Path::new(&directory).join("done"), b"").unwrap();
}

/// Kills the process that records, begins and carries out before each of its calls that touch a file. What
/// may have been said is never taken for unsaid, and what is left can be given up by anybody.
#[test]
fn who_is_killed_leaves_it_in_one_place() {
    let mut seen = BTreeSet::new();
    let own = std::env::current_exe().unwrap();
    for call in ["openat", "rename", "unlink", "flock", "mkdir", "close", "write", "read"] {
        for when in 1.. {
            let directory = tempfile::tempdir().unwrap();
            let inject = format!("inject={call}:signal=KILL:when={when}");
            let mut command = Command::new("/usr/bin/strace");
            command.args(["-f", "-qq", "-o", "/dev/null", "-e", &inject]).arg(&own);
            command.args(["--exact", "port_update::tests::a_teller", "--test-threads=1"]);
            command.env(TELLER, directory.path()).stdout(Stdio::null()).stderr(Stdio::null());
            let status = command.status().expect("strace is there");
            let was_sent = directory.path().join("said").exists();
            let is_done = directory.path().join("done").exists();
            let places = places(directory.path());
            let place = places.get("p1").cloned().unwrap_or_default();
            let book = UpdateFiles::at(directory.path());
            let cancelled = book.cancel(&id(1)).unwrap();
            let expected = match place.as_str() {
                "owed" => Some(Cancelled::NotSent),
                "begun" => Some(Cancelled::Unsure),
                _ => None,
            };
            assert_eq!(cancelled, expected, "{inject}");
            assert!(!was_sent || cancelled != Some(Cancelled::NotSent), "{inject}");
            assert!(!is_done || cancelled.is_none(), "{inject}");
            book.close(&id(1)).unwrap();
            assert!(self::places(directory.path()).is_empty(), "{inject}");
            seen.insert(place);
            if status.success() {
                break;
            }
        }
    }
    assert_eq!(seen, ["", "begun", "owed"].map(str::to_owned).into());
}

/// What a thread may do to the pending updates.
#[derive(Clone, Copy, Debug)]
enum Move {
    Enqueue(u8),
    Done(u8),
    Fail(u8),
    Lose(u8),
    Cancel(u8),
    CancelIdle(u8),
    Close(u8),
}

fn moves() -> impl Strategy<Value = Move> {
    let which = 0..4u8;
    prop_oneof![
        which.clone().prop_map(Move::Enqueue),
        which.clone().prop_map(Move::Done),
        which.clone().prop_map(Move::Fail),
        which.clone().prop_map(Move::Lose),
        which.clone().prop_map(Move::Cancel),
        which.clone().prop_map(Move::CancelIdle),
        which.prop_map(Move::Close),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_naming_is_in_one_place_whatever_is_done(moves in prop::collection::vec(moves(), 1..60)) {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let book = UpdateFiles::at(directory.path());
        let mut model: BTreeMap<String, &str> = BTreeMap::new();
        for step in moves {
            let name = |at: u8| format!("p{at}");
            match step {
                Move::Enqueue(at) => {
                    book.enqueue(&port_update(at)).unwrap();
                    model.insert(name(at), "owed");
                }
                Move::Done(at) | Move::Fail(at) | Move::Lose(at) => {
                    let before = model.get(&name(at)).copied();
                    let started = book.begin(&id(at)).unwrap();
                    let is_due = matches!(before, Some("owed" | "begun"));
                    prop_assert_eq!(started.is_some(), is_due);
                    let Some(started) = started else { continue };
                    prop_assert_eq!(started.is_again, before == Some("begun"));
                    match step {
                        Move::Done(_) => {
                            book.done(&started).unwrap();
                            model.remove(&name(at));
                        }
                        Move::Lose(_) => {
                            prop_assert!(book.lose(&started).unwrap());
                            model.insert(name(at), "lost");
                        }
                        _ => {
                            model.insert(name(at), "begun");
                        }
                    }
                }
                Move::Cancel(at) => {
                    let (expected, after) = match model.get(&name(at)).copied() {
                        Some("owed") => (Some(Cancelled::NotSent), Some("void")),
                        Some("begun" | "void") => (Some(Cancelled::Unsure), Some("void")),
                        _ => (None, None),
                    };
                    prop_assert_eq!(book.cancel(&id(at)).unwrap(), expected);
                    model.remove(&name(at));
                    model.extend(after.map(|after| (name(at), after)));
                }
                Move::CancelIdle(at) => {
                    book.cancel_idle(&id(at)).unwrap();
                    if let Some("owed" | "lost") = model.get(&name(at)).copied() {
                        model.remove(&name(at));
                    }
                }
                Move::Close(at) => {
                    book.close(&id(at)).unwrap();
                    if let Some("void") = model.get(&name(at)).copied() {
                        model.remove(&name(at));
                    }
                }
            }
            let expected: BTreeMap<String, String> =
                model.iter().map(|(name, place)| (name.clone(), (*place).to_owned())).collect();
            prop_assert_eq!(places(directory.path()), expected);
        }
    }
}
