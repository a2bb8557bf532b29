//! What kuryr-libnetwork made, on a host that is upgraded while containers run.

use serde_json::{Value, json};
use tests::neutron::id;

use crate::calls::{Calls, Ends, docker_id};

/// A network as kuryr-libnetwork 18 makes it: no description, its names and tags.
#[track_caller]
fn made(calls: &Calls, cidr: &str) -> (String, Value) {
    let project = &calls.host.project;
    let docker = docker_id();
    let pool =
        json!({"name": format!("kuryrPool-{cidr}"), "prefixes": [cidr], "default_prefixlen": 24});
    let pool = id(&project.create("subnetpool", pool));
    let network =
        id(&project.create("network", json!({"name": format!("kuryr-net-{}", &docker[..8])})));
    tag(calls, "networks", &network, &halves(&docker));
    let subnet = json!({
        "name": format!("kuryr-subnet-{cidr}"),
        "network_id": network,
        "cidr": cidr,
        "ip_version": 4,
        "subnetpool_id": pool,
    });
    let subnet = id(&project.create("subnet", subnet));
    tag(calls, "subnets", &subnet, std::slice::from_ref(&pool));
    (docker, json!({"PoolID": pool, "Pool": cidr}))
}

fn halves(id: &str) -> [String; 2] {
    let (lower, upper) = id.split_at(32);
    [format!("kuryr.net.uuid.lh:{lower}"), format!("kuryr.net.uuid.uh:{upper}")]
}

#[track_caller]
fn tag(calls: &Calls, kind: &str, id: &str, tags: &[String]) {
    calls.host.project.put(&format!("/{kind}/{id}/tags"), &json!({"tags": tags}));
}

#[test]
fn its_network_serves_new_containers_and_is_removed() {
    let calls = Calls::new();
    let (docker, pool) = made(&calls, "10.140.0.0/24");
    let (ends, address) = calls.start(&docker, &pool);
    calls.stop(&ends, &pool, &address);
    calls.remove_network(&docker, &pool);
    calls.is_clean();
}

/// The port of a container that kuryr-libnetwork has started.
fn running(calls: &Calls, docker: &str, ends: &Ends) -> Value {
    let port = json!({
        "network_id": id(&calls.host.network(docker)),
        "name": "kuryr-unbound-port",
        "device_owner": "compute:kuryr",
        "device_id": ends.endpoint,
        "mac_address": ends.mac,
        "binding:host_id": calls.host.name,
    });
    let port = calls.host.project.create("port", port);
    let [lower, upper] = halves(&ends.endpoint);
    tag(calls, "ports", &id(&port), &["compute:kuryr".to_owned(), lower, upper]);
    port
}

#[test]
fn its_running_container_is_stopped() {
    let calls = Calls::new();
    let (docker, pool) = made(&calls, "10.141.0.0/24");
    let ends = Ends::new(&docker);
    let port = running(&calls, &docker, &ends);
    let address = port["fixed_ips"][0]["ip_address"].as_str().unwrap();
    calls.of_endpoint("EndpointOperInfo", &ends).ok();
    calls.stop(&ends, &pool, address);
    calls.remove_network(&docker, &pool);
    calls.is_clean();
}

/// With its pair on the switch, as kuryr-libnetwork connects it: no other program removes that.
#[test]
fn the_pair_of_its_running_container_goes() {
    for is_known in [false, true] {
        let calls = Calls::new();
        let (docker, pool) = made(&calls, "10.143.0.0/24");
        // A new container on its network makes the book know that.
        let new = is_known.then(|| calls.start(&docker, &pool));
        calls.named();
        let before = calls.host.switch.ports();
        let ends = Ends::new(&docker);
        let port = running(&calls, &docker, &ends);
        let short = &id(&port)[..11];
        calls.world.sh(&format!(
            "ip link add tap{short} type veth peer name t_c{short} address {}; ip link set tap{short} up",
            ends.mac
        ));
        calls.host.switch.plug_as_kuryr(
            &format!("tap{short}"),
            &id(&port),
            &ends.mac,
            &ends.endpoint,
        );
        let address = port["fixed_ips"][0]["ip_address"].as_str().unwrap();
        calls.stop(&ends, &pool, address);
        let links = calls.world.sh("ip -o link");
        assert!(!links.contains(short), "{is_known}: {links}");
        assert_eq!(calls.host.switch.ports(), before, "{is_known}");
        if let Some((ends, address)) = new {
            calls.stop(&ends, &pool, &address);
        }
        calls.remove_network(&docker, &pool);
        calls.is_clean();
    }
}

#[test]
fn its_pool_of_the_operators_is_left() {
    let mut calls = Calls::new();
    let pool = json!({"name": "operators", "prefixes": ["10.142.0.0/24"], "default_prefixlen": 24});
    let pool = id(&calls.host.project.create("subnetpool", pool));
    calls.host.start_from_here();
    // Docker's network was made with the operator's pool, which has its tag ever since.
    tag(&calls, "subnetpools", &pool, &["kuryr.subnetpool.existing".to_owned()]);
    calls.release_pool(&json!({"PoolID": pool})).ok();
    calls.is_clean();
}
