//! Pods, plugins in real containers, and what becomes of both when something fails. The image is a
//! busybox whose `add` and `del` write down how they were called, and do what the test says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod pending;
mod spy;
mod volume;
mod without_image;

use std::os::fd::AsFd;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use image::Locator;
use kurma::exec_cni::{Shown, Tenancy};
use kurma::plugin::{Direct, Key, PluginSpec, Standing, UNUSED};
use kurma::pod::Stage;
use kurma::{Event, Name, PodId, Pods, metadata, supervise};
use model::Kind;
use netlink::Netns;
use netlink::monitor::Stop;
use serde_json::json;
use spy::{Spy, in_a_world};

const U: &str = "146d7cef-fbf6-41da-a2f8-eba218597f9c";

fn pod() -> PodId {
    U.parse().unwrap()
}

fn names(names: &[&str]) -> Vec<Name> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

#[test]
fn a1_a12_d1_d5_a_pod_comes_and_goes() {
    in_a_world(|| {
        let one = json!({"name": "ok1", "containerInterface": "eth{{num}}", "extra": [1]});
        let spy = Spy::new(&json!([one, {"name": "ok2", "containerInterface": "eth{{num}}"}]));
        let pods = Pods::new(&spy.pod, &spy.networks);
        let reply = r#"{"name":"x","ip4":{"ip":"10.1.2.3/24","gateway":"10.1.2.1"}}"#;
        spy.instruct("add", &format!("echo chatter >&2; echo '{reply}'"));
        let record = pods.provision(&pod(), &names(&["ok2", "ok1"])).unwrap();
        assert_eq!(record.stage, Stage::Ready);
        assert_eq!(
            metadata::networks(&record)[0],
            json!({"name": "ok2", "containerInterface": "eth0",
                "ip4": {"ip": "10.1.2.3/24", "gateway": "10.1.2.1"}})
        );
        let inside = format!("/var/lib/kurma/netns/{U}");
        let netns = Netns::open(&record.netns).unwrap();
        let seen = format!("{inside} {U} eth0 3 {}", netns.inode());
        assert_eq!(spy.calls()[0], format!("add ok2 {seen}"));
        assert_eq!(spy.calls()[1], format!("add ok1 {}", seen.replace("eth0", "eth1")));
        assert_eq!(spy.kept("environment"), "HOME=/root\nPATH=/sbin:/usr/sbin:/bin:/usr/bin\n");
        assert_eq!(spy.kept("input"), spy.network("ok1").document().to_string());
        assert_eq!(spy.kept("main"), spy.network("ok1").document().to_string());
        // Again: it is as it was, and no plugin is called.
        assert_eq!(pods.provision(&pod(), &names(&["ok2", "ok1"])).unwrap(), record);
        let other = pods.provision(&pod(), &names(&["ok1"])).unwrap_err();
        assert_eq!(other.kind(), Kind::Conflict, "{other}");
        assert_eq!(spy.calls().len(), 2);

        pods.deprovision(&pod()).unwrap();
        assert_eq!(spy.calls()[2], format!("del ok1 {}", seen.replace("eth0", "eth1")));
        assert_eq!(spy.calls()[3], format!("del ok2 {seen}"));
        assert!(!record.netns.exists());
        assert_eq!(pods.list().unwrap().records, []);
        pods.deprovision(&pod()).unwrap();
        assert_eq!(spy.calls().len(), 4);
    });
}

#[test]
fn a7_a14_a15_failures_are_undone_or_skipped() {
    in_a_world(|| {
        let spy = Spy::new(&json!([{"name": "ok1"}, {"name": "bad"},
            {"name": "may", "on_error": "skip"}, {"name": "ok2", "containerInterface": "e{{num}}"}]));
        let pods = Pods::new(&spy.pod, &spy.networks);
        spy.instruct(
            "add",
            "[ $name = bad -o $name = may ] && { echo out text; exit 3; }; echo {}",
        );
        let error = pods.provision(&pod(), &names(&["ok1", "bad", "ok2"])).unwrap_err();
        assert_eq!(error.to_string(), "network \"bad\": exited 3: out text");
        assert_eq!(spy.order(), ["add ok1", "add bad", "del bad", "del ok1"]);
        assert_eq!(pods.list().unwrap().records, []);
        let record = pods.provision(&pod(), &names(&["ok1", "may", "ok2"])).unwrap();
        assert_eq!(metadata::networks(&record)[1]["containerInterface"], "e1");
        assert_eq!(record.without(), [("may", "exited 3: out text")]);
        pods.deprovision(&pod()).unwrap();
        assert_eq!(spy.order()[7..], ["del ok2", "del may", "del ok1"]);
        let error = pods.provision(&pod(), &names(&["ok1", "nosuch"])).unwrap_err();
        assert_eq!(error.to_string(), "network \"nosuch\" does not exist");
        assert_eq!(spy.order().len(), 10);
    });
}

