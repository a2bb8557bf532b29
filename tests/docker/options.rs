//! What `docker network create` can be asked for.

use serde_json::json;
use tests::Release;

use crate::bed::Bed;

#[track_caller]
fn several_subnets(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    bed.network_of(
        "many",
        &json!([
            {"Subnet": "10.71.1.0/24", "IPRange": "10.71.1.64/26", "Gateway": "10.71.1.254",
             "AuxiliaryAddresses": {"printer": "10.71.1.65"}},
            {"Subnet": "10.71.2.0/24", "Gateway": "10.71.2.254",
             "AuxiliaryAddresses": {"host": "10.71.2.9"}},
        ]),
    );
    bed.run("--name one --network many");
    bed.run("--name two --network many --ip 10.71.2.2");
    bed.run("--name three --network many --ip 10.71.1.3");
    assert_eq!(bed.address("one", "many"), "10.71.1.64");
    for (name, gateway) in
        [("one", "10.71.1.254"), ("two", "10.71.2.254"), ("three", "10.71.1.254")]
    {
        bed.truth(name, "many");
        assert_eq!(bed.end(name, "many", "Gateway"), gateway);
        bed.engine.ping(name, gateway);
    }
    bed.engine.ping("one", "three");
    bed.engine.ping("one", "two");
    for (name, taken) in [("printer", "10.71.1.65"), ("host", "10.71.2.9")] {
        let run = format!("run --name {name} --network many --ip {taken} busybox true");
        bed.refused(&run, &[taken, "auxiliary"]);
        bed.remove(name);
    }
    bed.refused("run --name four --network many --ip 10.71.1.3 busybox true", &["10.71.1.3"]);
    bed.refused("run --name five --network many --ip 10.71.3.3 busybox true", &["10.71.3.3"]);
    bed.run("--name six --network many");
    assert_eq!(bed.address("six", "many"), "10.71.1.66");
    bed.remove("one two three four five six");
    bed.docker("network rm many");
    bed.is_clean();
}

#[test]
fn several_subnets_20_10() {
    several_subnets(Release::V20_10);
}

#[test]
fn several_subnets_28_5() {
    several_subnets(Release::V28_5);
}

#[track_caller]
fn internal(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    bed.network("--internal --subnet 10.71.4.0/24 closed");
    bed.network("--subnet 10.71.5.0/24 open");
    bed.run("--name one --network closed -p 18080:80");
    bed.run("--name two --network closed");
    bed.run("--name three --network open");
    bed.engine.ping("one", "two");
    bed.engine.ping("one", "10.71.4.1");
    assert!(!bed.inside("one", "ip route").contains("default"));
    assert_eq!(bed.end("one", "closed", "Gateway"), "");
    assert_eq!(bed.inside("one", "ip -o link | wc -l"), "2");
    assert!(!bed.spoke("ports").contains("18080"));
    // Who gives himself a route gets nowhere all the same.
    bed.run("--name four --network closed --cap-add NET_ADMIN");
    bed.inside("four", "ip route add default via 10.71.4.1");
    bed.no_ping("four", "10.71.5.2");
    bed.no_ping("three", "10.71.4.2");
    bed.docker("network connect open one");
    bed.engine.ping("one", "three");
    bed.truth("one", "open");
    bed.remove("one two three four");
    bed.docker("network rm closed open");
    bed.is_clean();
}

#[test]
fn internal_20_10() {
    internal(Release::V20_10);
}

#[test]
fn internal_28_5() {
    internal(Release::V28_5);
}

