//! A container with a floating IP address and a name in Neutron's DNS.

use serde_json::{Value, json};
use tests::neutron::{Project, id};
use tests::neutron_lab::ApiLab;
use tests::{Cni, Plugins, World};

use crate::bed::{Host, Tenancy, host_name};

/// A router between `front` and the world outside, by which `front` is reached.
#[track_caller]
fn outside(project: &Project, front: &str) {
    let public = json!({"name": "public", "router:external": true});
    let public = id(&project.create("network", public));
    project.subnet(&public, "addresses", "203.0.113.0/24");
    let gateway = json!({"name": "out", "external_gateway_info": {"network_id": public}});
    let router = id(&project.create("router", gateway));
    let path = format!("/routers/{router}/add_router_interface");
    project.put(&path, &json!({"subnet_id": front}));
}

#[track_caller]
fn floating(project: &Project, port: &Value) -> Vec<Value> {
    project.list("floatingips", &format!("port_id={}", id(port)))
}

#[test]
fn a_container_is_reached_from_outside_and_by_its_name() {
    let project = ApiLab::shared().project();
    let (_, subnet) = project.network("front", "10.163.0.0/24");
    outside(&project, &subnet);
    let world = World::new(&Plugins::subject());
    let name = host_name(&project);
    let host = Host::on(&world, Tenancy { project: &project, name: &name, extra: "", ovn: None });
    let neutron = json!({"network": "front", "dnsName": "web", "floatingIp": "public"});
    let list = json!({"name": "front", "cniVersion": "1.0.0",
        "plugins": [{"type": "spoke", "driver": "neutron", "neutron": neutron}]});

    let mut cni = Cni::container(&world, "one");
    let added = cni.add(&list).remove(0);
    assert!(added.ok(), "{added:?}");
    let port = project.only("ports", "device_owner=compute:kuryr");
    assert_eq!(port["dns_name"], "web");
    let [reached] = floating(&project, &port).try_into().expect("one floating address");
    assert!(reached["floating_ip_address"].as_str().unwrap().starts_with("203.0.113."));

    let removed = cni.del(&list).remove(0);
    assert!(removed.ok(), "{removed:?}");
    assert_eq!(host.changes(), Vec::<String>::new());
}
