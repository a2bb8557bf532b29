//! Pods, which Kurma's plugins put onto a network with names.

use std::fs;

use serde_json::json;

use crate::bed::{Bed, SPOKE, ask};

const POD: &str = "146d7cef-fbf6-41da-a2f8-eba218597f9c";

/// A pod is found by its UUID and the aliases of its network, and finds others by the resolv.conf that it is given.
#[test]
fn a_pod_has_a_name_and_finds_others() {
    let bed = Bed::new(&["web"]);
    bed.spoke("network connect front web");
    let network = json!({"name": "front", "aci": "file:///images/spoke.aci", "type": "spoke", "network": "front",
        "default": true, "privileged": true, "containerInterface": "eth{{num}}",
        "capabilities": {"aliases": true}, "runtimeConfig": {"aliases": ["workers"]}});
    let networks = json!({"pod_networks": [network]}).to_string();
    bed.world.sh("mkdir -p /etc/kurma /images");
    fs::write(bed.world.path("/etc/kurma/kurma.json"), networks).expect("a file");
    bed.spoke("kurma build-image --aci /images/spoke.aci");
    let provisioned = bed.spoke(&format!("kurma provision {POD}"));
    let netns = provisioned.lines().next().expect("a path").to_owned();
    let resolv = bed.spoke(&format!("kurma resolv {POD}"));
    assert!(resolv.starts_with("search front.spoke"), "{resolv}");
    assert!(resolv.contains("nameserver 10.71.1.1\n"), "{resolv}");
    let pod = ask(&bed.world, &netns, "10.71.1.1", "workers");
    assert!(pod.starts_with("10.71.1."), "{pod}");
    assert_eq!(ask(&bed.world, &netns, "10.71.1.1", "web.front.spoke"), "10.71.1.2");
    for name in [POD, "workers", &format!("{POD}.front.spoke")] {
        assert_eq!(bed.ask("web", name), pod, "{name}");
    }
    let reverse: Vec<&str> = pod.rsplit('.').collect();
    let said = bed.ask("web", &format!("{}.in-addr.arpa PTR", reverse.join(".")));
    assert_eq!(said, format!("{POD}.front.spoke"));
    let listed = bed.world.sh(&format!("{SPOKE} dns ls front"));
    assert!(
        listed.lines().any(|line| line.starts_with(POD) && line.contains(" kurma ")),
        "{listed}"
    );
    bed.spoke(&format!("kurma deprovision {POD}"));
    for name in [format!("{POD}.front.spoke"), "workers.front.spoke".to_owned()] {
        assert_eq!(bed.ask("web", &name), "NXDOMAIN", "{name}");
    }
    bed.spoke("kurma down");
}
