//! Claims: by many threads, by many processes, and by those that are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use model::ResourceId;
use proptest::prelude::*;
use serde_json::json;

use super::{StockFiles, Stored};
use crate::api::PortResource;
use crate::stock_key::KeyDigest;
use crate::stock_key::tests::key;

/// Tells a process of this test where the stock is, and of what it is to claim.
const CLAIMER: &str = "SPOKE_TEST_CLAIMER";

fn port(id: &str, network: &str) -> PortResource {
    let body = json!({
        "id": id, "network_id": network, "mac_address": "fa:16:3e:00:00:01",
        "fixed_ips": [{ "subnet_id": "s", "ip_address": "10.0.0.7" }],
        "binding:host_id": "node", "binding:vif_type": "ovs",
    });
    serde_json::from_value(body).unwrap()
}

fn stored(id: &str, network: &str) -> Stored {
    Stored { key: key(network).digest().unwrap(), port: port(id, network) }
}

fn filled(directory: &Path, count: usize) -> (StockFiles, KeyDigest) {
    let stock_files = StockFiles::at(directory);
    for at in 0..count {
        stock_files.put(&stored(&format!("p{at}"), "n")).unwrap();
    }
    (stock_files, key("n").digest().unwrap())
}

/// Every file of the stock: which port it is of, and where.
fn places(directory: &Path) -> BTreeMap<String, Vec<String>> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            match path.is_dir() {
                true => open.push(path),
                false if name.starts_with('p') => {
                    let place = next.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
                    places.entry(name).or_default().push(place);
                }
                false => {}
            }
        }
    }
    places
}

#[test]
fn what_was_put_comes_back_once_and_the_oldest_first_in_memory() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let (stock_files, digest) = filled(directory.path(), 3);
    let taken: Vec<_> = (0..3).map(|_| stock_files.claim(&digest).unwrap().unwrap().id).collect();
    assert_eq!(taken.iter().map(ResourceId::as_str).collect::<Vec<_>>(), ["p0", "p1", "p2"]);
    assert!(stock_files.claim(&digest).unwrap().is_none());
    assert!(stock_files.claim(&key("other").digest().unwrap()).unwrap().is_none());
    assert_eq!(stock_files.lent_ports().unwrap().len(), 3);
    assert!(stock_files.lent_since(&taken[0]).unwrap() <= SystemTime::now());
}

#[test]
fn a_port_goes_round() {
    let directory = tempfile::tempdir().unwrap();
    let (stock_files, digest) = filled(directory.path(), 1);
    let id: ResourceId = "p0".parse().unwrap();
    assert!(!stock_files.give_back(&id).unwrap(), "no container has it");
    assert_eq!(stock_files.claim_port(&id).unwrap().unwrap(), port("p0", "n"));
    assert!(stock_files.claim_port(&id).unwrap().is_none());
    assert!(stock_files.give_back(&id).unwrap() && !stock_files.give_back(&id).unwrap());
    assert!(stock_files.claim(&digest).unwrap().is_none(), "not like new yet");
    let returned = stock_files.returned().unwrap();
    assert_eq!(returned, [stored("p0", "n")]);
    stock_files.ready_again(&returned[0]).unwrap();
    assert!(stock_files.returned().unwrap().is_empty());
    assert!(stock_files.claim(&digest).unwrap().is_some());
    assert!(stock_files.drop_lent(&id).unwrap() && !stock_files.drop_lent(&id).unwrap());
}

#[test]
fn what_is_wanted_is_remembered_once() {
    let directory = tempfile::tempdir().unwrap();
    let stock_files = StockFiles::at(directory.path());
    assert!(stock_files.wanted().unwrap().is_empty());
    stock_files.want(&key("n")).unwrap();
    let before = stock_files.wanted().unwrap();
    stock_files.want(&key("n")).unwrap();
    let after = stock_files.wanted().unwrap();
    assert_eq!((before.len(), after.len()), (1, 1));
    assert_eq!(after[0].key, key("n"));
    assert!(after[0].last >= before[0].last);
    stock_files.forget(&after[0].digest).unwrap();
    assert!(!stock_files.is_wanted(&after[0].digest) && stock_files.wanted().unwrap().is_empty());
}

#[test]
fn nothing_that_lies_there_does_harm() {
    let directory = tempfile::tempdir().unwrap();
    let (stock_files, digest) = filled(directory.path(), 1);
    let ready = directory.path().join("stock/ready").join(digest.as_str());
    fs::write(ready.join("torn.json"), b"{\"key\":").unwrap();
    fs::write(ready.join("liar.json"), fs::read(ready.join("p0.json")).unwrap()).unwrap();
    fs::write(ready.join("huge.json"), vec![b' '; 1 << 20]).unwrap();
    fs::write(ready.join("..json"), b"").unwrap();
    std::os::unix::fs::symlink("/etc/hostname", ready.join("link.json")).unwrap();
    fs::write(directory.path().join("stock/ready/no-digest"), b"").unwrap();
    fs::create_dir(directory.path().join("stock/wanted")).unwrap();
    fs::write(directory.path().join("stock/wanted/no-digest.json"), b"{}").unwrap();
    let mut taken = Vec::new();
    for _ in 0..6 {
        taken.extend(stock_files.claim(&digest).into_iter().flatten());
    }
    assert_eq!(taken, [port("p0", "n")]);
    assert!(stock_files.wanted().unwrap().is_empty());
    assert_eq!(stock_files.kinds().unwrap(), [digest]);
}

