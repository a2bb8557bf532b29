//! A Neutron that is busy, or does not answer: who waits for it, for how long, and what is made twice.

use std::time::{Duration, Instant};

use serde_json::json;
use tests::fault_proxy::{Fault, Gate};
use tests::{Cni, Release};

use crate::bed::{Bed, text};
use crate::calls::{Calls, Ends};
use crate::stock::listed;

/// What a container's end may take at most, whatever Neutron does.
const LONGEST: Duration = Duration::from_secs(30);

/// What was asked for is there at the first attempt, and once, whether or not the busy server did the
/// work before it said so.
#[test]
fn what_a_busy_server_was_asked_for_is_made_once() {
    let calls = Calls::new();
    let busy =
        [Fault::Answer(503), Fault::AnswerAfter(503), Fault::Bare(503), Fault::BareAfter(503)];
    for fault in busy {
        for kind in ["subnetpools", "networks", "subnets"] {
            calls.host.proxy.fail("POST", &format!("/v2.0/{kind}"), 1, fault.clone());
        }
        let (network, pool) = calls.network("10.220.0.0/24", &json!({}));
        calls.host.proxy.fail("POST", "/v2.0/ports", 1, fault.clone());
        let (ends, address) = calls.start(&network, &pool);
        calls.named();
        assert_eq!(calls.host.proxy.pending(), 0, "{fault:?}");
        let there = calls.host.project.everything();
        for kind in ["networks", "subnets", "subnetpools", "ports"] {
            assert_eq!(there.count(kind), 1, "{kind}: {fault:?}");
        }
        calls.stop(&ends, &pool, &address);
        calls.remove_network(&network, &pool);
        let changes = calls.host.changes();
        assert!(changes.is_empty(), "{fault:?}: {changes:#?}");
    }
    calls.is_clean();
}

/// One that stays busy is reported with its own status, after some attempts.
#[test]
fn a_server_that_stays_busy_is_asked_some_times() {
    let calls = Calls::new();
    calls.host.proxy.take();
    calls.host.proxy.fail_always("POST", "/v2.0/subnetpools", Fault::Bare(503));
    let said = calls.request_pool("10.221.0.0/24", &json!({}));
    assert_eq!(said.status, 503, "{said:?}");
    let posts = calls.host.proxy.take().into_iter().filter(|call| call.method == "POST").count();
    assert!((3..=10).contains(&posts), "{posts}");
    calls.host.proxy.heal();
    calls.is_clean();
}

#[test]
fn a_container_of_docker_goes_while_neutron_hangs() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    bed.network(
        "--ipv6 --subnet 10.222.0.0/24 --gateway 10.222.0.1 --subnet 2001:db8:222::/64 \
         --gateway 2001:db8:222::1 net",
    );
    bed.run("--name one --network net --expose 80");
    bed.named();
    let gate = Gate::default();
    bed.host.proxy.fail_always("", "/", Fault::Hold(gate.clone()));
    let begun = Instant::now();
    bed.remove("one");
    let took = begun.elapsed();
    assert!(took < LONGEST, "docker rm took {took:?}");
    let left = bed.host.switch.ports();
    assert!(left.is_empty(), "nothing on this host waits for Neutron: {left:?}");
    bed.host.proxy.heal();
    gate.open();
    bed.spoke("gc");
    bed.docker("network rm net");
    bed.spoke("gc");
    bed.is_clean();
}

#[test]
fn a_container_of_cni_goes_while_neutron_hangs() {
    let (calls, list, _) = listed("10.223.0.0/24", "");
    let mut one = Cni::container(&calls.world, "one");
    assert!(one.add(&list).remove(0).ok());
    calls.named();
    let gate = Gate::default();
    calls.host.proxy.fail_always("", "/", Fault::Hold(gate.clone()));
    let begun = Instant::now();
    let _ = one.del(&list);
    let took = begun.elapsed();
    assert!(took < LONGEST, "DEL took {took:?}");
    assert!(calls.host.switch.ports().is_empty());
    calls.host.proxy.heal();
    gate.open();
    assert!(one.del(&list).remove(0).ok());
    calls.gc();
    calls.is_clean();
}

/// Its name is being sent to a Neutron that does not answer, and no call waits for that answer.
#[test]
fn an_end_does_not_wait_for_a_name_that_is_being_sent() {
    let calls = Calls::new();
    let (network, pool) = calls.network("10.224.0.0/24", &json!({}));
    let ends = Ends::new(&network);
    let address = text(&calls.address(&pool, &ends.mac), "Address");
    let gate = Gate::default();
    calls.host.proxy.fail_always("PUT", "/v2.0/ports", Fault::Hold(gate.clone()));
    calls.create_endpoint(&ends, &address).ok();
    calls.join(&ends).ok();
    gate.reached();
    calls.host.proxy.fail_always("", "/", Fault::Hold(gate.clone()));
    let begun = Instant::now();
    calls.of_endpoint("Leave", &ends);
    calls.of_endpoint("DeleteEndpoint", &ends);
    calls.release_address(&pool, &address);
    let took = begun.elapsed();
    assert!(took < LONGEST, "the end took {took:?}");
    calls.host.proxy.heal();
    gate.open();
    calls.gc();
    calls.remove_network(&network, &pool);
    calls.gc();
    calls.is_clean();
}
