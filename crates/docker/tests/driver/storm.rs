//! Many calls at once, and what a reboot of the host leaves.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

use serde_json::json;

use crate::life::{NETWORK, SANDBOX, address, at, create, endpoint, gateway, join, open, pool};
use crate::rig::{Kernel, World};

#[test]
fn many_containers_at_once_share_nothing() {
    const CONTAINERS: usize = 24;
    let world = Arc::new(World::default());
    let subnet = pool(&world, "10.1.0.0/16", &json!({}));
    let gateway = gateway(&world, &subnet);
    let call = create(&[(&subnet, Some(gateway))], &json!({"interfaces": "spoke"}), false);
    world.twice("NetworkDriver.CreateNetwork", &call);
    open(&world, &["lo"]);
    let one = &|number: usize| {
        let given = address(&world, &subnet, "");
        let at = json!({"NetworkID": NETWORK, "EndpointID": format!("{number:064x}")});
        let mut create = at.clone();
        create["Interface"] = json!({"Address": given});
        world.call("NetworkDriver.CreateEndpoint", &create).unwrap();
        let mut join = at.clone();
        join["SandboxKey"] = SANDBOX.into();
        world.call("NetworkDriver.Join", &join).unwrap();
        let info = world.call("NetworkDriver.EndpointOperInfo", &at).unwrap();
        (given, info["Value"]["interface"].as_str().unwrap().to_owned())
    };
    let made: Vec<(String, String)> = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..CONTAINERS).map(|number| scope.spawn(move || one(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let addresses: BTreeSet<&String> = made.iter().map(|(address, _)| address).collect();
    let names: BTreeSet<&String> = made.iter().map(|(_, name)| name).collect();
    assert_eq!((addresses.len(), names.len()), (CONTAINERS, CONTAINERS));
}

/// CreateNetwork is never repeated: what was made then must do.
#[test]
fn a_network_outlives_the_host() {
    let world = Arc::new(World::default());
    let subnet = pool(&world, "10.1.0.0/30", &json!({}));
    let gateway = gateway(&world, &subnet);
    let call = create(&[(&subnet, Some(gateway))], &json!({"interfaces": "spoke"}), false);
    world.twice("NetworkDriver.CreateNetwork", &call);
    let given = address(&world, &subnet, "");
    world.twice("NetworkDriver.CreateEndpoint", &endpoint(&given, "", &json!({})));
    world.twice("NetworkDriver.Join", &join());

    world.store.reboot();
    *world.kernel.lock().unwrap() = Kernel::default();
    // What an engine says of the containers of its earlier life.
    world.twice("NetworkDriver.RevokeExternalConnectivity", &at());
    world.twice("NetworkDriver.Leave", &at());
    world.twice("NetworkDriver.DeleteEndpoint", &at());
    let plain = given.split('/').next().unwrap();
    let release = json!({"PoolID": subnet["PoolID"], "Address": plain});
    world.twice("IpamDriver.ReleaseAddress", &release);

    assert_eq!(address(&world, &subnet, ""), given, "the gateway is kept");
    world.twice("NetworkDriver.CreateEndpoint", &endpoint(&given, "", &json!({})));
    open(&world, &["lo"]);
    assert_eq!(world.twice("NetworkDriver.Join", &join()), json!({"Gateway": "10.1.0.1"}));
}

/// An engine that restores containers moves what it can; but it does not know the names of interfaces that it did not
/// move.
#[test]
fn an_engine_that_restores_containers_moves_the_first_and_then_all() {
    let world = Arc::new(World::default());
    let subnet = pool(&world, "10.1.0.0/16", &json!({}));
    let gateway = gateway(&world, &subnet);
    let call = create(&[(&subnet, Some(gateway))], &json!({"interfaces": "spoke"}), false);
    world.twice("NetworkDriver.CreateNetwork", &call);
    open(&world, &["lo"]);
    let joins = |number: usize, options: serde_json::Value| {
        let given = address(&world, &subnet, "");
        let at = json!({"NetworkID": NETWORK, "EndpointID": format!("{number:064x}")});
        let mut create = at.clone();
        create["Interface"] = json!({"Address": given});
        create["Options"] = options;
        world.call("NetworkDriver.CreateEndpoint", &create).unwrap();
        let mut join = at.clone();
        join["SandboxKey"] = SANDBOX.into();
        world.twice("NetworkDriver.Join", &join).get("InterfaceName").is_some()
    };
    let named = json!({"com.docker.network.endpoint.ifname": "web7"});
    world.kernel.lock().unwrap().restores = true;
    assert!(joins(1, json!({})), "moved");
    assert!(!joins(2, named), "no other network gives it this name");
    assert!(joins(3, json!({})), "moved");
    world.kernel.lock().unwrap().restores = false;
    assert!(!joins(4, json!({})));
    world.kernel.lock().unwrap().restores = true;
    assert!(!joins(5, json!({})), "its name would be that of another one");
}
