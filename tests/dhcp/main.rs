//! Our plugin `dhcp` and our daemon, each with the reference's other half, and with each other, over a
//! link to a real server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bed;
mod host;
mod serve;

use std::path::{Path, PathBuf};

use bed::Bed;

const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../.cache/peers/cni-1.1/dhcp");

/// A newer reference, where it was unpacked (scripts/peers).
fn newer() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/peers/cni-1.9/dhcp");
    path.exists().then_some(path)
}

fn references() -> Vec<PathBuf> {
    [PathBuf::from(REFERENCE)].into_iter().chain(newer()).collect()
}

/// ADD, CHECK, DEL, and DEL again.
fn live(bed: &Bed, plugin: &Path) {
    let added = bed.call(plugin, "ADD");
    assert!(added.contains("\"10.7.0."), "{added}");
    assert!(added.contains("0.0.0.0/0") && added.contains("10.7.0.1"), "{added}");
    bed.call(plugin, "CHECK");
    bed.call(plugin, "DEL");
    bed.call(plugin, "DEL");
}

#[test]
fn our_plugin_with_the_references_daemon() {
    for reference in references() {
        let mut bed = Bed::new();
        bed.start_daemon(&reference);
        live(&bed, &bed.ours());
    }
}

#[test]
fn the_references_plugin_with_our_daemon() {
    for reference in references() {
        let mut bed = Bed::new();
        bed.start_daemon(&bed.ours());
        live(&bed, &reference);
        bed.wait_for_log("DHCPRELEASE");
    }
}

#[test]
fn our_plugin_with_our_daemon() {
    let mut bed = Bed::new();
    bed.start_daemon(&bed.ours());
    live(&bed, &bed.ours());
    bed.wait_for_log("DHCPRELEASE");
}

#[test]
fn a_killed_daemon_goes_on_with_its_leases() {
    let mut bed = Bed::new();
    bed.start_daemon(&bed.ours());
    let plugin = PathBuf::from(REFERENCE);
    let before = bed.call(&plugin, "ADD");
    bed.kill_daemon();
    bed.start_daemon(&bed.ours());
    assert_eq!(bed.call(&plugin, "ADD"), before);
    assert_eq!(bed.log().matches("DHCPDISCOVER").count(), 1, "{}", bed.log());
    bed.call(&plugin, "DEL");
    bed.wait_for_log("DHCPRELEASE");
}

#[test]
fn without_a_daemon_nothing_is_added_and_everything_deleted() {
    let bed = Bed::new();
    let (ours, added) = (bed.ours(), bed.try_call(&bed.ours(), "ADD"));
    assert!(added.contains("no DHCP daemon listens") && added.contains("\"code\":11"), "{added}");
    let status = bed.try_call(&ours, "STATUS");
    assert!(status.contains("\"code\":50"), "{status}");
    bed.call(&ours, "DEL");
}
