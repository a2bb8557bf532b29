//! Type `spoke` with everything on, for many containers.

use std::collections::BTreeSet;
use std::sync::Mutex;

use serde_json::{Value, json};
use tests::{Answer, Cni, Plugins, Remains, Snapshot, World};

/// How often a crowd comes and goes.
const ROUNDS: usize = 10;

pub(crate) fn network(subnets: &[&str]) -> Value {
    let ranges: Vec<_> = subnets.iter().map(|subnet| json!([{"subnet": subnet}])).collect();
    json!({"name": "scale", "cniVersion": "1.1.0", "plugins": [{
        "type": "spoke", "bridge": "scale0", "ipMasq": true, "ingressPolicy": "same-bridge",
        "capabilities": {"portMappings": true}, "sysctl": {"net.ipv4.conf.eth0.arp_filter": "1"},
        "ipam": {"type": "host-local", "ranges": ranges},
    }]})
}

/// `count` containers, each with a namespace and a published port.
pub(crate) fn containers(world: &World, count: usize) -> Vec<Cni<'_>> {
    world.sh(&format!("for at in $(seq 0 {}); do ip netns add c$at; done", count - 1));
    let one = |at: usize| {
        let port = json!({"hostPort": 20_000 + at, "containerPort": 80, "protocol": "tcp"});
        Cni {
            world,
            container: format!("c{at}"),
            netns: format!("/run/netns/c{at}"),
            ifname: "eth0".into(),
            args: String::new(),
            runtime: json!({"portMappings": [port]}),
            result: None,
        }
    };
    (0..count).map(one).collect()
}

/// Runs `work` for each of `containers`, `at_once` of them at a time.
fn each(containers: &mut [Cni<'_>], at_once: usize, work: impl Fn(&mut Cni<'_>) + Sync) {
    let share = containers.len().div_ceil(at_once);
    std::thread::scope(|threads| {
        for part in containers.chunks_mut(share) {
            threads.spawn(|| part.iter_mut().for_each(&work));
        }
    });
}

pub(crate) fn add(cni: &mut Cni<'_>, list: &Value) {
    let answers = cni.add(list);
    assert!(answers.iter().all(Answer::ok), "{answers:?}");
}

pub(crate) fn del(cni: &Cni<'_>, list: &Value) {
    let answers = cni.del(list);
    assert!(answers.iter().all(Answer::ok), "{answers:?}");
}

/// Addresses that the containers were given; no two have the same one.
fn addresses(containers: &[Cni<'_>]) -> BTreeSet<String> {
    let ips = |cni: &Cni<'_>| cni.result.as_ref().expect("a result")["ips"].as_array().cloned();
    let all: Vec<_> = containers.iter().filter_map(ips).flatten().collect();
    let unique: BTreeSet<_> = all.iter().map(|ip| ip["address"].to_string()).collect();
    assert_eq!(unique.len(), all.len(), "everybody has addresses of their own");
    unique
}

/// All come at once and go at once, again and again.
fn at_once(count: usize) {
    let world = World::new(&Plugins::subject());
    let list = network(&["10.95.0.0/16"]);
    let mut all = containers(&world, count);
    add(&mut all[0], &list);
    del(&all[0], &list);
    let before = Remains::of(&world);
    for round in 0..ROUNDS {
        each(&mut all, count, |cni| add(cni, &list));
        assert_eq!(addresses(&all).len(), count);
        each(&mut all, count, |cni| del(cni, &list));
        let changes = Remains::of(&world).changes(&before);
        assert!(changes.is_empty(), "round {round}: {changes:#?}");
    }
}

#[test]
fn eight_at_once() {
    at_once(8);
}

#[test]
fn sixty_four_at_once() {
    at_once(64);
}

/// Networks for which Spoke chooses the subnets: who loses one to another chooses again.
#[test]
fn a_hundred_networks_at_once() {
    const ALL: &str = "for n in $(seq 100); do
        (/opt/cni/bin/spoke network create n$n >/dev/null 2>/run/said.$n || cat /run/said.$n) &
        done; wait; rm /run/said.*";
    let world = World::new(&Plugins::subject());
    assert_eq!(world.sh(ALL), "", "a container got none");
    let listed = world.sh("/opt/cni/bin/spoke network ls -o json");
    let listed: Vec<Value> = serde_json::from_str(&listed).expect("a list");
    let subnets: BTreeSet<_> = listed.iter().map(|it| it["subnets"].to_string()).collect();
    assert_eq!(subnets.len(), 100, "{subnets:?}");
}

/// Some come while others go.
#[test]
fn coming_and_going() {
    let world = World::new(&Plugins::subject());
    let list = network(&["10.95.0.0/24", "fd95::/64"]);
    let mut all = containers(&world, 16);
    add(&mut all[0], &list);
    del(&all[0], &list);
    let before = Remains::of(&world);
    each(&mut all, 16, |cni| {
        for _ in 0..ROUNDS {
            add(cni, &list);
            del(cni, &list);
        }
    });
    let changes = Remains::of(&world).changes(&before);
    assert!(changes.is_empty(), "{changes:#?}");
}

/// A runtime that asks for the same container several times at once gets one, and refusals.
#[test]
fn the_same_container_at_once() {
    let world = World::new(&Plugins::subject());
    let list = network(&["10.95.0.0/16"]);
    let mut one = containers(&world, 1).remove(0);
    add(&mut one, &list);
    del(&one, &list);
    let before = Remains::of(&world);
    for _ in 0..ROUNDS {
        let mut same = vec![one.clone(); 8];
        let made = Mutex::new(Vec::new());
        each(&mut same, 8, |cni| {
            let answer = cni.add(&list).remove(0);
            let said = answer.json().expect("an answer");
            let refused = said["code"] == 11 || said["code"] == 101;
            assert!(answer.ok() || refused, "{answer:?}");
            made.lock().unwrap().extend(answer.ok().then_some(said));
        });
        assert_eq!(made.lock().unwrap().len(), 1, "{made:?}");
        each(&mut same, 8, |cni| del(cni, &list));
        let changes = Remains::of(&world).changes(&before);
        assert!(changes.is_empty(), "{changes:#?}");
    }
}

/// As many as fit on one bridge, with two addresses each; then the network goes.
#[test]
fn a_thousand_and_nothing_is_left() {
    let world = World::new(&Plugins::subject());
    // Forwarding is the host's and stays.
    world.sh("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
    let before = Snapshot::of(&world);
    let list = network(&["10.95.0.0/16", "fd95::/64"]);
    let mut all = containers(&world, 1000);
    each(&mut all, 8, |cni| add(cni, &list));
    assert_eq!(addresses(&all).len(), 2000);
    each(&mut all, 8, |cni| del(cni, &list));
    world.sh("/opt/cni/bin/spoke network rm scale");
    world.sh("ip -all netns delete");
    let changes = Snapshot::of(&world).changes(&before);
    // Neither an empty store nor the lock of the host's namespace is a trace of a network.
    let of_the_store = |line: &String| {
        let is_lock = line.contains("/lock ") || line.contains("/namespaces/");
        line.starts_with("+ file") && is_lock && line.contains("/spoke/")
    };
    let left: Vec<_> = changes.into_iter().filter(|line| !of_the_store(line)).collect();
    assert!(left.is_empty(), "{left:#?}");
}
