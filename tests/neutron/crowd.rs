//! Many at once.

use std::thread;

use serde_json::json;

use crate::calls::{Calls, docker_id};

#[test]
fn sixteen_clients_at_once_meet_no_failure() {
    let calls = Calls::new();
    let (network, pool) = calls.network("10.160.0.0/24", &json!({}));
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let (ends, address) = calls.start(&network, &pool);
                calls.stop(&ends, &pool, &address);
            });
        }
    });
    calls.remove_network(&network, &pool);
    calls.is_clean();
}

/// Docker does not tell CreateNetwork which pool it is for: of one prefix, one network is made at a
/// time, and others may be refused.
#[test]
fn eight_networks_of_one_prefix_at_once_are_made_or_refused_and_spoil_nothing() {
    let calls = Calls::new();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let said = calls.request_pool("10.161.0.0/24", &json!({}));
                if said.status != 200 {
                    return;
                }
                let (id, pool) = (docker_id(), said.ok());
                match calls.create_network(&id, &pool, &json!({})).status {
                    200 => calls.remove_network(&id, &pool),
                    // As Docker does after a refusal.
                    _ => drop(calls.release_pool(&pool).ok()),
                }
            });
        }
    });
    let (network, pool) = calls.network("10.161.0.0/24", &json!({}));
    calls.remove_network(&network, &pool);
    calls.is_clean();
}
