//! Many at once.

use std::thread;

use serde_json::json;

use crate::calls::Calls;

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

#[test]
fn eight_networks_of_one_prefix_at_once() {
    let calls = Calls::new();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let (network, pool) = calls.network("10.161.0.0/24", &json!({}));
                calls.remove_network(&network, &pool);
            });
        }
    });
    calls.is_clean();
}
