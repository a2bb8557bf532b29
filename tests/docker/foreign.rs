//! Docker's containers on networks of the reference plugins 1.1.1.

use std::fs;
use std::path::Path;

use tests::{Plugins, Release};

use crate::bed::Bed;
use crate::lan_segment::{ROUTER, plug, router_reaches, unplug};

/// Ours are found first by their usual names.
const PLUGINS: [&str; 3] = ["host-local", "macvlan", "ptp"];

const PTP: &str = r#"{"cniVersion": "1.0.0", "name": "theirs", "plugins": [
  {"type": "reference-ptp", "ipam": {"type": "reference-host-local", "dataDir": "/run/theirs",
   "ranges": [[{"subnet": "10.44.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}"#;

const MACVLAN: &str = r#"{"cniVersion": "1.0.0", "name": "theirs", "plugins": [
  {"type": "reference-macvlan", "master": "eth0",
   "ipam": {"type": "reference-host-local", "dataDir": "/run/theirs",
   "ranges": [[{"subnet": "192.0.2.0/24", "rangeStart": "192.0.2.200", "gateway": "192.0.2.1"}]],
   "routes": [{"dst": "0.0.0.0/0"}]}}]}"#;

#[track_caller]
fn prepare(bed: &Bed, list: &str) {
    let folder = bed.world().path("/usr/lib/cni");
    fs::create_dir_all(&folder).expect("a folder for plugins");
    for name in PLUGINS {
        let from = Plugins::previous().dir().join(name);
        fs::copy(from, folder.join(format!("reference-{name}"))).expect("a reference plugin");
    }
    let lists = bed.world().path("/etc/cni/net.d");
    fs::create_dir_all(&lists).expect("a folder for lists");
    fs::write(Path::new(&lists).join("theirs.conflist"), list).expect("a list");
}

/// The containers `one` and `two` with addresses in `subnet`, each reaching `gateway`.
#[track_caller]
fn serves(bed: &Bed, subnet: &str, gateway: &str) {
    for name in ["one", "two"] {
        bed.run(&format!("--name {name} --network theirs"));
        bed.truth(name, "theirs");
        assert!(bed.address(name, "theirs").starts_with(subnet));
        bed.engine.ping(name, gateway);
        assert!(bed.inside(name, "ip route").contains(&format!("default via {gateway}")));
    }
}

#[track_caller]
fn leaves_nothing(bed: &Bed) {
    bed.remove("one two");
    assert_eq!(bed.world().sh("find /run/theirs -name '[0-9]*'").trim(), "");
    bed.docker("network rm theirs");
}

const CREATE: &str = "network create -d spoke --ipam-driver null -o cni=theirs.conflist";

#[track_caller]
fn pairs_of_the_reference(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    prepare(&bed, PTP);
    bed.docker(&format!("{CREATE} theirs"));
    serves(&bed, "10.44.0.", "10.44.0.1");
    leaves_nothing(&bed);
    bed.is_clean();
}

#[test]
fn pairs_of_the_reference_20_10() {
    pairs_of_the_reference(Release::V20_10);
}

#[test]
fn pairs_of_the_reference_26_1() {
    pairs_of_the_reference(Release::V26_1);
}

#[test]
fn pairs_of_the_reference_28_5() {
    pairs_of_the_reference(Release::V28_5);
}

#[track_caller]
fn macvlans_of_the_reference(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    prepare(&bed, MACVLAN);
    plug(&bed);
    bed.docker(&format!("{CREATE} theirs"));
    serves(&bed, "192.0.2.2", ROUTER);
    bed.engine.ping("one", "two");
    router_reaches(&bed, &bed.address("one", "theirs"));
    leaves_nothing(&bed);
    unplug(&bed);
    bed.is_clean();
}

#[test]
fn macvlans_of_the_reference_20_10() {
    macvlans_of_the_reference(Release::V20_10);
}

#[test]
fn macvlans_of_the_reference_26_1() {
    macvlans_of_the_reference(Release::V26_1);
}

#[test]
fn macvlans_of_the_reference_28_5() {
    macvlans_of_the_reference(Release::V28_5);
}

/// What cannot be is said before there is anything.
#[test]
fn refusals() {
    let Some(bed) = Bed::new(Release::V28_5) else { return };
    prepare(&bed, PTP);
    let create = |options: &str| format!("network create -d spoke {options} theirs");
    for (options, words) in [
        ("--ipam-driver null -o cni=none.conflist", &["none.conflist"][..]),
        ("-o cni=theirs.conflist", &["--ipam-driver null"]),
        ("-o parent=eth0 -o mode=dhcp", &["--ipam-driver null"]),
        ("--ipam-driver null -o cni=theirs.conflist -o parent=eth0", &["cni=", "parent=eth0"]),
    ] {
        bed.refused(&create(options), words);
    }
    bed.is_clean();
}