#[test]
fn a16_a_hanging_add_is_ended() {
    in_a_world(|| {
        let spy = Spy::new(&json!([{"name": "slow", "limit": 3}]));
        let pods = Pods::new(&spy.pod, &spy.networks);
        spy.instruct("add", "sleep 100 & sleep 100");
        let began = Instant::now();
        let error = pods.provision(&pod(), &names(&["slow"])).unwrap_err();
        assert_eq!(error.to_string(), "network \"slow\": took longer than 3 s and was ended");
        assert!(began.elapsed() < Duration::from_secs(60));
        assert_eq!(spy.order(), ["add slow", "del slow"]);
    });
}

#[test]
fn d3_what_fails_is_pending() {
    in_a_world(|| {
        let spy = Spy::new(&json!([{"name": "a"}, {"name": "b"}]));
        let pods = Pods::new(&spy.pod, &spy.networks);
        let record = pods.provision(&pod(), &names(&["a", "b"])).unwrap();
        spy.instruct("del", "[ $name = b ] && { echo not now >&2; exit 4; }; true");
        let error = pods.deprovision(&pod()).unwrap_err();
        assert!(error.to_string().contains("network \"b\": exited 4: not now"), "{error}");
        assert!(!record.netns.exists());
        let left = pods.list().unwrap().records;
        assert_eq!(left[0].pending(), [&"b".parse::<Name>().unwrap()]);
        let error = pods.provision(&pod(), &names(&["a"])).unwrap_err();
        assert_eq!(error.kind(), Kind::TryAgain, "{error}");
        spy.forget("del");
        let settled = pods.settle().unwrap();
        assert!(settled[0].1.is_ok());
        assert_eq!(spy.order()[2..], ["del b", "del a", "del b", "del b"]);
        assert_eq!(pods.list().unwrap().records, []);
    });
}

#[test]
fn n4_a_killed_plugin_is_started_again() {
    in_a_world(|| {
        let spy = Spy::new(&json!([{"name": "a"}, {"name": "b"}]));
        for network in spy.networks.networks() {
            spy.pod.up(network).unwrap();
        }
        let (first, other) = (spy.pid("a").unwrap(), spy.pid("b").unwrap());
        spy.kill("a");
        let pods = Pods::new(&spy.pod, &spy.networks);
        pods.provision(&pod(), &names(&["a", "b"])).unwrap();
        assert_ne!(spy.pid("a").unwrap(), first);
        assert_eq!(spy.pid("b").unwrap(), other);
        assert_eq!(spy.status("a").restarts, 1);
        pods.deprovision(&pod()).unwrap();
        spy.pod.down(&Key::Network("a".parse().unwrap())).unwrap();
        assert_eq!(spy.status("a").standing, Standing::Stopped);
        pods.provision(&pod(), &names(&["a"])).unwrap();
        assert_eq!(spy.status("a").restarts, 1, "it was stopped on purpose");
        pods.deprovision(&pod()).unwrap();
    });
}

#[test]
fn n4_a_plugin_that_never_stays_is_reported() {
    in_a_world(|| {
        let mut spy = Spy::new(&json!([{"name": "a"}]));
        spy.limits().wait = Duration::from_secs(4);
        spy.instruct("main", "echo no uplink >&2; exit 7");
        // A call that begins before the end does not end by itself.
        spy.instruct("add", "sleep 100000");
        let pods = Pods::new(&spy.pod, &spy.networks);
        let error = pods.provision(&pod(), &names(&["a"])).unwrap_err();
        assert_eq!(error.kind(), Kind::TryAgain, "{error}");
        let why = "its main executable exited 7: no uplink";
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(spy.status("a").error.as_deref(), Some(why));
        spy.forget("main");
        spy.forget("add");
        spy.pod.up(spy.network("a")).unwrap();
        // A call may have begun before the end: then its cleanup is pending, and succeeds now.
        assert!(pods.settle().unwrap().iter().all(|(_, done)| done.is_ok()));
        pods.provision(&pod(), &names(&["a"])).unwrap();
        pods.deprovision(&pod()).unwrap();
    });
}

