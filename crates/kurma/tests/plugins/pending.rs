//! Plugins, registries and records that fail, and what they must not keep from going on.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use kurma::plugin::Standing;
use kurma::{Event, Name, PodId, Pods, supervise};
use model::Kind;
use netlink::monitor::Stop;
use serde_json::json;

use super::spy::{HANGS, Spy, Stopping, in_a_world, until};

/// In the order in which they are listed.
const FIRST: &str = "046d7cef-fbf6-41da-a2f8-eba218597f9c";
const SECOND: &str = "146d7cef-fbf6-41da-a2f8-eba218597f9c";

fn pod(text: &str) -> PodId {
    text.parse().unwrap()
}

fn names(names: &[&str]) -> Vec<Name> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

/// A container that was replaced ends with its last call, however long that lasts.
#[test]
fn a_replaced_container_ends_after_its_last_call() {
    in_a_world(|| {
        let spy = Spy::new(&json!([{"name": "a"}]));
        let other = spy.read(&json!([{"name": "a", "aci": "file:///other.aci"}]));
        spy.instruct("add", "while [ ! -e /spy/go.$2 ]; do sleep 0.02; done; echo {}");
        let first = thread::scope(|scope| {
            let call = |text: &'static str| {
                let pods = Pods::new(&spy.pod, &spy.networks);
                move || pods.provision(&pod(text), &names(&["a"])).unwrap()
            };
            let one = scope.spawn(call(FIRST));
            until(|| spy.order().len() == 1);
            let two = scope.spawn(call(SECOND));
            until(|| spy.order().len() == 2);
            let first = spy.pid("a").unwrap();
            let before = spy.pod.images_in_use().unwrap();
            spy.pod.up(other.network(&"a".parse().unwrap()).unwrap()).unwrap();
            assert_ne!(spy.pid("a").unwrap(), first);
            assert_eq!(spy.status("a").retired, 1);
            assert!(spy.status("a").former().is_some());
            let after: BTreeSet<_> = spy.pod.images_in_use().unwrap();
            assert!(after.len() == 2 && after.is_superset(&before), "{after:?}");
            fs::write(spy.directory().join(format!("spy/go.{FIRST}")), "").unwrap();
            one.join().unwrap();
            assert_eq!(spy.status("a").retired, 1, "the second call is in it");
            fs::write(spy.directory().join(format!("spy/go.{SECOND}")), "").unwrap();
            two.join().unwrap();
            first
        });
        assert_eq!(spy.status("a").retired, 0);
        let state = fs::read_to_string(format!("/proc/{first}/status"));
        assert!(!state.is_ok_and(|state| !state.contains("State:\tZ")), "it has ended");
        assert_eq!(spy.pod.images_in_use().unwrap().len(), 1);
        for text in [FIRST, SECOND] {
            Pods::new(&spy.pod, &spy.networks).deprovision(&pod(text)).unwrap();
        }
    });
}

