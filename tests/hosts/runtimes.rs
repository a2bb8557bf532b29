//! A container of each runtime on a host of its own: they reach each other.

use tests::{Engine, Podman5, World};

use crate::bed::{SPOKE, Segment, spoke, until, until_equal, until_reached};
use crate::each_runtime::{OfEachRuntime, web_api_box};

#[test]
fn docker_podman_and_cni_on_three_hosts_reach_each_other() {
    let segment = Segment::new();
    let hosts = OfEachRuntime::new(&segment);
    let Some(OfEachRuntime { mut engine, podman, cni, serves }) = hosts else { return };
    let create = "network create --hosts all --in docker,podman,cni";
    let said = cni.try_sh(&format!("{SPOKE} {create} --ipv6 --subnet fd00:64::/64 front"));
    assert_eq!(said.status, 0, "{said:?}");
    assert!(said.stderr.contains("network front: this host has no docker yet"), "{said:?}");
    // An engine that comes later gets it then.
    engine.start(&[]);
    engine.import();
    until(engine.world(), "docker network inspect front >/world/front.json");
    engine.docker("run -d --name web --network front -p 8080:80 busybox /bin/sleep 3600");
    podman.run("api", "--network front", "");
    let netns = cni.netns("box");
    cni.sh(&format!("CNI_PATH=/opt/cni/bin {SPOKE} cni add front {netns}"));
    let [web, api, boxed] = web_api_box(&engine, &podman, &cni);
    let block = |address: &str| address.rsplit_once('.').map(|(block, _)| block.to_owned());
    let blocks = [&web, &api, &boxed].map(|address| block(address).expect("an address"));
    assert_eq!(blocks.iter().collect::<std::collections::BTreeSet<_>>().len(), 3, "{blocks:?}");
    for (world, name) in worlds_of(&engine, &podman, &cni) {
        until_equal(&segment, world, "front", name, 8);
    }
    each_reaches_each(&engine, &podman, &cni, [&web, &api, &boxed]);
    // Whole packets of the MTU, which is the underlay's without what VXLAN adds.
    cni.sh(&format!("ip netns exec box ping -q -c 1 -W 3 -M do -s 1422 {web}"));
    let wide = cni.try_sh(&format!("ip netns exec box ping -q -c 1 -W 3 -M do -s 1423 {web}"));
    assert_ne!(wide.status, 0, "{wide:?}");
    // Source addresses are the containers' own, also beside Docker's br_netfilter.
    let server = "import socket; s=socket.create_server((str(), 7000)); print(1, flush=True); \
        print(s.accept()[1][0], flush=True)";
    cni.sh(&format!("ip netns exec box timeout 60 python3 -c '{server}' >/world/seen 2>&1 &"));
    until(&cni, "grep -q 1 /world/seen");
    engine.exec("web", &["nc", "-w", "3", &boxed, "7000"]);
    until(&cni, &format!("grep -qx {web} /world/seen"));
    move_an_address(&segment, &engine, &podman, &cni);
    engine.docker("rm -f web");
    until_equal(&segment, &cni, "front", "cni", 6);
    a_name_of_docker_s_own(&engine, &cni, create);
    made_by_podman_for_all(&engine, &podman);
    made_by_docker_for_all(&engine, &podman, &cni);
    podman.podman("rm -f -t 0 api");
    cni.sh(&format!("CNI_PATH=/opt/cni/bin {SPOKE} cni del front {netns}"));
    segment.until_gone(&format!("/front/{api}"));
    segment.until_gone(&format!("/front/{boxed}"));
    segment.until_gone(&format!("/front/{web}"));
    spoke(&podman.world, "network rm front");
    assert_eq!(engine.docker("network ls -q --filter name=front"), "");
    let known = podman.podman("network ls --format {{.Name}}");
    assert!(!known.lines().any(|name| name == "front"), "{known}");
    cni.sh("[ ! -e /etc/cni/net.d/front.conflist ]");
    drop(serves);
}