#[test]
fn isolation() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    bed.network("--subnet 10.71.6.0/24 apart");
    bed.network("--subnet 10.71.7.0/24 -o isolation=container lonely");
    bed.network("--subnet 10.71.8.0/24 -o isolation=none open");
    bed.network("--subnet 10.71.9.0/24 -o com.docker.network.bridge.enable_icc=false dockers");
    for network in ["apart", "lonely", "open", "dockers"] {
        bed.run(&format!("--name {network}-2 --network {network}"));
        bed.run(&format!("--name {network}-3 --network {network}"));
    }
    bed.engine.ping("apart-2", "10.71.6.3");
    bed.engine.ping("open-2", "10.71.8.3");
    bed.engine.ping("apart-2", "10.71.8.2");
    for (from, to) in [
        ("lonely-2", "10.71.7.3"),
        ("dockers-2", "10.71.9.3"),
        ("apart-2", "10.71.7.2"),
        ("apart-2", "10.71.9.2"),
        ("dockers-2", "10.71.6.2"),
    ] {
        bed.no_ping(from, to);
    }
    for name in ["apart-2", "lonely-2", "dockers-2", "open-2"] {
        let gateway = bed.inside(name, "ip route | sed -n 's/default via \\([0-9.]*\\).*/\\1/p'");
        bed.engine.ping(name, &gateway);
    }
    bed.remove("apart-2 apart-3 lonely-2 lonely-3 open-2 open-3 dockers-2 dockers-3");
    bed.docker("network rm apart lonely open dockers");
    bed.is_clean();
}

