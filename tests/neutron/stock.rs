//! Ports that are made ahead of need.

use serde_json::json;
use tests::neutron_lab::ApiLab;

use crate::bed::{Place, host_name, verbs};
use crate::calls::Calls;

#[track_caller]
fn stocked() -> Calls {
    let project = ApiLab::shared().project();
    let name = host_name(&project);
    let extra = "[neutron.stock]\nminimum = 2\nmaximum = 4\n";
    Calls::at(Place { project: &project, name: &name, extra, ovn: None })
}

/// Waits until so many ports of the network are there.
#[track_caller]
fn ready(calls: &Calls, network: &str, count: usize) {
    let id = tests::neutron::id(&calls.host.network(network));
    let path = format!("/ports?network_id={id}&device_owner=compute%3Akuryr");
    calls
        .host
        .project
        .until(&path, |ports| ports["ports"].as_array().is_some_and(|ports| ports.len() >= count));
}

#[test]
fn a_warm_start_waits_for_one_call() {
    let calls = stocked();
    assert_eq!(calls.ipam("GetCapabilities", &json!({})).ok()["RequiresMACAddress"], false);
    let (network, pool) = calls.network("10.180.0.0/24", &json!({}));
    let (first, its) = calls.start(&network, &pool);
    ready(&calls, &network, 3);
    calls.host.proxy.take();
    let (ends, address) = calls.start(&network, &pool);
    let start = verbs(&calls.host.proxy.take());
    let waited: Vec<_> =
        start.iter().filter(|verb| *verb != "POST ports" && *verb != "PUT ports").collect();
    assert!(waited.len() <= 1, "{start:?}");
    calls.stop(&ends, &pool, &address);
    calls.stop(&first, &pool, &its);
    calls.remove_network(&network, &pool);
    calls.is_clean();
}

#[test]
fn the_stock_of_a_network_that_goes_goes_with_it() {
    let calls = stocked();
    let (network, pool) = calls.network("10.181.0.0/24", &json!({}));
    let (ends, address) = calls.start(&network, &pool);
    ready(&calls, &network, 3);
    calls.stop(&ends, &pool, &address);
    calls.remove_network(&network, &pool);
    calls.is_clean();
}

#[test]
fn the_stock_outlives_the_daemon() {
    let mut calls = stocked();
    let (network, pool) = calls.network("10.182.0.0/24", &json!({}));
    let (ends, address) = calls.start(&network, &pool);
    ready(&calls, &network, 3);
    calls.crash();
    calls.stop(&ends, &pool, &address);
    calls.remove_network(&network, &pool);
    calls.is_clean();
}
