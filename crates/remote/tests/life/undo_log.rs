//! What the ledger remembers, and for how long.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Barrier;
use std::thread;

use libnetwork::Call;
use model::Kind;
use remote::{CleanupSubject, Urgency};

use crate::model::{Fault, joined};
use crate::rig::{Rig, container, network, open, pool};

fn attached() -> (Rig, model::Network, model::Attachment) {
    let rig = Rig::new();
    rig.plugin.state().joined = joined("veth1", "10.1.0.1");
    let mut network = network("n1", vec![pool("10.1.0.0/24")]);
    rig.make(&mut network).unwrap();
    let mut one = container(&network, "c1");
    rig.attach(&mut one).unwrap();
    (rig, network, one)
}

#[test]
fn after_a_reboot_endpoints_are_pending_and_networks_live_on() {
    let (mut rig, network, mut one) = attached();
    rig.plugin.log();
    rig.restart("boot-2");
    assert!(rig.remote.made(&one).unwrap().is_none());
    let pending = rig.remote.pending().unwrap();
    assert_eq!(pending.len(), 4, "{pending:?}");
    assert!(
        pending.iter().all(|cleanup| cleanup.who == CleanupSubject::Attachment(one.id.clone()))
    );
    let settled = rig.remote.retry(Urgency::Due).unwrap();
    assert_eq!((settled.done.len(), settled.moot.len(), settled.remaining.len()), (4, 0, 0));
    let expected = ["Revoke", "Leave", "DeleteEndpoint", "ReleaseAddress 10.1.0.2"];
    assert_eq!(rig.plugin.log(), expected);
    rig.attach(&mut one).unwrap();
    // The same without anybody to settle it.
    rig.restart("boot-3");
    rig.plugin.log();
    rig.attach(&mut one).unwrap();
    assert_eq!(rig.plugin.log()[..4], expected);
    rig.restart("boot-4");
    rig.delete(&network);
    rig.is_clean();
}

#[test]
fn what_is_no_file_is_put_aside_too() {
    let (rig, _network, one) = attached();
    let log_file = rig.pages().into_iter().find(|log_file| log_file.contains("endpoint-")).unwrap();
    let path = rig.directory.path().join("ledger").join(log_file);
    for put in [|path: &Path| symlink("/etc/passwd", path), |path: &Path| fs::create_dir(path)] {
        fs::remove_file(&path).unwrap();
        put(&path).unwrap();
        let error = rig.remote.leave(&one).unwrap_err();
        assert!(error.to_string().contains("is no undo log"), "{error}");
        assert!(fs::symlink_metadata(&path).is_err());
        rig.remote.leave(&one).unwrap();
        fs::write(&path, "").unwrap();
    }
}

#[test]
fn half_a_line_of_a_killed_writer_is_no_matter() {
    let (rig, network, one) = attached();
    let log_file = rig.pages().into_iter().find(|log_file| log_file.contains("endpoint-")).unwrap();
    let path = rig.directory.path().join("ledger").join(log_file);
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(b"\n{\"version\":1,\"boot\":\"bo").unwrap();
    rig.plugin.log();
    rig.remote.leave(&one).unwrap();
    rig.remote.end(&one).unwrap();
    assert_eq!(rig.plugin.log(), ["Revoke", "Leave", "DeleteEndpoint"]);
    rig.delete(&network);
}

#[test]
fn what_cannot_be_read_is_put_aside_and_reported() {
    let (rig, network, mut one) = attached();
    let held = rig.directory.path().join("ledger/held");
    let log_file = rig.pages().into_iter().find(|log_file| log_file.contains("endpoint-")).unwrap();
    let log_file = log_file.strip_prefix("held/").unwrap().to_owned();
    fs::write(held.join(&log_file), "{\"version\":1").unwrap();
    let error = rig.remote.leave(&one).unwrap_err();
    assert!(error.to_string().contains("is no undo log"), "{error}");
    let pending = rig.remote.pending().unwrap();
    assert!(pending.len() == 1 && pending[0].who == CleanupSubject::Unreadable, "{pending:?}");
    // Once it is out of the way, others go on.
    rig.remote.leave(&one).unwrap();
    assert_eq!(rig.remote.write_off().unwrap(), pending);
    assert_eq!(rig.remote.pending().unwrap(), []);
    rig.plugin.state().endpoints.clear();
    one = container(&network, "c1");
    rig.attach(&mut one).unwrap();
    let key = rig.pages().into_iter().find(|log_file| log_file.contains("endpoint-")).unwrap();
    let path = rig.directory.path().join("ledger").join(key);
    let text = fs::read_to_string(&path).unwrap();
    // A later Spoke's is left alone.
    fs::write(&path, text.replace("\"version\":1", "\"version\":2")).unwrap();
    assert_eq!(rig.remote.leave(&one).unwrap_err().kind(), Kind::Unsupported);
    fs::write(&path, text).unwrap();
    rig.detach(&one);
    rig.plugin.state().lost_choices = 1;
    rig.delete(&network);
    rig.is_clean();
}

#[test]
fn many_settle_the_same_once() {
    let (rig, network, one) = attached();
    rig.plugin.fail(|_, _| Some(Fault::Dead));
    rig.detach(&one);
    rig.delete(&network);
    rig.plugin.work();
    rig.plugin.log();
    let barrier = Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let other = open(&rig.plugin, rig.directory.path(), "boot-1");
                barrier.wait();
                other.retry(Urgency::Now).unwrap();
            });
        }
    });
    rig.retry();
    let mut log = rig.plugin.log();
    log.sort();
    log.dedup();
    // Revoke, Leave, DeleteEndpoint, two addresses, the pool, the network; none of them twice.
    assert_eq!(log.len(), 7, "{log:?}");
    rig.is_clean();
}

