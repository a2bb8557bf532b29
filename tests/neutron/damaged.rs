//! The record of a running container is damaged: its port stays, whichever call comes, until the operator has removed
//! the record.

use serde_json::json;
use tests::Plugins;

use crate::calls::Calls;

const RECORDS: &str = "/run/spoke/*/attachments";

/// After a restart, so that only the record could tell whose the port is.
#[test]
fn the_port_of_a_container_whose_record_is_damaged_stays() {
    let mut calls = Calls::new();
    let (network, pool) = calls.network("10.217.0.0/24", &json!({}));
    let (ends, address) = calls.start(&network, &pool);
    calls.named();
    let whole = calls.world.sh(&format!("find {RECORDS} -type f")).trim().to_owned();
    calls.world.sh(&format!("cp -a '{whole}' /tmp/whole; head -c 20 /tmp/whole >'{whole}'"));
    calls.crash();
    let port = || {
        let of = format!("fixed_ips=ip_address%3D{}", address.split('/').next().unwrap());
        calls.host.project.list("ports", &of)
    };
    let before = port();
    assert_eq!(before.len(), 1, "{before:?}");

    for gc in ["gc --force", "gc"] {
        let said = calls.world.try_sh(&format!("{}/spoke {gc}", Plugins::MOUNT));
        assert!(said.status != 0 && said.stderr.contains("damaged"), "{gc}: {said:?}");
        assert_eq!(port(), before, "{gc}");
    }
    let said = [
        calls.delete_network(&network),
        calls.release_pool(&pool),
        calls.release_address(&pool, &address),
    ];
    assert!(said.iter().all(|said| said.error().contains("damaged")), "{said:?}");
    assert_eq!(port(), before, "Docker's calls");

    calls.world.sh(&format!("cat /tmp/whole >'{whole}'"));
    calls.gc();
    assert_eq!(port(), before, "it is whole again");
    calls.stop(&ends, &pool, &address);
    calls.remove_network(&network, &pool);
    calls.gc();
    calls.is_clean();
}