/// A call is not repeated that had begun when the plugin's main process died: it says why that did, and so
/// does the status of the one that was started in its place.
#[test]
fn n4_a_call_says_why_its_plugin_died() {
    in_a_world(|| {
        let spy = Spy::new(&json!([{"name": "a"}]));
        spy.instruct(
            "main",
            "while [ ! -e /spy/die ]; do sleep 0.01; done; echo lost its lease; exit 3",
        );
        spy.instruct("add", "echo >/spy/die; sleep 100000");
        let pods = Pods::new(&spy.pod, &spy.networks);
        let error = pods.provision(&pod(), &names(&["a"])).unwrap_err();
        let why = "its main executable exited 3: lost its lease";
        let reported = format!("network \"a\": ended with its container: {why}");
        assert!(error.to_string().starts_with(&reported), "{error}");
        assert_eq!(spy.order().iter().filter(|call| *call == "add a").count(), 1);
        for verb in ["main", "add"] {
            spy.forget(verb);
        }
        std::fs::remove_file(spy.directory().join("spy/die")).unwrap();
        // Its pending cleanup may have been done at once, by another one.
        assert!(pods.settle().unwrap().iter().all(|(_, done)| done.is_ok()));
        spy.pod.up(spy.network("a")).unwrap();
        let status = spy.status("a");
        assert!(matches!(status.standing, Standing::Running { .. }), "{status:?}");
        assert!(status.last_end.as_ref().unwrap().contains("exited 3"), "{status:?}");
        assert!(status.to_value()["last_end"].is_string());
    });
}

#[test]
fn a_network_says_what_runs_its_plugin() {
    in_a_world(|| {
        let spy = Spy::new(&json!([{"name": "a", "engine": "runc"}, {"name": "b"}]));
        let pods = Pods::new(&spy.pod, &spy.networks);
        pods.provision(&pod(), &names(&["a", "b"])).unwrap();
        let first = |name: &str| {
            let pid = spy.pid(name).unwrap();
            let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
            let child = children.unwrap().trim().to_owned();
            std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap()
        };
        assert_eq!((first("a").trim(), first("b").trim() == "runc"), ("runc", false));
        pods.deprovision(&pod()).unwrap();
        assert_eq!(spy.order(), ["add a", "add b", "del b", "del a"]);
    });
}

#[test]
fn p9_setup_instead_of_a_main_executable() {
    in_a_world(|| {
        let spy = Spy::without_main(&json!([{"name": "a"}]));
        spy.instruct("setup", "echo no >&2; exit 1");
        let error = spy.pod.up(spy.network("a")).unwrap_err();
        assert_eq!(error.to_string(), "plugin of a: its setup: exited 1: no");
        let word = spy.status("a").standing.word();
        assert!(["waiting", "failed"].contains(&word), "{word}");
        spy.forget("setup");
        spy.pod.up(spy.network("a")).unwrap();
        assert!(spy.pid("a").is_some());
        Pods::new(&spy.pod, &spy.networks).provision(&pod(), &names(&["a"])).unwrap();
        assert_eq!(spy.order(), ["setup a", "setup a", "add a"]);
    });
}

#[test]
fn a_changed_plugin_is_replaced() {
    in_a_world(|| {
        let mut spy = Spy::new(&json!([{"name": "a"}]));
        spy.pod.up(spy.network("a")).unwrap();
        let first = spy.pid("a").unwrap();
        spy.pod.up(spy.network("a")).unwrap();
        assert_eq!(spy.pid("a").unwrap(), first);
        spy.configure(&json!([{"name": "a", "changed": true}]));
        Pods::new(&spy.pod, &spy.networks).provision(&pod(), &names(&["a"])).unwrap();
        assert_ne!(spy.pid("a").unwrap(), first);
        let state = std::fs::read_to_string(format!("/proc/{first}/status"));
        let is_alive = state.is_ok_and(|state| !state.contains("State:\tZ"));
        assert!(!is_alive, "the old one has ended");
        assert_eq!(spy.status("a").restarts, 0);
        spy.configure(&json!([]));
        Pods::new(&spy.pod, &spy.networks).deprovision(&pod()).unwrap();
        Pods::new(&spy.pod, &spy.networks).clear().unwrap();
        assert_eq!(spy.pid("a"), None, "no pod wants it any more");
    });
}

#[test]
fn the_daemon_watches() {
    in_a_world(|| {
        let spy = Spy::new(&json!([{"name": "a"}]));
        let stop = Stop::new().unwrap();
        let (reported, first) = (Mutex::new(Vec::new()), Mutex::new(None));
        let report = |event: Event| {
            let word = match &event {
                Event::Started { pid, .. } => {
                    let mut first = first.lock().unwrap();
                    match *first {
                        None => {
                            *first = Some(*pid);
                            spy.kill("a");
                        }
                        Some(_) => stop.stop(),
                    }
                    "started"
                }
                Event::Ended { why, .. } => {
                    assert!(why.contains("it ended with its container"), "{why}");
                    "ended"
                }
                other => panic!("{other:?}"),
            };
            reported.lock().unwrap().push(word);
        };
        supervise(&spy.pod, &spy.networks, stop.as_fd(), &report).unwrap();
        assert_eq!(*reported.lock().unwrap(), ["started", "ended", "started"]);
        assert!(spy.pid("a").is_some(), "it outlives who watched");
    });
}

