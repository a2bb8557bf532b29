//! Who completes interfaces: what they are called, beside those of Docker's own networks.

use tests::{Release, Serve};

use crate::bed::Bed;

/// `interfaces=spoke` where a network says nothing else.
const DEFAULT: [&str; 2] = ["--default-network-opt", "spoke=interfaces=spoke"];
/// The same, and containers go on without dockerd.
const RESTORING: [&str; 3] = ["--live-restore", DEFAULT[0], DEFAULT[1]];

/// The interfaces of a container without the loopback device.
#[track_caller]
fn names(bed: &Bed, container: &str) -> Vec<String> {
    let names = bed.inside(container, "ls /sys/class/net");
    names.split_whitespace().filter(|name| *name != "lo").map(str::to_owned).collect()
}

/// That the first interface is `eth0`, and how many there are.
#[track_caller]
fn has(bed: &Bed, container: &str, count: usize) {
    let names = names(bed, container);
    assert!(names.len() == count && names.contains(&"eth0".to_owned()), "{container}: {names:?}");
}

#[track_caller]
fn connect(bed: &Bed, network: &str, container: &str) {
    bed.docker(&format!("network connect {network} {container}"));
}

#[track_caller]
fn disconnect(bed: &Bed, network: &str, container: &str) {
    bed.docker(&format!("network disconnect {network} {container}"));
}

/// Networks of both, joined and left in any order.
#[track_caller]
fn together(bed: &Bed, ours: &str, also: &str) {
    bed.run(&format!("--name first --network {ours}"));
    bed.run("--name second --network theirs");
    for (network, container) in [("theirs", "first"), (ours, "second")] {
        connect(bed, network, container);
        has(bed, container, 2);
    }
    assert_eq!(bed.truth("first", ours), "eth0");
    assert_ne!(bed.truth("second", ours), "eth0");
    for container in ["first", "second"] {
        connect(bed, also, container);
        has(bed, container, 3);
        disconnect(bed, "theirs", container);
        connect(bed, "theirs", container);
        disconnect(bed, ours, container);
        connect(bed, ours, container);
        assert_eq!(names(bed, container).len(), 3);
    }
    bed.docker("restart -t 0 first second");
    for container in ["first", "second"] {
        has(bed, container, 3);
        bed.truth(container, ours);
        bed.truth(container, also);
    }
    bed.engine.ping("first", &bed.address("second", also));
    bed.remove("first second");
}

/// Before 28 there is no sandbox yet: the engine completes them, whatever is asked for.
#[track_caller]
fn left_to_the_engine(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    bed.docker("network create theirs");
    bed.network("--subnet 10.84.0.0/24 ours");
    bed.network("--subnet 10.85.0.0/24 -o interfaces=spoke also");
    together(&bed, "ours", "also");
    for network in ["ours", "also", "theirs"] {
        bed.docker(&format!("network rm {network}"));
    }
    bed.is_clean();
}

#[test]
fn left_to_the_engine_20_10() {
    left_to_the_engine(Release::V20_10);
}

#[test]
fn left_to_the_engine_26_1() {
    left_to_the_engine(Release::V26_1);
}

#[test]
fn completed_by_either_28_5() {
    let Some(bed) = Bed::with(Release::V28_5, "", &DEFAULT) else { return };
    bed.docker("network create theirs");
    for (number, options) in (84..).zip([
        "-o interfaces=docker ours",
        "-o interfaces=docker also",
        "born",
        "other",
        "-o com.docker.network.container_iface_prefix=sp apart",
    ]) {
        bed.network(&format!("--subnet 10.{number}.0.0/24 {options}"));
    }
    together(&bed, "ours", "also");
    let bed = heard(by_spoke_alone(heard(bed)));
    beside_docker_s(&bed);
    for network in ["ours", "also", "born", "other", "apart", "theirs"] {
        bed.docker(&format!("network rm {network}"));
    }
    bed.is_clean();
}

/// Until the daemon has heard of the engine, and that it does not restore containers, it leaves interfaces to it.
#[track_caller]
fn heard(bed: Bed) -> Bed {
    bed.serve.until_says("Docker Engine 28.5");
    bed
}

/// The lowest free name each time, also after the daemon died and before it has heard of the engine again.
#[track_caller]
fn by_spoke_alone(mut bed: Bed) -> Bed {
    bed.run("--name one --network born");
    bed.run("--name two --network born");
    assert_eq!(names(&bed, "one"), ["eth0"]);
    for life in 0..2 {
        connect(&bed, "other", "one");
        assert_eq!(bed.truth("one", "other"), "eth1");
        disconnect(&bed, "born", "one");
        connect(&bed, "born", "one");
        assert_eq!(bed.truth("one", "born"), "eth0");
        disconnect(&bed, "other", "one");
        assert_eq!(names(&bed, "one"), ["eth0"]);
        bed.engine.ping("one", &bed.address("two", "born"));
        if life == 0 {
            bed.serve.kill();
            bed.serve = Serve::start(bed.engine.world(), &[]);
        }
    }
    connect(&bed, "other", "one");
    bed.docker("restart -t 0 one");
    assert_eq!(names(&bed, "one"), ["eth0", "eth1"]);
    bed.remove("one");
    bed
}

/// Docker does not know of an interface that it did not make, and takes its name: that is why it is not the default. A
/// name that Docker does not count to has no such end.
#[track_caller]
fn beside_docker_s(bed: &Bed) {
    bed.refused("network connect theirs two", &["error renaming interface", "file exists"]);
    // Docker leaves its device there, under the name that it has first.
    assert!(names(bed, "two").contains(&"eth0".to_owned()));
    bed.engine.ping("two", "10.86.0.1");
    // The other way round there is nothing to clash with, as long as Docker's stays.
    bed.run("--name three --network theirs");
    connect(bed, "born", "three");
    assert_eq!(bed.truth("three", "born"), "eth1");
    bed.run("--name four --network apart");
    connect(bed, "theirs", "four");
    assert_eq!(names(bed, "four"), ["eth0", "sp0"]);
    connect(bed, "apart", "three");
    assert_eq!(bed.truth("three", "apart"), "sp0");
    for container in ["three", "four"] {
        disconnect(bed, "theirs", container);
        connect(bed, "theirs", container);
    }
    bed.docker("restart -t 0 four");
    assert_eq!(names(bed, "four"), ["eth0", "sp0"]);
    bed.remove("two three four");
}

/// An engine that restores containers would end by a panic over interfaces that it did not move (28.5).
#[test]
fn left_to_an_engine_that_restores_containers_28_5() {
    let Some(mut bed) = Bed::with(Release::V28_5, "", &RESTORING) else { return };
    bed.docker("network create theirs");
    bed.network("--subnet 10.84.0.0/24 born");
    bed.network("--subnet 10.85.0.0/24 other");
    together(&bed, "born", "other");
    bed.run("--name one --network born");
    connect(&bed, "other", "one");
    bed.engine.kill();
    bed.engine.start(&RESTORING);
    for network in ["born", "other", "born", "other"] {
        disconnect(&bed, network, "one");
        connect(&bed, network, "one");
        has(&bed, "one", 2);
    }
    connect(&bed, "theirs", "one");
    has(&bed, "one", 3);
    bed.engine.ping("one", "10.84.0.1");
    bed.docker("stop -t 0 one");
    bed.remove("one");
    for network in ["born", "other", "theirs"] {
        bed.docker(&format!("network rm {network}"));
    }
    bed.is_clean();
}
