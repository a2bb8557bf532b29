//! `spoke network rename` while containers are on the network.

use serde_json::{Value, json};
use tests::{Cni, Podman5, PodmanRelease, Remains, Serve, Trace};

use crate::bed::{Bed, Live, SPOKE};
use crate::docker::Docker;
use crate::flowing::Flowing;

/// What `spoke ps` says of a container.
#[track_caller]
fn row(on: &dyn Live, name: &str) -> Value {
    let last = format!("/{name}");
    let is = |row: &&Value| {
        let known = row["name"].as_str().unwrap();
        known == name || known.ends_with(&last)
    };
    let all = on.json("ps");
    all.as_array().unwrap().iter().find(is).unwrap_or_else(|| panic!("{name}: {all:#}")).clone()
}

fn sandbox(row: &Value) -> String {
    row["sandbox"].as_str().unwrap().replace("/var/run/", "/run/")
}

fn address(row: &Value) -> String {
    row["addresses"][0].as_str().unwrap().split('/').next().unwrap().to_owned()
}

/// That all say the network is called so.
#[track_caller]
fn is_called(on: &dyn Live, name: &str, containers: &[&str]) {
    let shown = &on.json(&format!("network inspect {name}"))[0];
    assert_eq!((&shown["name"], &shown["bridge"]), (&name.into(), &"sp-front".into()));
    assert!(on.spoke(&format!("ipam show {name}")).contains(name));
    for container in containers {
        assert_eq!(row(on, container)["network"], name, "{container}");
        let found = on.spoke(&format!("dns query {container}.{name}.spoke"));
        assert!(found.contains(&address(&row(on, container))) && found.contains(name), "{found}");
    }
    assert!(on.spoke(&format!("port ls --network {name}")).contains(name));
    assert!(on.spoke(&format!("limit --network {name}")).contains(name));
    let shown = on.json(&format!("top --once {name}")).to_string();
    assert!(shown.contains(&format!("\"network\":\"{name}\"")), "{shown}");
}

/// That a setting of one is none of the other.
#[track_caller]
fn is_set_alone(on: &dyn Live, name: &str, other: &str) {
    on.spoke(&format!("network set {name} --label tier=web"));
    let tier = |name| on.json(&format!("network inspect {name}"))[0]["labels"]["tier"].clone();
    assert_eq!((tier(name), tier(other)), ("web".into(), Value::Null));
}

