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
    let listens = "until grep -q ':0050 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done";
    bed.world.sh(&format!("ip netns exec one bash -c \"{listens}\""));
    let heard = bed.world.sh("busybox nc -w 5 127.0.0.1 8081 </dev/null");
    assert_eq!(heard.trim(), "from one", "published by the network beside");

    bed.spoke("network connect net one");
    let links = bed.ip("one", "-o -4 address show scope global");
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

/// That a server of the container's answers on this port of the host.
#[track_caller]
fn answers(bed: &Bed, port: u16) {
    let heard = bed.world.sh(&format!("busybox nc -w 5 127.0.0.1 {port} </dev/null"));
    assert_eq!(heard.trim(), "from one", "port {port}");
}

/// Which ports the call programs.
fn programmed(call: &tests::remote_driver::Asked) -> Vec<u64> {
    let ports = call.body["Options"]["com.docker.network.portmap"].as_array().cloned();
    ports.unwrap_or_default().iter().map(|port| port["HostPort"].as_u64().unwrap()).collect()
}

/// Docker's ports are the sandbox's: its gateway network publishes all of them, whichever network they
/// were named with, and they are never published twice.
#[test]
fn ports_follow_the_default_gateway() {
    let bed = Bed::with_network(Manners::default(), "");
    bed.spoke(&format!("{CREATE} b"));
    bed.spoke("network create --subnet 10.211.0.0/24 bridged");
    bed.world.sh(
        "ip netns exec one sh -c 'while :; do echo from one | busybox nc -l -p 80; done >/dev/null 2>&1 &'",
    );
    bed.spoke("network connect --publish 8081:80 bridged one");
    let listens = "until grep -q ':0050 .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done";
    bed.world.sh(&format!("ip netns exec one bash -c \"{listens}\""));
    answers(&bed, 8081);
    bed.driver.take();
    // A plugin's network takes over, and adds one of its own.
    bed.spoke("network connect --gw-priority 5 --publish 8082:80 net one");
    let asked = bed.driver.take();
    let reported: Vec<_> =
        asked.iter().filter(|it| it.method == "ProgramExternalConnectivity").collect();
    assert_eq!(reported.iter().map(|it| programmed(it)).collect::<Vec<_>>(), [[8081, 8082]]);
    let silent = bed.world.try_sh("busybox nc -w 1 127.0.0.1 8081 </dev/null");
    assert_ne!(silent.stdout.trim(), "from one", "our packet filter has let go");
    let shown = bed.spoke("ports");
    assert!(shown.matches("8081").count() == 1 && shown.contains("10.200.1.2:80"), "{shown}");
    // Another endpoint of the same plugin: revoked on the old one, and then programmed on the new.
    bed.spoke("network connect --gw-priority 9 b one");
    let order = bed.order();
    let revoked = order.find("RevokeExternalConnectivity").expect("net leads no more");
    let programmed_at = order.find("ProgramExternalConnectivity").expect("b leads");
    assert!(revoked < programmed_at, "{order}");
    // A port that comes with a network that does not lead is programmed where the others are.
    bed.spoke("network disconnect net one");
    bed.driver.take();
    bed.spoke("network connect --publish 8083:80 net one");
    let asked = bed.driver.take();
    let reported: Vec<_> =
        asked.iter().filter(|it| it.method == "ProgramExternalConnectivity").collect();
    assert_eq!(reported.iter().map(|it| programmed(it)).collect::<Vec<_>>(), [[8081, 8082, 8083]]);
    let order: Vec<&str> = asked.iter().map(|it| it.method.as_str()).collect();
    assert_eq!(order.iter().filter(|it| **it == "RevokeExternalConnectivity").count(), 1);
    // Each endpoint of the container is asked for what there is to say of it.
    assert_eq!(order.iter().filter(|it| **it == "EndpointOperInfo").count(), 2, "{order:?}");
    // Those that lead go: all ports are the bridge's.
    for network in ["b", "net"] {
        bed.spoke(&format!("network disconnect {network} one"));
    }
    for port in [8081, 8082, 8083] {
        answers(&bed, port);
    }
    bed.refused("network connect --publish 8083:81 bridged two", &["8083"]);
    bed.spoke("network disconnect bridged one");
    assert!(!bed.spoke("ports").contains("808"));
    bed.world.sh("ip netns pids one | xargs -r kill -9");
    bed.spoke("network rm net b bridged");
    bed.is_clean();
}

/// No call said that the container went: what the plugin has for it is given back all the same, once the
/// kernel has taken the namespace apart.
#[test]
fn who_is_gone_is_collected() {
    for gateway in [false, true] {
        let bed = Bed::with_network(Manners { gateway, ..Manners::default() }, "");
        bed.spoke("network connect --publish 8080:80 net one");
        // Not the namespace's path alone proves anything: a process is in it still.
        let within = bed.world.sh("ip netns exec one sleep 1000 >/dev/null 2>&1 & echo $!");
        let within = within.trim();
        bed.world.sh(&format!("until ip netns pids one | grep -qx {within}; do sleep 0.05; done"));
        bed.world.sh("ip netns del one");
        for _ in 0..5 {
            bed.spoke("gc");
        }
        assert!(bed.spoke("ps").contains("net"), "it may be alive");
        assert!(!bed.order().contains("Leave"));
        bed.world.sh(&format!("kill -9 {within}"));
        let is_gone = (0..500).any(|_| {
            let found = bed.spoke("gc");
            assert!(!found.contains("sandbox"), "{found}");
            !bed.spoke("ps").contains("one")
        });
        assert!(is_gone, "the namespace's number goes with it: {}", bed.spoke("ps"));
        let order = bed.order();
        assert!(order.contains("Leave DeleteEndpoint ReleaseAddress"), "{order}");
        assert!(!bed.spoke("ports").contains("8080"));
        bed.spoke(if gateway { "network rm net" } else { "network rm net gwbridge" });
        bed.is_clean();
    }
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

/// Two commands at once on one container: the second one chooses again.
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
