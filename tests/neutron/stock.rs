//! Ports that are made ahead of need.

use serde_json::{Value, json};
use tests::fault_proxy::{Fault, Gate};
use tests::neutron_lab::ApiLab;

use crate::bed::{Place, host_name, verbs};
use crate::calls::{Calls, Ends};

#[track_caller]
pub(crate) fn stocked() -> Calls {
    let project = ApiLab::shared().project();
    let name = host_name(&project);
    let extra = "[neutron.stock]\nminimum = 2\nmaximum = 4\n";
    Calls::at(Place { project: &project, name: &name, extra, ovn: None })
}

/// All calls for a container's start where Docker tells no hardware address: a port that is ready is
/// bound, and keeps its own.
#[track_caller]
pub(crate) fn start(calls: &Calls, network: &str, pool: &Value) -> (Ends, String) {
    let ends = Ends { mac: String::new(), ..Ends::new(network) };
    let address = calls.request_address(pool, "", &json!({})).ok()["Address"].clone();
    let address = address.as_str().unwrap().to_owned();
    let made = calls.create_endpoint(&ends, &address).ok();
    assert!(made["Interface"]["MacAddress"].is_string(), "Docker is told: {made}");
    calls.join(&ends).ok();
    (ends, address)
}

/// Waits until so many ports of the network are there.
#[track_caller]
pub(crate) fn ready(calls: &Calls, network: &str, count: usize) {
    let id = tests::neutron::id(&calls.host.network(network));
    let path = format!("/ports?network_id={id}&device_owner=compute%3Akuryr");
    calls
        .host
        .project
        .until(&path, |ports| ports["ports"].as_array().is_some_and(|ports| ports.len() >= count));
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