/// A record that cannot be read is reported, and keeps no other pod from being undone or shown.
#[test]
fn a_damaged_record_hides_no_other_pod() {
    in_a_world(|| {
        let mut spy = Spy::new(&json!([{"name": "a"}, {"name": "b"}]));
        let pods = Pods::new(&spy.pod, &spy.networks);
        for (text, network) in [(FIRST, "a"), (SECOND, "b")] {
            pods.provision(&pod(text), &names(&[network])).unwrap();
        }
        spy.instruct("del", "exit 4");
        pods.deprovision(&pod(SECOND)).unwrap_err();
        spy.forget("del");
        let record = spy.pod.directories.pods().join(format!("{FIRST}.json"));
        fs::write(&record, "{").unwrap();
        let listed = pods.list().unwrap();
        assert_eq!(listed.records.len(), 1);
        assert_eq!(listed.unreadable[0].0, pod(FIRST));
        // It may need the plugin of a network that is configured no more.
        spy.configure(&json!([{"name": "b"}]));
        let (settled, damaged) = (Mutex::new(0), Mutex::new(0));
        let stop = Stopping(Stop::new().unwrap());
        let report = |event: Event| {
            match event {
                Event::Settled { pod: one } if one == pod(SECOND) => *settled.lock().unwrap() += 1,
                Event::PendingDel { pod: one, error } if one == pod(FIRST) => {
                    assert!(error.to_string().contains("is damaged"), "{error}");
                    *damaged.lock().unwrap() += 1;
                }
                Event::Started { .. } => {}
                other => panic!("{other:?}"),
            }
            if *settled.lock().unwrap() > 0 && *damaged.lock().unwrap() > 0 {
                stop.0.stop();
            }
        };
        supervise(&spy.pod, &spy.networks, stop.0.as_fd(), &report).unwrap();
        let pods = Pods::new(&spy.pod, &spy.networks);
        let cleared = pods.clear().unwrap();
        assert_eq!(cleared.len(), 1);
        assert_eq!(cleared[0].1.as_ref().unwrap_err().kind(), Kind::Bug);
        assert!(spy.pod.directories.netns.join(FIRST).exists(), "its namespace stays");
        let status = spy.pod.status(&spy.networks).unwrap();
        let running = |name: &str| {
            status
                .iter()
                .any(|one| one.name == name && matches!(one.standing, Standing::Running { .. }))
        };
        assert!(running("a"), "{status:?}");
        assert!(!pods.sweep().unwrap(), "what the pod needs is not known");
        pods.abandon(&pod(FIRST)).unwrap();
        assert!(pods.sweep().unwrap());
        assert!(pods.clear().unwrap().is_empty());
        assert!(pods.list().unwrap().unreadable.is_empty());
    });
}

/// Neither a registry nor a plugin that never answers keeps other networks from being watched, or
/// the daemon from following its configuration.
#[test]
fn what_never_answers_keeps_nothing_else() {
    in_a_world(|| {
        let spy =
            Spy::new(&json!([{"name": "a"}, {"name": "slow"}, {"name": "none", "aci": HANGS}]));
        let pods = Pods::new(&spy.pod, &spy.networks);
        for (text, network) in [(FIRST, "slow"), (SECOND, "a")] {
            pods.provision(&pod(text), &names(&[network])).unwrap();
        }
        spy.instruct("del", "exit 4");
        for text in [FIRST, SECOND] {
            pods.deprovision(&pod(text)).unwrap_err();
        }
        spy.instruct(
            "del",
            "if [ $name = slow ]; then while [ ! -e /spy/go ]; do sleep 0.02; done; fi; true",
        );
        let stop = Stopping(Stop::new().unwrap());
        let (settled, started) = (Mutex::new(false), Mutex::new(0));
        let report = |event: Event| {
            match event {
                Event::Settled { pod: one } if one == pod(SECOND) => {
                    *settled.lock().unwrap() = true
                }
                Event::Started { network, .. } if network.as_str() == "a" => {
                    let mut started = started.lock().unwrap();
                    *started += 1;
                    if *started == 1 {
                        spy.kill("a");
                    }
                }
                // The plugin may have been killed while it undid this pod, which is tried again.
                Event::PendingDel { pod: one, .. } if one == pod(SECOND) => {}
                Event::Started { .. } | Event::Ended { .. } => {}
                other => panic!("{other:?}"),
            }
            let hangs = || {
                let is_called = spy.order().iter().filter(|call| *call == "del slow").count() == 2;
                is_called && spy.is_asked.load(Ordering::SeqCst)
            };
            if *settled.lock().unwrap() && *started.lock().unwrap() >= 2 {
                until(hangs);
                stop.0.stop();
            }
        };
        supervise(&spy.pod, &spy.networks, stop.0.as_fd(), &report).unwrap();
        fs::write(spy.directory().join("spy/go"), "").unwrap();
        until(|| pods.list().unwrap().records.is_empty());
    });
}

/// A call waits for its image as long as the limit says.
#[test]
fn a_call_does_not_wait_for_a_registry_for_ever() {
    in_a_world(|| {
        let mut spy = Spy::new(&json!([{"name": "none", "aci": HANGS}]));
        spy.limits().fetch = Duration::from_millis(10);
        let pods = Pods::new(&spy.pod, &spy.networks);
        let error = pods.provision(&pod(FIRST), &names(&["none"])).unwrap_err();
        assert_eq!(error.kind(), Kind::TryAgain, "{error}");
        assert!(error.to_string().contains("is not here after"), "{error}");
        assert!(pods.list().unwrap().records.is_empty());
    });
}
