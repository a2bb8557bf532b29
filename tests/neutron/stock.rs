//! Ports that are made ahead of need.

use serde_json::{Value, json};
use tests::fault_proxy::{Fault, Gate};
use tests::neutron_lab::ApiLab;
use tests::{Cni, Serve};

use crate::bed::{Tenancy, host_name, verbs};
use crate::calls::{Calls, Ends};

#[track_caller]
pub(crate) fn stocked() -> Calls {
    let project = ApiLab::shared().project();
    let name = host_name(&project);
    let extra = "[neutron.stock]\nminimum = 2\nmaximum = 4\n";
    Calls::at(Tenancy { project: &project, name: &name, extra, ovn: None })
}

/// All calls for a container's start where Docker tells no hardware address: a port that is ready is
/// bound, and keeps its own.
#[track_caller]
pub(crate) fn start(calls: &Calls, network: &str, pool: &Value) -> (Ends, String) {
    let ends = Ends { mac: String::new(), ..Ends::new(network) };
    let address = calls.request_address(pool, "", &json!({})).ok()["Address"].clone();
    let address = address.as_str().unwrap().to_owned();
    let made = calls.create_endpoint(&ends, &address).ok();
    assert!(made["Interface"]["MacAddress"].is_string(), "Docker hears of it: {made}");
    calls.join(&ends).ok();
    (ends, address)
}

/// Waits until so many ports of the network are there, and the two that the stock is to have at least can
/// be taken: a start that finds none makes one, which is not the stock's.
#[track_caller]
pub(crate) fn ready(calls: &Calls, network: &str, count: usize) {
    let id = tests::neutron::id(&calls.host.network(network));
    let path = format!("/ports?network_id={id}&device_owner=compute%3Akuryr");
    calls
        .host
        .project
        .until(&path, |ports| ports["ports"].as_array().is_some_and(|ports| ports.len() >= count));
    let stored = "[ $(find /run/spoke/neutron/stock/ready -name \"*.json\" | wc -l) -ge 2 ]";
    let waited =
        calls.world.try_sh(&format!("timeout 60 bash -c 'until {stored}; do sleep 0.05; done'"));
    assert_eq!(waited.status, 0, "no port is ready\n{}", calls.host.log());
}

#[test]
fn a_warm_start_waits_for_no_call() {
    let calls = stocked();
    assert_eq!(calls.ipam("GetCapabilities", &json!({})).ok()["RequiresMACAddress"], false);
    let (network, pool) = calls.network("10.180.0.0/24", &json!({}));
    let (first, its) = start(&calls, &network, &pool);
    ready(&calls, &network, 3);
    calls.named();
    calls.host.proxy.take();
    // Neutron hears nothing of it before it runs.
    let gate = Gate::default();
    calls.host.proxy.fail("PUT", "/v2.0/ports/", 1, Fault::Hold(gate.clone()));
    let (ends, address) = start(&calls, &network, &pool);
    gate.open();
    calls.named();
    let plain = address.split('/').next().unwrap();
    let port = calls.host.project.only("ports", &format!("fixed_ips=ip_address%3D{plain}"));
    let id = tests::neutron::id(&port);
    let said = calls.host.proxy.take();
    // What the daemon does ahead of need is about other ports.
    let of_it: Vec<_> = said.into_iter().filter(|call| call.path().contains(&id)).collect();
    assert_eq!(verbs(&of_it), ["PUT ports tags", "PUT ports"], "tags first, then the device");
    calls.stop(&ends, &pool, &address);
    calls.stop(&first, &pool, &its);
    calls.remove_network(&network, &pool);
    calls.is_clean();
}

#[test]
fn the_stock_of_a_network_that_goes_goes_with_it() {
    let calls = stocked();
    let (network, pool) = calls.network("10.181.0.0/24", &json!({}));
    let (ends, address) = start(&calls, &network, &pool);
    ready(&calls, &network, 3);
    calls.stop(&ends, &pool, &address);
    calls.remove_network(&network, &pool);
    calls.is_clean();
}

#[test]
fn the_stock_outlives_the_daemon() {
    let mut calls = stocked();
    let (network, pool) = calls.network("10.182.0.0/24", &json!({}));
    let (ends, address) = start(&calls, &network, &pool);
    ready(&calls, &network, 3);
    calls.crash();
    calls.stop(&ends, &pool, &address);
    calls.remove_network(&network, &pool);
    calls.is_clean();
}

/// A host whose runtime knows no network but by its list; the list, and what Neutron has of ports.
#[track_caller]
pub(crate) fn listed(cidr: &str, extra: &str) -> (Calls, Value, String) {
    let project = ApiLab::shared().project();
    let name = host_name(&project);
    let mut calls = Calls::at(Tenancy { project: &project, name: &name, extra, ovn: None });
    let (network, _) = project.network("front", cidr);
    calls.host.start_from_here();
    let list = json!({"cniVersion": "1.1.0", "name": "ours", "plugins": [{
        "type": "spoke", "driver": "neutron", "neutron": {"network": "front"},
    }]});
    (calls, list, format!("/ports?network_id={network}&device_owner=compute%3Akuryr"))
}

#[track_caller]
pub(crate) fn until_ports(calls: &Calls, path: &str, is: impl Fn(usize) -> bool) {
    calls
        .host
        .project
        .until(path, |ports| ports["ports"].as_array().is_some_and(|of| is(of.len())));
}

/// No call ends a network of CNI's: its last container does.
#[test]
fn a_stock_goes_with_its_networks_last_container() {
    let extra = "[neutron.stock]\nminimum = 2\nmaximum = 4\nidle_seconds = 1\n";
    let (calls, list, path) = listed("10.183.0.0/24", extra);
    let mut one = Cni::container(&calls.world, "one");
    assert!(one.add(&list).remove(0).ok());
    until_ports(&calls, &path, |count| count >= 3);
    calls.named();
    // It is kept for as long as a container is on the network, however long ago that began.
    calls.world.sh("touch -d '1 hour ago' /run/spoke/neutron/stock/wanted/*.json");
    let mut other = Cni::container(&calls.world, "other");
    assert!(other.add(&list).remove(0).ok());
    calls.named();
    assert!(other.del(&list).remove(0).ok());
    until_ports(&calls, &path, |count| count >= 3);
    assert!(one.del(&list).remove(0).ok());
    until_ports(&calls, &path, |count| count == 0);
    calls.gc();
    calls.is_clean();
}

#[test]
fn a_stock_that_is_not_kept_any_more_goes() {
    let extra = "[neutron.stock]\nminimum = 2\nmaximum = 4\n";
    let (mut calls, list, path) = listed("10.184.0.0/24", extra);
    let mut cni = Cni::container(&calls.world, "one");
    assert!(cni.add(&list).remove(0).ok());
    until_ports(&calls, &path, |count| count >= 3);
    calls.named();
    calls.world.sh("sed -i '/neutron.stock/,$d' /etc/spoke/config.toml");
    calls.host.serve.take().expect("it runs").kill();
    calls.host.serve = Some(Serve::start(&calls.world, &[]));
    calls.gc();
    until_ports(&calls, &path, |count| count == 1);
    assert!(cni.del(&list).remove(0).ok());
    calls.gc();
    calls.is_clean();
}