#[test]
fn docker_cni_and_the_command_line() {
    let host = Docker::new();
    host.spoke("network create --names --subnet 10.77.0.0/24 front");
    let options = "--ipam-driver spoke --ipam-opt network=front --subnet 10.77.0.0/24";
    host.engine.docker(&format!("network create -d spoke {options} theirs"));
    host.engine.docker("run -d --name web --network theirs busybox sleep 100000");
    host.until(&format!("{SPOKE} ps --format \"{{{{.Name}}}}\" | grep -Eq \"(^|/)web$\""));
    host.world().netns("box");
    host.spoke("network connect --publish 8080:80 front box");
    host.spoke("limit box 500mbit");
    let mut pod = Cni::container(host.world(), "pod");
    let list = json!({"cniVersion": "1.1.0", "name": "pods",
        "plugins": [{"type": "spoke", "network": "front"}]});
    assert!(pod.add(&list).iter().all(tests::Answer::ok));
    let (web, boxed, podded) = (row(&host, "web"), row(&host, "box"), row(&host, "pod"));
    let mut flowing = Flowing::between(
        host.world(),
        &[
            (&sandbox(&boxed), &sandbox(&web), &address(&web)),
            (&sandbox(&web), &sandbox(&podded), &address(&podded)),
        ],
    );

    let names = ["web", "box", "pod"];
    host.refuses("network rename front gwbridge", 2, &["gwbridge"]);
    // The daemon learns what Docker calls its networks a moment after they were made.
    host.until(&format!("{SPOKE} network inspect theirs >/dev/null 2>&1"));
    host.refuses("network rename theirs theirs2", 0, &[]);
    for (from, to) in
        [("theirs2", "edge"), ("edge", "third"), ("third", "front"), ("front", "edge")]
    {
        assert_eq!(host.spoke(&format!("network rename {from} {to}")), format!("{to}\n"));
        flowing.goes_on();
        is_called(&host, to, &names);
    }
    assert_eq!(host.spoke("network rename front edge"), "edge\n", "the old name leads there");
    each_former_name_leads_there(&host, &address(&web));
    assert!(host.spoke("explain box web").contains("on edge"));
    assert!(pod.check(&list).iter().all(tests::Answer::ok));

    // Another network is called so now. What is on the first stays there.
    host.spoke("network create --names --subnet 10.78.0.0/24 front");
    host.refuses("network create --subnet 10.79.0.0/24 edge", 4, &["edge already exists"]);
    host.refuses("network create --subnet 10.79.0.0/24 front", 4, &["front already exists"]);
    host.refuses("network rename edge front", 4, &["front already exists"]);
    host.world().netns("api");
    host.spoke("network connect front api");
    assert!(address(&row(&host, "api")).starts_with("10.78.0."));
    assert_eq!(row(&host, "api")["network"], "front");
    is_set_alone(&host, "edge", "front");
    host.refuses("dns query web.front.spoke", 3, &[]);
    is_called(&host, "edge", &names);
    flowing.goes_on();
    assert!(pod.check(&list).iter().all(tests::Answer::ok));
    host.engine.docker("restart -t 0 web");
    host.until(&format!("{SPOKE} ps --format \"{{{{.Name}}}}\" | grep -Eq \"(^|/)web$\""));
    assert_eq!(row(&host, "web")["network"], "edge");
    assert!(pod.del(&list).iter().all(tests::Answer::ok));
    assert!(!host.spoke("ps").contains("pod"));
    assert!(pod.add(&list).iter().all(tests::Answer::ok));
    assert!(address(&row(&host, "pod")).starts_with("10.78.0."));
    assert!(pod.del(&list).iter().all(tests::Answer::ok));

    host.spoke("network disconnect front api");
    host.spoke("network disconnect edge box");
    host.engine.remove_each("web");
    host.engine.docker("network rm theirs");
    host.spoke("network rm edge front");
    assert!(!host.world().sh("ip -o link").contains("sp-"));
}

/// To the network `edge`: for names, and for each front end that joins by one.
#[track_caller]
fn each_former_name_leads_there(host: &Docker, address: &str) {
    for former in ["front", "theirs2", "third"] {
        let found = host.spoke(&format!("dns query web.{former}.spoke"));
        assert!(found.contains(address), "{former}: {found}");
        assert_eq!(host.json(&format!("network inspect {former}"))[0]["name"], "edge");
    }
    // Each of them is what a front end joins by.
    let options = "--ipam-driver spoke --ipam-opt network=third --subnet 10.77.0.0/24";
    host.engine.docker(&format!("network create -d spoke {options} again"));
    host.engine.docker("run --rm --network again busybox true");
    host.engine.docker("network rm again");
    let mut late = Cni::container(host.world(), "late");
    let middle = json!({"cniVersion": "1.1.0", "name": "late",
        "plugins": [{"type": "spoke", "network": "third"}]});
    assert!(late.add(&middle).iter().all(tests::Answer::ok));
    assert_eq!(row(host, "late")["network"], "edge");
    assert!(late.check(&middle).iter().all(tests::Answer::ok));
    host.world().netns("boxed");
    host.spoke("network connect third boxed");
    assert_eq!(row(host, "boxed")["network"], "edge");
    host.spoke("network disconnect third boxed");
    // A name between the first and the last that another network takes is that one's.
    host.spoke("network create --subnet 10.79.0.0/24 third");
    assert_eq!(host.json("network inspect third")[0]["name"], "third");
    assert!(late.check(&middle).iter().all(tests::Answer::ok));
    assert!(late.del(&middle).iter().all(tests::Answer::ok));
    assert!(!host.spoke("ps").contains("late"));
    host.spoke("network rm third");
}

