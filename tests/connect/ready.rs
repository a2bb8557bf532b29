//! An attach ends when the bridge forwards for the new port: a question for an address that comes before is lost,
//! and repeated after a second.

use tests::{Plugins, World};

const SPOKE: &str = "/opt/cni/bin/spoke";
/// Without the wait about one of a hundred was not ready, on a host whose processors are busy.
const ATTACHES: usize = 60;

#[test]
fn a_port_forwards_when_its_attach_is_over() {
    let world = World::new(&Plugins::subject());
    world.sh(&format!("{SPOKE} network create --subnet 10.70.1.0/24 front"));
    // Whatever the shell's programs are asked for would take longer than the kernel does.
    let look = "for port in /sys/class/net/sp-front/brif/*/state; do
        read -r state <$port; read -r bridge </sys/class/net/sp-front/operstate; echo $state $bridge
    done";
    let sysfs = "mkdir /world/sys; mount -t sysfs none /world/sys";
    let look = look.replace("/sys/", "/world/sys/");
    let attach =
        format!("ip netns add box$n; {SPOKE} network connect front box$n >/dev/null; {look}");
    let remove = format!("{SPOKE} network disconnect front box$n >/dev/null; ip netns del box$n");
    let said = world.sh(&format!(
        "{sysfs}
         for n in $(seq {ATTACHES}); do {attach}; {remove}; done"
    ));
    // 3: it forwards (linux/if_bridge.h, BR_STATE_FORWARDING); the bridge, of which it is the only port, carries packets.
    assert_eq!(said.lines().count(), ATTACHES, "{said}");
    assert!(said.lines().all(|state| state == "3 up"), "{said}");
}