#[test]
fn many_threads_never_share_a_port() {
    let directory = tempfile::tempdir().unwrap();
    let (stock_files, digest) = filled(directory.path(), 200);
    let taken = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                while let Some(port) = stock_files.claim(&digest).unwrap() {
                    taken.lock().unwrap().push(port.id);
                }
            });
        }
    });
    let taken = taken.into_inner().unwrap();
    assert_eq!(taken.len(), 200);
    assert_eq!(taken.into_iter().collect::<BTreeSet<_>>().len(), 200);
}

/// What the processes of the tests below do; nothing in a test run.
#[test]
fn a_claimer() {
    let Ok(directory) = std::env::var(CLAIMER) else { return };
    let stock_files = StockFiles::at(Path::new(&directory));
    let digest = key("n").digest().unwrap();
    let once = std::env::var("SPOKE_TEST_ONCE").is_ok();
    while let Some(port) = stock_files.claim(&digest).unwrap() {
        stock_files.want(&key("n")).unwrap();
        let mark = Path::new(&directory).join("taken").join(port.id.as_str());
        fs::OpenOptions::new().write(true).create_new(true).open(mark).unwrap();
        if once {
            return;
        }
    }
}

fn claimer(directory: &Path, over: &[&str]) -> Command {
    let own = std::env::current_exe().unwrap();
    let own = own.to_str().unwrap();
    let words = [over, &[own, "--exact", "stock::tests::a_claimer", "--test-threads=1"]].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env(CLAIMER, directory).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn many_processes_never_share_a_port() {
    let directory = tempfile::tempdir().unwrap();
    let (_, _) = filled(directory.path(), 300);
    fs::create_dir(directory.path().join("taken")).unwrap();
    let start = || claimer(directory.path(), &[]).spawn().unwrap();
    let claimers: Vec<_> = (0..8).map(|_| start()).collect();
    for mut claimer in claimers {
        // One that found a port taken before would have failed to mark it.
        assert!(claimer.wait().unwrap().success());
    }
    assert_eq!(fs::read_dir(directory.path().join("taken")).unwrap().count(), 300);
}

/// Kills a claimer before each of its calls that touch a file: the port is then still ready, or is
/// lent; never in two places, never lost, never half a file.
#[test]
fn a_killed_claimer_leaves_the_port_in_one_place() {
    let mut lent_once = 0;
    let kinds = ["openat", "rename", "utimensat", "getdents64", "mkdir", "close", "write", "read"];
    for call in kinds {
        for when in 1.. {
            let directory = tempfile::tempdir().unwrap();
            let (stock_files, digest) = filled(directory.path(), 1);
            fs::create_dir(directory.path().join("taken")).unwrap();
            let inject = format!("inject={call}:signal=KILL:when={when}");
            let over = ["/usr/bin/strace", "-f", "-qq", "-o", "/dev/null", "-e", inject.as_str()];
            let mut command = claimer(directory.path(), &over);
            let status = command.env("SPOKE_TEST_ONCE", "1").status().expect("strace is there");
            let places = places(&directory.path().join("stock"));
            assert_eq!(places.len(), 1, "{inject}: {places:?}");
            let at = &places["p0"];
            assert_eq!(at.len(), 1, "{inject}: {at:?}");
            match at[0].as_str() {
                "lent" => {
                    lent_once += usize::from(!status.success());
                    assert!(stock_files.give_back(&"p0".parse().unwrap()).unwrap());
                    assert_eq!(stock_files.returned().unwrap(), [stored("p0", "n")], "{inject}");
                }
                _ => assert!(stock_files.claim(&digest).unwrap().is_some(), "{inject}"),
            }
            assert!(stock_files.wanted().is_ok());
            if status.success() {
                break;
            }
        }
    }
    assert!(lent_once > 0, "no process was killed between claim and use");
}

#[test]
fn only_one_fills() {
    let directory = tempfile::tempdir().unwrap();
    let stock_files = StockFiles::at(directory.path());
    assert!(!stock_files.is_filled());
    let first = stock_files.filler().unwrap().unwrap();
    assert!(stock_files.is_filled() && stock_files.filler().unwrap().is_none());
    drop(first);
    assert!(!stock_files.is_filled() && stock_files.filler().unwrap().is_some());
}

#[test]
fn who_takes_all_waits_for_who_makes() {
    let directory = tempfile::tempdir().unwrap();
    let stock_files = StockFiles::at(directory.path());
    let digest = key("n").digest().unwrap();
    let guard = stock_files.making(&digest).unwrap();
    let _both = stock_files.making(&digest).unwrap();
    let (reported, heard) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let drain = scope.spawn(|| {
            reported.send(()).unwrap();
            stock_files.made(&digest).unwrap();
            stock_files.claim(&digest).unwrap()
        });
        heard.recv().unwrap();
        stock_files.put(&stored("p0", "n")).unwrap();
        drop((guard, _both));
        assert!(drain.join().unwrap().is_some(), "it was made before the turn ended");
    });
    stock_files.tidy(&digest);
    assert!(stock_files.kinds().unwrap().is_empty());
    stock_files.making(&digest).unwrap();
}