#[track_caller]
fn links(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    let world = bed.world();
    // A bridge of the host's own, with a machine behind it that has the gateway's address.
    world.sh("ip link add lan0 type bridge; ip link set lan0 up
         ip netns add router; ip link add up0 type veth peer name in0 netns router
         ip link set up0 master lan0 up; ip -n router address add 10.71.10.1/24 dev in0
         ip -n router link set in0 up");
    bed.network("--subnet 10.71.10.0/24 --gateway 10.71.10.1 -o bridge=lan0 -o com.docker.network.bridge.inhibit_ipv4=true existing");
    bed.network("--subnet 10.71.11.0/24 -o com.docker.network.bridge.name=named0 -o com.docker.network.driver.mtu=1234 named");
    bed.network(
        "--subnet 10.71.12.0/24 -o mtu=1300 -o com.docker.network.container_iface_prefix=net small",
    );
    bed.run("--name one --network existing");
    bed.engine.ping("one", "10.71.10.1");
    let routes = bed.inside("one", "ip route");
    assert!(routes.contains("default via 10.71.10.1"), "{routes}");
    assert_eq!(world.sh("ip -4 -o address show dev lan0"), "");
    bed.run("--name two --network named");
    assert_eq!(bed.inside("two", "cat /sys/class/net/eth0/mtu"), "1234");
    let members = world.sh("ls /sys/class/net/named0/brif | wc -l");
    assert_eq!(members.trim(), "1");
    bed.run("--name three --network small");
    assert_eq!(bed.truth("three", "small"), "net0");
    assert_eq!(bed.inside("three", "cat /sys/class/net/net0/mtu"), "1300");

    bed.remove("one two three");
    bed.docker("network rm existing named small");
    assert_eq!(world.sh("ls /sys/class/net/lan0/brif").trim(), "up0", "it was there before");
    world.sh("ip link del lan0; ip link del up0; ip netns del router");
    bed.is_clean();
}

#[test]
fn links_20_10() {
    links(Release::V20_10);
}

#[test]
fn links_28_5() {
    links(Release::V28_5);
}

/// The engine keeps what was asked for, and shows what it got.
#[track_caller]
fn inspect(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    bed.network(
        "--ipv6 --subnet 10.71.30.0/24 --subnet fd71:30::/64 --ip-range fd71:30::/80 -o mtu=1400 \
         --ipam-opt order=serial --label shop=1 front",
    );
    bed.run("--name one --network front");
    let network = bed.engine.get("/networks/front");
    assert_eq!(
        (&network["Driver"], &network["IPAM"]["Driver"]),
        (&"spoke".into(), &"spoke".into())
    );
    assert_eq!(network["Options"], json!({"mtu": "1400"}));
    assert_eq!(network["IPAM"]["Options"], json!({"order": "serial"}));
    let config = network["IPAM"]["Config"].to_string();
    assert!(
        ["10.71.30.0/24", "fd71:30::/64", "fd71:30::/80"].iter().all(|net| config.contains(net)),
        "{config}"
    );
    let ends = network["Containers"].as_object().expect("containers");
    let end = ends.values().next().expect("one");
    assert_eq!((&end["Name"], &end["IPv4Address"]), (&"one".into(), &"10.71.30.2/24".into()));
    assert_eq!(end["MacAddress"], bed.end("one", "front", "MacAddress"));
    let six = format!("{}/64", bed.end("one", "front", "GlobalIPv6Address"));
    assert_eq!(end["IPv6Address"], six);
    bed.truth("one", "front");
    bed.remove("one");

    bed.docker("network create -d spoke --ipam-driver null bare");
    let config = &bed.engine.get("/networks/bare")["IPAM"]["Config"];
    assert_eq!(*config, json!([{"Subnet": "0.0.0.0/0"}]));
    bed.docker("network rm front bare");
    bed.is_clean();
}

#[test]
fn inspect_20_10() {
    inspect(Release::V20_10);
}

#[test]
fn inspect_28_5() {
    inspect(Release::V28_5);
}

/// Whatever is wrong is named, and nothing is left of the attempt.
#[test]
fn wrong_options() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    bed.network("--subnet 10.71.20.0/24 -o bridge=sp0 there");
    let subnet = "--subnet 10.71.21.0/24";
    for (options, words) in [
        (
            "-o mtuu=1400",
            vec!["-o mtuu=…: no such option; did you mean mtu?", "isolation", "ports"],
        ),
        (
            "-o isolation=contaner",
            vec!["-o isolation=contaner: it is none,", "did you mean container?"],
        ),
        ("-o host=all", vec!["-o host=…: no such option; did you mean hosts?"]),
        ("-o mtu=12", vec!["mtu=12", "68"]),
        ("-o isolation=all", vec!["isolation=all", "none, container or network"]),
        ("-o publish=world", vec!["publish=world", "any, lan or local"]),
        ("-o ports=both", vec!["ports=both", "spoke or docker"]),
        ("-o bridge=a/b", vec!["bridge=a/b"]),
        ("-o bridge=sp0", vec!["sp0", "docker-10.71.20.0-24", "--ipam-opt network="]),
        ("-o parent=nosuch0", vec!["nosuch0", "not found"]),
        ("-o mtu=1400 -o com.docker.network.driver.mtu=1300", vec!["1400", "1300", "contradict"]),
        ("-o com.docker.network.bridge.gateway_mode_ipv4=isolated", vec!["--internal"]),
        (
            "--ipam-opt sticki=mac",
            vec!["--ipam-opt sticki=…: no such option; did you mean sticky?"],
        ),
        ("--ipam-opt order=random", vec!["order=random"]),
        ("--gateway 10.71.22.1", vec!["10.71.22.1"]),
        ("--ip-range 10.71.22.0/26", vec!["10.71.22.0/26"]),
        ("--aux-address a=10.71.22.7", vec!["10.71.22.7"]),
        ("--gateway 10.71.21.7 --aux-address a=10.71.21.7", vec!["10.71.21.7", "gateway"]),
    ] {
        bed.no_network(&format!("{subnet} {options} wrong"), &words);
    }
    bed.no_network("--subnet 10.71.20.0/25 wrong", &["10.71.20.0/25", "docker-10.71.20.0-24"]);
    let connect = "network connect --driver-opt speed=11 there one";
    bed.run("--name one --network none");
    bed.docker("network disconnect none one");
    bed.refused(connect, &["speed"]);
    bed.remove("one");
    bed.network(&format!("{subnet} right"));
    bed.docker("network rm there right");
    bed.is_clean();
}

#[track_caller]
fn labels(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    bed.network("--subnet 10.71.6.0/24 -o label.tier=db -o label.team= net");
    bed.run("--name one --network net");
    let found = bed.spoke("network ls -o json --filter label=tier=db --filter label=team");
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found[0]["labels"], json!({"team": "", "tier": "db"}), "{found}");
    bed.no_network("--subnet 10.71.7.0/24 -o label.=x other", &["label"]);
    bed.run("--name two --network none");
    bed.docker("network disconnect none two");
    bed.docker("network connect --driver-opt label.role=peer net two");
    assert_eq!(
        bed.spoke("ps -o json --filter label=role=peer").matches("\"container\"").count(),
        1
    );
    bed.remove("one two");
    bed.docker("network rm net");
    bed.is_clean();
}

#[test]
fn labels_20_10() {
    labels(Release::V20_10);
}

#[test]
fn labels_28_5() {
    labels(Release::V28_5);
}
