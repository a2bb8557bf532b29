//! Beyond a cell's host: a machine in its subnet, and one behind that, which is who asks and is asked.

use std::process::Command;

use tests::World;
use tests::neutron_switch::Switch;

use crate::listen;

/// The host's address in the machine's subnet.
const HOST: &str = "192.0.2.1";
/// The address of who is behind that machine.
pub(crate) const FAR: &str = "198.51.100.2";

const MACHINES: &str = "
for name in lan far; do ip netns add $name; ip -n $name link set lo up; done
ip link add up0 type veth peer name eth0 netns lan
ip -n lan link add down0 type veth peer name eth0 netns far
ip address add 192.0.2.1/24 dev up0
ip -n lan address add 192.0.2.2/24 dev eth0
ip -n lan address add 198.51.100.1/24 dev down0
ip -n far address add 198.51.100.2/24 dev eth0
ip link set up0 up; ip -n lan link set eth0 up
ip -n lan link set down0 up; ip -n far link set eth0 up
ip netns exec lan sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
ip -n lan route add default via 192.0.2.1
ip -n far route add default via 198.51.100.1
ip route add 198.51.100.0/24 via 192.0.2.2
";

const NO_MACHINES: &str =
    "ip link del up0; ip -n far link del eth0; ip netns del lan; ip netns del far";

/// Puts both machines there.
#[track_caller]
pub(crate) fn set_up(world: &World) {
    world.sh(MACHINES);
}

/// Takes them away.
#[track_caller]
pub(crate) fn tear_down(world: &World) {
    world.sh(NO_MACHINES);
}

/// The machine in the host's subnet is the router of a Neutron network, as Neutron's own would be.
#[track_caller]
pub(crate) fn route(world: &World, switch: &Switch, gateway: &str) {
    world.sh(&format!(
        "ip link add router0 type veth peer name inner0 netns lan
        ip -n lan address add {gateway}/24 dev inner0
        ip link set router0 up; ip -n lan link set inner0 up"
    ));
    // What a switch in userspace reads of a device must have its checksums already.
    enter(world, "lan", &["ethtool", "-K", "inner0", "tx", "off"]);
    switch.vsctl("add-port br-int router0");
}

/// Takes the router's leg away.
#[track_caller]
pub(crate) fn unroute(world: &World, switch: &Switch) {
    switch.vsctl("del-port br-int router0");
    world.sh("ip link del router0");
}

/// That a container, which `inside` runs scripts in, is answered from far away.
#[track_caller]
pub(crate) fn answers(world: &World, inside: impl Fn(&str) -> String) {
    enter(world, "far", &["busybox", "sh", "-euc", &listen("far")]);
    let heard = inside(&format!("nc -w 5 {FAR} 80 </dev/null"));
    assert_eq!(heard.trim(), "hello from far");
}

/// What is heard from far away at a published port of the host.
#[track_caller]
pub(crate) fn asks_host(world: &World, port: u16) -> String {
    asks(world, HOST, port)
}

/// What is heard from far away at an address.
#[track_caller]
pub(crate) fn asks(world: &World, host: &str, port: u16) -> String {
    let ask = format!("nc -w 5 {host} {port} </dev/null");
    enter(world, "far", &["busybox", "sh", "-c", &ask])
}

/// What a program of this host prints on one of the machines: not every world has all of them.
#[track_caller]
fn enter(world: &World, machine: &str, words: &[&str]) -> String {
    let netns = world.path("/run/netns").join(machine);
    let mut command = Command::new("nsenter");
    let done = command.arg(format!("--net={}", netns.display())).args(words).output();
    let done = done.expect("nsenter");
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}
