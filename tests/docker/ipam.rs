//! Our IPAM driver behind a real engine.

use std::collections::BTreeSet;

use serde_json::json;
use tests::Release;

use crate::bed::Bed;

#[track_caller]
fn order(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    bed.network("--subnet 10.72.0.0/16 --ip-range 10.72.2.0/24 --gateway 10.72.0.1 --aux-address a=10.72.2.1 part");
    bed.network("--subnet 10.73.0.0/24 --ipam-opt order=serial serial");
    for name in ["one", "two", "three"] {
        bed.run(&format!("--name {name} --network part"));
    }
    let got = ["one", "two", "three"].map(|name| bed.address(name, "part"));
    assert_eq!(got, ["10.72.2.0", "10.72.2.2", "10.72.2.3"]);
    bed.remove("two");
    bed.run("--name four --network part");
    assert_eq!(bed.address("four", "part"), "10.72.2.2", "the lowest that is free");

    for name in ["aa", "bb"] {
        bed.run(&format!("--name {name} --network serial"));
    }
    bed.remove("aa");
    bed.run("--name cc --network serial");
    let got = ["bb", "cc"].map(|name| bed.address(name, "serial"));
    assert_eq!(got, ["10.73.0.3", "10.73.0.4"], "the next after the last");
    bed.remove("one three four bb cc");
    bed.docker("network rm part serial");
    bed.is_clean();
}

#[test]
fn order_20_10() {
    order(Release::V20_10);
}

#[test]
fn order_28_5() {
    order(Release::V28_5);
}

#[test]
fn full() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    bed.network("--subnet 10.74.0.0/30 tiny");
    bed.network("--subnet 10.74.1.2/31 --gateway 10.74.1.2 pair");
    bed.run("--name one --network tiny");
    assert_eq!(bed.address("one", "tiny"), "10.74.0.2");
    bed.refused("run --name two --network tiny busybox true", &["no address is free", "10.74.0"]);
    bed.remove("one two");
    bed.run("--name three --network tiny");
    assert_eq!(bed.address("three", "tiny"), "10.74.0.2");

    bed.run("--name four --network pair");
    assert_eq!(bed.address("four", "pair"), "10.74.1.3");
    bed.refused("run --name five --network pair busybox true", &["no address is free"]);
    bed.remove("three four five");

    // Docker itself asks for the next subnet only if its own IPAM says that one is full.
    bed.network_of("two", &json!([{"Subnet": "10.74.2.0/30"}, {"Subnet": "10.74.3.0/29"}]));
    for name in ["six", "seven", "eight"] {
        bed.run(&format!("--name {name} --network two"));
        bed.truth(name, "two");
    }
    let got = ["six", "seven", "eight"].map(|name| bed.address(name, "two"));
    assert_eq!(got, ["10.74.2.2", "10.74.3.2", "10.74.3.3"]);
    assert_eq!(bed.end("seven", "two", "Gateway"), "10.74.3.1");
    bed.engine.ping("six", "10.74.3.3");
    bed.engine.ping("seven", "10.74.3.1");
    bed.remove("seven");
    bed.run("--name nine --network two");
    assert_eq!(bed.address("nine", "two"), "10.74.3.2");
    bed.remove("six eight nine");
    bed.docker("network rm tiny pair two");
    bed.is_clean();
}

/// Eight containers start at once, and go.
#[track_caller]
fn crowd(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    bed.network("--subnet 10.74.8.0/28 front");
    bed.network("--subnet 10.74.9.0/28 back");
    let names: Vec<String> = (0..8).map(|number| format!("c{number}")).collect();
    std::thread::scope(|scope| {
        for (number, name) in names.iter().enumerate() {
            let network = ["front", "back"][number % 2];
            let bed = &bed;
            scope.spawn(move || {
                bed.run(&format!("--name {name} --network {network} -p {}:80", 18800 + number))
            });
        }
    });
    let mut addresses = BTreeSet::new();
    for (number, name) in names.iter().enumerate() {
        let network = ["front", "back"][number % 2];
        bed.truth(name, network);
        addresses.insert(bed.address(name, network));
    }
    assert_eq!(addresses.len(), names.len(), "{addresses:?}");
    bed.remove(&names.join(" "));
    bed.docker("network rm front back");
    bed.is_clean();
}

