//! Containers run before Neutron knows whose their ports are: whatever becomes of what is still to be
//! said, nothing is left, nothing is double, and nothing is said of a port that goes.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tests::Plugins;
use tests::fault_proxy::{Fault, Gate};
use tests::neutron::id;

use crate::bed::{id_tags, tags, text};
use crate::calls::{Calls, Ends};
use crate::stock::{ready, start, stocked};

/// The port that has an address.
#[track_caller]
fn port_of(calls: &Calls, address: &str) -> Value {
    let plain = address.split('/').next().unwrap();
    calls.host.project.only("ports", &format!("fixed_ips=ip_address%3D{plain}"))
}

/// That the endpoint's port is known by kuryr-libnetwork's contract, and is one.
#[track_caller]
fn is_named(calls: &Calls, ends: &Ends, address: &str) {
    let port = port_of(calls, address);
    assert_eq!(text(&port, "device_id"), ends.endpoint);
    assert_eq!(text(&port, "name"), "kuryr-unbound-port");
    assert!(tags(&port).contains(&"compute:kuryr".to_owned()), "{port}");
    let found = calls.host.project.only("ports", &format!("tags={}", id_tags(&ends.endpoint)));
    assert_eq!(id(&found), id(&port));
}

/// The PUTs of a port after its DELETE.
fn late(calls: &Calls, port: &str) -> usize {
    let said = calls.host.proxy.take();
    let of_it = said.iter().filter(|call| call.path().contains(port));
    of_it.skip_while(|call| call.method != "DELETE").filter(|call| call.method == "PUT").count()
}

#[test]
fn a_container_runs_before_its_port_has_a_name() {
    let calls = Calls::new();
    let (network, pool) = calls.network("10.190.0.0/24", &json!({}));
    let gate = Gate::default();
    calls.host.proxy.fail("PUT", "/v2.0/ports/", 1, Fault::Hold(gate.clone()));
    let (ends, address) = calls.start(&network, &pool);
    let port = port_of(&calls, &address);
    assert_eq!(text(&port, "device_id"), "");
    assert_eq!(text(&port, "binding:host_id"), calls.host.name);
    assert!(text(&port, "description").starts_with("spoke:"));
    assert_eq!(calls.host.switch.ports().len(), 1);
    gate.reached();
    // No process here takes it for an orphan meanwhile, and no other container may have it.
    let gc = calls.world.sh(&format!("{}/spoke gc --dry-run -o json", Plugins::MOUNT));
    assert!(!gc.contains("neutron-port"), "{gc}");
    let plain = address.split('/').next().unwrap();
    assert!(calls.request_address(&pool, plain, &json!({})).error().contains("not to be used"));
    gate.open();
    calls.named();
    is_named(&calls, &ends, &address);
    calls.stop(&ends, &pool, &address);
    calls.remove_network(&network, &pool);
    calls.is_clean();
}

/// Each way in which a request can fail, of the two that a name takes.
#[test]
fn what_is_lost_is_said_again() {
    let calls = Calls::new();
    let (network, pool) = calls.network("10.191.0.0/24", &json!({}));
    let faults = [
        (1, Fault::Cut),
        (2, Fault::Cut),
        (1, Fault::DropReply),
        (2, Fault::DropReply),
        (1, Fault::Delay(Duration::from_millis(300))),
        (1, Fault::Answer(401)),
        (2, Fault::Answer(500)),
        (1, Fault::Answer(503)),
        (2, Fault::AnswerAfter(500)),
        (2, Fault::Answer(409)),
    ];
    for (nth, fault) in faults {
        calls.host.proxy.fail("PUT", "/v2.0/ports/", nth, fault.clone());
        let (ends, address) = calls.start(&network, &pool);
        calls.named();
        calls.host.proxy.heal();
        is_named(&calls, &ends, &address);
        calls.stop(&ends, &pool, &address);
        assert_eq!(calls.host.ports(&calls.host.network(&network)).len(), 0, "{fault:?}");
    }
    calls.remove_network(&network, &pool);
    calls.is_clean();
}

