//! Every call to Neutron lost, refused or cut once, in every operation of Docker's: after a retry
//! or a collection there is neither an orphan nor a double.

use serde_json::json;
use tests::fault_proxy::Fault;

use crate::calls::{Calls, Ends, docker_id};

/// What may become of any call.
fn faults() -> [(&'static str, Fault); 4] {
    [
        ("cut", Fault::Cut),
        ("reply lost", Fault::DropReply),
        ("500", Fault::Answer(500)),
        ("500 after the work", Fault::AnswerAfter(500)),
    ]
}

/// What the operations make.
const KINDS: [&str; 4] = ["networks", "subnets", "subnetpools", "ports"];

/// Does `work`, with each of its calls to Neutron failing once in each way, until it succeeds; then
/// `undo`. There is nothing afterwards.
fn lose_each(
    calls: &Calls,
    work: impl Fn(&Calls) -> Result<String, String>,
    undo: impl Fn(&Calls, &str),
) {
    let before = calls.host.project.everything();
    // Once without a fault, to know how many calls there are; what is learnt once is known then.
    for _ in 0..2 {
        calls.host.proxy.take();
        let made = work(calls).expect("it works");
        undo(calls, &made);
    }
    calls.host.proxy.take();
    let made = work(calls).expect("it works");
    calls.named();
    let count = calls.host.proxy.take().len();
    let kinds = calls.host.project.everything();
    undo(calls, &made);
    assert!(count > 0, "it has nothing to do with Neutron");
    for (name, fault) in faults() {
        for nth in 1..=count {
            calls.host.proxy.fail("", "/", nth, fault.clone());
            let mut said = work(calls);
            // Whose a port is the daemon says until Neutron hears it.
            calls.named();
            calls.host.proxy.heal();
            let mut tries = 0;
            while said.is_err() && tries < 3 {
                said = work(calls);
                tries += 1;
            }
            let made = said.unwrap_or_else(|error| panic!("{name} at call {nth}: {error}"));
            calls.named();
            let now = calls.host.project.everything();
            for kind in KINDS {
                assert_eq!(now.count(kind), kinds.count(kind), "{kind}: {name} at call {nth}");
            }
            undo(calls, &made);
        }
        // What an object is tagged with may stay as long as the object.
        let now = calls.host.project.everything();
        for kind in KINDS {
            assert_eq!(now.count(kind), before.count(kind), "{kind}: {name}");
        }
    }
}

fn said(answer: crate::calls::Said, key: &str) -> Result<String, String> {
    match answer.status {
        200 => Ok(answer.body[key].as_str().unwrap_or_default().to_owned()),
        _ => Err(answer.error()),
    }
}

#[test]
fn of_an_address() {
    let calls = Calls::new();
    let (network, pool) = calls.network("10.110.0.0/24", &json!({}));
    let ends = Ends::new(&network);
    let options = json!({"com.docker.network.endpoint.macaddress": ends.mac});
    lose_each(
        &calls,
        |calls| said(calls.request_address(&pool, "", &options), "Address"),
        |calls, address| drop(calls.release_address(&pool, address).ok()),
    );
    calls.remove_network(&network, &pool);
    calls.is_clean();
}

#[test]
fn of_an_endpoint() {
    let calls = Calls::new();
    let (network, pool) = calls.network("10.111.0.0/24", &json!({}));
    let ends = Ends::new(&network);
    let address = calls.address(&pool, &ends.mac)["Address"].as_str().unwrap().to_owned();
    lose_each(
        &calls,
        |calls| {
            said(calls.create_endpoint(&ends, &address), "")?;
            said(calls.join(&ends), "Gateway")
        },
        |calls, _| {
            calls.of_endpoint("Leave", &ends).ok();
            calls.of_endpoint("DeleteEndpoint", &ends).ok();
        },
    );
    calls.release_address(&pool, &address).ok();
    calls.remove_network(&network, &pool);
    calls.is_clean();
}

#[test]
fn of_a_pool() {
    let calls = Calls::new();
    lose_each(
        &calls,
        |calls| said(calls.request_pool("10.112.0.0/24", &json!({})), "PoolID"),
        |calls, id| drop(calls.release_pool(&json!({"PoolID": id})).ok()),
    );
    calls.is_clean();
}

#[test]
fn of_a_network() {
    let calls = Calls::new();
    let pool = calls.request_pool("10.113.0.0/24", &json!({})).ok();
    let id = docker_id();
    lose_each(
        &calls,
        |calls| said(calls.create_network(&id, &pool, &json!({})), ""),
        |calls, _| drop(calls.delete_network(&id).ok()),
    );
    calls.release_pool(&pool).ok();
    calls.is_clean();
}

/// The ends: each call of a removal is lost once, and the removal is tried again.
#[test]
fn of_every_end() {
    let calls = Calls::new();
    for (name, fault) in faults() {
        for nth in 1..=6 {
            let (network, pool) = calls.network("10.114.0.0/24", &json!({}));
            let (ends, address) = calls.start(&network, &pool);
            calls.named();
            calls.host.proxy.fail("", "/", nth, fault.clone());
            let again = |work: &dyn Fn() -> crate::calls::Said| {
                let done = (0..4).any(|_| work().status == 200);
                assert!(done, "{name} at call {nth}");
            };
            again(&|| calls.of_endpoint("Leave", &ends));
            again(&|| calls.of_endpoint("DeleteEndpoint", &ends));
            again(&|| calls.release_address(&pool, &address));
            again(&|| calls.release_pool(&pool));
            again(&|| calls.delete_network(&network));
            calls.host.proxy.heal();
        }
        let changes = calls.host.changes();
        assert!(changes.is_empty(), "{name}: {changes:#?}");
    }
    calls.is_clean();
}

#[test]
fn the_port_of_a_container_that_never_came_is_collected() {
    let mut calls = Calls::new();
    let (network, pool) = calls.network("10.115.0.0/24", &json!({}));
    let ends = Ends::new(&network);
    calls.address(&pool, &ends.mac);
    calls.crash();
    // Docker has forgotten the container, and removes the network.
    calls.release_pool(&pool);
    calls.delete_network(&network).ok();
    calls.gc();
    calls.gc();
    calls.is_clean();
}

#[test]
fn what_was_under_way_when_the_daemon_died_is_collected() {
    let mut calls = Calls::new();
    let (network, pool) = calls.network("10.116.0.0/24", &json!({}));
    let (ends, address) = calls.start(&network, &pool);
    calls.crash();
    calls.stop(&ends, &pool, &address);
    let (ends, address) = calls.start(&network, &pool);
    calls.crash();
    calls.of_endpoint("EndpointOperInfo", &ends).ok();
    calls.stop(&ends, &pool, &address);
    calls.remove_network(&network, &pool);
    calls.is_clean();
}
