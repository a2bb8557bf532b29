//! A host with firewalld, which rejects what no zone accepts.

use serde_json::{Value, json};
use tests::{Cni, Plugins, Serve, World};

const SUBNET: &str = "10.79.0.0/24";

/// The host's own device is in the zone `public`, and a machine behind it.
const START: &str = "
mkdir -p /run/dbus /run/firewalld
dbus-daemon --system --fork --nopidfile
firewalld --nopid
ip netns add lan; ip -n lan link set lo up
ip link add up0 type veth peer name eth0 netns lan
ip address add 192.0.2.1/24 dev up0; ip -n lan address add 192.0.2.2/24 dev eth0
ip link set up0 up; ip -n lan link set eth0 up
ip -n lan route add default via 192.0.2.1";

/// It answers once its rules are loaded.
const IS_READY: &str = "timeout 30 sh -c 'until dbus-send --system --print-reply \
    --dest=org.fedoraproject.FirewallD1 /org/fedoraproject/FirewallD1 \
    org.fedoraproject.FirewallD1.getDefaultZone >/dev/null 2>&1; do sleep 0.05; done'";

pub(crate) fn world() -> World {
    let world = World::new(&Plugins::subject());
    world.sh(START);
    world.sh(IS_READY);
    world
}

/// A network of ours with a container that publishes a port; its bridge.
#[track_caller]
pub(crate) fn connect(world: &World) -> String {
    world.netns("one");
    spoke(world, &format!("create --subnet {SUBNET} net"));
    spoke(world, "connect net one --container one --publish 8080:80");
    world.sh("ip -o link show type bridge | cut -d: -f2").trim().to_owned()
}

#[track_caller]
pub(crate) fn spoke(world: &World, arguments: &str) {
    world.sh(&format!("/opt/cni/bin/spoke network {arguments}"));
}

/// The interfaces of a zone.
#[track_caller]
pub(crate) fn interfaces(world: &World, zone: &str) -> String {
    world.sh(&format!("firewall-cmd --zone={zone} --list-interfaces")).trim().to_owned()
}

/// Says something at port 80 in a namespace to the client that connects first.
#[track_caller]
pub(crate) fn listen(world: &World, netns: &str) {
    let listens =
        "until grep -q \":0050 .* 0A \" /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done";
    let script = format!("(echo hello | busybox nc -l -p 80) >/dev/null 2>&1 & {listens}");
    world.sh(&format!("ip netns exec {netns} sh -c '{script}'"));
}

/// What is heard at an address.
pub(crate) fn ask(world: &World, netns: &str, host: &str, port: u16) -> String {
    let ask = format!("ip netns exec {netns} busybox nc -w 2 {host} {port} </dev/null");
    world.try_sh(&ask).stdout.trim().to_owned()
}

/// Both ways, as the network promises.
#[track_caller]
pub(crate) fn works(world: &World) {
    listen(world, "lan");
    assert_eq!(ask(world, "one", "192.0.2.2", 80), "hello", "outwards");
    listen(world, "one");
    assert_eq!(ask(world, "lan", "10.79.0.2", 80), "", "what is not published stays shut");
    assert_eq!(ask(world, "lan", "192.0.2.1", 8080), "hello", "a published port");
}

#[test]
fn containers_get_out() {
    let world = world();
    let bridge = connect(&world);
    assert_eq!(interfaces(&world, "trusted"), bridge);
    works(&world);
    spoke(&world, "disconnect net one");
    spoke(&world, "rm net");
    assert_eq!(interfaces(&world, "trusted"), "");
    // Where it is stopped its rules are gone, and it is not asked.
    world.sh("firewall-cmd --zone=trusted --list-all; pkill -x firewalld; \
        timeout 20 sh -c 'while nft list table inet firewalld >/dev/null 2>&1; do sleep 0.05; done'");
    spoke(&world, &format!("create --subnet {SUBNET} net"));
    spoke(&world, "connect net one --container one --publish 8080:80");
    works(&world);
}