#[test]
fn a17_eight_pods_at_once() {
    in_a_world(|| {
        let spy = Spy::new(&json!([{"name": "a"}, {"name": "b"}]));
        let pods = Pods::new(&spy.pod, &spy.networks);
        std::thread::scope(|scope| {
            for number in 0..8 {
                scope.spawn(move || {
                    let pod = U.replace("146d7cef", &format!("0000000{number}")).parse().unwrap();
                    pods.provision(&pod, &names(&["a", "b"])).unwrap();
                    pods.deprovision(&pod).unwrap();
                });
            }
        });
        assert_eq!(spy.order().len(), 32);
        assert_eq!(pods.list().unwrap().records, []);
        assert_eq!((spy.status("a").restarts, spy.status("b").restarts), (0, 0));
    });
}

#[test]
fn a_cni_plugin_out_of_an_image() {
    in_a_world(|| {
        let spy = Spy::new(&json!([{"name": "a"}]));
        let wanted =
            PluginSpec::image("file:///spy".parse().unwrap(), Vec::new(), Default::default());
        let netns = spy.directory().join("ns");
        Netns::make(&netns).unwrap();
        let path = netns.to_str().unwrap();
        let shown = Shown::new(path, &["c", "eth0"]);
        let (plugin, missing) = ("echoes".parse().unwrap(), "nosuch".parse().unwrap());
        let input = format!("{{\"prev\":\"{path}\"}}");
        let call = Direct {
            plugin: &plugin,
            environment: &[("CNI_COMMAND", "ADD")],
            input: input.as_bytes(),
            limit: Duration::from_secs(20),
        };
        let ended = kurma::exec_cni::run(&spy.pod, &wanted, &call, &shown, Tenancy::Stays).unwrap();
        let said = String::from_utf8(ended.stdout).unwrap();
        let inside = format!("/var/lib/kurma/netns/{}", shown.name);
        let inode = Netns::open(&netns).unwrap().inode();
        assert_eq!(said, format!("ADD {inside} {inode} {{\"prev\":\"{path}\"}}"));
        let absent = Direct { plugin: &missing, ..call };
        let error = kurma::exec_cni::run(&spy.pod, &wanted, &absent, &shown, Tenancy::Stays);
        assert_eq!(error.unwrap_err().kind(), Kind::NotFound);
        // The runtime's path is gone, and the plugin finds the namespace all the same, once.
        Netns::unmake(&netns).unwrap();
        let end = |shown: &Shown| {
            let ended = kurma::exec_cni::run(&spy.pod, &wanted, &call, shown, Tenancy::Ends);
            String::from_utf8(ended.unwrap().stdout).unwrap()
        };
        assert!(end(&shown).starts_with(&format!("ADD {inside} {inode}")));
        assert!(!end(&shown).contains(&inode.to_string()));
        spy.pod.down_all().unwrap();
    });
}

/// Each update of an image leaves a container of the one before.
#[test]
fn a_container_that_nothing_names_and_calls_is_ended() {
    in_a_world(|| {
        let spy = Spy::new(&json!([{"name": "a"}]));
        spy.pod.up(spy.network("a")).unwrap();
        let wanted =
            PluginSpec::image("file:///spy".parse().unwrap(), Vec::new(), Default::default());
        let plugin = "echoes".parse().unwrap();
        let limit = Duration::from_secs(20);
        let call = Direct { plugin: &plugin, environment: &[], input: b"", limit };
        let called = || spy.pod.direct(&wanted, &call).unwrap().unwrap();
        let plugins = spy.pod.directories.plugins();
        let long_ago = || {
            for plugin in std::fs::read_dir(&plugins).unwrap() {
                let files = std::fs::read_dir(plugin.unwrap().path()).unwrap().flatten();
                let calls =
                    files.filter(|file| file.path().extension().is_some_and(|it| it == "calls"));
                for file in calls {
                    let file = std::fs::File::options().append(true).open(file.path()).unwrap();
                    file.set_modified(SystemTime::now() - 2 * UNUSED).unwrap();
                }
            }
        };
        let ended = |named: &[&str]| {
            let named: Vec<Locator> = named.iter().map(|name| name.parse().unwrap()).collect();
            let (ended, done) = spy.pod.end_unused(&named);
            done.unwrap();
            ended
        };
        called();
        assert_eq!(ended(&[]), [], "it was called now");
        long_ago();
        assert_eq!(ended(&["file:///spy"]), [], "it is named");
        called();
        assert_eq!(ended(&[]), [], "it was called again");
        long_ago();
        assert_eq!(ended(&[]), std::slice::from_ref(&wanted.key));
        assert_eq!(spy.pid(&wanted.key.to_string()), None);
        assert!(spy.pid("a").is_some(), "that of a network is the network's");
        called();
        assert!(spy.pid(&wanted.key.to_string()).is_some());
    });
}