#[test]
fn drafts_of_the_dead_go() {
    let directory = tempfile::tempdir().unwrap();
    let (stock_files, _) = filled(directory.path(), 1);
    let draft = directory.path().join("stock/draft/0123");
    fs::write(&draft, b"{").unwrap();
    stock_files.sweep(SystemTime::UNIX_EPOCH).unwrap();
    assert!(draft.exists());
    stock_files.sweep(SystemTime::now() + Duration::from_secs(60)).unwrap();
    assert!(!draft.exists());
}

/// What a thread may do to the stock.
#[derive(Clone, Copy, Debug)]
enum Move {
    Put(u8),
    Claim,
    ClaimThis(u8),
    Return(u8),
    Renew(u8),
    Settle(u8),
    Drop(u8),
}

fn moves() -> impl Strategy<Value = Move> {
    let which = 0..6u8;
    prop_oneof![
        which.clone().prop_map(Move::Put),
        Just(Move::Claim),
        which.clone().prop_map(Move::ClaimThis),
        which.clone().prop_map(Move::Return),
        which.clone().prop_map(Move::Renew),
        which.clone().prop_map(Move::Settle),
        which.prop_map(Move::Drop),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_port_is_in_one_place_whatever_is_done(moves in prop::collection::vec(moves(), 1..60)) {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let stock_files = StockFiles::at(directory.path());
        let digest = key("n").digest().unwrap();
        let mut model: BTreeMap<String, &str> = BTreeMap::new();
        for step in moves {
            let name = |at: u8| format!("p{at}");
            let id = |at: u8| -> ResourceId { name(at).parse().unwrap() };
            match step {
                // A port that is made is new.
                Move::Put(at) if !model.contains_key(&name(at)) => {
                    stock_files.put(&stored(&name(at), "n")).unwrap();
                    model.insert(name(at), "ready");
                }
                Move::Put(_) => {}
                Move::Claim => match stock_files.claim(&digest).unwrap() {
                    Some(port) => {
                        prop_assert_eq!(model.insert(port.id.to_string(), "lent"), Some("ready"));
                    }
                    None => prop_assert!(model.values().all(|place| *place != "ready")),
                },
                Move::ClaimThis(at) => {
                    let was_ready = model.get(&name(at)) == Some(&"ready");
                    prop_assert_eq!(stock_files.claim_port(&id(at)).unwrap().is_some(), was_ready);
                    if was_ready {
                        model.insert(name(at), "lent");
                    }
                }
                Move::Return(at) => {
                    let was_lent = model.get(&name(at)) == Some(&"lent");
                    prop_assert_eq!(stock_files.give_back(&id(at)).unwrap(), was_lent);
                    if was_lent {
                        model.insert(name(at), "returned");
                    }
                }
                Move::Renew(at) => {
                    stock_files.ready_again(&stored(&name(at), "n")).unwrap();
                    if let Some(place @ &mut "returned") = model.get_mut(&name(at)) {
                        *place = "ready";
                    }
                }
                Move::Settle(at) => {
                    stock_files.settle(&id(at)).unwrap();
                    if model.get(&name(at)) == Some(&"returned") {
                        model.remove(&name(at));
                    }
                }
                Move::Drop(at) => {
                    let was_lent = model.get(&name(at)) == Some(&"lent");
                    prop_assert_eq!(stock_files.drop_lent(&id(at)).unwrap(), was_lent);
                    if was_lent {
                        model.remove(&name(at));
                    }
                }
            }
            let stock = directory.path().join("stock");
            let there = if stock.exists() { places(&stock) } else { BTreeMap::new() };
            let expected: BTreeMap<String, Vec<String>> = model
                .iter()
                .map(|(name, place)| {
                    let place = match *place {
                        "ready" => format!("ready/{}", digest.as_str()),
                        other => other.to_owned(),
                    };
                    (name.clone(), vec![place])
                })
                .collect();
            prop_assert_eq!(there, expected);
        }
    }
}
