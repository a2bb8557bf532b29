//! Names on the host itself, by the real systemd-resolved.

use std::fs;
use std::path::Path;

use tests::{Output, Plugins, Serve, World};

use crate::bed::{Bed, SPOKE, prepare, until_answers};

const FILES: [&str; 3] = [
    "/lib/systemd/systemd-resolved",
    "/usr/bin/resolvectl",
    "/usr/share/dbus-1/system.d/org.freedesktop.resolve1.conf",
];

/// It takes its servers from the bridges only: the host's own file names no server that it may ask.
const START: &str = "
chmod +x /lib/systemd/systemd-resolved /usr/bin/resolvectl
echo 'systemd-resolve:x:64991:64991::/:/usr/sbin/nologin' >>/etc/passwd
echo 'systemd-resolve:x:64991:' >>/etc/group
mkdir -p /run/dbus /run/systemd/resolve; chown 64991:64991 /run/systemd/resolve
rm -f /etc/resolv.conf; printf 'nameserver 127.0.0.1\\n' >/etc/resolv.conf
dbus-daemon --system --fork --nopidfile";

const RUN: &str =
    "/lib/systemd/systemd-resolved >>/world/resolved.log 2>&1 & echo $! >/world/resolved.pid
timeout 60 sh -c 'until resolvectl status >/dev/null 2>&1; do sleep 0.05; done'";

const STOP: &str = "kill $(cat /world/resolved.pid)
timeout 60 sh -c 'while resolvectl status >/dev/null 2>&1; do sleep 0.05; done'";

/// systemd-resolved, scripts/peers has unpacked it.
#[track_caller]
fn resolved(world: &World) {
    let peer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/peers/resolved");
    for file in FILES {
        let from = peer.join(file.trim_start_matches('/'));
        let done = fs::copy(&from, world.path(file));
        done.unwrap_or_else(|error| panic!("{}: {error} (make test)", from.display()));
    }
    world.sh(START);
    world.sh(RUN);
}

#[track_caller]
fn configure(world: &World, text: &str) {
    world.sh(&format!("mkdir -p /etc/spoke; printf '%s' '{text}' >/etc/spoke/config.toml"));
}

#[track_caller]
fn until(world: &World, script: &str) {
    let done = world.try_sh(&format!("timeout 60 bash -c \"until {script}; do sleep 0.05; done\""));
    let status =
        world.try_sh("resolvectl status; cat /etc/spoke/config.toml; cat /world/spoke.log");
    assert_eq!(done.status, 0, "{script}\n{}{}", status.stdout, world.logs());
}

/// What the host itself is answered at a port.
fn at_port(world: &World, port: u16, asked: &str) -> Output {
    world.try_sh(&format!(
        "sed 's/(server, 53)/(server, {port})/' /world/ask.py >/world/ask-{port}.py
         python3 /world/ask-{port}.py {asked}"
    ))
}

