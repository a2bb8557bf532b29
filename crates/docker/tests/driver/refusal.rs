//! What no engine that works asks for.

use std::sync::Arc;

use model::Kind;
use serde_json::json;

use crate::life::{address, at, create, endpoint, gateway, join, pool};
use crate::rig::World;

#[test]
fn an_endpoint_has_an_address_of_its_network() {
    let world = Arc::new(World::default());
    let subnet = pool(&world, "10.1.0.0/24", &json!({}));
    let gateway = gateway(&world, &subnet);
    let call = create(&[(&subnet, Some(gateway.clone()))], &json!({}), false);
    world.call("NetworkDriver.CreateNetwork", &call).unwrap();
    for (strange, kind) in [("192.168.1.50/24", Kind::Invalid), (&gateway, Kind::Conflict)] {
        let call = endpoint(strange, "", &json!({}));
        let error = world.call("NetworkDriver.CreateEndpoint", &call).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    let given = address(&world, &subnet, "");
    world.twice("NetworkDriver.CreateEndpoint", &endpoint(&given, "", &json!({})));
    world.twice("NetworkDriver.DeleteEndpoint", &at());
}

/// The first of the two would be another program's, so that only we could see it.
#[test]
fn the_subnets_of_a_network_do_not_overlap() {
    let world = Arc::new(World::default());
    let subnet = pool(&world, "10.1.0.0/24", &json!({}));
    let gateway = gateway(&world, &subnet);
    let mut call = create(&[(&subnet, Some(gateway))], &json!({}), false);
    let mut other = call["IPv4Data"][0].clone();
    other["AddressSpace"] = json!("elsewhere");
    other["Gateway"] = json!("10.1.0.254/24");
    call["IPv4Data"].as_array_mut().unwrap().insert(0, other);
    let error = world.call("NetworkDriver.CreateNetwork", &call).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);
    assert!(error.to_string().contains("10.1.0.0/24 and 10.1.0.0/24"), "{error}");
}

/// A program emptied the directory of this boot's records while the container ran.
#[test]
fn an_endpoint_goes_although_its_record_was_lost() {
    let world = Arc::new(World::default());
    let subnet = pool(&world, "10.1.0.0/24", &json!({}));
    let gateway = gateway(&world, &subnet);
    let call = create(&[(&subnet, Some(gateway))], &json!({}), false);
    world.call("NetworkDriver.CreateNetwork", &call).unwrap();
    let given = address(&world, &subnet, "");
    world.call("NetworkDriver.CreateEndpoint", &endpoint(&given, "", &json!({}))).unwrap();
    world.call("NetworkDriver.Join", &join()).unwrap();
    world.store.reboot();
    world.twice("NetworkDriver.Leave", &at());
    assert_eq!(world.kernel.lock().unwrap().links.len(), 1);
    world.twice("NetworkDriver.DeleteEndpoint", &at());
    assert!(world.kernel.lock().unwrap().links.is_empty());
}

/// What needs no cluster to be known.
#[test]
fn a_network_of_many_hosts_needs_a_subnet_of_its_own() {
    let world = Arc::new(World::default());
    let many = json!({"com.docker.network.generic": {"hosts": "all"}});
    let refused = |wanted: &str, space: Option<&str>, why: &str| {
        let subnet = pool(&world, wanted, &json!({}));
        let mut call = create(&[(&subnet, None)], &json!({}), false);
        call["Options"] = many.clone();
        if let Some(space) = space {
            call["IPv4Data"][0]["AddressSpace"] = json!(space);
        }
        let error = world.call("NetworkDriver.CreateNetwork", &call).unwrap_err();
        assert!(error.to_string().contains(why), "{wanted}: {error}");
    };
    refused("10.200.0.0/24", None, "is of 10.200.0.0/13, from which each host takes subnets");
    refused("10.64.0.0/16", Some("LocalDefault"), "add --ipam-driver spoke");
    refused("10.65.0.0/16", None, "there is no cluster of hosts here");
    assert!(world.kernel.lock().unwrap().bridges.is_empty());
}
