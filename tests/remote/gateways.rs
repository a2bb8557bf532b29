//! Which of a container's networks leads it out.

use tests::fault_proxy::Gate;
use tests::remote_driver::{Manners, RemoteDriver};

use crate::bed::{Bed, CREATE};

/// One, and a second plugin with its own manners and the network `side`.
#[track_caller]
fn with_side(manners: Manners) -> (Bed, RemoteDriver) {
    let bed = Bed::with_network(Manners::default(), "");
    let side = RemoteDriver::start(&bed.world, "side", manners);
    bed.spoke("network create --driver side --ipam-driver side --subnet 10.210.0.0/24 side");
    (bed, side)
}

fn default_route(bed: &Bed) -> String {
    bed.ip("one", "-4 route show default").trim().to_owned()
}

#[test]
fn the_first_by_name_leads_until_another_has_priority() {
    let bed = Bed::with_network(Manners::default(), "");
    for name in ["b", "c"] {
        bed.spoke(&format!("{CREATE} {name}"));
    }
    bed.driver.take();
    bed.spoke("network connect net one");
    assert_eq!(default_route(&bed), "default via 10.200.1.1 dev eth0");
    bed.order();
    bed.spoke("network connect b one");
    assert_eq!(default_route(&bed), "default via 10.200.2.1 dev eth1", "b is before net");
    let order = bed.order();
    let revoked = order.find("RevokeExternalConnectivity").expect("net leads no more");
    let programmed = order.find("ProgramExternalConnectivity").expect("b leads");
    assert!(revoked < programmed, "{order}");
    bed.spoke("network connect --gw-priority 5 c one");
    assert_eq!(default_route(&bed), "default via 10.200.3.1 dev eth2");
    bed.spoke("network disconnect c one");
    assert_eq!(default_route(&bed), "default via 10.200.2.1 dev eth1");
    bed.spoke("network disconnect b one");
    assert_eq!(default_route(&bed), "default via 10.200.1.1 dev eth0");
    bed.spoke("network disconnect net one");
    for name in ["net", "b", "c"] {
        bed.spoke(&format!("network rm {name}"));
    }
    bed.is_clean();
}

#[test]
fn a_network_without_gateway_gets_one_beside() {
    let (bed, side) = with_side(Manners { gateway: false, ..Manners::default() });
    side.take();
    bed.spoke("network connect --publish 8081:80 side one");
    assert!(!side.order().contains(&"ProgramExternalConnectivity".to_owned()));
    let route = default_route(&bed);
    assert!(route.ends_with("dev eth1"), "{route}");
    bed.world
        .sh("ip netns exec one sh -c '(echo from one | busybox nc -l -p 80) >/dev/null 2>&1 &'");
    let listens = "until grep -q ':0050 .* 0A ' /proc/net/tcp /proc/net/tcp6; do :; done";
    bed.world.sh(&format!("ip netns exec one bash -c \"{listens}\""));
    let heard = bed.world.sh("busybox nc -w 5 127.0.0.1 8081 </dev/null");
    assert_eq!(heard.trim(), "from one", "published by the network beside");

    bed.spoke("network connect net one");
    let links = bed.ip("one", "-o -4 address");
    assert!(default_route(&bed).starts_with("default via 10.200.1.1 "), "{links}");
    assert_eq!(links.lines().count(), 2, "the one beside is gone: {links}");
    bed.spoke("network disconnect net one");
    assert!(bed.spoke("ps").contains("gwbridge"), "and comes back");
    bed.spoke("network disconnect side one");
    assert!(!bed.spoke("ps").contains("gwbridge"));
    bed.spoke("network rm net side gwbridge");
    side.is_empty();
    drop(side);
    bed.world.sh("rm /run/docker/plugins/side.sock");
    bed.is_clean();
}

/// Nobody said that the container went: what else there is to collect is collected, and it can still
/// be said.
#[test]
fn who_is_gone_is_led_nowhere() {
    let bed = Bed::with_network(Manners { gateway: false, ..Manners::default() }, "");
    bed.spoke("network connect net one");
    assert!(bed.spoke("ps").contains("gwbridge"));
    bed.world.sh("ip netns del one");
    // The kernel takes a namespace apart behind the command's back.
    let is_gone = (0..500).any(|_| {
        let found = bed.spoke("gc");
        assert!(!found.contains("sandbox"), "{found}");
        !bed.spoke("ps").contains("gwbridge")
    });
    assert!(is_gone, "the pair goes with the namespace");
    bed.spoke("network disconnect net one");
    bed.spoke("network rm net gwbridge");
    bed.is_clean();
}

#[test]
fn none_is_wanted_beside() {
    for (manners, options) in [
        (Manners { gateway: false, no_gateway_service: true, ..Manners::default() }, ""),
        (Manners::default(), "--internal"),
    ] {
        let bed = Bed::with_network(manners, options);
        bed.spoke("network connect net one");
        assert_eq!(bed.ip("one", "-o link").lines().count(), 2, "{options}");
        assert_eq!(default_route(&bed), "");
        assert!(!bed.order().contains("ProgramExternalConnectivity"));
        bed.spoke("network disconnect net one");
        bed.spoke("network rm net");
        bed.is_clean();
    }
}

/// Two commands at once on one container: whoever is second chooses again.
#[test]
fn two_at_once_agree() {
    let bed = Bed::with_network(Manners::default(), "");
    bed.spoke(&format!("{CREATE} b"));
    let gate = Gate::default();
    bed.driver.fail("Join", 1, tests::remote_driver::Fault::HoldReply(gate.clone()));
    let start = |network: &str| {
        let script = format!("/opt/cni/bin/spoke network connect {network} one");
        bed.world.command("/bin/bash").args(["-c", &script]).spawn().unwrap()
    };
    let mut first = start("net");
    gate.reached();
    let mut second = start("b");
    gate.open();
    assert!(first.wait().unwrap().success());
    assert!(second.wait().unwrap().success());
    assert!(default_route(&bed).starts_with("default via 10.200.2.1 "), "{}", default_route(&bed));
    for name in ["net", "b"] {
        bed.spoke(&format!("network disconnect {name} one"));
        bed.spoke(&format!("network rm {name}"));
    }
    bed.is_clean();
}
