//! That the engines themselves work, with Docker's own driver: whatever fails elsewhere is not
//! the fixture's.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value, json};
use tests::{Engine, Host, Plugins, Podman, Release, Snapshot};

/// What Docker keeps although all is removed, and the files of its daemons.
fn may_stay(line: &str) -> bool {
    const FILES: [&str; 3] = ["file /run/docker", "file /run/containerd/", "file /run/lock/"];
    const FORWARDING: [&str; 2] = [" sysctl ipv4/ip_forward", "/forwarding ="];
    // iptables makes its own chains when it is asked for them.
    const BUILTIN: &str = "tables raw :";
    FILES.iter().chain(&FORWARDING).any(|part| line.contains(part)) || line.contains(BUILTIN)
}

#[track_caller]
fn own_bridge(release: Release) {
    if !release.is_there() {
        return;
    }
    let host = Host::now();
    let engine = Engine::new(release, &Plugins::reference(), &[]);
    let version = engine.get("/version")["Version"].clone();
    assert!(version.as_str().unwrap_or_default().starts_with(release.version()), "{version}");

    let before = Snapshot::of(engine.world());
    let subnet = json!({"IPAM": {"Config": [{"Subnet": "10.91.7.0/24"}]}});
    engine.create_network("own", subnet);
    let mut events = engine.events();
    for name in ["one", "two"] {
        engine.run(name, "own", Value::Null);
    }
    events
        .until(|event| event["Action"] == "start" && event["Actor"]["Attributes"]["name"] == "two");
    assert_eq!(engine.endpoint("two", "own")["IPAddress"], "10.91.7.3");
    engine.ping("one", "two");
    engine.ping("two", "10.91.7.2");
    let listed = engine.docker("network ls --format '{{.Name}} {{.Driver}}'");
    assert!(listed.contains("own bridge"), "{listed}");

    engine.remove("one");
    engine.remove("two");
    engine.remove_network("own");
    let mut changes = Snapshot::of(engine.world()).changes(&before);
    changes.retain(|line| !may_stay(line));
    assert!(changes.is_empty(), "left behind:\n{}", changes.join("\n"));
    gone(engine, &host);
}

/// That nothing is left of an engine that is dropped.
#[track_caller]
fn gone(engine: Engine, host: &Host) {
    let traces = engine.traces();
    assert!(!traces.found().is_empty(), "a running engine can be seen");
    drop(engine);
    assert_eq!(traces.found(), Vec::<String>::new());
    assert_eq!(Host::now().changes(host), Vec::<String>::new());
}

#[test]
fn docker_20_10_on_its_own_bridge() {
    own_bridge(Release::V20_10);
}

#[test]
fn docker_26_1_on_its_own_bridge() {
    own_bridge(Release::V26_1);
}

#[test]
fn docker_28_5_on_its_own_bridge() {
    own_bridge(Release::V28_5);
}

#[test]
fn containers_outlive_a_killed_daemon_if_it_is_to_be_so() {
    let live = ["--live-restore", "--bridge=none"];
    let mut engine = Engine::new(Release::V20_10, &Plugins::reference(), &live);
    engine.create_network("own", Value::Null);
    engine.run("one", "own", Value::Null);
    let first = engine.container("one")["State"]["Pid"].clone();
    assert!(engine.get("/networks/own").is_object());

    engine.kill();
    engine.start(&live);
    assert_eq!(engine.container("one")["State"]["Pid"], first, "it goes on");
    engine.stop();
    engine.start(&[]);
    assert_eq!(engine.container("one")["State"]["Running"], false, "it ends with the engine");
    engine.post("/containers/one/start", &Value::Null);
    engine.run("two", "own", Value::Null);
    engine.ping("two", "one");
}

#[test]
fn podman_beside_docker() {
    let engine = Engine::new(Release::V20_10, &Plugins::reference(), &[]);
    let world = engine.world();
    Podman::set_up(world);
    engine.create_network("dock", json!({"IPAM": {"Config": [{"Subnet": "10.91.8.0/24"}]}}));
    Podman::run(world, "network create --subnet 10.91.9.0/24 podnet");
    engine.run("one", "dock", Value::Null);
    let (cgroup, image) = (engine.cgroup(), Podman::IMAGE);
    let run = format!("run -d --name two --cgroup-parent /{cgroup} --network podnet {image}");
    Podman::run(world, &run);
    engine.ping("one", "10.91.8.1");
    Podman::run(world, "exec two /bin/ping -c 1 -W 3 10.91.9.1");
}

#[test]
fn a_test_that_fails_leaves_nothing() {
    let host = Host::now();
    let mut traces = None;
    let failed = catch_unwind(AssertUnwindSafe(|| {
        let engine = Engine::new(Release::V20_10, &Plugins::reference(), &[]);
        traces = Some(engine.traces());
        engine.run("one", "bridge", Value::Null);
        engine.run("one", "bridge", Value::Null);
    }));
    let said = *failed.expect_err("the name is taken").downcast::<String>().expect("a text");
    assert!(said.starts_with("409: "), "{said}");
    assert_eq!(traces.expect("an engine").found(), Vec::<String>::new());
    assert_eq!(Host::now().changes(&host), Vec::<String>::new());
}
