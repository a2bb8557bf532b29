//! Ports of Open vSwitch whose containers a reboot has ended, and ports that others take out of the switch.

use tests::Serve;
use tests::neutron_switch::Switch;

use crate::bed::{Bed, SPOKE};

/// A boot ends namespaces, their devices and the records of their attachments. The switch's database stays.
const REBOOT: &str = "cat /proc/sys/kernel/random/uuid >/tmp/boot_id
    mount --bind /tmp/boot_id /proc/sys/kernel/random/boot_id
    for space in /run/netns/*; do ip netns del ${space##*/}; done";

#[test]
fn ports_of_an_earlier_boot_go() {
    let bed = Bed::new(&["a", "b"]);
    let switch = Switch::start(&bed.world);
    for name in ["ten", "gone"] {
        let create = "network create -d ovs --opt bridge=br-int --opt vlan=10 --address-space";
        bed.spoke(&format!("{create} {name} --internal --subnet 10.0.0.0/24 {name}"));
    }
    bed.spoke("network connect ten a");
    bed.spoke("network connect gone b");
    let ended = switch.ports();
    assert_eq!(ended.len(), 2);
    for port in &ended {
        let kept = switch.vsctl(&format!("get port {port} other_config:transient"));
        assert_eq!(kept.trim().trim_matches('"'), "true", "for ovs-ctl");
    }
    bed.world.sh(REBOOT);
    let switch = switch.restart(&bed.world);
    switch.vsctl("add-port br-int strange0");
    for port in &ended {
        switch.vsctl(&format!("wait-until interface {port} ofport=-1"));
    }
    bed.world.netns("c");
    bed.spoke("network connect ten c");
    // Its containers' ports go with a network, whether or not anything names its database afterwards.
    bed.spoke("network rm gone");
    let left = switch.ports();
    assert_eq!(left.len(), 3, "{left:?}");
    let seen = bed.spoke("gc --dry-run");
    assert!(seen.contains("switch-port"), "{seen}");
    assert_eq!(switch.ports(), left, "a dry run");
    bed.spoke("gc");
    let left = switch.ports();
    assert!(left.contains(&"strange0".to_owned()), "it is another program's: {left:?}");
    assert_eq!(left.len(), 2, "the living one stays: {left:?}");
    assert!(!left.iter().any(|port| ended.contains(port)), "{left:?}");
    bed.world.sh(&format!("{SPOKE} network disconnect ten c"));
    assert_eq!(switch.ports(), ["strange0"]);
}

#[test]
fn a_port_that_others_take_out_comes_back() {
    let bed = Bed::new(&["a", "b"]);
    let switch = Switch::start(&bed.world);
    bed.spoke(
        "network create -d ovs --opt bridge=br-int --opt vlan=10 --opt vni=7 --opt remote=192.0.2.9 \
         --internal --subnet 10.0.0.0/24 ten",
    );
    bed.spoke("network connect --ip 10.0.0.5 ten a");
    bed.spoke("network connect --ip 10.0.0.6 ten b");
    let whole = switch.ports();
    assert_eq!(whole.len(), 3, "{whole:?}");
    assert!(!bed.world.try_sh(&format!("{SPOKE} doctor")).stdout.contains("br-int"));
    for port in &whole {
        switch.vsctl(&format!("del-port br-int {port}"));
    }
    let doctor = bed.world.try_sh(&format!("{SPOKE} doctor"));
    let is_reported = doctor.stdout.contains("not on bridge br-int any more: a, b");
    assert!(doctor.status != 0 && is_reported, "{doctor:?}");
    let serve = Serve::start(&bed.world, &[]);
    for port in &whole {
        switch.vsctl(&format!("wait-until interface {port} ofport>0"));
    }
    assert_eq!(switch.ports(), whole);
    bed.world.sh("ip netns exec a ping -c 1 -W 5 10.0.0.6");
    serve.stop();
    bed.spoke("network disconnect ten a");
    bed.spoke("network disconnect ten b");
    bed.spoke("network rm ten");
    assert_eq!(switch.ports(), Vec::<String>::new());
}
