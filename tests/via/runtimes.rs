//! Containers of Docker, Podman and CNI, and one of them as the way.

use tests::{Engine, Plugins, Podman5, PodmanRelease, Release, Serve, World};

use crate::bed::{SPOKE, TUNNEL_UP, counts, outside, prepare, seen, send, until, until_more};

const BOTH: &[&str] = &["four", "six"];

#[track_caller]
fn tunnel_comes_and_goes(world: &World) {
    assert_eq!(seen(world, "vpn"), (0, 0));
    for _ in 0..3 {
        world.sh(TUNNEL_UP);
        until_more(world, "vpn", BOTH);
        world.sh("ip link delete wg0");
    }
    world.sh("nft flush ruleset");
    assert_eq!(seen(world, "uplink"), (0, 0), "{}", world.logs());
}

#[test]
fn docker_and_cni_leave_by_the_way() {
    let release = Release::V28_5;
    if !release.is_there() {
        return;
    }
    let mut engine = Engine::prepared(release, &Plugins::subject());
    prepare(engine.world());
    outside(engine.world(), "vpn");
    let _serve = Serve::start(engine.world(), &[]);
    engine.start(&["--dns", "198.51.100.53"]);
    engine.import();
    let create = "network create -d spoke --ipam-driver spoke --ipv6";
    let refused =
        engine.try_docker(&format!("{create} -o via=wg0 -o ports=docker --subnet 10.83.9.0/24 x"));
    assert!(refused.stderr.contains("via"), "{refused:?}");
    engine.docker(&format!("{create} -o via=wg0 --subnet 10.83.1.0/24 --subnet fd83:1::/64 vpn"));
    engine.docker(&format!("{create} --subnet 10.83.2.0/24 --subnet fd83:2::/64 side"));
    engine.docker(&format!(
        "{create} -o via=container:docker/gluetun --subnet 10.83.3.0/24 --subnet fd83:3::/64 behind"
    ));
    let world = engine.world();
    let sleeps = "busybox /bin/sleep 3600";
    engine.docker(&format!("run -d --network vpn --name one {sleeps}"));
    let key = |name: &str| {
        let key =
            engine.docker(&format!("inspect --format {{{{.NetworkSettings.SandboxKey}}}} {name}"));
        key.trim().replace("/var/run/", "/run/")
    };
    send(world, &key("one"));
    tunnel_comes_and_goes(world);
    engine.docker("rm -f one");
    engine.docker("network rm vpn");

    // The container that forwards is recognized by its name, also after a restart.
    engine.docker(&format!("run -d --network behind --name two {sleeps}"));
    engine.docker(&format!("run -d --network side --name gluetun {sleeps}"));
    send(world, &key("two"));
    for _ in 0..3 {
        let netns = key("gluetun");
        counts(world, &netns);
        until_more(world, &netns, BOTH);
        engine.docker("restart -t 0 gluetun");
    }
    engine.docker("stop -t 0 gluetun");
    assert_eq!(seen(world, "uplink"), (0, 0), "{}", world.logs());
    let shown = world.sh(&format!("{SPOKE} network ls"));
    assert!(shown.contains("container:docker/gluetun (missing)"), "{shown}");
    engine.docker("rm -f two gluetun");
    engine.docker("network rm side behind");

    // The same words in a configuration of CNI.
    world.netns("three");
    let config = r#"{"cniVersion":"1.1.0","name":"cni","plugins":[{"type":"spoke","via":"wg0","ipam":{"ranges":
        [[{"subnet":"10.83.4.0/24"}],[{"subnet":"fd83:4::/64"}]]}}]}"#;
    world.sh(&format!(
        "mkdir -p /etc/cni/net.d; cat >/etc/cni/net.d/cni.conflist <<'END'\n{config}\nEND"
    ));
    world.sh(&format!("{SPOKE} cni add cni /run/netns/three"));
    send(world, "/run/netns/three");
    let seen_before = seen(world, "vpn");
    world.sh(TUNNEL_UP);
    until_more(world, "vpn", BOTH);
    assert!(seen(world, "vpn") > seen_before);
    world.sh("ip link delete wg0");
    assert_eq!(seen(world, "uplink"), (0, 0), "{}", world.logs());
    world.sh(&format!("{SPOKE} cni del cni /run/netns/three"));
    until(world, "! ip link show type bridge | grep -q ' sp' || true");
}

#[test]
fn podman_leaves_by_the_way() {
    let Some(podman) = Podman5::new(PodmanRelease::V5_4) else { return };
    prepare(&podman.world);
    outside(&podman.world, "vpn");
    let _serve = Serve::start(&podman.world, &[]);
    podman.podman(
        "network create -d spoke -o via=wg0 --ipv6 --subnet 10.84.1.0/24 --subnet fd84:1::/64 vpn",
    );
    podman.run("one", "--network vpn", "");
    let key = podman.podman("inspect --format {{.NetworkSettings.SandboxKey}} one");
    send(&podman.world, key.trim());
    tunnel_comes_and_goes(&podman.world);
    podman.podman("rm -f -t 0 one");
    podman.podman("network rm vpn");
    podman.spoke("gc");
    until(&podman.world, "! ip rule | grep -q '^15[345]:'");
}
