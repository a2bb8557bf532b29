//! N1 to N6: the containers of plugins.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};
use tests::kurma::{Call, Kurma};
use tests::{PluginImage, Serve};

use crate::U;

/// The bits of the capabilities that a plugin has unless its image asks for all: KILL 5, SETGID 6,
/// SETUID 7, SETPCAP 8, NET_BIND_SERVICE 10, NET_ADMIN 12, NET_RAW 13, SYS_CHROOT 18, SYS_ADMIN 21,
/// CHOWN 0, DAC_OVERRIDE 1, FOWNER 3, FSETID 4.
const BOUNDED: u64 = 1
    | 1 << 1
    | 1 << 3
    | 1 << 4
    | 1 << 5
    | 1 << 6
    | 1 << 7
    | 1 << 8
    | 1 << 10
    | 1 << 12
    | 1 << 13
    | 1 << 18
    | 1 << 21;

/// Two networks of the spy's.
#[track_caller]
fn two() -> Kurma {
    let network = |name| Kurma::spy(name, &json!({"default": true}));
    Kurma::new(&json!([network("n1"), network("n2")]))
}

/// Number of each namespace of a process of the world, or in the record of a main executable.
fn spaces(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.map(|(kind, number)| (kind.to_owned(), number.to_owned())).collect()
}

fn of(main: &Call, file: &str) -> String {
    fs::read_to_string(main.folder.join(file)).unwrap()
}

#[test]
fn n01_the_main_executable() {
    let network = Kurma::spy("n1", &json!({"with": "this", "privileged": false}));
    let kurma = Kurma::new(&json!([network]));
    kurma.kurma("up");
    kurma.kurma(&format!("provision {U} n1"));
    let [main] = &kurma.mains()[..] else { panic!("one start") };
    assert_eq!(main.argv, [] as [&str; 0]);
    assert_eq!(main.config(), network);
    assert!(main.env.contains(&"SPY=of the image".to_owned()), "{main:?}");
    assert_eq!(main.who[..2], ["0", "0"]);
    let mine = spaces(&kurma.world.sh(
        "for s in cgroup ipc mnt net pid user uts; do echo $s $(readlink /proc/self/ns/$s); done",
    ));
    for (kind, number) in spaces(&of(main, "spaces")) {
        let shared = !["mnt", "pid"].contains(&kind.as_str());
        assert_eq!(mine[&kind] == number, shared, "{kind}");
    }
    // N2: what `provision` made after the start of the plugin is there: A1's calls saw it.
    assert!(of(main, "mounts").contains(Kurma::NETNS));
    assert!(kurma.calls()[0].netns.is_some());
}

/// N3, ours: no more than a network plugin needs, whatever the image asks for.
#[test]
fn n03_bounded_unless_the_operator_grants_more() {
    let more = Kurma::spy("more", &json!({"aci": "file:///images/more.aci", "privileged": true}));
    let asked = Kurma::spy("asked", &json!({"privileged": true}));
    let kurma = Kurma::new(&json!([Kurma::spy("few", &json!({})), more, asked]));
    PluginImage::spy().named("krm.test/more").privileged().write(&kurma.world, "/images/more.aci");
    kurma.kurma(&format!("provision {U} few more asked"));
    let all = kurma.world.sh("sed -n 's/^CapBnd:\\s*//p' /proc/self/status");
    for call in kurma.mains().iter().chain(&kurma.calls()) {
        let expected = if call.network == "few" {
            BOUNDED
        } else {
            u64::from_str_radix(all.trim(), 16).unwrap()
        };
        for field in ["CapEff", "CapPrm", "CapBnd"] {
            let has = u64::from_str_radix(call.field(field), 16).unwrap();
            assert_eq!(has, expected, "{} {field}: {has:x} {expected:x}", call.short());
        }
        let no_new = if call.network == "few" { "1" } else { "0" };
        assert_eq!(call.field("NoNewPrivs"), no_new, "{}", call.short());
    }
}