/// The host resolves the names of a network as soon as it has a container, of both families and in reverse; everything
/// else goes where it went; and when the network, the option or the daemon goes, nothing is left of it.
#[test]
fn the_host_resolves_by_systemd_resolved() {
    let world = World::new(&Plugins::subject());
    prepare(&world);
    resolved(&world);
    configure(&world, "[names]\nhost = true\n");
    let mut bed = Bed { serve: Some(Serve::start(&world, &[])), world };
    let world = &bed.world;
    bed.spoke("network create --names --subnet 10.71.1.0/24 --subnet fd71::/64 front");
    bed.spoke("network create --names --subnet 10.71.2.0/24 back");
    bed.spoke("network create --subnet 10.71.3.0/24 plain");
    for (network, name) in [("front", "web"), ("back", "api"), ("plain", "other")] {
        world.netns(name);
        bed.spoke(&format!("network connect {network} {name}"));
    }
    until(world, "resolvectl query web.front.spoke 2>/dev/null | grep -q '10.71.1.2'");
    until(world, "resolvectl query api.back.spoke 2>/dev/null | grep -q '10.71.2.2'");
    let found = world.sh("resolvectl query --cache=no -6 web.front.spoke");
    assert!(found.contains("fd71::") && found.contains("link: sp-front"), "{found}");
    let found = world.sh("resolvectl query --cache=no 10.71.1.2");
    assert!(found.contains("web.front.spoke"), "{found}");
    for gone in ["nobody.front.spoke", "other.plain.spoke"] {
        assert_ne!(world.try_sh(&format!("resolvectl query {gone}")).status, 0, "{gone}");
    }
    let direct = at_port(world, 299, "10.71.1.1 web.front.spoke");
    assert_eq!(direct.stdout.trim(), "10.71.1.2", "{direct:?}");
    assert_eq!(at_port(world, 299, "10.71.1.1 outside.example").stdout.trim(), "REFUSED");
    // It goes by the host's own server, and the names of networks never do.
    let found = world.sh("resolvectl query outside.example");
    assert!(found.contains("192.0.2.7") && !found.contains("link: sp-"), "{found}");
    assert!(!bed.was_asked("nobody.front.spoke"));
    let said = bed.spoke("dns host");
    assert!(said.contains("systemd-resolved runs here"), "{said}");
    // A container is no host, and is not answered as one.
    assert_eq!(bed.ask("web", "api.back.spoke"), "NXDOMAIN");
    assert_eq!(bed.ask("web", "2.2.71.10.in-addr.arpa PTR"), "NXDOMAIN");
    assert_eq!(bed.ask("web", "2.1.71.10.in-addr.arpa PTR"), "web.front.spoke");
    // Another resolved learns it again, and one that is configured anew.
    world.sh(STOP);
    world.sh("rm -rf /run/systemd/resolve/netif");
    world.sh(RUN);
    until(world, "resolvectl query web.front.spoke 2>/dev/null | grep -q '10.71.1.2'");
    bed.spoke("network disconnect back api");
    bed.spoke("network rm back");
    until(world, "! resolvectl query --cache=no api.back.spoke 2>/dev/null");
    assert!(!world.sh("resolvectl domain").contains("back.spoke"));
    // A life that was killed is cleaned up after, where it is not wanted any more.
    bed.serve.take().expect("it runs").kill();
    assert!(world.sh("resolvectl domain").contains("front.spoke"));
    configure(world, "");
    bed.serve = Some(Serve::start(world, &[]));
    until_answers(world, "10.71.1.1");
    until(world, "! resolvectl domain | grep -q front.spoke");
    assert!(bed.spoke("dns host").contains("host = true"));
    let again = world.try_sh("timeout 2 python3 /world/ask-299.py 10.71.1.1 web.front.spoke");
    assert_ne!(again.status, 0, "the host is not answered: {again:?}");
    bed.serve.take().expect("it runs").stop();
    configure(world, "[names]\nhost = true\n");
    bed.serve = Some(Serve::start(world, &[]));
    until(world, "resolvectl domain | grep -q front.spoke");
    // What the host asks by a bridge of its own stays.
    bed.spoke("network create --names --bridge br0 --subnet 10.71.4.0/24 lan");
    world.sh("ip link add br0 type bridge; ip link set br0 up
         resolvectl dns br0 192.0.2.53; resolvectl domain br0 corp.example");
    world.netns("desk");
    bed.spoke("network connect lan desk");
    until(world, "grep -q 'br0 is no bridge' /world/spoke.log");
    let own = || world.sh("resolvectl dns br0; resolvectl domain br0");
    assert!(own().contains("192.0.2.53") && !own().contains("lan.spoke"), "{}", own());
    let lines = bed.spoke("dns host");
    assert!(lines.contains("server=/lan.spoke/4.71.10.in-addr.arpa/10.71.4.1#299"), "{lines}");
    bed.serve.take().expect("it runs").stop();
    assert!(!world.sh("resolvectl domain").contains("front.spoke"), "it is taken back");
    assert!(own().contains("192.0.2.53") && own().contains("corp.example"), "{}", own());
}

/// Where no resolved runs, the lines that are printed are what dnsmasq needs.
#[test]
fn the_host_resolves_by_the_lines_that_are_printed() {
    let world = World::new(&Plugins::subject());
    prepare(&world);
    configure(&world, "[names]\nhost = true\n");
    let bed = Bed { serve: Some(Serve::start(&world, &[])), world };
    bed.spoke("network create --names --subnet 10.71.1.0/24 front");
    bed.world.netns("web");
    bed.spoke("network connect front web");
    bed.until_answers("10.71.1.1");
    let lines =
        bed.world.sh(&format!("{SPOKE} dns host | grep server= >/world/lines; cat /world/lines"));
    assert_eq!(lines.trim(), "server=/front.spoke/1.71.10.in-addr.arpa/10.71.1.1#299");
    bed.world.sh("sed 's/^ *//' /world/lines >/world/lines.conf
         dnsmasq --conf-file=/world/lines.conf --user=root --pid-file= --no-resolv --no-hosts \\
             --listen-address=127.0.0.7 --bind-interfaces --port=5353");
    let ask = |what: &str| at_port(&bed.world, 5353, &format!("127.0.0.7 {what}")).stdout;
    assert_eq!(ask("web.front.spoke").trim(), "10.71.1.2");
    assert_eq!(ask("2.1.71.10.in-addr.arpa PTR").trim(), "web.front.spoke");
    assert_eq!(ask("nobody.front.spoke").trim(), "NXDOMAIN");
    assert!(!bed.was_asked("web.front.spoke"));
}