/// By both families, and from a host itself.
#[track_caller]
fn each_reaches_each(engine: &Engine, podman: &Podman5, cni: &World, at: [&String; 3]) {
    let [web, api, boxed] = at;
    // The bridge of the third host has the first address of its block.
    let bridge = format!("{}.1", boxed.rsplit_once('.').expect("an address").0);
    for to in [api, boxed, &bridge] {
        engine.ping("web", to);
    }
    for to in [web, boxed] {
        podman.podman(&format!("exec api /bin/busybox ping -c 1 -W 3 {to}"));
    }
    for to in [web, api] {
        cni.sh(&format!("ip netns exec box ping -q -c 1 -W 3 {to}"));
        // The host itself reaches them too.
        cni.sh(&format!("ping -q -c 1 -W 3 {to}"));
    }
    let six = |endpoint: serde_json::Value| {
        endpoint["GlobalIPv6Address"].as_str().expect("a text").to_owned()
    };
    let (web6, api6) = (six(engine.endpoint("web", "front")), six(podman.endpoint("api", "front")));
    assert!(web6.starts_with("fd00:64:") && api6.starts_with("fd00:64:"), "{web6} {api6}");
    for to in [&web6, &api6] {
        cni.sh(&format!("ip netns exec box ping -q -c 1 -W 3 {to}"));
    }
    podman.podman(&format!("exec api /bin/busybox ping -c 1 -W 3 {web6}"));
}

/// A network that Docker has by itself stays; when it is gone, the cluster's is made.
fn a_name_of_docker_s_own(engine: &Engine, cni: &World, create: &str) {
    engine.docker("network create --subnet 172.31.9.0/24 back");
    spoke(cni, &format!("{create} back"));
    let own = "Docker has a network back of its own";
    until(engine.world(), &format!("{SPOKE} host ls 2>&1 | grep -q '{own}'"));
    engine.docker("network rm back");
    let made = "docker network inspect -f {{.Driver}} back | grep -qx spoke";
    until(engine.world(), made);
    until(engine.world(), &format!("! {SPOKE} host ls 2>&1 | grep -q '{own}'"));
    spoke(cni, "network rm back");
    assert_eq!(engine.docker("network ls -q --filter name=back"), "");
}

/// `podman network create` for the cluster, and for Docker on other hosts.
fn made_by_podman_for_all(engine: &Engine, podman: &Podman5) {
    let said = podman.refused("network create -d spoke -o hosts=nowhere both");
    assert!(said.contains("the cluster has no host nowhere"), "{said}");
    podman.podman("network create -d spoke -o hosts=all -o in=docker both");
    assert_eq!(engine.docker("network inspect -f {{.Driver}} both").trim(), "spoke");
    podman.podman("network inspect both");
    podman.podman("network create -d spoke --internal -o hosts=all -o in=docker inner");
    assert_eq!(engine.docker("network inspect -f {{.Internal}} inner").trim(), "true");
    assert_eq!(podman.podman("network inspect -f {{.Internal}} inner").trim(), "true");
    spoke(engine.world(), "network rm inner");
    spoke(engine.world(), "network rm both");
    assert_eq!(engine.docker("network ls -q --filter name=both"), "");
    let known = podman.podman("network ls --format {{.Name}}");
    assert!(!known.lines().any(|name| name == "both"), "{known}");
}

