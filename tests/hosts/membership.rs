//! Who hears that hosts come and go: events, figures, and third-party drivers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tests::http;
use tests::remote_driver::{Asked, Manners, RemoteDriver};

use crate::bed::{Host, Segment, join, until};

/// How soon a driver gets the report.
const WITHIN: Duration = Duration::from_secs(60);

fn addresses(reported: &[Asked]) -> BTreeMap<&str, bool> {
    let data = reported.iter().map(|call| &call.body["DiscoveryData"]);
    data.map(|data| (data["Address"].as_str().unwrap(), data["Self"].as_bool().unwrap())).collect()
}

#[track_caller]
fn until_event(host: &Host, event: &str, words: &str) {
    until(
        &host.world,
        &format!("grep '\"event\":\"{event}\"' /run/spoke/events | grep -q '{words}'"),
    );
}

fn figures(host: &Host) -> String {
    let socket = host.world.path("/run/spoke/metrics.sock");
    let text = http::call(&socket, "GET", "/metrics", b"").expect("an answer").text();
    text.lines().filter(|line| line.starts_with("spoke_host_")).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn until_figure(host: &Host, figure: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !figures(host).lines().any(|line| line == figure) {
        assert!(Instant::now() < deadline, "{figure}: {}", figures(host));
        tests::glance();
    }
}

#[test]
fn hosts_that_come_and_go_are_reported() {
    let segment = Segment::new();
    let [a] = segment.cluster(["a"]);
    let mut b = segment.host("b", 2);
    assert!(!figures(&b).contains("spoke_host_members"), "{}", figures(&b));
    let global = Manners { connectivity: Some("global".into()), ..Manners::default() };
    let driver = RemoteDriver::start(&a.world, "wide", global);
    a.spoke("network create --driver wide --ipam-driver wide wide");
    assert_eq!(
        addresses(&driver.wait_for("DiscoverNew", 1, WITHIN)),
        BTreeMap::from([("192.0.2.1", true)])
    );
    join(&a.world, &b.world, "b");
    until_event(&a, "host-joined", "host b joined the cluster");
    let all = BTreeMap::from([("192.0.2.1", true), ("192.0.2.2", false)]);
    assert_eq!(addresses(&driver.wait_for("DiscoverNew", 2, WITHIN)), all);
    a.spoke("network create --hosts all front");
    until_figure(&a, "spoke_host_members{state=\"up\"} 2");
    until_figure(&a, "spoke_host_cluster_heard{} 1");
    b.kill();
    until_event(&a, "host-lost", "host b is lost");
    until_figure(&a, "spoke_host_members{state=\"lost\"} 1");
    b.start();
    until_event(&a, "host-back", "host b is back");
    b.spoke("host remove b");
    until_event(&a, "host-removed", "host b was removed");
    assert_eq!(
        addresses(&driver.wait_for("DiscoverDelete", 1, WITHIN)),
        BTreeMap::from([("192.0.2.2", false)])
    );
}
