//! Calls that come twice, late, with nonsense, or while Neutron is away.

use serde_json::json;
use tests::fault_proxy::{Call, Fault};

use crate::bed::{tags, verbs};
use crate::calls::{Calls, Ends, docker_id};

/// Neutron was not asked on behalf of a call. The daemon looks by itself for its ports, and lists
/// whole collections for what was left behind; no call waits for that. A call asks for one thing.
#[track_caller]
fn asks_nothing(calls: &Calls) {
    let kinds = ["networks", "subnets", "subnetpools", "security-groups", "floatingips"];
    let whole = kinds.map(|kind| format!("/v2.0/{kind}"));
    let is_of_daemon = |call: &Call| {
        let target = call.target.as_str();
        call.method == "GET"
            && (target.starts_with("/v2.0/ports?") || whole.iter().any(|all| all == target))
    };
    let asked = calls.host.proxy.take();
    assert!(asked.iter().all(is_of_daemon), "{asked:?}");
}

#[test]
fn the_handshake_is_kuryrs() {
    let calls = Calls::new();
    let greeted = calls.call("Plugin.Activate", &json!({})).ok();
    assert_eq!(greeted["Implements"], json!(["NetworkDriver", "IpamDriver"]));
    assert_eq!(calls.net("GetCapabilities", &json!({})).ok()["Scope"], "local");
    assert_eq!(calls.ipam("GetCapabilities", &json!({})).ok()["RequiresMACAddress"], true);
    asks_nothing(&calls);
}

#[test]
fn every_call_of_an_endpoint_may_come_again() {
    let calls = Calls::new();
    let (network, pool) = calls.network("10.100.0.0/24", &json!({}));
    let (ends, address) = calls.start(&network, &pool);
    let before = calls.host.project.everything();
    calls.create_endpoint(&ends, &address).ok();
    calls.join(&ends).ok();
    let changes = calls.host.project.everything().changes(&before);
    assert!(changes.is_empty(), "{changes:#?}");
    for method in ["Leave", "Leave", "DeleteEndpoint", "DeleteEndpoint"] {
        calls.of_endpoint(method, &ends).ok();
    }
    for _ in 0..2 {
        calls.release_address(&pool, &address).ok();
    }
    for _ in 0..2 {
        calls.release_pool(&pool).ok();
    }
    for _ in 0..2 {
        calls.delete_network(&network).ok();
    }
    calls.release_pool(&pool).ok();
    calls.is_clean();
}

#[test]
fn a_network_may_be_created_again_and_go_before_its_pool() {
    let calls = Calls::new();
    let (network, pool) = calls.network("10.101.0.0/24", &json!({}));
    let before = calls.host.project.everything();
    calls.create_network(&network, &pool, &json!({})).ok();
    let after = calls.host.project.everything();
    for kind in ["networks", "subnets", "subnetpools", "ports"] {
        assert_eq!(after.count(kind), before.count(kind), "{kind}");
    }
    calls.delete_network(&network).ok();
    calls.release_pool(&pool).ok();
    calls.is_clean();
}

#[test]
fn a_port_that_create_endpoint_makes_has_its_tags() {
    let calls = Calls::new();
    let (network, pool) = calls.network("10.102.0.0/24", &json!({}));
    let ends = Ends::new(&network);
    // An address that was not requested: as with another IPAM driver, or after a restart.
    calls.create_endpoint(&ends, "10.102.0.9/24").ok();
    let port = &calls.host.ports(&calls.host.network(&network))[0];
    let tags = tags(port);
    assert!(tags.iter().any(|tag| tag.ends_with(&ends.endpoint[..32])), "{tags:?}");
    assert!(tags.contains(&"compute:kuryr".to_owned()), "{tags:?}");
    assert_eq!(port["mac_address"], ends.mac);
    calls.join(&ends).ok();
    calls.of_endpoint("Leave", &ends).ok();
    calls.of_endpoint("DeleteEndpoint", &ends).ok();
    calls.release_address(&pool, "10.102.0.9/24").ok();
    calls.remove_network(&network, &pool);
    calls.is_clean();
}

#[test]
fn nonsense_is_refused_with_a_reason() {
    let calls = Calls::new();
    for cidr in ["10.0.0.5/24", "10.0.0.0/99", "neither", "10.0.0.0"] {
        let said = calls.request_pool(cidr, &json!({}));
        assert_eq!(said.status, 400, "{cidr}: {said:?}");
        assert!(said.error().contains(cidr.split('/').next().unwrap()), "{said:?}");
    }
    let said = calls.net("CreateNetwork", &json!({"NetworkID": "short"}));
    assert_eq!(said.status, 400, "{said:?}");
    asks_nothing(&calls);
    calls.is_clean();
}

#[test]
fn neutron_being_away_is_said_and_reading_is_tried_again() {
    let calls = Calls::new();
    let (network, pool) = calls.network("10.103.0.0/24", &json!({}));
    calls.host.proxy.fail_always("POST", "/v2.0/ports", Fault::Answer(503));
    let ends = Ends::new(&network);
    let options = json!({"com.docker.network.endpoint.macaddress": ends.mac});
    let said = calls.request_address(&pool, "", &options);
    assert!(said.error().contains("Neutron"), "{said:?}");
    assert_eq!(said.status, 503, "Neutron's own status: {said:?}");
    calls.host.proxy.heal();

    calls.host.proxy.fail("GET", "/v2.0/", 1, Fault::Cut);
    let (ends, address) = calls.start(&network, &pool);
    calls.stop(&ends, &pool, &address);
    calls.host.proxy.heal();
    calls.remove_network(&network, &pool);
    calls.is_clean();
}

#[test]
fn a_status_of_neutrons_is_passed_on_with_its_request() {
    let calls = Calls::new();
    for status in [403, 404, 409, 413] {
        calls.host.proxy.fail("POST", "/v2.0/subnetpools", 1, Fault::Answer(status));
        let said = calls.request_pool("10.104.0.0/24", &json!({}));
        assert_eq!(said.status, status, "{said:?}");
        assert!(said.error().contains("req-injected"), "{said:?}");
        calls.host.proxy.heal();
    }
    calls.is_clean();
}

#[test]
fn a_start_and_an_end_make_these_calls_and_no_others() {
    let calls = Calls::new();
    let (network, pool) = calls.network("10.105.0.0/24", &json!({}));
    let (first, its) = calls.start(&network, &pool);
    calls.named();
    calls.host.proxy.take();
    let (ends, address) = calls.start(&network, &pool);
    calls.named();
    let start = calls.host.proxy.take();
    assert!(start.len() <= 3, "{:#?}", verbs(&start));
    calls.of_endpoint("EndpointOperInfo", &ends).ok();
    calls.host.proxy.take();
    calls.stop(&ends, &pool, &address);
    assert_eq!(verbs(&calls.host.proxy.take()), ["DELETE ports"]);
    calls.stop(&first, &pool, &its);
    calls.remove_network(&network, &pool);
    calls.is_clean();
}

#[test]
fn an_unknown_network_is_an_error_and_its_end_is_none() {
    let calls = Calls::new();
    let ends = Ends::new(&docker_id());
    assert!(!calls.join(&ends).error().is_empty());
    calls.of_endpoint("DeleteEndpoint", &ends).ok();
    calls.delete_network(&ends.network).ok();
    calls.is_clean();
}
