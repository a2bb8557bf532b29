//! Replies that are lost, and requests: once the call is repeated, or what it was for is given up,
//! nothing is left and nothing is double.

use engine::port::Cloud;
use tests::fault_proxy::Fault;

use crate::bed::{Bed, mac, none};

/// The requests that change something, by method and beginning of their path.
const CHANGES: [(&str, &str); 9] = [
    ("POST", "/v2.0/subnetpools"),
    ("POST", "/v2.0/networks"),
    ("PUT", "/v2.0/networks"),
    ("POST", "/v2.0/subnets"),
    ("PUT", "/v2.0/subnets"),
    ("PUT", "/v2.0/subnetpools"),
    ("POST", "/v2.0/ports"),
    ("DELETE", "/v2.0/ports"),
    ("DELETE", "/v2.0/"),
];

/// Until it succeeds.
#[track_caller]
fn insist<T>(work: impl Fn() -> model::Result<T>) -> T {
    let first = match work() {
        Ok(done) => return done,
        Err(error) => error,
    };
    work().unwrap_or_else(|error| panic!("{first}, and then {error}"))
}

#[track_caller]
fn survives(bed: &Bed, method: &str, path: &str, fault: Fault) {
    bed.proxy.fail(method, path, 1, fault);
    let reported = format!("{method} {path}");
    let pool = insist(|| bed.cloud.request_pool(&crate::bed::pool("10.130.0.0/24"))).id;
    let gateway = insist(|| bed.gateway(&pool, None)).addr();
    let id = crate::bed::id();
    let subnets = vec![crate::bed::subnet("10.130.0.0/24", gateway)];
    let plan = engine::port::CloudNetwork { subnets, ..crate::bed::plan(&id) };
    insist(|| bed.cloud.create_network(&plan));
    let mac = mac();
    let address = insist(|| bed.any(&pool, Some(mac))).addr();
    assert_eq!(bed.ports().len(), 1, "{reported}");
    insist(|| bed.cloud.release_address(&pool, address, &none));
    assert_eq!(bed.ports().len(), 0, "{reported}");
    insist(|| bed.cloud.release_address(&pool, gateway, &none));
    insist(|| bed.cloud.release_pool(&pool, &none));
    insist(|| bed.cloud.delete_network(&id, &none));
    assert_eq!(bed.proxy.pending(), 0, "{reported} never happened");
    bed.is_clean();
}

#[test]
fn lost_replies_leave_nothing() {
    let bed = Bed::new();
    for (method, path) in CHANGES {
        survives(&bed, method, path, Fault::DropReply);
    }
}

#[test]
fn lost_requests_leave_nothing() {
    let bed = Bed::new();
    for (method, path) in CHANGES {
        survives(&bed, method, path, Fault::Cut);
    }
}

#[test]
fn refusals_leave_nothing() {
    let bed = Bed::new();
    for (method, path) in CHANGES {
        survives(&bed, method, path, Fault::Answer(500));
    }
}
