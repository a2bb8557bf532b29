//! A host with an uplink, and others outside that count what comes to them.

use std::process::{Command, Stdio};

use tests::{Plugins, World};

pub(crate) const SPOKE: &str = "/opt/cni/bin/spoke";
const SEND: &str = include_str!("send.py");

/// What has come of a stream, by family.
pub(crate) type Seen = (u64, u64);

/// The host, with `up0` and a default route of each family to the namespace `uplink`.
#[track_caller]
pub(crate) fn prepare(world: &World) {
    world.sh("ip link set lo up; echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad");
    outside(world, "uplink");
    world.sh("ip link add up0 type veth peer name out0 netns uplink
        ip address add 203.0.113.254/24 dev up0; ip address add 2001:db8:113::254/64 nodad dev up0
        ip link set up0 up; ip -n uplink address add 203.0.113.1/24 dev out0
        ip -n uplink address add 2001:db8:113::1/64 nodad dev out0; ip -n uplink link set out0 up
        ip route add default via 203.0.113.1; ip -6 route add default via 2001:db8:113::1
        printf 'nameserver 203.0.113.1\\n' >/etc/resolv.conf");
}

/// A namespace that counts what comes to it.
#[track_caller]
pub(crate) fn outside(world: &World, name: &str) {
    world.netns(name);
    world.sh(&format!(
        "ip netns exec {name} sh -c 'echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad'
        ip -n {name} link set lo up"
    ));
    counts(world, name);
}

/// Counts what comes to a namespace: a name, or a path.
#[track_caller]
pub(crate) fn counts(world: &World, netns: &str) {
    world.sh(&format!(
        "nsenter --net={} nft -f - <<'END'
table inet seen {{
    counter four {{ }}
    counter six {{ }}
    counter asked {{ }}
    counter fits {{ }}
    counter large {{ }}
    chain in {{
        type filter hook prerouting priority -300
        ip daddr 198.51.100.7 counter name four
        ip6 daddr 2001:db8:77::7 counter name six
        th dport 53 counter name asked
        tcp flags syn tcp option maxseg size <= 1360 counter name fits
        tcp flags syn tcp option maxseg size > 1360 counter name large
    }}
}}
END",
        path(netns)
    ));
}

fn path(netns: &str) -> String {
    if netns.starts_with('/') { netns.to_owned() } else { format!("/run/netns/{netns}") }
}

/// Prints a counter, for a condition.
pub(crate) fn reading(netns: &str, counter: &str) -> String {
    format!(
        "nsenter --net={} nft list counter inet seen {counter} | \
         sed -n 's/.*packets \\([0-9]*\\) .*/\\1/p'",
        path(netns)
    )
}

/// What a counter of a namespace says.
#[track_caller]
pub(crate) fn count(world: &World, netns: &str, counter: &str) -> u64 {
    world.sh(&reading(netns, counter)).trim().parse().expect("a counter")
}

/// What has come of the stream.
#[track_caller]
pub(crate) fn seen(world: &World, netns: &str) -> Seen {
    (count(world, netns, "four"), count(world, netns, "six"))
}

/// Waits until more of the stream has come, in the families that are named.
#[track_caller]
pub(crate) fn until_more(world: &World, netns: &str, counters: &[&str]) {
    for counter in counters {
        let before = count(world, netns, counter);
        until(world, &format!("test $({}) -gt {before}", reading(netns, counter)));
    }
}

#[track_caller]
pub(crate) fn until(world: &World, condition: &str) {
    let script = format!("until {condition}; do sleep 0.05; done");
    let mut waits = world.command("timeout");
    let waits = waits.args(["60", "bash", "-c", &script]).output().expect("timeout starts");
    assert!(waits.status.success(), "never: {condition}\n{}\n{}", state(world), world.logs());
}

/// What leads, for a failure.
fn state(world: &World) -> String {
    let shown = world.try_sh(
        "ip rule; ip -6 rule; ip route show table all; ip -6 route show table all; ip neigh; ip -6 neigh; \
         cat /proc/net/stat/ndisc_cache; nft list ruleset; \
         /opt/cni/bin/spoke network inspect $(/opt/cni/bin/spoke network ls -q)",
    );
    format!("{}{}", shown.stdout, shown.stderr)
}

/// Sends from a network namespace until the world ends. The program is this host's, because not every world has
/// one.
#[track_caller]
pub(crate) fn send(world: &World, netns: &str) {
    run(world, netns, &["python3", "-c", SEND]);
}

/// Starts a program of this host in a network namespace of a world, with which it ends.
#[track_caller]
pub(crate) fn run(world: &World, netns: &str, program: &[&str]) {
    let pid = world.pid().to_string();
    let net = format!("--net={}", world.path(netns).display());
    let mut starts = Command::new("nsenter");
    starts.args([
        "--target",
        &pid,
        "--pid",
        &net,
        "--",
        "sh",
        "-c",
        "exec \"$@\" >/dev/null 2>&1 &",
        "sh",
    ]);
    starts.args(program).stdin(Stdio::null());
    assert!(starts.status().expect("nsenter starts").success());
}

/// A tunnel to the namespace `vpn`: no hardware addresses are asked for.
pub(crate) const TUNNEL_UP: &str = "
    ip link add wg0 mtu 1400 address 02:00:00:00:77:77 type veth \
        peer name far0 mtu 1400 address 02:00:00:00:77:77 netns vpn
    ip link set wg0 arp off; ip -n vpn link set far0 arp off
    ip address add 10.99.0.2/32 dev wg0; ip address add fd99::2/128 nodad dev wg0
    ip -n vpn address add 10.99.0.1/32 dev far0; ip -n vpn address add fd99::1/128 nodad dev far0
    ip link set wg0 up; ip -n vpn link set far0 up
    ip -n vpn route add 10.99.0.2/32 dev far0; ip -n vpn route add fd99::2/128 dev far0
    ";

/// The same to the namespace `other`.
pub(crate) const OTHER_TUNNEL_UP: &str = "
    ip link add wg1 mtu 1380 address 02:00:00:00:77:78 type veth \
        peer name far1 mtu 1380 address 02:00:00:00:77:78 netns other
    ip link set wg1 arp off; ip -n other link set far1 arp off
    ip address add 10.98.0.2/32 dev wg1; ip address add fd98::2/128 nodad dev wg1
    ip -n other address add 10.98.0.1/32 dev far1; ip -n other address add fd98::1/128 nodad dev far1
    ip link set wg1 up; ip -n other link set far1 up
    ip -n other route add 10.98.0.2/32 dev far1; ip -n other route add fd98::2/128 dev far1
    ";

/// Everything but the kernel's own rules and the host's: what is left of ways.
#[track_caller]
pub(crate) fn remains(world: &World) -> String {
    world.sh(
        "ip rule | grep -Ev '^(0|32766|32767):' || true; ip -6 rule | grep -Ev '^(0|32766|32767):' || true
        ip route show table all | grep -E 'table 0?x?[0-9]' || true
        ip -6 route show table all | grep -E 'table 0?x?[0-9]' || true
        nft list tables | grep via || true",
    )
}

pub(crate) fn subject() -> Plugins {
    Plugins::subject()
}