/// The call that deletes the port waits for the request that is under way, and nothing is said after that.
#[test]
fn a_port_that_goes_meanwhile_gets_no_name() {
    for is_held_back in [true, false] {
        let calls = Calls::new();
        let (network, pool) = calls.network("10.192.0.0/24", &json!({}));
        for nth in 1..=2 {
            let gate = Gate::default();
            let fault = match is_held_back {
                true => Fault::Hold(gate.clone()),
                false => Fault::HoldReply(gate.clone()),
            };
            calls.host.proxy.fail("PUT", "/v2.0/ports/", nth, fault);
            let (ends, address) = calls.start(&network, &pool);
            let port = id(&port_of(&calls, &address));
            gate.reached();
            thread::scope(|scope| {
                let stopping = scope.spawn(|| calls.stop(&ends, &pool, &address));
                gate.open();
                stopping.join().unwrap();
            });
            calls.named();
            assert_eq!(late(&calls, &port), 0);
        }
        calls.remove_network(&network, &pool);
        calls.is_clean();
        assert!(!calls.host.log().contains("was deleted in Neutron"), "{}", calls.host.log());
    }
}

/// Neutron is away while a container comes and goes: nothing was said, and nothing is pending.
#[test]
fn who_goes_before_neutron_is_back_leaves_nothing() {
    let calls = stocked();
    let (network, pool) = calls.network("10.193.0.0/24", &json!({}));
    let (first, its) = start(&calls, &network, &pool);
    ready(&calls, &network, 3);
    calls.named();
    calls.host.proxy.fail_always("", "/", Fault::Answer(503));
    let (ends, address) = start(&calls, &network, &pool);
    calls.stop(&ends, &pool, &address);
    calls.host.proxy.heal();
    calls.named();
    calls.stop(&first, &pool, &its);
    calls.remove_network(&network, &pool);
    calls.is_clean();
}

#[test]
fn the_daemon_is_killed_and_the_next_one_says_it() {
    for answers in [true, false] {
        let mut calls = stocked();
        let (network, pool) = calls.network("10.194.0.0/24", &json!({}));
        let (first, its) = start(&calls, &network, &pool);
        for is_stopped_first in [false, true] {
            // Also of the daemon that came after the crash.
            ready(&calls, &network, 3);
            calls.named();
            let gate = Gate::default();
            let fault = match answers {
                true => Fault::HoldReply(gate.clone()),
                false => Fault::Hold(gate.clone()),
            };
            calls.host.proxy.fail("PUT", "/v2.0/ports/", 1, fault);
            let (ends, address) = start(&calls, &network, &pool);
            gate.reached();
            if is_stopped_first {
                calls.stock_is_kept();
                // The port is the stock's again, and what is under way must not come to its next user.
                calls.stop(&ends, &pool, &address);
            }
            calls.crash();
            gate.open();
            calls.named();
            if !is_stopped_first {
                is_named(&calls, &ends, &address);
                calls.stop(&ends, &pool, &address);
            }
            calls.host.proxy.heal();
        }
        calls.stop(&first, &pool, &its);
        calls.remove_network(&network, &pool);
        calls.is_clean();
    }
}

#[test]
fn a_port_that_was_deleted_in_the_stock_is_reported() {
    let calls = stocked();
    let (network, pool) = calls.network("10.195.0.0/24", &json!({}));
    let (first, its) = start(&calls, &network, &pool);
    ready(&calls, &network, 3);
    calls.named();
    let used = id(&port_of(&calls, &its));
    let all = calls.host.ports(&calls.host.network(&network));
    let others: Vec<String> = all.iter().map(id).filter(|other| *other != used).collect();
    for port in &others {
        calls.host.project.delete(&format!("/ports/{port}"));
    }
    let (ends, address) = start(&calls, &network, &pool);
    calls.named();
    let doctor = calls.world.try_sh(&format!("{}/spoke doctor", Plugins::MOUNT)).stdout;
    let events = calls.world.sh(&format!("{}/spoke events -o json", Plugins::MOUNT));
    for said in [&doctor, &events] {
        assert!(said.contains("deleted") && said.contains(&ends.endpoint), "{said}");
    }
    calls.stop(&ends, &pool, &address);
    let doctor = calls.world.try_sh(&format!("{}/spoke doctor", Plugins::MOUNT)).stdout;
    assert!(!doctor.contains(&ends.endpoint), "{doctor}");
    calls.stop(&first, &pool, &its);
    calls.remove_network(&network, &pool);
    calls.is_clean();
}
