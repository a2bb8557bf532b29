//! OVN's own driver for Docker, called by Spoke as Docker calls it.

use tests::remote_driver::OvnDocker;
use tests::{Plugins, World};

/// A third-party network driver, which is no IPAM driver and leads nowhere: addresses are
/// Spoke's, and the way out is beside it.
#[test]
fn ovn_by_spoke() {
    let world = World::new(&Plugins::subject());
    let ovn = OvnDocker::start(&world);
    let spoke = |arguments: &str| {
        let done = world.try_sh(&format!("{}/spoke {arguments}", Plugins::MOUNT));
        let said = format!("spoke {arguments}\n{}{}", done.stdout, done.stderr);
        assert_eq!(done.status, 0, "{said}\n{}", ovn.log());
        done.stdout
    };
    let refused = world.try_sh(&format!(
        "{}/spoke network create --driver openvswitch --scope local net",
        Plugins::MOUNT
    ));
    assert!(refused.stderr.contains("cannot downgrade network scope"), "{refused:?}");
    spoke("network create --driver openvswitch --subnet 10.192.0.0/24 net");
    assert_eq!(
        ovn.nbctl(&world, "--bare --columns=external_ids list Logical_Switch").trim(),
        "gateway_ip=10.192.0.1 subnet=10.192.0.0/24"
    );
    for name in ["one", "two"] {
        world.netns(name);
        spoke(&format!("network connect net {name}"));
    }
    let ends = ovn.nbctl(&world, "--bare --columns=addresses list Logical_Switch_Port");
    assert!(ends.contains(" 10.192.0.2") && ends.contains(" 10.192.0.3"), "{ends}");
    // It names the hardware address.
    let mac = world.sh("ip -n one -o link show eth0");
    assert!(ends.split_whitespace().any(|word| word.contains(':') && mac.contains(word)), "{mac}");
    assert_eq!(ovn.switch.ports().len(), 2);
    world.sh("ip netns exec one busybox ping -c 1 -W 5 10.192.0.3");
    let routes = world.sh("ip -n one route show default");
    assert!(routes.contains("dev eth1"), "{routes}");
    // The second namespace goes without a word: its endpoint is given back all the same.
    spoke("network disconnect net one");
    let ports = ovn.switch.ports();
    assert_eq!(ports.len(), 1, "{ports:?}");
    // The kernel takes the pair away some time after its namespace: here, by the end of this line.
    world.sh(&format!(
        "ip link show {0}\nip netns del two\nip link del {0} || ! ip link show {0}",
        ports[0]
    ));
    let is_gone = (0..500).any(|_| {
        spoke("gc");
        spoke("ps -o json").trim() == "[]"
    });
    assert!(is_gone, "{}", spoke("gc --dry-run"));
    assert_eq!(ovn.nbctl(&world, "--bare --columns=name list Logical_Switch_Port").trim(), "");
    // Its Leave ends where the pair is gone already, and so the port stays in its switch.
    assert_eq!(ovn.switch.ports(), ports);
    spoke("network rm net gwbridge");
    assert_eq!(ovn.nbctl(&world, "ls-list").trim(), "");
    assert_eq!(spoke("gc --dry-run -o json").trim(), "[]");
    assert_eq!(world.sh("ls /run/docker/netns"), "");
}
