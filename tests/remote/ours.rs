//! Spoke's own driver, called by Spoke: the host's engine calls the daemon that serves Docker, and
//! each keeps its own book.

use tests::{Plugins, Serve, World};

/// The engine's own places: another Spoke than the daemon's.
const OTHER: &str = "[store]\nruntime = \"/run/other\"\nstate = \"/var/lib/other\"\n";

#[test]
fn our_own_driver_by_our_own_proxy() {
    let world = World::new(&Plugins::subject());
    let serve = Serve::start(&world, &[]);
    world.sh(&format!(
        "mkdir -p /etc/other; printf '{}' >/etc/other/config.toml",
        OTHER.escape_debug()
    ));
    let spoke = |arguments: &str| {
        let said = world.try_sh(&format!(
            "SPOKE_CONFIG=/etc/other/config.toml {}/spoke {arguments}",
            Plugins::MOUNT
        ));
        assert_eq!(said.status, 0, "spoke {arguments}\n{said:?}\n{}", serve.log());
        said.stdout
    };
    let theirs = |arguments: &str| world.sh(&format!("{}/spoke {arguments}", Plugins::MOUNT));
    spoke("network create --driver spoke --ipam-driver spoke --subnet 10.95.0.0/24 net");
    for name in ["one", "two"] {
        world.netns(name);
        spoke(&format!("network connect net {name}"));
    }
    world.sh("ip netns exec one busybox ping -c 1 -W 3 10.95.0.3");
    world.sh("ip netns exec one busybox ping -c 1 -W 3 10.95.0.1");
    assert!(world.sh("ip -n one route").contains("default via 10.95.0.1 dev eth0"));
    for listed in [spoke("ps"), theirs("ps")] {
        assert!(listed.contains("10.95.0.2/24") && listed.contains("10.95.0.3/24"), "{listed}");
    }
    spoke("network disconnect net one");
    spoke("network disconnect net two");
    assert_eq!(theirs("ps -o json").trim(), "[]");
    spoke("network rm net");
    assert_eq!(theirs("network ls -o json").trim(), "[]");
    assert_eq!(spoke("gc --dry-run -o json").trim(), "[]");
    serve.stop();
}
