//! A network that plugins make: SIGKILL of the process that calls them, while one may still be at work.

use serde_json::{Value, json};
use tests::{Plugins, World};

use crate::bed::{Bed, world};
use crate::killed::kill_at_each;

/// What executes plugins, and what writes down what became of it.
const STEPS: [&str; 6] = ["clone3", "clone", "vfork", "renameat", "rename", "flock"];

/// Where the reference plugins are in the world.
const REFERENCE: &str = "/run/reference";

/// The network `crash` of the plugins in `path`, with what they leave to all containers made.
fn network(world: &World, name: &str, list: &Value, path: &str) {
    std::fs::write(world.path("/run/list.conflist"), list.to_string()).expect("a list");
    world.sh(&format!(
        "/opt/cni/bin/spoke network create -d cni --conflist /run/list.conflist --cni-path {path} {name}"
    ));
}

fn reference(world: &World) {
    world.sh(&format!("mkdir {REFERENCE}"));
    for plugin in ["bridge", "host-local", "portmap", "ptp", "tuning"] {
        let to = world.path(&format!("{REFERENCE}/{plugin}"));
        std::fs::copy(Plugins::reference().dir().join(plugin), to).expect("a reference plugin");
    }
}

fn joining(name: &str) -> Value {
    json!({"name": "pod", "cniVersion": "1.0.0", "plugins": [{"type": "spoke", "network": name}]})
}

#[test]
fn a_chain_of_the_reference() {
    let world = world();
    reference(&world);
    let list = json!({"name": "theirs", "cniVersion": "1.0.0", "plugins": [
        {"type": "ptp", "ipMasq": true, "ipam": {"type": "host-local", "subnet": "10.95.0.0/24"}},
        {"type": "tuning", "mtu": 1300},
    ]});
    network(&world, "theirs", &list, REFERENCE);
    each(&world, joining("theirs"));
}

/// Also where the list has the network's name, so that each has records of its own.
#[test]
fn a_chain_of_our_own_plugins() {
    let world = world();
    let list = json!({"name": "own", "cniVersion": "1.0.0", "plugins": [
        {"type": "bridge", "bridge": "own0", "isGateway": true, "ipMasq": true,
         "ipam": {"type": "host-local", "subnet": "10.96.0.0/24"}},
        {"type": "tuning", "mtu": 1300},
    ]});
    network(&world, "own", &list, Plugins::MOUNT);
    each(&world, joining("own"));
}

/// Kills the caller at each step of ADD and DEL, and looks whether one DEL leaves nothing.
fn each(world: &World, list: Value) {
    let bed = Bed::new(world, list);
    for verb in ["ADD", "DEL"] {
        let (killed, moments) = kill_at_each(&bed, verb, &STEPS, |after| bed.is_clean(after));
        println!("{killed} kills of {verb} in {} steps", moments.len());
        assert!(killed > 4, "{killed} of {moments:?}");
    }
}
