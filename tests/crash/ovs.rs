//! A network of Open vSwitch: SIGKILL before each system call of ADD and DEL.

use serde_json::json;
use tests::neutron_switch::Switch;

use crate::bed::{Bed, world};
use crate::killed::kill_at_each;

/// What speaks with the switch, with the kernel, and with the disk.
const STEPS: [&str; 7] = ["connect", "sendto", "sendmsg", "write", "renameat", "rename", "unlink"];

#[test]
fn a_port_of_the_switch() {
    let world = world();
    let switch = Switch::start(&world);
    world.sh(
        "/opt/cni/bin/spoke network create -d ovs --opt bridge=br-int --opt vlan=10 --subnet 10.94.0.0/24 ten",
    );
    let list = json!({"name": "pod", "cniVersion": "1.0.0", "plugins": [
        {"type": "spoke", "network": "ten"},
    ]});
    let bed = Bed::new(&world, list);
    for verb in ["ADD", "DEL"] {
        let (killed, moments) = kill_at_each(&bed, verb, &STEPS, |after| {
            bed.is_clean(after);
            assert_eq!(switch.ports(), Vec::<String>::new(), "{after}");
        });
        assert!(killed * 10 > moments.len() * 8, "{killed} of {moments:?}");
    }
}