/// The same by `docker network create`, whose driver gets no name.
fn made_by_docker_for_all(engine: &Engine, podman: &Podman5, cni: &World) {
    let create = "network create -d spoke --ipam-driver spoke -o hosts=all -o in=podman";
    for (more, why) in [
        ("", "is of 10.200.0.0/13, from which each host takes subnets of its own"),
        ("--subnet 10.65.0.0/16 -o mtu=1400", "-o mtu: a network of many hosts"),
        ("--subnet 10.65.0.0/16 -o transport=quic", "is not auto, vxlan or route"),
        ("--subnet 10.65.0.0/16 -o isolation=container", "reach each other"),
        ("--subnet 10.65.0.0/16 -o hosts=podman", "of which this one, docker, is none"),
        ("--subnet 10.65.0.0/16 -o hosts=nowhere", "the cluster has no host nowhere"),
    ] {
        let said = engine.try_docker(&format!("{create} {more} both"));
        assert!(said.status != 0 && said.stderr.contains(why), "{more}: {said:?}");
    }
    engine.docker(&format!("{create} -o names=true --subnet 10.65.0.0/16 both"));
    // The container's start waits for what the network still lacks.
    engine.docker("run -d --name early --network both busybox /bin/sleep 3600");
    until(&podman.world, "test -s /etc/containers/networks/both.json");
    podman.run("late", "--network both", "");
    // As without `-o hosts`.
    assert!(spoke(&podman.world, "network inspect both -o json").contains("same-bridge"));
    let [early, late] = [engine.endpoint("early", "both"), podman.endpoint("late", "both")];
    let [early, late] = [&early, &late].map(|end| end["IPAddress"].as_str().expect("a text"));
    let block = |address: &str| address.rsplit_once('.').map(|(block, _)| block.to_owned());
    assert!(early.starts_with("10.65.") && block(early) != block(late), "{early} {late}");
    until(engine.world(), &format!("docker exec early ping -c 1 -W 1 {late}"));
    // Each is found by name from the other host.
    let found = |name: &str, at: &str| format!("nslookup -type=a {name}. | grep -qF {at}");
    until(engine.world(), &format!("docker exec early {}", found("late", late)));
    let asks = "/run/stage/podman exec late /bin/busybox";
    until(&podman.world, &format!("{asks} {}", found("early", early)));
    // A name that the cluster has: Docker has made its network by then.
    spoke(cni, "network create --hosts cni --subnet 10.66.0.0/16 taken");
    engine.docker(&format!("{create} --subnet 10.67.0.0/16 taken"));
    let said = engine.try_docker("run --rm --network taken busybox /bin/true");
    let why = "network taken: the cluster has a network taken already";
    assert!(said.status != 0 && said.stderr.contains(why), "{said:?}");
    for asks in ["host ls 2>&1", "events", "doctor"] {
        engine.world().sh(&format!("{SPOKE} {asks} | grep -q '{why}'"));
    }
    engine.docker("network rm taken");
    until(engine.world(), &format!("! {SPOKE} host ls 2>&1 | grep -q '{why}'"));
    spoke(cni, "network rm taken");
    // As with Podman: what is removed in one engine alone comes again; the cluster removes it everywhere.
    engine.docker("rm -f early");
    podman.podman("rm -f -t 0 late");
    engine.docker("network rm both");
    until(engine.world(), "docker network inspect both");
    until(cni, &format!("{SPOKE} network rm both"));
    let is_gone = "known=$(docker network ls -q --filter name=both); [ -z \"$known\" ]";
    until(engine.world(), is_gone);
    until(&podman.world, "[ ! -e /etc/containers/networks/both.json ]");
    engine.docker(&format!("{create} -o transport=route --subnet 10.65.0.0/16 both"));
    until(cni, "ip route show proto 83 | grep -q '^10.65.'");
    until(&podman.world, "test -s /etc/containers/networks/both.json");
    // Podman may have it before Docker's own host is through with it.
    until(engine.world(), "asked=$(ls /var/lib/spoke/hosts/asked); [ -z \"$asked\" ]");
    spoke(cni, "network rm both");
    until(engine.world(), is_gone);
}

/// An exact address goes from Docker's container to Podman's, and has one holder at a time.
fn move_an_address(segment: &Segment, engine: &Engine, podman: &Podman5, cni: &World) {
    let fixed = "10.64.200.9";
    let run = "run -d --name fixed --network front --ip 10.64.200.9 busybox /bin/sleep 3600";
    engine.docker(run);
    until_reached(cni, "box", fixed);
    let options = format!("--network front --ip {fixed}");
    let said = podman.run_refused(&options);
    assert!(said.contains("address 10.64.200.9 of network front is held by "), "{said}");
    assert!(said.contains("on host docker"), "{said}");
    // Docker's API tells the name in a moment; also where the address is of Docker's own block.
    let web = engine.endpoint("web", "front")["IPAddress"].as_str().expect("a text").to_owned();
    for (address, name) in [(fixed, "fixed"), (&web, "web")] {
        cni.netns("second");
        let connect = format!("{SPOKE} network connect --ip {address} front second 2>&1");
        let held =
            format!("address {address} of network front is held by docker/{name} on host docker");
        until(cni, &format!("{connect} | grep -qF '{held}'"));
        cni.sh("ip netns del second");
    }
    engine.docker("rm -f fixed");
    podman.run("fixed", &options, "");
    let mac = podman.endpoint("fixed", "front")["MacAddress"].as_str().expect("a text").to_owned();
    until(cni, &format!("ip netns exec box ip neigh show {fixed} | grep -qi {mac}"));
    cni.sh(&format!("ip netns exec box ping -q -c 1 -W 3 {fixed}"));
    let said = engine.try_docker(run);
    assert!(said.status != 0 && said.stderr.contains("on host podman"), "{said:?}");
    engine.docker("rm -f fixed");
    podman.podman("rm -f -t 0 fixed");
    segment.until_gone("/pin/");
}

fn worlds_of<'a>(
    engine: &'a Engine,
    podman: &'a Podman5,
    cni: &'a World,
) -> [(&'a World, &'static str); 3] {
    [(engine.world(), "docker"), (&podman.world, "podman"), (cni, "cni")]
}
