//! SIGKILL before each message to the kernel, for chains of every plugin that this kernel can.

use serde_json::{Value, json};
use tests::{Moment, World};

use crate::bed::{Bed, world};
use crate::killed::kill;

/// What speaks to the kernel's network, or writes what has to be undone.
const SENDS: [&str; 4] = ["sendto", "sendmsg", "ioctl", "unshare"];

const PARENT: &str = "ip link add dev9 type veth peer name wire9
                      ip link set dev9 up; ip link set wire9 up";

fn list(plugins: &Value) -> Value {
    json!({"name": "crash", "cniVersion": "1.0.0", "plugins": plugins})
}

fn addresses() -> Value {
    json!({"type": "host-local", "subnet": "10.93.0.0/24"})
}

fn limits() -> Value {
    json!({"ingressRate": 8_000_000, "ingressBurst": 80_000,
        "egressRate": 8_000_000, "egressBurst": 80_000})
}

#[test]
fn a_chain_of_everything() {
    let mut bandwidth = limits();
    bandwidth["type"] = "bandwidth".into();
    each(
        &world(),
        list(&json!([
            {"type": "bridge", "bridge": "crash0", "isGateway": true, "ipMasq": true,
             "ipam": addresses()},
            {"type": "portmap", "capabilities": {"portMappings": true}},
            {"type": "firewall"},
            {"type": "tuning", "mtu": 1300, "promisc": true},
            bandwidth,
            {"type": "sbr"},
        ])),
    );
}

#[test]
fn a_macvlan() {
    let world = world();
    world.sh(PARENT);
    each(&world, list(&json!([{"type": "macvlan", "master": "dev9", "ipam": addresses()}])));
}

#[test]
fn our_own_type_with_everything() {
    each(
        &world(),
        list(&json!([{"type": "spoke", "ipam": addresses(), "bandwidth": limits(),
            "sourceRouting": true, "promisc": true, "macspoofchk": true,
            "capabilities": {"portMappings": true}}])),
    );
}

/// Also between the networks of one call.
#[test]
fn several_networks() {
    let world = world();
    for (name, subnet) in [("front", "10.94.1.0/24"), ("back", "10.94.2.0/24")] {
        world.sh(&format!("/opt/cni/bin/spoke network create --subnet {subnet} {name}"));
    }
    each(&world, list(&json!([{"type": "spoke", "networks": ["front", "back"]}])));
}

/// Kills ADD of each plugin before each message, and looks whether one DEL leaves nothing.
fn each(world: &World, list: Value) {
    let bed = Bed::new(world, list);
    for at in 0..bed.len() {
        let last = bed.add(at);
        let mut moments = bed.moments(at, "ADD", last.as_ref());
        moments.retain(|moment: &Moment| SENDS.contains(&moment.name.as_str()));
        bed.del(bed.len(), "a trace");
        let mut killed = 0;
        for moment in &moments {
            let last = bed.add(at);
            let after = format!("ADD of plugin {at} killed at {moment:?}");
            killed += usize::from(kill(&bed, at, "ADD", last.as_ref(), moment));
            bed.del(bed.len(), &after);
            bed.is_clean(&after);
        }
        println!("plugin {at}: {killed} kills of ADD in {} messages", moments.len());
        assert!(killed * 10 >= moments.len() * 9, "{killed} of {moments:?}");
    }
}
