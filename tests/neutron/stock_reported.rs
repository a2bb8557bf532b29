//! What people see of ports that are made ahead of need, and how they empty the stock.

use serde_json::{Value, json};
use tests::{Cni, Serve};

use crate::bed::{Tenancy, host_name};
use crate::calls::{Calls, Ends};
use crate::stock::{listed, ready, start, stocked, until_ports};

fn shown(calls: &Calls) -> Value {
    let text = calls.spoke("neutron stock ls -o json");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_stock_is_shown_and_drained_by_hand() {
    let calls = stocked();
    let (network, pool) = calls.network("10.186.0.0/24", &json!({}));
    let (ends, address) = start(&calls, &network, &pool);
    ready(&calls, &network, 3);
    let (second, its) = start(&calls, &network, &pool);
    ready(&calls, &network, 4);
    calls.named();
    let neutrons = tests::neutron::id(&calls.host.network(&network));
    let path = format!("/ports?network_id={neutrons}&device_owner=compute%3Akuryr");
    let kinds = shown(&calls);
    assert_eq!(kinds.as_array().map(Vec::len), Some(1), "{kinds}");
    assert_eq!((&kinds[0]["network"], kinds[0]["in_use"].as_u64()), (&json!(neutrons), Some(1)));
    assert!(kinds[0]["ready"].as_u64() >= Some(2) && kinds[0]["wanted"].is_string(), "{kinds}");
    let table = calls.spoke("neutron stock ls");
    assert!(table.starts_with("NETWORK") && table.contains(&neutrons), "{table}");
    for command in ["kuryr status", "doctor"] {
        let said = calls.spoke(command);
        assert!(said.contains("of Neutron's ports are ready, 1 are in use"), "{command}: {said}");
    }
    let drained = calls.spoke(&format!("neutron stock drain {neutrons}"));
    assert!(drained.contains(&neutrons), "{drained}");
    until_ports(&calls, &path, |count| count == 2);
    assert_eq!(shown(&calls)[0]["ready"], 0);
    assert!(calls.spoke("neutron stock drain").contains("nothing found"));
    calls.stop(&second, &pool, &its);
    calls.stop(&ends, &pool, &address);
    calls.remove_network(&network, &pool);
    calls.is_clean();
}

/// An engine asks what the plugin requires when it starts, and not again.
#[test]
fn a_stock_that_docker_cannot_use_is_reported() {
    let calls = stocked();
    let (network, pool) = calls.network("10.187.0.0/24", &json!({}));
    let word = "chooses hardware addresses";
    let ends = Ends::new(&network);
    let address = calls.address(&pool, &ends.mac)["Address"].as_str().unwrap().to_owned();
    let said = calls.spoke("doctor");
    assert!(said.contains(word) && said.contains("restart dockerd"), "{said}");
    let said = calls.spoke("kuryr status");
    assert!(said.contains(word), "{said}");
    calls.release_address(&pool, &address).ok();
    let (ends, address) = start(&calls, &network, &pool);
    let said = calls.spoke("doctor");
    assert!(!said.contains(word), "{said}");
    calls.stop(&ends, &pool, &address);
    calls.remove_network(&network, &pool);
    calls.is_clean();
}

/// No port waits for a container that may come again where the network is gone.
#[test]
fn a_stock_goes_with_the_network_of_the_command_line() {
    let extra = "[neutron.stock]\nminimum = 2\nmaximum = 4\nidle_seconds = 3600\n";
    let (calls, _, path) = listed("10.188.0.0/24", extra);
    calls.spoke("network create --driver neutron --opt network=front cloud");
    let list = json!({"cniVersion": "1.1.0", "name": "ours", "plugins": [{
        "type": "spoke", "network": "cloud",
    }]});
    let mut one = Cni::container(&calls.world, "one");
    assert!(one.add(&list).remove(0).ok());
    until_ports(&calls, &path, |count| count >= 3);
    calls.named();
    assert!(one.del(&list).remove(0).ok());
    calls.spoke("network rm cloud");
    until_ports(&calls, &path, |count| count == 0);
    calls.is_clean();
}

/// Neither a configuration nor a file tells of these any more, and their network must go.
#[test]
fn what_is_left_of_a_stock_keeps_no_network() {
    let mut calls = stocked();
    let (network, pool) = calls.network("10.189.0.0/24", &json!({}));
    let (ends, address) = start(&calls, &network, &pool);
    ready(&calls, &network, 3);
    calls.named();
    calls.stop(&ends, &pool, &address);
    calls.host.serve.take().expect("it runs").kill();
    calls
        .world
        .sh("rm -r /run/spoke/neutron/stock; sed -i '/neutron.stock/,$d' /etc/spoke/config.toml");
    calls.host.serve = Some(Serve::start(&calls.world, &[]));
    calls.remove_network(&network, &pool);
    calls.is_clean();
}

/// A daemon that is gone looks after nothing; a cloud that is not configured cannot be asked.
#[test]
fn a_stock_without_a_keeper_is_reported() {
    let project = tests::neutron_lab::ApiLab::shared().project();
    let (name, extra) = (host_name(&project), "[neutron.stock]\nminimum = 2\nmaximum = 4\n");
    let mut calls = Calls::at(Tenancy { project: &project, name: &name, extra, ovn: None });
    let (network, pool) = calls.network("10.190.0.0/24", &json!({}));
    let (ends, address) = start(&calls, &network, &pool);
    ready(&calls, &network, 3);
    calls.named();
    calls.stop(&ends, &pool, &address);
    calls.host.serve.take().expect("it runs").kill();
    let said = calls.spoke("doctor");
    assert!(said.contains("no daemon looks after them"), "{said}");
    calls.world.sh("cp /etc/spoke/config.toml /tmp/whole; echo >/etc/spoke/config.toml");
    let said = calls.spoke("doctor");
    assert!(said.contains("in a cloud that is not configured any more"), "{said}");
    calls.world.sh("cp /tmp/whole /etc/spoke/config.toml");
    calls.spoke("neutron stock drain");
    calls.host.serve = Some(Serve::start(&calls.world, &[]));
    calls.remove_network(&network, &pool);
    calls.is_clean();
}
