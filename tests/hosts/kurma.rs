//! Kurma's pods on networks of many hosts.

use serde_json::{Value, json};
use tests::{Plugins, World};

use crate::bed::{Host, SPOKE, Segment, until, until_equal, until_reached};

const POD: &str = "146d7cef-fbf6-41da-a2f8-eba218597f9c";

/// An entry of Kurma's configuration, whose plugin is our own image.
fn entry(fields: &Value) -> Value {
    let mut network = json!({"name": "front", "aci": "file:///images/spoke.aci", "type": "spoke",
        "default": true, "privileged": true, "containerInterface": "eth{{num}}"});
    for (key, value) in fields.as_object().into_iter().flatten() {
        network[key] = value.clone();
    }
    network
}

fn configure(host: &Host, fields: &Value) {
    let networks = json!({"pod_networks": [entry(fields)]}).to_string();
    host.sh("mkdir -p /etc/kurma /images");
    std::fs::write(host.world.path("/etc/kurma/kurma.json"), networks).expect("a file");
}

/// The pod's address.
#[track_caller]
fn provision(world: &World) -> String {
    let said = world.sh(&format!("{}/spoke kurma provision {POD}", Plugins::MOUNT));
    let netns = said.lines().next().expect("a path").to_owned();
    let said = world.sh(&format!("nsenter --net={netns} ip -4 -o address show scope global"));
    let net = said.split_whitespace().nth(3).expect("an address");
    net.split('/').next().expect("an address").to_owned()
}

/// A pod on one host and a namespace on another one reach each other, where the configuration asks for the network
/// itself, and where it joins one that is there. An exact address of a pod goes from host to host.
#[test]
fn a_pod_is_on_a_network_of_many_hosts() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    configure(&a, &json!({"hosts": "nowhere"}));
    a.spoke("kurma build-image --aci /images/spoke.aci");
    let said = a.refused(&format!("kurma provision {POD}"));
    assert!(said.contains("the cluster has no host nowhere"), "{said}");
    configure(&a, &json!({"hosts": "all", "transport": "route", "subnet": "10.64.0.0/16"}));
    let pod = provision(&a.world);
    let record = segment.etcdctl("get /spoke/v1/network/front");
    assert!(record.contains("\"transport\":\"route\""), "{record}");
    until(&b.world, &format!("{SPOKE} network inspect front"));
    b.attach("front", "two");
    until_reached(&b.world, "two", &pod);
    a.spoke(&format!("kurma deprovision {POD}"));
    a.spoke("kurma down");
    b.spoke("network disconnect front two");
    until(&a.world, &format!("{SPOKE} network rm front"));
}

/// By the name of a network that `spoke network create --hosts` made.
#[test]
fn a_pod_joins_a_network_of_many_hosts() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all front");
    b.attach("front", "two");
    configure(
        &a,
        &json!({"network": "front", "capabilities": {"ips": true}, "runtimeConfig": {"ips": ["10.64.200.9/16"]}}),
    );
    a.spoke("kurma build-image --aci /images/spoke.aci");
    let pod = provision(&a.world);
    assert_eq!(pod, "10.64.200.9");
    until_reached(&b.world, "two", &pod);
    until_equal(&segment, &b.world, "front", "b", 2);
    b.world.netns("other");
    let said = b.refused(&format!("network connect --ip {pod} front other"));
    let held = format!("address {pod} of network front is held by");
    assert!(said.contains(&held) && said.contains(POD) && said.contains("on host a"), "{said}");
    a.spoke(&format!("kurma deprovision {POD}"));
    b.spoke(&format!("network connect --ip {pod} front other"));
    a.spoke("kurma down");
}
