//! dockerd starts beside Spoke on a host that forwarded nothing: whichever of them has it forward, the containers on
//! Docker's own bridge stay shut to strangers.

use tests::{Engine, Plugins, Release, Serve, World};

use crate::bed::OURS;
use crate::neighbours::NEIGHBOURS;

/// On Docker's own bridge: port 80 is published, port 81 is not.
const RUN: &str = "run -d --name own -p 18620:80 busybox \
    sh -c 'httpd -p 80 -h /www; httpd -p 81 -h /www; exec sleep 3600'";
/// What a boot leaves of the network.
const BOOT: &str = "
    nft flush ruleset
    for link in $(ip -o link show type bridge | sed 's/^[0-9]*: \\([^:@]*\\).*/\\1/'); do ip link del $link; done
    echo 0 >/proc/sys/net/ipv4/conf/lo/tag; echo 0 >/proc/sys/net/ipv4/ip_forward";
const FORWARDS: &str = "cat /proc/sys/net/ipv4/ip_forward";

/// Whether a machine of the host's LAN is answered.
fn asks(world: &World, host: &str, port: u16) -> bool {
    let ask = format!("exec 3<>/dev/tcp/{host}/{port}");
    world.try_sh(&format!("ip netns exec lan timeout 1 bash -c '{ask}'")).status == 0
}

/// Strangers reach what is published, and nothing else; containers leave.
#[track_caller]
fn stays_shut(engine: &Engine) {
    let world = engine.world();
    engine.docker(RUN);
    let address = engine.docker("inspect -f {{.NetworkSettings.Networks.bridge.IPAddress}} own");
    let address = address.trim();
    for port in [80, 81] {
        let serves = format!("exec 3<>/dev/tcp/{address}/{port}");
        world
            .sh(&format!("timeout 20 bash -c 'until ({serves}) 2>/dev/null; do sleep 0.05; done'"));
    }
    let rules = || world.sh("iptables-save; nft list ruleset");
    // Spoke's daemon hears of Docker's chains within a second, and this is within ten.
    let open = |_: &u32| asks(world, address, 81);
    let found = (0..10).take_while(open).count();
    assert!(found < 10, "a neighbour reaches what is not published\n{}", rules());
    assert!(!asks(world, address, 81), "it opens again\n{}", rules());
    assert!((0..10).any(|_| asks(world, "192.0.2.1", 18620)), "the published port\n{}", rules());
    engine.docker("exec own ping -c 1 -W 5 192.0.2.2");
    engine.docker("rm -f own");
}

#[track_caller]
fn dockers_own_bridge_stays_shut(release: Release) {
    if !release.is_there() {
        return;
    }
    let mut engine = Engine::prepared(release, &Plugins::subject());
    let world = engine.world();
    world.sh(NEIGHBOURS);
    world.sh("echo 0 >/proc/sys/net/ipv4/ip_forward");
    let serve = Serve::start(world, &[]);
    world.sh("export PATH=/opt/cni/bin:$PATH; set -e
        spoke network create --subnet 10.90.1.0/24 early; ip netns add early; spoke network connect early early");
    assert_eq!(world.sh(FORWARDS), "1\n");
    engine.start(&[]);
    engine.import();
    stays_shut(&engine);
    let world = engine.world();
    // Refused by the machine, and not dropped on the way.
    let leaves =
        "ip netns exec early timeout 5 bash -c 'exec 3<>/dev/tcp/192.0.2.2/9' 2>&1 | grep refused";
    world.sh(leaves);
    // An administrator decides otherwise, and that lasts.
    world.sh("iptables -P FORWARD ACCEPT; export PATH=/opt/cni/bin:$PATH; set -e
        ip netns add late; spoke network connect early late
        iptables -S FORWARD | grep -qx -e '-P FORWARD ACCEPT'");
    // A boot, with a network of Docker's on Spoke.
    engine.docker(&format!("network create {OURS} --subnet 10.90.2.0/24 ours"));
    for name in ["early", "late"] {
        world.sh(&format!(
            "/opt/cni/bin/spoke network disconnect early {name}; ip netns del {name}"
        ));
    }
    engine.stop();
    drop(serve);
    let world = engine.world();
    world.sh(BOOT);
    let _serve = Serve::start(world, &[]);
    world.sh(
        "timeout 20 sh -c 'until ip -o link show type bridge | grep -q .; do sleep 0.05; done'",
    );
    assert_eq!(world.sh(FORWARDS), "0\n", "without a container");
    engine.start(&[]);
    stays_shut(&engine);
    engine.docker("network rm ours");
}

#[test]
fn dockers_own_bridge_stays_shut_20_10() {
    dockers_own_bridge_stays_shut(Release::V20_10);
}

#[test]
fn dockers_own_bridge_stays_shut_26_1() {
    dockers_own_bridge_stays_shut(Release::V26_1);
}

#[test]
fn dockers_own_bridge_stays_shut_28_5() {
    dockers_own_bridge_stays_shut(Release::V28_5);
}
