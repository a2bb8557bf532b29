//! A swarm of two nodes, whose networks are those of a cluster.

use tests::{Engine, Plugins, Release};

use crate::bed::{SPOKE, Segment, init, join, until};

const CONFIG: &str = "[docker]\nscope = \"global\"";
/// As each node's Docker knows the driver.
const DRIVER: &str = "-d spoke:latest --ipam-driver spoke:latest";
/// Of the subnet, what the swarm's manager gives to its tasks: the second address of a block is no container's.
const PART: &str = "--ip-range 10.64.240.0/24 --gateway 10.64.240.1";

/// An engine on the segment, whose managed plugin is the host's daemon.
#[track_caller]
fn node(segment: &Segment, release: Release, number: u8) -> Engine {
    let engine = Engine::prepared(release, &Plugins::subject());
    segment.plug(engine.world(), number);
    let mut engine = engine;
    engine.start(&[]);
    engine.import();
    engine.world().sh(&format!(
        "mkdir -p /var/lib/spoke
         {SPOKE} docker plugin /world/plugin
         cat >/world/plugin/rootfs/etc/spoke/config.toml <<'CONF'\n{CONFIG}\nCONF"
    ));
    engine.docker("plugin create spoke /world/plugin");
    engine.docker("plugin enable spoke");
    until(engine.world(), &format!("{SPOKE} host ls 2>&1 | grep -q 'in no cluster'"));
    engine
}

/// The swarm has the network of the cluster: its tasks, and a namespace of another runtime on each node, reach each
/// other.
#[test]
fn a_swarm_uses_a_network_of_many_hosts() {
    let release = Release::V28_5;
    if !release.is_there() {
        return;
    }
    let segment = Segment::new();
    let [a, b] = [1, 2].map(|number| node(&segment, release, number));
    init(a.world(), "a");
    join(a.world(), b.world(), "b");
    a.docker("swarm init --advertise-addr 192.0.2.1 --task-history-limit 0");
    let token = a.docker("swarm join-token -q worker");
    b.docker(&format!(
        "swarm join --advertise-addr 192.0.2.2 --token {} 192.0.2.1:2377",
        token.trim()
    ));
    a.world().sh(&format!("{SPOKE} network create --hosts all --subnet 10.64.0.0/16 front"));
    a.docker(&format!(
        "network create {DRIVER} --ipam-opt network=front --subnet 10.64.0.0/16 {PART} --scope swarm \
         --attachable tasks"
    ));
    for engine in [&a, &b] {
        engine.world().netns("box");
        engine.world().sh(&format!("{SPOKE} network connect front box"));
    }
    a.docker("run -d --name one --network tasks busybox /bin/sleep 3600");
    b.docker("run -d --name two --network tasks busybox /bin/sleep 3600");
    let [one, two] = [(&a, "one"), (&b, "two")].map(|(engine, name)| address(engine, name));
    let boxes = [&a, &b].map(|engine| crate::bed::address(engine.world(), "box"));
    for (engine, name, to) in [(&a, "one", [&two, &boxes[1]]), (&b, "two", [&one, &boxes[0]])] {
        for to in to {
            until(engine.world(), &format!("docker exec {name} ping -c 1 -W 1 {to}"));
        }
    }
    a.docker(
        "service create --detach --name web --mode global --endpoint-mode dnsrr --stop-grace-period 0s --network tasks \
         busybox /bin/sleep 3600",
    );
    for engine in [&a, &b] {
        until(engine.world(), "[ $(docker ps -q --filter name=web. | wc -l) = 1 ]");
    }
    let there = b.docker("ps -q --filter name=web.");
    let task = address(&b, there.trim());
    until(a.world(), &format!("docker exec one ping -c 1 -W 1 {task}"));
    a.docker("service rm web");
    for (engine, name) in [(&a, "one"), (&b, "two")] {
        until(engine.world(), "[ -z \"$(docker ps -q --filter name=web.)\" ]");
        engine.docker(&format!("rm -f {name}"));
        engine.world().sh(&format!("{SPOKE} network disconnect front box"));
    }
    a.docker("network rm tasks");
    segment.until_gone("/pin/");
    until(a.world(), &format!("{SPOKE} network rm front"));
}

#[track_caller]
fn address(engine: &Engine, container: &str) -> String {
    let endpoint = engine.endpoint(container, "tasks");
    endpoint["IPAddress"].as_str().expect("a text").to_owned()
}
