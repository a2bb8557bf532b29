//! A user's runtime on plugins that root took over: root in a user namespace, with a network and a `/run` of its own,
//! and without the right to write Spoke's records, as Podman 4 has it.

use tests::{Output, Plugins, World};

/// `call VERB PLUGIN`, as Podman calls the plugins of its default network, in a namespace as Podman 4 makes it.
const CALLS: &str = r#"
call() {
    stdin=$(jq -c --arg type "$2" '.plugins[] | select(.type == $type) + {
        cniVersion: "0.4.0", name: "podman", runtimeConfig: {portMappings: [{hostPort: 8080, containerPort: 80, protocol: "tcp"}]}
    }' /world/list)
    [ ! -s /run/result ] || stdin=$(jq -c --slurpfile before /run/result '. + {prevResult: $before[0]}' <<<"$stdin")
    CNI_COMMAND=$1 CNI_CONTAINERID=c1 CNI_NETNS=/run/netns/c1 CNI_IFNAME=eth0 CNI_PATH=/world/bin \
        /world/bin/$2 <<<"$stdin"
}
mount -t tmpfs run /run
mkdir -p /run/netns /run/cni
mount --bind /run/cni /var/lib/cni
export _CONTAINERS_ROOTLESS_UID=1000
ip link set lo up
ip netns add c1
"#;

/// Podman 4's default network.
const LIST: &str = r#"{"plugins": [
    {"type": "bridge", "bridge": "cni-podman0", "isGateway": true, "ipMasq": true, "hairpinMode": true, "ipam": {
        "type": "host-local", "routes": [{"dst": "0.0.0.0/0"}], "ranges": [[{"subnet": "10.88.0.0/16", "gateway": "10.88.0.1"}]]}},
    {"type": "portmap", "capabilities": {"portMappings": true}},
    {"type": "firewall"}, {"type": "tuning"}, {"type": "loopback"}
]}"#;

/// A host whose directory of plugins is `/world/bin`, with records that a user may not see.
fn host() -> World {
    let world = World::new(&Plugins::subject());
    std::fs::write(world.path("/world/list"), LIST).unwrap();
    world.sh("mkdir -p /world/bin /var/lib/cni /etc/cni/net.d
        /opt/cni/bin/spoke network create front --subnet 10.70.1.0/24 >/world/made
        ! setpriv --reuid 1000 --clear-groups ls /var/lib/spoke 2>/world/denied");
    world
}

fn install(world: &World) {
    world.sh("umask 077; /opt/cni/bin/spoke cni install --bin-dir /world/bin --takeover; chmod 755 /world/bin");
}

/// How a script ends that a user without any privilege begins.
fn as_user(world: &World, script: &str) -> Output {
    std::fs::write(world.path("/world/script"), format!("set -eu\n{CALLS}\n{script}")).unwrap();
    world
        .try_sh("setpriv --reuid 1000 --regid 1000 --clear-groups unshare -Urmn bash /world/script")
}

#[test]
fn what_a_takeover_kept_answers() {
    let world = host();
    let reference = Plugins::previous();
    for plugin in ["bridge", "host-local", "portmap", "firewall", "tuning", "loopback"] {
        std::fs::copy(reference.dir().join(plugin), world.path("/world/bin").join(plugin)).unwrap();
    }
    let life = "for plugin in bridge portmap firewall tuning; do
            call ADD $plugin >/run/next; mv /run/next /run/result
        done
        jq -c '[.interfaces[0].name, .ips[0].address]' /run/result
        ip -n c1 -br address show eth0 | grep -o 10.88.0.2/16
        iptables -t nat -S | grep -c 'to-destination 10.88.0.2:80'
        for plugin in bridge firewall tuning; do call CHECK $plugin; done
        for plugin in tuning firewall portmap bridge; do call DEL $plugin; done
        ip -n c1 -br link | grep -c eth0 || ls /run/cni/networks/podman
        rm /run/result; call ADD loopback | jq -c .ips[0].address";
    let before = as_user(&world, life);
    assert_eq!(before.status, 0, "{before:?}");
    assert!(before.stdout.starts_with("[\"cni-podman0\",\"10.88.0.2/16\"]\n"), "{before:?}");
    install(&world);
    assert_eq!(as_user(&world, life), before);

    // Root's calls are still Spoke's.
    let root = world.sh(
        "ip netns add c2
        jq '.plugins[0] + {cniVersion: \"0.4.0\", name: \"podman\"}' /world/list |
            CNI_COMMAND=ADD CNI_CONTAINERID=c2 CNI_NETNS=/run/netns/c2 CNI_IFNAME=eth0 CNI_PATH=/world/bin \
            /world/bin/bridge >/run/result
        /opt/cni/bin/spoke ps",
    );
    assert!(root.contains("c2"), "{root}");
}

#[test]
fn a_sentence_where_nothing_was_kept() {
    let world = host();
    install(&world);
    for plugin in ["bridge", "portmap", "firewall", "tuning", "loopback"] {
        for verb in ["ADD", "CHECK", "DEL"] {
            let said = as_user(&world, &format!("call {verb} {plugin}"));
            assert!(said.stdout.contains("\"code\":2,"), "{said:?}");
            assert!(said.stdout.contains("run the runtime as root"), "{said:?}");
        }
    }
    let version = as_user(&world, "call VERSION bridge");
    assert!(version.status == 0 && version.stdout.contains("1.1.0"), "{version:?}");
}

/// As in the namespace of a rootless containerd.
#[test]
fn with_a_state_of_its_own_spoke_works() {
    let world = host();
    install(&world);
    let said = as_user(
        &world,
        "mount -t tmpfs lib /var/lib; mkdir /var/lib/cni
        call ADD bridge | jq -c '[.ips[0].address]'; call DEL bridge; ls /var/lib/spoke /run/spoke | grep -c .",
    );
    assert!(said.status == 0 && said.stdout.contains("10.88.0.2/16"), "{said:?}");
}
