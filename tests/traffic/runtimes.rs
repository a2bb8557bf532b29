//! Docker's, CNI's and the command line's containers on one network.

use serde_json::json;
use tests::{Answer, Cni, Engine, Plugins, Release, Serve};

use crate::bed::{NEIGHBOUR, SPOKE, fetch, is_counted, json, row, until};
use crate::{capture, dashboard, flows};

/// A name as a hostile pod may have it: no control characters, which are refused, but all that a shell, a
/// page or Prometheus reads.
pub(crate) const HOSTILE: &str = "x\"}<b>$(id)'\\n{{.}}";

/// Metrics on loopback, as Prometheus reads them.
const CONFIG: &str = "[metrics]\nlisten = \"127.0.0.1:9477\"\n";

/// This world has no curl(1).
const ASK: &str = "exec 3<>/dev/tcp/127.0.0.1/9477
    printf 'GET /metrics HTTP/1.1\\r\\nHost: 127.0.0.1:9477\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3";

#[test]
fn every_runtime_is_counted_named_and_captured() {
    let release = Some(Release::V28_5).filter(|release| release.is_there());
    let mut engine = Engine::prepared(release.unwrap_or(Release::V20_10), &Plugins::subject());
    let world = engine.world();
    world.sh(&format!("mkdir -p /etc/spoke; printf '{CONFIG}' >/etc/spoke/config.toml"));
    let serve = Serve::start(world, &[]);
    engine.start(&[]);
    engine.import();
    // Docker's names come by its events, once the daemon hears it.
    serve.until_says(" answers at ");
    let world = engine.world();
    world.sh(NEIGHBOUR);
    world.sh(&format!("{SPOKE} network create --subnet 10.76.1.0/24 front"));
    let create = "network create -d spoke --ipam-driver spoke --ipam-opt network=front";
    engine.docker(&format!("{create} --subnet 10.76.1.0/24 front"));
    let web = "--name web -p 8080:80 --network front --ip 10.76.1.9";
    engine.docker(&format!("run -d {web} busybox httpd -f -h /www"));
    let pid = engine.docker("inspect --format {{.State.Pid}} web");
    let pid = pid.trim();
    world.until_listens(pid, 80);
    let mut pod = Cni::container(world, "pod");
    pod.args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME={HOSTILE}");
    let list = json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [
        {"type": "spoke", "network": "front"},
    ]});
    let answers = pod.add(&list);
    assert!(answers.iter().all(Answer::ok), "{answers:?}");
    world.netns("line");
    world.sh(&format!("{SPOKE} network connect --ip 10.76.1.14 front line"));

    fetch(world, "client", "192.0.2.1", 8080);
    fetch(world, "line", "10.76.1.9", 80);
    fetch(world, "pod", "10.76.1.9", 80);
    let rows = until("Docker's name", || {
        let rows = json(world, "top front");
        (row(&rows, "runtime", "docker")["name"] == "web").then_some(rows)
    });
    has_docker_s_names(world);
    let runtimes = ["docker", "cni", "spoke"].map(|runtime| row(&rows, "runtime", runtime));
    let name = |at: usize| runtimes[at]["name"].as_str().expect("a name").to_owned();
    is_counted(world, &name(0), &format!("/proc/{pid}/ns/net"), "eth0");
    is_counted(world, "line", "/run/netns/line", "eth0");
    flows::name_both_ends(world, &name(0));
    flows::name_dockers_own(&engine);
    flows::are_followed(world, &name(0));
    capture::reads_back(world, &name(0));
    hostile_names_are_harmless(world, &name(1));
    dashboard::every_expression_has_data(world, &name(1));
    capture::ends_with_its_container(&engine, &name(0));
    assert!(pod.del(&list).iter().all(Answer::ok));
    drop(serve);
}

/// The name and the interface of Docker's container, wherever it is listed: it publishes a port by a record of its
/// own, and Docker asked for `eth`.
#[track_caller]
fn has_docker_s_names(world: &tests::World) {
    let rows = json(world, "top front");
    assert_eq!(row(&rows, "runtime", "docker")["interface"], "eth0");
    let rows = json(world, "ps front");
    assert_eq!(row(&rows, "runtime", "docker")["interface"], "eth0");
    let rows = json(world, "top --by port front");
    assert_eq!(row(&rows, "port", "8080/tcp")["name"], "web");
    let metrics = world.sh(ASK);
    let line = r#"spoke_port_receive_bytes_total{runtime="docker",network="front",container="web""#;
    assert!(metrics.contains(line), "{metrics}");
    assert!(world.sh(&format!("{SPOKE} ps -q front")).lines().any(|line| line == "web"));
    let held = world.sh(&format!("{SPOKE} ipam show 10.76.1.9"));
    assert!(held.contains("web") && held.contains("eth0"), "{held}");
    let refused = world.sh(&format!("! {SPOKE} network rm front 2>&1"));
    assert!(refused.contains("still has"), "{refused}");
    world.sh(&format!("{SPOKE} events | grep -q 'web is on network front'"));
    let events = world.sh(&format!("{SPOKE} events -o json | tr -d ' '"));
    assert!(events.contains(r#""interface":"eth0""#), "{events}");
    assert!(!events.contains(r#""interface":"eth""#), "{events}");
}

/// They stay within their cell, and their quotes.
#[track_caller]
fn hostile_names_are_harmless(world: &tests::World, name: &str) {
    assert!(name.contains(HOSTILE), "{name}");
    for command in ["top --once", "flows --all"] {
        let text = world.sh(&format!("{SPOKE} {command}"));
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    }
}
