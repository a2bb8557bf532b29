//! Calls that would take away what a container has: kuryr-libnetwork's answers are refusals, and no
//! call leaves half of anything.

use serde_json::{Value, json};
use tests::fault_proxy::Fault;

use crate::bed::text;
use crate::calls::{Calls, Ends, docker_id};

/// Everything that there is of a network, without what Neutron counts.
#[track_caller]
fn parts(calls: &Calls) -> Vec<String> {
    let mut all = Vec::new();
    for kind in ["networks", "subnets", "subnetpools", "ports"] {
        let of_it = calls.host.project.list(kind, "");
        all.extend(of_it.iter().map(|one| format!("{kind} {}", tests::neutron::id(one))));
    }
    all.sort();
    all
}

/// An endpoint that is joined, and one that waits for that.
#[track_caller]
fn endpoints(calls: &Calls, network: &str, pool: &Value) -> [(Ends, String); 2] {
    let joined = calls.start(network, pool);
    let ends = Ends::new(network);
    let address = text(&calls.address(pool, &ends.mac), "Address");
    calls.create_endpoint(&ends, &address).ok();
    calls.named();
    [joined, (ends, address)]
}

#[test]
fn a_network_with_an_endpoint_stays() {
    let calls = Calls::new();
    let (network, pool) = calls.network("10.200.0.0/24", &json!({}));
    let [(ends, address), (waiting, its)] = endpoints(&calls, &network, &pool);
    let (before, plugged) = (parts(&calls), calls.host.switch.ports());
    for _ in 0..2 {
        let said = calls.delete_network(&network);
        assert_eq!(said.status, 409, "{said:?}");
        assert!(said.error().contains(&ends.endpoint), "{said:?}");
    }
    assert_eq!(parts(&calls), before);
    assert_eq!(calls.host.switch.ports(), plugged);
    calls.of_endpoint("EndpointOperInfo", &ends).ok();
    calls.stop(&ends, &pool, &address);
    calls.stop(&waiting, &pool, &its);
    calls.remove_network(&network, &pool);
    calls.is_clean();
}

#[test]
fn no_release_takes_an_endpoints_port() {
    let mut calls = Calls::new();
    let (network, pool) = calls.network("10.201.0.0/24", &json!({}));
    let ends = endpoints(&calls, &network, &pool);
    let (before, plugged) = (parts(&calls), calls.host.switch.ports());
    // Also where the daemon that handed the addresses out is gone.
    for _ in 0..2 {
        for (_, address) in &ends {
            let said = calls.release_address(&pool, address);
            assert_eq!(said.status, 409, "{said:?}");
            assert!(said.error().contains(address.split('/').next().unwrap()), "{said:?}");
        }
        calls.release_pool(&pool).ok();
        assert_eq!(parts(&calls), before);
        assert_eq!(calls.host.switch.ports(), plugged);
        calls.crash();
    }
    for (ends, address) in &ends {
        calls.stop(ends, &pool, address);
    }
    calls.delete_network(&network).ok();
    calls.is_clean();
}

/// A third party's port in a network that Docker made keeps all of it, both subnets.
#[test]
fn a_network_with_a_foreign_port_stays_whole() {
    let calls = Calls::new();
    let (network, pool) = calls.network("10.202.0.0/24", &json!({}));
    let id = tests::neutron::id(&calls.host.network(&network));
    let port = json!({"network_id": id, "device_owner": "compute:nova", "device_id": "vm"});
    let port = tests::neutron::id(&calls.host.project.create("port", port));
    let before = parts(&calls);
    let said = calls.delete_network(&network);
    assert_eq!(said.status, 409, "{said:?}");
    assert!(said.error().contains(&port), "{said:?}");
    assert_eq!(parts(&calls), before);
    calls.host.project.delete(&format!("/ports/{port}"));
    calls.remove_network(&network, &pool);
    calls.is_clean();
}

#[test]
fn a_network_without_a_subnet_is_not_made() {
    let calls = Calls::new();
    let none = json!({"AddressSpace": "null", "Pool": "0.0.0.0/0", "Gateway": ""});
    for data in [json!([]), json!([none])] {
        let body =
            json!({"NetworkID": docker_id(), "Options": {}, "IPv4Data": data, "IPv6Data": []});
        let said = calls.net("CreateNetwork", &body);
        assert_eq!(said.status, 400, "{said:?}");
        assert!(said.error().contains("subnet"), "{said:?}");
    }
    calls.is_clean();
}

/// Engines repeat neither ReleasePool nor DeleteNetwork: what stays because Neutron failed goes by
/// itself.
#[test]
fn what_one_failed_delete_leaves_goes_without_force() {
    let calls = Calls::new();
    let (network, pool) = calls.network("10.203.0.0/24", &json!({}));
    calls.host.proxy.fail("DELETE", "/v2.0/subnets", 1, Fault::Answer(500));
    calls.host.proxy.fail("DELETE", "/v2.0/subnetpools", 1, Fault::Answer(500));
    calls.release_pool(&pool);
    calls.delete_network(&network).ok();
    calls.host.proxy.heal();
    calls.gc();
    calls.is_clean();
}

#[test]
fn what_an_unmade_network_leaves_goes_without_force() {
    let calls = Calls::new();
    // Before there is a subnet, and after.
    for fault in ["POST", "PUT"] {
        let pool = calls.request_pool("10.204.0.0/24", &json!({})).ok();
        calls.host.proxy.fail(fault, "/v2.0/subnets", 1, Fault::Answer(500));
        calls.host.proxy.fail_always("DELETE", "/v2.0/", Fault::Answer(500));
        calls.create_network(&docker_id(), &pool, &json!({})).error();
        calls.release_pool(&pool);
        calls.host.proxy.heal();
        assert!(!calls.host.changes().is_empty(), "{fault} leaves something");
        // A pool of which no network was made may be about to become one, for an hour.
        aged(&calls, &pool);
        calls.gc();
        assert!(calls.host.changes().is_empty(), "{fault}: {:#?}", calls.host.changes());
    }
    calls.is_clean();
}

#[test]
fn a_pool_that_was_not_released_goes_without_force() {
    let mut calls = Calls::new();
    let pool = calls.request_pool("10.205.0.0/24", &json!({})).ok();
    calls.crash();
    calls.gc();
    assert_eq!(calls.host.project.list("subnetpools", "").len(), 1, "it may be wanted yet");
    aged(&calls, &pool);
    calls.gc();
    calls.is_clean();
}

/// As if the pool had been requested two hours earlier.
#[track_caller]
fn aged(calls: &Calls, pool: &Value) {
    let path = format!("/subnetpools/{}", text(pool, "PoolID"));
    let there = calls.host.project.get(&path);
    let description = text(&there["subnetpool"], "description");
    let (before, nonce) = description.split_once(":pool-").expect("a pool of ours");
    let seconds = u64::from_str_radix(&nonce[..8], 16).unwrap() - 7200;
    let description = format!("{before}:pool-{seconds:08x}{}", &nonce[8..]);
    calls.host.project.put(&path, &json!({"subnetpool": {"description": description}}));
}