/// N4: ours. The original loses every network.
#[test]
fn n04_a_killed_main_executable() {
    let kurma = two();
    kurma.kurma("up");
    let (first, other) = (kurma.plugin("n1"), kurma.plugin("n2"));
    assert_eq!(first["state"], "running");
    kurma.world.sh(&format!("kill -9 {}", first["pid"]));
    kurma.kurma(&format!("provision {U}"));
    let again = kurma.plugin("n1");
    assert_eq!(again["state"], "running", "{again}");
    assert_ne!(again["pid"], first["pid"]);
    assert_eq!(again["restarts"], 1, "{again}");
    assert_eq!(kurma.plugin("n2"), other, "who had no part in it goes on");
    kurma.kurma(&format!("deprovision {U}"));
    assert_eq!(kurma.order(), ["add n1", "add n2", "del n2", "del n1"]);
    kurma.is_clean();
}

/// N4: state that a plugin keeps is there after its restart, as it is not in the original.
#[test]
fn n04_what_a_plugin_keeps_outlives_it() {
    let kurma = two();
    kurma.instruct("n1", "add", "cat /var/lib/cni/kept >&2; echo kept >/var/lib/cni/kept; exit 1");
    kurma.refused(&format!("provision {U} n1"), &["n1"]);
    kurma.kurma("down");
    assert_eq!(kurma.plugin("n1")["state"], "stopped");
    kurma.refused(&format!("provision {U} n1"), &["kept"]);
}

/// A plugin whose main executable cannot stay hurts its own network only.
#[test]
fn n04_a_plugin_that_never_stays() {
    let kurma = two();
    kurma.configure("wait_seconds = 2");
    kurma.instruct("n1", "main", "echo it is broken >&2; exit 7");
    // A call that is quicker than the end of its plugin succeeds, rightly.
    kurma.instruct("n1", "add", "sleep 100");
    kurma.instruct("n1", "del", "sleep 100");
    kurma.try_kurma("up");
    kurma.kurma(&format!("provision {U} n2"));
    let why = "its main executable exited 7: it is broken";
    kurma.refused(&format!("provision {} n1", crate::uuid(1)), &["n1", why]);
    let broken = kurma.plugin("n1");
    assert!(["waiting", "failed"].contains(&broken["state"].as_str().unwrap()), "{broken}");
    assert_eq!(broken["error"], why, "{broken}");
    assert!(kurma.kurma("status").contains(why));
    // Once it is whole it works.
    for verb in ["main", "add", "del"] {
        kurma.forget("n1", verb);
    }
    kurma.kurma("up n1");
    kurma.kurma(&format!("provision {} n1", crate::uuid(1)));
}

#[test]
fn n05_no_networks_no_pod() {
    let kurma = Kurma::with(&json!([]), "");
    kurma.kurma("up");
    assert_eq!(kurma.json("status"), json!([]));
    let pod = kurma.json(&format!("provision {U}"));
    assert_eq!(pod["networks"], json!([]));
    assert_eq!(kurma.inside(U, "ip -o link").lines().count(), 1, "lo");
    kurma.kurma(&format!("deprovision {U}"));
    kurma.is_clean();
}

/// N6: the plugins are the last to go, and nothing of them stays.
#[test]
fn n06_all_goes() {
    let kurma = two();
    let processes = || {
        let mut all: Vec<_> = kurma.world.sh("ps -e -o comm=").lines().map(str::to_owned).collect();
        all.sort();
        all
    };
    let before = processes();
    kurma.kurma(&format!("provision {U}"));
    kurma.kurma(&format!("deprovision {U}"));
    kurma.kurma("down");
    assert_eq!(kurma.order(), ["add n1", "add n2", "del n2", "del n1"]);
    assert_eq!(processes(), before);
    for plugin in kurma.json("status").as_array().unwrap() {
        assert_eq!(plugin["state"], "stopped", "{plugin}");
    }
    assert_eq!(kurma.world.sh("grep -c /spoke/kurma/plugins /proc/self/mountinfo || true"), "0\n");
}

/// The daemon starts the plugins, restarts them, and finds them again after its own death.
#[test]
fn the_daemon_watches_over_plugins() {
    let kurma = two();
    kurma.configure("enabled = true");
    let serve = Serve::start(&kurma.world, &[]);
    let first = until(&kurma, "n1", |plugin| plugin["state"] == "running");
    let other = until(&kurma, "n2", |plugin| plugin["state"] == "running");
    kurma.world.sh(&format!("kill -9 {}", first["pid"]));
    let again =
        until(&kurma, "n1", |plugin| plugin["state"] == "running" && plugin["pid"] != first["pid"]);
    serve.kill();
    assert_eq!(kurma.plugin("n1")["pid"], again["pid"], "it outlives the daemon");
    let serve = Serve::start(&kurma.world, &[]);
    kurma.kurma(&format!("provision {U}"));
    assert_eq!(kurma.plugin("n1")["pid"], again["pid"], "it is found again");
    assert_eq!(kurma.plugin("n2")["pid"], other["pid"]);
    // Pending cleanups are retried without a call.
    kurma.instruct("n1", "del", "exit 1");
    kurma.try_kurma(&format!("deprovision {U}"));
    kurma.forget("n1", "del");
    while kurma.json("pods") != json!([]) {}
    serve.stop();
    kurma.is_clean();
}

