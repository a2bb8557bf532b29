//! Names of containers, across hosts and runtimes.

use std::process::Command;
use std::time::{Duration, Instant};

use tests::{World, output};

use crate::bed::{Host, SPOKE, Segment, address, spoke, until, until_reached};
use crate::each_runtime::{OfEachRuntime, web_api_box};

const ASK: &str = include_str!("../names/ask.py");

/// What a namespace is answered by the gateway of its host's block, which is the `.1` of its own address.
#[track_caller]
fn ask(world: &World, name: &str, what: &str) -> String {
    let own = address(world, name);
    let (block, _) = own.rsplit_once('.').expect("an address");
    ask_at(world, name, &format!("{block}.1"), what)
}

/// The same of a server.
#[track_caller]
pub(crate) fn ask_at(world: &World, name: &str, server: &str, what: &str) -> String {
    let mut asks = Command::new("nsenter");
    asks.arg(format!("--net={}", world.path(&format!("/run/netns/{name}")).display()));
    asks.args(["python3", "-c", ASK, server]).args(what.split(' '));
    let said = output(&mut asks, "");
    assert_eq!(said.status, 0, "{name} asks {what}: {said:?}\n{}", world.logs());
    said.stdout.trim().to_owned()
}

/// Asks until that is the answer; how long it took.
#[track_caller]
pub(crate) fn until_answered(world: &World, name: &str, what: &str, wanted: &str) -> Duration {
    let begun = Instant::now();
    loop {
        let said = ask(world, name, what);
        if said == wanted {
            return begun.elapsed();
        }
        let is_late = begun.elapsed() > Duration::from_secs(60);
        assert!(!is_late, "{name} asks {what}: {said}, not {wanted}\n{}", world.logs());
    }
}

/// A runtime, and what a container of it is answered, asked for as by nslookup(1) and as by [`ask`].
type Asker<'a> = (&'a str, &'a dyn Fn(&str, &str) -> String);

/// That the asker finds the address by the container's name, alias and full name, and the name by the address.
#[track_caller]
fn resolves((who, asks): Asker<'_>, [name, alias]: [&str; 2], at: &str, world: &World) {
    let full = format!("{name}.front.spoke");
    for name in [name, alias, &full] {
        let begun = Instant::now();
        loop {
            let said = asks(&format!("-type=a {name}."), name);
            if said.contains(at) {
                break;
            }
            let is_late = begun.elapsed() > Duration::from_secs(60);
            assert!(!is_late, "{who} asks {name}: {said}\n{}", world.logs());
            tests::glance();
        }
    }
    let parts: Vec<&str> = at.rsplit('.').collect();
    let reverse = format!("{}.in-addr.arpa", parts.join("."));
    let said = asks(&format!("-type=ptr {reverse}."), &format!("{reverse} PTR"));
    assert!(said.contains(&full), "{who} asks {at}: {said}");
}