#[test]
fn containers_on_one_network_do_not_meet() {
    let (rig, network, one) = attached();
    thread::scope(|scope| {
        for n in 0..8 {
            let (rig, network) = (&rig, &network);
            scope.spawn(move || {
                for round in 0..10 {
                    let mut one = container(network, &format!("c-{n}-{round}"));
                    rig.attach(&mut one).unwrap();
                    rig.detach(&one);
                }
            });
        }
    });
    rig.detach(&one);
    rig.delete(&network);
    rig.is_clean();
}

#[test]
fn an_address_whose_release_was_lost_is_not_taken_from_its_next_holder() {
    let (rig, network, one) = attached();
    // The plugin releases it, and the answer is lost.
    rig.plugin.fail(|_, call| matches!(call, Call::ReleaseAddress(_)).then_some(Fault::AnswerLost));
    rig.detach(&one);
    rig.plugin.work();
    let mut two = container(&network, "c2");
    rig.attach(&mut two).unwrap();
    assert_eq!(two.addresses, one.addresses);
    rig.retry();
    let state = rig.plugin.state();
    let pool = state.pools.values().next().unwrap();
    assert_eq!(pool.addresses.len(), 2, "the gateway's and the second container's: {pool:?}");
    drop(state);
    rig.detach(&two);
    rig.delete(&network);
    rig.is_clean();
}

#[test]
fn pauses_between_tries_grow() {
    let (rig, network, one) = attached();
    rig.plugin.fail(|_, _| Some(Fault::Dead));
    rig.detach(&one);
    rig.plugin.log();
    // The clock of these tests stands still.
    let settled = rig.remote.retry(Urgency::Due).unwrap();
    assert!(settled.done.is_empty() && !settled.remaining.is_empty());
    assert_eq!(rig.plugin.log(), Vec::<String>::new());
    assert!(
        settled
            .remaining
            .iter()
            .any(|cleanup| cleanup.tries > 0 && cleanup.error.contains("refused"))
    );
    rig.plugin.work();
    rig.retry();
    rig.delete(&network);
    rig.is_clean();
}

#[test]
fn hosts_are_reported_to_drivers_that_span_them() {
    let rig = Rig::new();
    let driver = "plug".parse().unwrap();
    let node = libnetwork::Node { address: "10.0.0.1".parse().unwrap(), bind: None, own: true };
    let found = libnetwork::Discovery::Node(node);
    rig.remote.discover(&driver, &found).unwrap();
    rig.plugin.state().profile.as_mut().unwrap().network.as_mut().unwrap().connectivity =
        libnetwork::Scope::Global;
    rig.remote.discover(&driver, &found).unwrap();
    rig.remote.disappear(&driver, &found).unwrap();
    assert_eq!(rig.plugin.log(), ["DiscoverNew", "DiscoverDelete"]);
}

#[test]
fn a_sandbox_has_a_name_as_dockers_while_it_is_joined() {
    let mut rig = Rig::new();
    let mut network = network("n1", vec![pool("10.1.0.0/24")]);
    rig.make(&mut network).unwrap();
    let names = |rig: &Rig| -> Vec<std::path::PathBuf> {
        let entries = fs::read_dir(rig.directory.path().join("netns")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let mut one = container(&network, "c1");
    for fault in [None, Some(Fault::Refused), Some(Fault::AnswerLost), Some(Fault::KilledAfter)] {
        rig.plugin.state().joined = joined("veth1", "10.1.0.1");
        rig.plugin.fail(move |_, call| fault.filter(|_| matches!(call, Call::Join(_))));
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            rig.try_attach(&mut one).is_ok()
        }));
        rig.plugin.work();
        let reported = rig.plugin.state().calls.iter().rev().find_map(|call| match call {
            Call::Join(join) => Some(join.sandbox.clone()),
            _ => None,
        });
        let reported = reported.unwrap();
        assert_eq!(reported.parent().unwrap(), rig.directory.path().join("netns"));
        let name = reported.file_name().unwrap().to_str().unwrap();
        assert!(name.len() == 12 && name.bytes().all(|digit| digit.is_ascii_hexdigit()), "{name}");
        if tried.is_ok_and(|is_ok| is_ok) {
            assert_eq!(fs::read_link(&reported).unwrap(), std::path::Path::new("/run/netns/c1"));
        }
        match fault {
            Some(Fault::KilledAfter) => rig.restart("boot-2"),
            _ => rig.detach(&one),
        }
        rig.retry();
        assert_eq!(names(&rig), Vec::<std::path::PathBuf>::new(), "{fault:?}");
    }
    // Docker's own name is reported as it is.
    let path = rig.directory.path().join("netns/00000000000f");
    one.sandbox = Some(model::Sandbox { path: path.clone(), inode: 7 });
    rig.attach(&mut one).unwrap();
    assert!(
        rig.plugin
            .state()
            .calls
            .iter()
            .any(|call| matches!(call, Call::Join(join) if join.sandbox == path))
    );
    assert_eq!(names(&rig), Vec::<std::path::PathBuf>::new());
    rig.detach(&one);
    rig.delete(&network);
    rig.is_clean();
}