/// A container that is there already gets out again within a moment.
#[test]
fn a_restart_of_firewalld_is_healed() {
    let world = world();
    let _daemon = Serve::start(&world, &[]);
    let bridge = connect(&world);
    works(&world);
    world.sh("firewall-cmd --reload");
    works(&world);
    world
        .sh("pkill -x firewalld; timeout 20 sh -c 'while pgrep -x firewalld; do sleep 0.05; done'");
    world.sh("firewalld --nopid");
    world.sh(IS_READY);
    world.sh(&format!(
        "timeout 20 sh -c 'until firewall-cmd --zone=trusted --list-interfaces | grep -q {bridge}; \
         do sleep 0.05; done'"
    ));
    works(&world);
}

/// Which zone a bridge is in is the administrator's decision.
#[test]
fn another_zone_stays() {
    let world = world();
    spoke(&world, &format!("create --subnet {SUBNET} --bridge br-mine net"));
    world.sh("firewall-cmd -q --permanent --zone=block --add-interface=br-mine");
    world.sh("firewall-cmd -q --reload");
    world.netns("one");
    spoke(&world, "connect net one --container one");
    assert_eq!(
        (interfaces(&world, "block"), interfaces(&world, "trusted")),
        ("br-mine".into(), String::new())
    );
    spoke(&world, "disconnect net one");
    spoke(&world, "rm net");
    assert_eq!(interfaces(&world, "block"), "br-mine");
}

fn list(zone: &str) -> Value {
    json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [
        {"type": "ptp", "ipMasq": true, "ipam": {"type": "host-local", "subnet": SUBNET,
            "routes": [{"dst": "0.0.0.0/0"}]}},
        {"type": "firewall", "backend": "firewalld", "firewalldZone": zone}]})
}

/// As the reference does: the container's addresses are sources of a zone.
#[test]
fn the_back_end_of_cni() {
    let world = world();
    let mut pod = Cni::container(&world, "one");
    let sources = |zone: &str| {
        world.sh(&format!("firewall-cmd --zone={zone} --list-sources")).trim().to_owned()
    };
    let added = pod.add(&list("internal"));
    assert!(added.iter().all(tests::Answer::ok), "{added:?}");
    assert_eq!(sources("internal"), "10.79.0.2/32");
    assert!(pod.check(&list("internal")).iter().all(tests::Answer::ok));
    world.sh("firewall-cmd -q --zone=internal --remove-source=10.79.0.2/32");
    let checked = pod.check(&list("internal"));
    assert!(checked.iter().any(|answer| !answer.ok()), "{checked:?}");
    let deleted = pod.del(&list("internal"));
    assert!(deleted.iter().all(tests::Answer::ok), "{deleted:?}");

    let added = pod.add(&list("trusted"));
    assert!(added.iter().all(tests::Answer::ok), "{added:?}");
    listen(&world, "lan");
    assert_eq!(ask(&world, "one", "192.0.2.2", 80), "hello");
    let deleted = pod.del(&list("trusted"));
    assert!(deleted.iter().all(tests::Answer::ok), "{deleted:?}");
    assert_eq!((sources("internal"), sources("trusted")), (String::new(), String::new()));

    let refused = pod.add(&list("nowhere"));
    assert!(format!("{refused:?}").contains("INVALID_ZONE"), "{refused:?}");
    pod.del(&list("nowhere"));
    world
        .sh("pkill -x firewalld; timeout 20 sh -c 'while pgrep -x firewalld; do sleep 0.05; done'");
    let refused = pod.add(&list("trusted"));
    assert!(format!("{refused:?}").contains("firewalld does not run"), "{refused:?}");
    let deleted = pod.del(&list("trusted"));
    assert!(deleted.iter().all(tests::Answer::ok), "{deleted:?}");
}

/// Who comes by a route from another zone is firewalld's to judge, whatever the network says.
#[test]
fn a_route_from_another_zone_is_rejected() {
    let world = world();
    world.netns("one");
    spoke(&world, &format!("create --subnet {SUBNET} --trusted-interface up0 net"));
    spoke(&world, "connect net one --container one --publish 8080:80");
    listen(&world, "one");
    assert_eq!(ask(&world, "lan", "10.79.0.2", 80), "", "by a route");
    assert_eq!(ask(&world, "lan", "192.0.2.1", 8080), "hello", "a published port");
}