#[test]
fn crowd_20_10() {
    crowd(Release::V20_10);
}

#[test]
fn crowd_28_5() {
    crowd(Release::V28_5);
}

/// More networks than the engine's own pools have subnets for, all at once.
#[test]
fn crowd_of_networks() {
    const NETWORKS: usize = 75;
    let Some(bed) = Bed::new(Release::V28_5) else { return };
    let names: Vec<String> = (0..NETWORKS).map(|number| format!("n{number}")).collect();
    std::thread::scope(|scope| {
        for name in &names {
            let bed = &bed;
            scope.spawn(move || bed.network(name));
        }
    });
    let format = "{{(index .IPAM.Config 0).Subnet}}";
    let found = bed.docker(&format!("network inspect {} --format '{format}'", names.join(" ")));
    let subnets: BTreeSet<&str> = found.lines().collect();
    assert_eq!(subnets.len(), NETWORKS, "{subnets:?}");
    bed.docker(&format!("network rm {}", names.join(" ")));
    bed.is_clean();
}

#[test]
fn overlap() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    bed.world().sh("ip link add vpn0 type veth peer name vpn1; ip link set vpn0 up; ip route add 10.77.0.0/24 dev vpn0");
    bed.docker("network create --subnet 10.76.0.0/24 dockers");
    bed.docker("network create -d macvlan -o parent=vpn1 --subnet 10.76.1.0/24 wired");
    bed.network("--subnet 10.75.0.0/16 ours");
    // Docker's names are learned all at once.
    bed.until("/opt/cni/bin/spoke network inspect docker-10.75.0.0-16 | grep -q ours");
    bed.spoke("network create --subnet 10.78.0.0/24 front");
    for (subnet, holder) in [
        ("10.75.0.0/16", "docker-10.75.0.0-16"),
        ("10.75.4.0/24", "docker-10.75.0.0-16"),
        ("10.76.0.0/24", "Docker's network dockers"),
        ("10.76.1.128/25", "Docker's macvlan network wired"),
        ("10.77.0.0/25", "vpn0"),
        ("10.78.0.0/24", "front"),
        ("172.17.3.0/24", "Docker's network bridge"),
    ] {
        let before = bed.engine.try_docker("network ls -q").stdout;
        let asked = format!("network create -d spoke --ipam-driver spoke --subnet {subnet} wrong");
        let said = bed.engine.try_docker(&asked);
        assert_ne!(said.status, 0, "{subnet}");
        assert!(said.stderr.contains(subnet) && said.stderr.contains(holder), "{}", said.stderr);
        // Proposals are free: each can be had.
        let (_, proposed) =
            said.stderr.split_once("pick one of: ").unwrap_or_else(|| panic!("{}", said.stderr));
        let proposed = proposed.split(|c: char| !(c.is_ascii_digit() || "./".contains(c)));
        let proposed: Vec<&str> = proposed
            .map(|word| word.trim_end_matches('.'))
            .filter(|word| word.contains('/'))
            .collect();
        assert_eq!(proposed.len(), 3, "{}", said.stderr);
        for subnet in &proposed {
            bed.network(&format!("--subnet {subnet} proposed"));
            bed.docker("network rm proposed");
        }
        assert_eq!(bed.engine.try_docker("network ls -q").stdout, before);
    }
    // What is removed is free at once.
    bed.docker("network rm wired");
    bed.network("--subnet 10.76.1.0/24 wired");
    bed.docker("network rm wired");
    // Nor is any of it chosen.
    let names: Vec<String> = (0..6).map(|number| format!("chosen{number}")).collect();
    for name in &names {
        bed.network(name);
    }
    let routes = bed.world().sh("ip -4 -o route show scope link proto kernel | cut -d ' ' -f 1");
    let mut unique: Vec<&str> = routes.lines().collect();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), routes.lines().count(), "{routes}");
    bed.docker(&format!("network rm ours dockers {}", names.join(" ")));
    bed.spoke("network rm front");
    bed.world().sh("ip link del vpn0");
    bed.is_clean();
}