#[test]
fn podman() {
    let release = [PodmanRelease::V5_8, PodmanRelease::V5_4];
    let Some(podman) = release.into_iter().find_map(Podman5::new) else { return };
    let serve = Serve::start(&podman.world, &[]);
    podman.spoke("network create --names --subnet 10.89.8.0/24 shared");
    podman.podman("network create -d spoke -o network=shared back");
    podman.serve("web", "--network back");
    podman.serve("api", "--network back");
    podman.serve("stays", "--network back");
    let (web, stays) = (row(&podman, "web"), row(&podman, "stays"));
    let ends = [(&*sandbox(&stays), &*sandbox(&web), &*address(&web))];
    let mut flowing = Flowing::between(&podman.world, &ends);
    podman.spoke("network rename shared middle");
    podman.podman("network create -d spoke -o network=middle second");
    podman.serve("half", "--network second");
    podman.spoke("network rename middle edge");
    flowing.goes_on();
    assert_eq!(
        (&row(&podman, "web")["network"], &row(&podman, "api")["network"]),
        (&"edge".into(), &"edge".into())
    );
    // Podman goes on to say `network=shared`, with the subnet that it was given.
    podman.podman("restart -t 0 api half");
    assert_eq!(row(&podman, "api")["network"], "edge");
    assert_eq!(
        row(&podman, "half")["network"],
        "edge",
        "by the name between the first and the last"
    );
    podman.spoke("network create --subnet 10.89.7.0/24 middle");
    podman.podman("restart -t 0 half");
    assert_eq!(row(&podman, "half")["network"], "edge", "Podman says its subnets");
    podman.podman("rm -f -t 0 half");
    podman.podman("network rm second");
    podman.spoke("network rm middle");
    podman.spoke("network create --subnet 10.89.9.0/24 shared");
    podman.podman("rm -f -t 0 api");
    assert!(!Live::spoke(&podman, "ps").contains("api"));
    podman.serve("api", "--network back");
    assert_eq!(row(&podman, "api")["network"], "edge");
    podman.podman("network create -d spoke -o network=shared other");
    podman.serve("next", "--network other");
    assert!(address(&row(&podman, "next")).starts_with("10.89.9."));
    flowing.goes_on();
    podman.podman("rm -f -t 0 web api stays next");
    podman.podman("network rm back other");
    podman.spoke("network rm shared edge");
    serve.stop();
    podman.is_empty();
}

#[test]
fn killed_at_each_step() {
    let bed = Bed::new(&["web", "api"]);
    bed.spoke("network connect --publish 8080:80 front web");
    bed.spoke("network connect front api");
    bed.serve("web");
    let of = row(&bed, "web");
    let ends = [("/run/netns/api", "/run/netns/web", &*address(&of))];
    let mut flowing = Flowing::between(&bed.world, &ends);
    let (there, back) = ("network rename front edge", "network rename edge front");
    bed.spoke(there);
    bed.spoke(back);
    let before = Remains::of(&bed.world);
    let trace = Trace::of_command(&bed.world, &format!("{SPOKE} {there}"));
    let changing =
        |name: &str| ["sendto", "sendmsg", "pwrite64", "renameat", "linkat"].contains(&name);
    let (mut killed, mut moments) = (0, 0);
    for moment in trace.moments().iter().filter(|it| changing(&it.name)) {
        bed.spoke(back);
        let answer = bed.world.try_sh(&format!("{} {SPOKE} {there}", moment.kill().join(" ")));
        moments += 1;
        killed += usize::from(answer.status == 137);
        flowing.goes_on();
        assert_eq!(bed.page(8080), "web", "{moment}");
        // The same command completes it, and so does whatever process looks next.
        bed.spoke("gc");
        let called = bed.json("network inspect front")[0]["name"].clone();
        let of = [row(&bed, "web")["network"].clone(), row(&bed, "api")["network"].clone()];
        assert!(["front", "edge"].contains(&called.as_str().unwrap()), "{called}");
        assert_eq!(of, [called.clone(), called], "{moment}");
        bed.spoke(there);
        assert_eq!(row(&bed, "web")["network"], "edge", "{moment}");
    }
    bed.spoke(back);
    println!("{killed} kills in {moments} moments");
    assert!(moments > 0 && killed * 10 > moments * 8, "{killed} of {moments}");
    let left = Remains::of(&bed.world).changes(&before);
    assert_eq!(left, Vec::<String>::new());
}
