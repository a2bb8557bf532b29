//! Who resolves whom, between runtimes.

use serde_json::{Value, json};
use tests::{Answer, Cni, Engine, Plugins, Podman, Podman5, Release, Serve, World};

use crate::bed::{ask, prepare, until_answers};

/// Everybody's name, and address.
const MEMBERS: [(&str, &str); 5] = [
    ("docker", "10.74.1.11"),
    ("second", "10.74.1.12"),
    ("pod", "10.74.1.13"),
    ("line", "10.74.1.14"),
    ("podman", "10.74.1.15"),
];

/// CNI's runtimes and Podman 4 know the network so.
fn pods() -> Value {
    json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [
        {"type": "spoke", "network": "front", "capabilities": {"aliases": true, "ips": true}},
    ]})
}

/// Which Podman is there beside an engine. Each has a root in which only one engine's programs are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    None,
    Podman4,
    Podman5,
}

#[track_caller]
fn engine_with(release: Release, beside: Beside) -> Option<Engine> {
    if beside == Beside::Podman5 {
        return Engine::beside_podman5(&Plugins::subject());
    }
    release.is_there().then(|| Engine::prepared(release, &Plugins::subject()))
}

/// A table: each row asks for each column, by the way of its own runtime.
#[track_caller]
fn everybody_resolves_everybody(release: Release, beside: Beside) {
    let Some(mut engine) = engine_with(release, beside) else { return };
    let members = &MEMBERS[..if beside == Beside::None { 4 } else { 5 }];
    prepare(engine.world());
    let serve = Serve::start(engine.world(), &[]);
    engine.start(&[]);
    engine.import();
    // Of containers that start before the daemon hears the engine it learns no aliases.
    serve.until_says(" answers at /var/run/docker.sock");
    let world = engine.world();
    world.sh("/opt/cni/bin/spoke network create --names --subnet 10.74.1.0/24 front");
    let create = "network create -d spoke --ipam-driver spoke --ipam-opt network=front";
    engine.docker(&format!("{create} --subnet 10.74.1.0/24 front"));
    until_answers(world, "10.74.1.1");
    let mut pod = Cni::container(world, "pod");
    connect(&engine, &mut pod, beside);
    for (from, _) in members {
        for (to, address) in members {
            for name in [to.to_string(), format!("{to}-alias"), format!("{to}.front.spoke")] {
                let said = asked(&engine, from, &name);
                assert!(said.contains(address), "{from} asks {name}: {said}\n{}", serve.log());
            }
        }
        let said = asked(&engine, from, "outside.example");
        assert!(said.contains("192.0.2.7"), "{from} asks elsewhere: {said}");
    }
    engine.docker("rm -f second");
    for (from, _) in members.iter().filter(|(from, _)| *from != "second") {
        let said = asked(&engine, from, "second.front.spoke");
        assert!(!said.contains("10.74.1.12"), "{from} asks for what is gone: {said}");
    }
    assert!(pod.del(&pods()).iter().all(Answer::ok));
    if beside != Beside::None {
        Podman::run(world, "rm -f -t 0 podman");
    }
    engine.docker("rm -f docker");
}

#[track_caller]
fn connect(engine: &Engine, pod: &mut Cni<'_>, beside: Beside) {
    let world = engine.world();
    for (name, address) in &MEMBERS[..2] {
        let own = format!("--name {name} --ip {address} --network-alias {name}-alias");
        engine.docker(&format!("run -d --network front {own} busybox /bin/sleep 3600"));
    }
    let list = pods();
    pod.runtime = json!({"aliases": ["pod-alias"], "ips": ["10.74.1.13"]});
    let answers = pod.add(&list);
    assert!(answers.iter().all(Answer::ok), "{answers:?}");
    world.netns("line");
    let line = "network connect --ip 10.74.1.14 --alias line-alias front line";
    world.sh(&format!("/opt/cni/bin/spoke {line}"));
    run_podman(engine, beside);
    // Docker's names come by its events.
    for name in ["docker", "docker-alias", "second", "second-alias"] {
        let is_there = format!("/opt/cni/bin/spoke dns query {name} >/dev/null 2>&1");
        world.sh(&format!("timeout 60 sh -c 'until {is_there}; do sleep 0.05; done'"));
    }
}

/// Podman 4 knows the network by CNI's list, Podman 5 by itself.
#[track_caller]
fn run_podman(engine: &Engine, beside: Beside) {
    let (world, cgroup): (&World, _) = (engine.world(), engine.cgroup());
    let own = ":ip=10.74.1.15,alias=podman-alias";
    let run = format!("run -d --name podman --cgroup-parent /{cgroup} --network");
    match beside {
        Beside::None => {}
        Beside::Podman4 => {
            Podman::set_up(world);
            let list = pods();
            world.sh(&format!("cat >/run/stage/net.d/pods.conflist <<'LIST'\n{list}\nLIST"));
            Podman::run(world, &format!("{run} pods{own} {}", Podman::IMAGE));
        }
        Beside::Podman5 => {
            let create = "network create -d spoke -o network=front --subnet 10.74.1.0/24 front";
            Podman::run(world, create);
            Podman::run(world, &format!("{run} front{own} {}", Podman5::IMAGE));
        }
    }
}

#[test]
fn with_docker_20_10_and_podman_4() {
    everybody_resolves_everybody(Release::V20_10, Beside::Podman4);
}

#[test]
fn with_docker_26_1_and_podman_5() {
    everybody_resolves_everybody(Release::V26_1, Beside::Podman5);
}

#[test]
fn with_docker_28_5() {
    everybody_resolves_everybody(Release::V28_5, Beside::None);
}

/// What a member is answered, whichever way its own runtime asks.
#[track_caller]
fn asked(engine: &Engine, from: &str, name: &str) -> String {
    let world = engine.world();
    match from {
        "docker" | "second" => {
            // With its dot at the end it is looked for in no domain.
            let inside = format!("exec {from} nslookup -type=a {name}.");
            engine.try_docker(&inside).stdout
        }
        "podman" => {
            let netns =
                Podman::run(world, "inspect --format {{.NetworkSettings.SandboxKey}} podman");
            ask(world, netns.trim(), "10.74.1.1", name)
        }
        _ => ask(world, &format!("/run/netns/{from}"), "10.74.1.1", name),
    }
}