/// A container of each runtime on a host of its own: each resolves each, by name, alias and address, as its runtime
/// asks by default; and no container is found when it has gone.
#[test]
fn docker_podman_and_cni_on_three_hosts_resolve_each_other() {
    let segment = Segment::new();
    let hosts = OfEachRuntime::new(&segment);
    let Some(OfEachRuntime { mut engine, podman, cni, serves }) = hosts else { return };
    engine.start(&[]);
    engine.import();
    // Of containers that start before the daemon hears the engine it learns no aliases.
    serves[0].until_says(" answers at /var/run/docker.sock");
    let create = "network create --hosts all --names --in docker,podman,cni";
    spoke(&cni, &format!("{create} --ipv6 --subnet fd00:64::/64 front"));
    until(engine.world(), "docker network inspect front >/world/front.json");
    until(&podman.world, "[ -e /etc/containers/networks/front.json ]");
    engine.docker("run -d --name web --network front --network-alias site busybox /bin/sleep 3600");
    podman.run("api", "--network front:alias=backend", "");
    let netns = cni.netns("box");
    let add = format!("{SPOKE} cni add --container box front {netns}");
    cni.sh(&format!("CNI_PATH=/opt/cni/bin CAP_ARGS='{{\"aliases\":[\"crate\"]}}' {add}"));
    let [web, api, boxed] = web_api_box(&engine, &podman, &cni);
    let of_docker =
        |what: &str, _: &str| engine.try_docker(&format!("exec web nslookup {what}")).stdout;
    let of_podman = |what: &str, _: &str| {
        podman.podman(&format!("exec api /bin/busybox sh -c 'nslookup {what} 2>&1 || true'"))
    };
    let of_cni = |_: &str, what: &str| ask(&cni, "box", what);
    let askers: [Asker<'_>; 3] = [("docker", &of_docker), ("podman", &of_podman), ("cni", &of_cni)];
    for asker in askers {
        for (names, at) in
            [(["web", "site"], &web), (["api", "backend"], &api), (["box", "crate"], &boxed)]
        {
            resolves(asker, names, at, &podman.world);
        }
    }
    assert!(ask(&cni, "box", "web AAAA").starts_with("fd00:64:"));
    let listed = spoke(&cni, "dns ls front");
    let line = listed.lines().find(|line| line.starts_with("web ")).expect("a line");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert!(words[2] == "docker" && words[5] == "docker" && words[4].contains("site"), "{listed}");
    assert!(spoke(&cni, "dns query --as box api").contains(&api));
    engine.docker("rm -f web");
    until_answered(&cni, "box", "web.front.spoke", "NXDOMAIN");
    until_answered(&cni, "box", "site.front.spoke", "NXDOMAIN");
    podman.podman("rm -f -t 0 api");
    cni.sh(&format!("CNI_PATH=/opt/cni/bin {SPOKE} cni del --container box front {netns}"));
    segment.until_gone(&format!("/front/{boxed}"));
    segment.until_gone(&format!("/front/{api}"));
    spoke(&podman.world, "network rm front");
    drop(serves);
}

/// What a container of this host is answered about those of others: soon, not of what a member may not say, and as
/// long as it is known that they are there.
#[test]
fn names_of_other_hosts_come_and_go() {
    let mut segment = Segment::new();
    let [mut a, b] = segment.cluster_with("[hosts]\ntakeover_seconds = 10\n", ["a", "b"]);
    a.spoke("network create --hosts all --names --subnet 10.99.0.0/16 front");
    a.spoke("network create --hosts all plain");
    a.attach("front", "one");
    let two = b.attach("front", "two");
    b.attach("plain", "other");
    until_answered(&a.world, "one", "two", &two);
    for name in ["two.plain.spoke", "other.front.spoke", "other.plain.spoke"] {
        assert_eq!(ask(&a.world, "one", name), "NXDOMAIN", "{name}");
    }
    come_and_go(&a, &b);
    what_members_write(&segment, &a, &two);
    segment.stop_etcd();
    until(&a.world, &format!("{SPOKE} host ls 2>&1 | grep -q 'not heard of: .* does not answer'"));
    until_answered(&a.world, "one", "two", &two);
    // Also in the next life, which has not heard of the cluster yet.
    a.kill();
    a.start();
    until_answered(&a.world, "one", "two", &two);
    segment.start_etcd();
    until(&a.world, &format!("! {SPOKE} host ls 2>&1 | grep -q 'not heard of: '"));
    until_answered(&a.world, "one", "two", &two);
    drop(b);
    // Its lease ends, and then its entries go, and its names with them.
    until_answered(&a.world, "one", "two.front.spoke", "NXDOMAIN");
}

/// The times are printed; they are no matter of passing, on a machine that others use.
#[track_caller]
fn come_and_go(a: &Host, b: &Host) {
    let mut times = Vec::new();
    for number in 0..5 {
        let (name, alias) = (format!("guest{number}"), format!("alias{number}"));
        b.world.netns(&name);
        b.spoke(&format!("network connect --alias {alias} front {name}"));
        let there = until_answered(&a.world, "one", &alias, &address(&b.world, &name));
        // Who is found is reached.
        until_reached(&a.world, "one", &address(&b.world, &name));
        b.spoke(&format!("network disconnect front {name}"));
        let gone = until_answered(&a.world, "one", &format!("{alias}.front.spoke"), "NXDOMAIN");
        times.push((there, gone));
    }
    println!("a name of another host is there and gone after {times:?}");
}

/// A member of an earlier version tells no names, one of a later one tells more; a hostile one what cannot be. This one
/// has no daemon, which would take back what is not so.
#[track_caller]
fn what_members_write(segment: &Segment, a: &Host, two: &str) {
    let own = segment.prefix("front", "a");
    let put = |key: &str, value: &str| {
        segment.etcdctl(&format!("put /spoke/v1/{key} '{value}'"));
    };
    put("host/c", r#"{"address":"192.0.2.77","since":1}"#);
    put("alive/c", r#"{"layout":2}"#);
    put("block/front/10.99.200.0/24", "\"c\"");
    let many = "\"bad\",".repeat(32);
    for (address, names) in [
        ("10.99.200.2", "[\"b ad\"]".to_owned()),
        ("10.99.200.3", format!("[{many}\"bad\"]")),
        // The address of a bridge, and one of this host's.
        ("10.99.200.1", "[\"bad\"]".to_owned()),
        (&format!("{own}9"), "[\"bad\"]".to_owned()),
    ] {
        let last = address.rsplit('.').next().expect("a number");
        let value = format!(r#"{{"mac":"02:00:00:00:07:0{last}","names":{names}}}"#);
        put(&format!("endpoint/c/front/{address}"), &value);
    }
    put("endpoint/c/front/10.99.200.5", r#"{"mac":"02:00:00:00:07:05"}"#);
    let later = r#"{"mac":"02:00:00:00:07:06","names":["later"],"runtime":"pods","more":1}"#;
    put("endpoint/c/front/10.99.200.6", later);
    until_answered(&a.world, "one", "later", "10.99.200.6");
    assert_eq!(ask(&a.world, "one", "bad.front.spoke"), "NXDOMAIN");
    assert_eq!(ask(&a.world, "one", "two"), *two);
    let listed = a.spoke("dns ls front");
    assert!(listed.contains("later") && !listed.contains("bad"), "{listed}");
    assert!(a.sh("ip neigh show dev sp-front").contains("10.99.200.5 "));
    // Names are taken over before it is said what is not used.
    for (address, why) in [("2", "is no name of a container"), ("3", "more than 32 names")] {
        let is_it = format!("grep -F '10.99.200.{address}:' | grep -qF '{why}'");
        until(&a.world, &format!("{SPOKE} host ls 2>&1 | {is_it}"));
    }
    segment.etcdctl("del --prefix /spoke/v1/endpoint/c/");
    segment.etcdctl("del /spoke/v1/alive/c");
    until_answered(&a.world, "one", "later.front.spoke", "NXDOMAIN");
}
