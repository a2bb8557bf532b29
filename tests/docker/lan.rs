//! Networks of Docker's on the segment of a parent device.

use serde_json::json;
use tests::Release;

use crate::bed::Bed;
use crate::lan_segment::{HOST, ROUTER, Server, host_reaches, plug, router_reaches, unplug};

/// Whose subnet is that of the host itself.
const ADDRESSES: &str =
    "--ipam-opt overlap=allow --subnet 192.0.2.0/24 --gateway 192.0.2.1 --ip-range 192.0.2.64/26";

/// A container with a hardware address of its own, which commands of one age cannot ask of engines
/// of another.
#[track_caller]
fn run_with(bed: &Bed, name: &str, mac: &str) {
    let end = json!({"MacAddress": mac});
    let with = json!({"NetworkingConfig": {"EndpointsConfig": {"lan": end}}, "MacAddress": mac});
    bed.engine.run(name, "lan", with);
}

#[track_caller]
fn neighbours_of_the_host(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    plug(&bed);
    bed.network(&format!("-o parent=eth0 {ADDRESSES} lan"));
    bed.run("--name one --network lan");
    run_with(&bed, "two", "02:00:00:00:02:02");
    for name in ["one", "two"] {
        bed.truth(name, "lan");
        bed.engine.ping(name, ROUTER);
        router_reaches(&bed, &bed.address(name, "lan"));
        assert!(bed.inside(name, "ip route").contains("default via 192.0.2.1"));
    }
    bed.engine.ping("one", "two");
    assert_eq!(bed.spoke("gc --dry-run -o json").trim(), "[]", "they live");
    assert_eq!(bed.end("two", "lan", "MacAddress"), "02:00:00:00:02:02");
    bed.no_ping("one", HOST);
    bed.docker("restart -t 0 one");
    bed.engine.ping("one", ROUTER);
    bed.remove("one two");
    bed.docker("network rm lan");
    unplug(&bed);
    bed.is_clean();
}

#[test]
fn neighbours_of_the_host_20_10() {
    neighbours_of_the_host(Release::V20_10);
}

#[test]
fn neighbours_of_the_host_26_1() {
    neighbours_of_the_host(Release::V26_1);
}

#[test]
fn neighbours_of_the_host_28_5() {
    neighbours_of_the_host(Release::V28_5);
}

#[track_caller]
fn host_and_containers(release: Release, more: &str) {
    let Some(bed) = Bed::new(release) else { return };
    plug(&bed);
    bed.network(&format!("-o parent=eth0 -o host_access=true {more} {ADDRESSES} lan"));
    bed.run("--name one --network lan");
    host_reaches(&bed, &bed.address("one", "lan"));
    bed.engine.ping("one", HOST);
    bed.engine.ping("one", ROUTER);
    router_reaches(&bed, HOST);
    bed.remove("one");
    assert_eq!(bed.world().sh("ip route show 192.0.2.64/26").trim(), "");
    bed.docker("network rm lan");
    unplug(&bed);
    bed.is_clean();
}

#[test]
fn host_and_containers_20_10() {
    host_and_containers(Release::V20_10, "");
}

#[test]
fn host_and_containers_28_5() {
    host_and_containers(Release::V28_5, "-o interfaces=spoke");
}

#[track_caller]
fn addresses_of_the_lan(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    plug(&bed);
    let server = Server::start(&bed);
    bed.docker("network create -d spoke --ipam-driver null -o parent=eth0 -o mode=dhcp lan");
    let run = || run_with(&bed, "one", "02:00:00:00:01:77");
    run();
    bed.truth("one", "lan");
    let address = bed.address("one", "lan");
    assert!(address.starts_with("192.0.2.1"), "{address}");
    assert!(Server::leases(&bed).contains(&address), "{}", Server::leases(&bed));
    assert!(bed.inside("one", "ip route").contains("default via 192.0.2.1"));
    bed.engine.ping("one", ROUTER);
    router_reaches(&bed, &address);
    let book = || bed.spoke("ipam show -o json");
    assert!(book().contains(&address));
    bed.remove("one");
    assert!(!book().contains(&address));
    assert!(!Server::leases(&bed).contains(&address), "released");
    // The server derives the address that it offers from the client's: a random one may meet the first's.
    run_with(&bed, "other", "02:00:00:00:01:78");
    run();
    assert_eq!(bed.address("one", "lan"), address, "the same client");
    assert_ne!(bed.address("other", "lan"), address);
    bed.engine.ping("other", "192.0.2.1");
    bed.remove("one other");
    bed.docker("network rm lan");
    drop(server);
    unplug(&bed);
    bed.is_clean();
}

#[test]
fn addresses_of_the_lan_20_10() {
    addresses_of_the_lan(Release::V20_10);
}

#[test]
fn addresses_of_the_lan_26_1() {
    addresses_of_the_lan(Release::V26_1);
}

#[test]
fn addresses_of_the_lan_28_5() {
    addresses_of_the_lan(Release::V28_5);
}