/// Looks until a plugin is so.
#[track_caller]
fn until(kurma: &Kurma, name: &str, is: impl Fn(&Value) -> bool) -> Value {
    loop {
        let plugin = kurma.plugin(name);
        if is(&plugin) {
            return plugin;
        }
        tests::glance();
    }
}

/// Why a plugin's main executable ended is said by events, and by the status of the one in its place.
#[test]
fn n04_why_it_ended_is_reported() {
    let kurma = two();
    kurma.configure("enabled = true");
    let lives =
        "[ ! -e /spy/sick ] || { rm /spy/sick; echo starting; echo no uplink eth9 >&2; exit 3; }";
    kurma.instruct("n1", "main", lives);
    kurma.world.sh("touch /spy/sick");
    let serve = Serve::start(&kurma.world, &[]);
    let why = "its main executable exited 3: starting no uplink eth9";
    let again = until(&kurma, "n1", |plugin| {
        plugin["state"] == "running" && plugin["restarts"].as_u64() == Some(1)
    });
    assert_eq!(again["last_end"], why, "{again}");
    assert!(again["error"].is_null(), "{again}");
    assert!(kurma.kurma("status").contains(&format!("started again: {why}")));
    let reported = format!("the plugin of network n1 has ended: {why}");
    while !kurma.world.sh("/opt/cni/bin/spoke events").contains(&reported) {
        tests::glance();
    }
    serve.stop();
}

/// P9: an image without a main executable whose setup is called once, as it was in February 2016.
#[test]
fn p9_a_setup_that_ends() {
    let kurma = Kurma::new(&json!([Kurma::spy("n1", &json!({"aci": "file:///images/old.aci"}))]));
    PluginImage::spy()
        .named("krm.test/old")
        .with("app", json!({"exec": [], "user": "0", "group": "0"}))
        .file("rootfs/opt/network/setup", "#!/bin/sh\ncat >/spy/setup\n[ $# = 0 ]")
        .write(&kurma.world, "/images/old.aci");
    kurma.kurma(&format!("provision {U} n1"));
    assert!(kurma.world.sh("cat /spy/setup").contains("\"n1\""));
    assert_eq!(kurma.plugin("n1")["state"], "running");
    kurma.kurma(&format!("deprovision {U}"));
    kurma.is_clean();
}

/// A former container that cannot be removed is reported, and goes later.
#[test]
fn what_keeps_a_former_container_is_reported() {
    let kurma = two();
    kurma.kurma("up n1");
    let place = "/run/spoke/kurma/plugins/n1";
    let former = kurma.world.sh(&format!("jq -r .generation {place}/state.json"));
    let held = format!("{place}/{}", former.trim());
    kurma.world.sh(&format!("mkdir {held}/held && mount -t tmpfs held {held}/held"));
    let mut changed = Kurma::spy("n1", &json!({"default": true}));
    changed["other"] = json!(1);
    kurma.networks(&json!([changed]));
    kurma.kurma(&format!("provision {U} n1"));
    let plugin = kurma.plugin("n1");
    assert_eq!(plugin["state"], "running", "{plugin}");
    let error = plugin["error"].as_str().unwrap_or_default();
    assert!(error.contains("former container") && error.contains("removing"), "{plugin}");
    let doctor = kurma.world.try_sh(&format!("{}/spoke doctor", tests::Plugins::MOUNT));
    assert!(doctor.stdout.contains("the plugin of network n1 runs, but"), "{doctor:?}");
    kurma.world.sh(&format!("umount {held}/held"));
    kurma.kurma("up n1");
    assert_eq!(kurma.plugin("n1")["error"], json!(null));
    kurma.world.sh(&format!("test ! -e {held}"));
    kurma.kurma(&format!("deprovision {U}"));
}