#[track_caller]
fn shared(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    bed.spoke("network create --subnet 10.79.0.0/24 front");
    bed.network("--ipam-opt network=front one");
    bed.network("--ipam-opt network=front --subnet 10.79.0.0/24 two");
    bed.network("--ipam-opt network=back --subnet 10.79.1.0/24 three");
    // Docker looks for a route of the host to a subnet that it did not name.
    bed.no_network("--ipam-opt network=back wrong", &["--subnet 10.79.1.0/24"]);
    bed.network("--ipam-opt network=back --subnet 10.79.1.0/24 four");
    bed.no_network(
        "--ipam-opt network=front --subnet 10.79.9.0/24 wrong",
        &["front", "10.79.0.0/24"],
    );
    bed.no_network("--subnet 10.79.0.0/24 wrong", &["front"]);
    bed.network("--subnet 10.83.0.0/16 --ip-range 10.83.1.0/24 part");
    // Docker's own driver refuses this, too: the host reaches one of two such bridges only.
    let other = "--subnet 10.83.0.0/16 --ip-range 10.83.2.0/24";
    bed.no_network(&format!("{other} wrong"), &["10.83.0.0/16", "network=docker-10.83.0.0-16"]);
    bed.network("--subnet 10.83.0.0/16 --ipam-opt network=docker-10.83.0.0-16 beside");
    bed.run("--name in-part --network part");
    bed.run("--name in-beside --network beside");
    bed.engine.ping("in-part", &bed.address("in-beside", "beside"));
    bed.remove("in-part in-beside");
    bed.docker("network rm part beside");
    for network in ["one", "two", "three", "four"] {
        bed.run(&format!("--name in-{network} --network {network}"));
        bed.truth(&format!("in-{network}"), network);
    }
    let got = ["one", "two", "three", "four"].map(|name| bed.address(&format!("in-{name}"), name));
    assert_eq!(got, ["10.79.0.2", "10.79.0.3", "10.79.1.2", "10.79.1.3"]);
    bed.engine.ping("in-one", "10.79.0.3");
    bed.engine.ping("in-four", "10.79.1.2");
    bed.remove("in-one in-three");
    bed.docker("network rm one three");
    bed.engine.ping("in-two", "10.79.0.1");
    bed.engine.ping("in-four", "10.79.1.1");
    bed.remove("in-two in-four");
    bed.docker("network rm two four");
    let listed = bed.spoke("network ls");
    assert!(listed.contains("front") && !listed.contains("back"), "{listed}");
    bed.spoke("network rm front");
    bed.is_clean();
}

#[test]
fn shared_20_10() {
    shared(Release::V20_10);
}

#[test]
fn shared_28_5() {
    shared(Release::V28_5);
}

#[test]
fn sticky_by_mac() {
    let config = "[docker]\nrequires_mac_address = true";
    let Some(bed) = Bed::with(Release::V20_10, config, &[]) else { return };
    bed.network("--subnet 10.79.2.0/24 --ipam-opt sticky=mac kept");
    let run = |name: &str, mac: &str| {
        bed.engine.run(name, "kept", json!({"MacAddress": mac}));
        assert_eq!(bed.end(name, "kept", "MacAddress"), mac);
        bed.truth(name, "kept");
        bed.address(name, "kept")
    };
    let first = run("one", "02:00:00:00:00:01");
    let second = run("two", "02:00:00:00:00:02");
    bed.remove("one");
    bed.run("--name three --network kept");
    assert_ne!(bed.address("three", "kept"), first, "kept for its owner");
    assert_eq!(run("four", "02:00:00:00:00:01"), first);
    bed.remove("two");
    assert_eq!(run("five", "02:00:00:00:00:02"), second);
    bed.remove("three four five");
    bed.docker("network rm kept");
    bed.is_clean();
}
