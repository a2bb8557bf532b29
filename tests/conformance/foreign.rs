//! Third-party drivers.

use std::path::PathBuf;

use tests::fault_proxy::FaultProxy;
use tests::neutron_lab::ApiLab;
use tests::neutron_switch::Switch;
use tests::remote_driver::{Kuryr, OvnDocker};
use tests::{Plugins, World};

use crate::{ended, names, test};

const PORT: u16 = 9696;

/// kuryr-libnetwork 18, with Neutron's API behind it and no dataplane: what it is known for is
/// found, and everything else is as the protocol says.
#[test]
fn kuryr_is_what_it_is_known_for() {
    let project = ApiLab::shared().project();
    let world = World::new(&Plugins::subject());
    let netns = PathBuf::from(format!("/proc/{}/ns/net", world.pid()));
    let _proxy = FaultProxy::inside(&netns, PORT, ApiLab::shared().upstream(&project));
    let _switch = Switch::start(&world);
    let host = format!("ovs-{}", &project.id()[..8]);
    let _kuryr = Kuryr::start(&world, &format!("http://127.0.0.1:{PORT}"), &host);
    let cases = "--only handshake --only unknown --only address-spaces --only network";
    let verdicts = test(&world, &format!("upstream --no-interfaces {cases}"));
    // The same network again becomes a second one, which no call can delete.
    assert_eq!(names(&verdicts, "fail"), ["network-create-repeated"], "{verdicts:#?}");
    // What is gone is an error, which engines bear.
    assert!(ended(&verdicts, "warn").contains_key("unknown-endpoint"), "{verdicts:#?}");
    assert!(names(&verdicts, "pass").len() >= 6, "{verdicts:#?}");
}

/// OVN's driver for Docker: what it is known for is found.
#[test]
fn ovn_is_what_it_is_known_for() {
    let world = World::new(&Plugins::subject());
    let ovn = OvnDocker::start(&world);
    let verdicts = test(&world, "openvswitch");
    let mut failed = names(&verdicts, "fail");
    // Leave deletes the pair, and what is gone is an error to it: whether the pair still is there after
    // its namespace is the kernel's haste.
    failed.retain(|name| *name != "sandbox-gone");
    // What is gone is an error, interfaces stay where engines do not leave, and it is of global scope but
    // knows nothing of swarm's managers.
    let known = ["delete-without-leave", "leave-repeated", "swarm-allocate"];
    assert_eq!(failed, known, "{verdicts:#?}\n{}", ovn.log());
    assert!(names(&verdicts, "pass").len() >= 25, "{verdicts:#?}");
}
