//! Containers of Docker on a segment of a real Open vSwitch.

use tests::Release;
use tests::neutron_switch::Switch;

use crate::bed::Bed;
use crate::neighbours::{NEIGHBOURS, NO_NEIGHBOURS};

#[track_caller]
fn on_a_segment(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    bed.world().sh(NEIGHBOURS);
    let switch = Switch::start(bed.world());
    for (name, vlan) in [("ten", 10), ("twenty", 20)] {
        bed.spoke(&format!(
            "network create -d ovs --opt bridge=br-int --opt vlan={vlan} --subnet 10.85.{vlan}.0/24 {name}"
        ));
        bed.network(&format!(
            "--ipam-opt network={name} --subnet 10.85.{vlan}.0/24 -o ports=docker {name}"
        ));
    }
    bed.run("--name one --network ten");
    bed.run("--name two --network ten");
    bed.run("--name three --network twenty");
    assert_eq!(switch.ports().len(), 3);
    bed.truth("one", "ten");
    bed.engine.ping("one", &bed.address("two", "ten"));
    // Its own bridge leads out, and other VLANs are not reached by that either.
    bed.engine.ping("one", "192.0.2.2");
    bed.no_ping("one", &bed.address("three", "twenty"));
    bed.docker("network connect twenty two");
    bed.engine.ping("two", &bed.address("three", "twenty"));
    bed.docker("network disconnect twenty two");
    bed.docker("restart -t 0 one");
    bed.engine.ping("one", &bed.address("two", "ten"));
    // A network that Docker itself describes.
    let own = "-o driver=ovs -o ovs.bridge=br-int -o ovs.vlan=30 -o ports=docker";
    bed.network(&format!("--subnet 10.85.30.0/24 {own} thirty"));
    bed.run("--name four --network thirty");
    bed.run("--name five --network thirty");
    bed.truth("four", "thirty");
    bed.engine.ping("four", &bed.address("five", "thirty"));
    bed.engine.ping("four", "192.0.2.2");
    bed.no_ping("four", &bed.address("three", "twenty"));
    bed.remove("one two three four five");
    assert_eq!(switch.ports(), Vec::<String>::new());
    bed.docker("network rm ten twenty thirty docker_gwbridge");
    bed.spoke("network rm ten twenty");
    bed.world().sh(NO_NEIGHBOURS);
}

#[test]
fn on_a_segment_20_10() {
    on_a_segment(Release::V20_10);
}

#[test]
fn on_a_segment_28_5() {
    on_a_segment(Release::V28_5);
}
