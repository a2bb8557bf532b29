//! Each way in which Neutron says that a port is connected.

use serde_json::json;
use tests::neutron_lab::ApiLab;

use crate::bed::{Tenancy, text};
use crate::calls::Calls;

/// A host whose ports are bound as its name begins.
#[track_caller]
fn host(kind: &str, extra: &str) -> Calls {
    let project = ApiLab::shared().project();
    let name = format!("{kind}-{}", &project.id()[..8]);
    Calls::at(Tenancy { project: &project, name: &name, extra, ovn: None })
}

/// Starts a container; `look` sees the first eleven digits of its port's id. Ends it.
#[track_caller]
fn life(calls: &Calls, look: impl Fn(&Calls, &str)) {
    let (network, pool) = calls.network("10.150.0.0/24", &json!({}));
    let (ends, address) = calls.start(&network, &pool);
    let port = &calls.host.ports(&calls.host.network(&network))[0];
    look(calls, &text(port, "id")[..11]);
    calls.stop(&ends, &pool, &address);
    calls.remove_network(&network, &pool);
    calls.is_clean();
}

#[test]
fn ovs() {
    life(&host("ovs", ""), |calls, short| {
        assert_eq!(calls.host.switch.ports(), [format!("tap{short}")]);
        assert_eq!(calls.host.switch.external_id(&format!("tap{short}"), "iface-status"), "active");
    });
}

#[test]
fn ovs_through_a_bridge_that_filters() {
    life(&host("hybrid", ""), |calls, short| {
        assert_eq!(calls.host.switch.ports(), [format!("qvo{short}")]);
        calls.world.sh(&format!("ip link show master qbr{short} | grep -q tap{short}"));
        calls.world.sh(&format!("ip link show master qbr{short} | grep -q qvb{short}"));
    });
}

#[test]
fn a_linux_bridge() {
    life(&host("bridge", ""), |calls, short| {
        let network = calls.host.project.list("networks", "");
        let bridge = format!("brq{}", &text(&network[0], "id")[..11]);
        calls.world.sh(&format!("ip link show master {bridge} | grep -q tap{short}"));
    });
}

#[test]
fn a_tap_that_another_program_connects() {
    life(&host("tap", ""), |calls, short| {
        calls.world.sh(&format!("ip link show tap{short}"));
        assert_eq!(calls.host.switch.ports(), Vec::<String>::new());
    });
}

#[test]
fn a_host_that_neutron_does_not_know_is_said_and_leaves_nothing() {
    let calls = host("nobody", "");
    let (network, pool) = calls.network("10.151.0.0/24", &json!({}));
    let ends = crate::calls::Ends::new(&network);
    let options = json!({"com.docker.network.endpoint.macaddress": ends.mac});
    let said = calls.request_address(&pool, "", &options);
    let error = match said.status {
        200 => {
            let address = said.ok()["Address"].as_str().unwrap().to_owned();
            let error = calls.create_endpoint(&ends, &address).error();
            calls.release_address(&pool, &address).ok();
            error
        }
        _ => said.error(),
    };
    assert!(error.contains(&calls.host.name) && error.contains("bind"), "{error}");
    calls.remove_network(&network, &pool);
    calls.is_clean();
}
