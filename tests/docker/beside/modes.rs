//! Gateway modes, and who comes by a route.

use super::facts::Side;
use super::{but, compare, same};

const DUAL: &str = "--ipv6 --subnet 10.84.0.0/24 --subnet fd84::/64";
const NONE: &str = "no answer";
const KEY: &str = "com.docker.network.bridge";

/// What of a published and an unpublished port is reached, by the container's address and the host's.
fn passages(side: &mut Side<'_>) {
    side.serve("web", "--network front -p 18830:80 -p 127.0.0.1:18831:81");
    side.serve("two", "--network front");
    side.asks(&[
        ("lan", "10.84.0.2", 80),
        ("lan", "10.84.0.2", 81),
        ("far", "10.84.0.2", 80),
        ("lan", "10.84.0.3", 80),
        ("lan", "fd84::2", 80),
        ("lan", "fd84::3", 80),
        ("lan", "192.0.2.1", 18830),
        ("lan", "2001:db8:1::1", 18830),
        ("", "127.0.0.1", 18831),
        ("", "10.84.0.2", 81),
        ("", "fd84::2", 81),
    ]);
    side.asks(&[
        ("@web", "10.84.0.3", 81),
        ("@two", "192.0.2.2", 80),
        ("@two", "2001:db8:1::2", 80),
    ]);
    side.inside("routes of the container", "web", "ip route; ip -6 route | grep default");
}

fn create(side: &mut Side<'_>, mode: &str, more: &str) {
    let modes = format!("-o {KEY}.gateway_mode_ipv4={mode} -o {KEY}.gateway_mode_ipv6={mode}");
    side.network("front", &format!("{DUAL} {modes} {more}"));
}

fn of_mode(side: &mut Side<'_>, mode: &str, more: &str) {
    create(side, mode, more);
    passages(side);
}

fn nat(side: &mut Side<'_>) {
    of_mode(side, "nat", "");
}

fn unprotected(side: &mut Side<'_>) {
    of_mode(side, "nat-unprotected", "");
}

fn routed(side: &mut Side<'_>) {
    of_mode(side, "routed", "");
}

fn isolated(side: &mut Side<'_>) {
    of_mode(side, "isolated", "--internal");
    host_on_the_segment(side);
}

/// The addresses of the host on the network's segment: the only bridge with a port.
const ON_THE_SEGMENT: &str = "for port in /sys/class/net/*/master; do basename $(readlink $port); done |
    sort -u | xargs -n 1 ip -o address show dev | sed 's/.*inet6* //; s/fe80::.*/link-local/; s/ .*//' | sort";

/// What containers reach of the host, at its addresses there.
fn host_on_the_segment(side: &mut Side<'_>) {
    side.pings("two", &["10.84.0.1", "fd84::1", "10.84.0.2", "fd84::2"]);
    let held = side.bed.world().sh(ON_THE_SEGMENT);
    side.fact("the host's addresses on the segment", held);
}

/// Only one family has no gateway on the segment.
fn isolated_in(side: &mut Side<'_>, v4: &str, v6: &str) {
    let modes = format!("-o {KEY}.gateway_mode_ipv4={v4} -o {KEY}.gateway_mode_ipv6={v6}");
    side.network("front", &format!("{DUAL} --internal {modes}"));
    passages(side);
    host_on_the_segment(side);
}

fn isolated_6(side: &mut Side<'_>) {
    isolated_in(side, "nat", "isolated");
}

fn isolated_4(side: &mut Side<'_>) {
    isolated_in(side, "isolated", "nat");
}

fn isolated_beside_routed(side: &mut Side<'_>) {
    isolated_in(side, "isolated", "routed");
}

/// Each family has its own, which need not be the other's.
fn of_both(side: &mut Side<'_>, v4: &str, v6: &str) {
    let modes = format!("-o {KEY}.gateway_mode_ipv4={v4} -o {KEY}.gateway_mode_ipv6={v6}");
    side.network("front", &format!("{DUAL} {modes}"));
    passages(side);
    side.asks(&[("far", "fd84::2", 80), ("far", "fd84::2", 81)]);
}

fn routed_6(side: &mut Side<'_>) {
    of_both(side, "nat", "routed");
}

fn routed_4(side: &mut Side<'_>) {
    of_both(side, "routed", "nat");
}

fn unprotected_4(side: &mut Side<'_>) {
    of_both(side, "nat-unprotected", "routed");
}

fn unprotected_6(side: &mut Side<'_>) {
    of_both(side, "nat", "nat-unprotected");
}

fn without_masquerading(side: &mut Side<'_>) {
    side.network("front", &format!("{DUAL} -o {KEY}.enable_ip_masquerade=false"));
    passages(side);
}

fn trusting(side: &mut Side<'_>) {
    side.network("front", &format!("{DUAL} -o {KEY}.trusted_host_interfaces=up0:other0"));
    passages(side);
}

/// The trusted interface is another.
fn trusting_others(side: &mut Side<'_>) {
    side.network("front", &format!("{DUAL} -o {KEY}.trusted_host_interfaces=other0"));
    passages(side);
}

/// The source is an address of the host that no route would choose.
fn leaving_as(side: &mut Side<'_>) {
    side.bed.world().sh("ip address add 192.0.2.77/24 dev up0
         ip address add 2001:db8:1::77/64 dev up0 nodad");
    side.network(
        "front",
        &format!("{DUAL} -o com.docker.network.host_ipv4=192.0.2.77 -o com.docker.network.host_ipv6=2001:db8:1::77"),
    );
    passages(side);
    side.bed.world().sh("ip address del 192.0.2.77/24 dev up0
         ip address del 2001:db8:1::77/64 dev up0");
}

fn bad_options(side: &mut Side<'_>) {
    let subnet = "--subnet 10.84.0.0/24";
    for (what, option) in [
        ("a mode that is none", format!("{KEY}.gateway_mode_ipv4=bridged")),
        ("isolated without --internal", format!("{KEY}.gateway_mode_ipv4=isolated")),
        (
            "isolated in IPv6 without --internal",
            format!("--ipv6 --subnet fd84::/64 -o {KEY}.gateway_mode_ipv6=isolated"),
        ),
        ("a source that is none", "com.docker.network.host_ipv4=here".to_owned()),
        ("a source of the other family", "com.docker.network.host_ipv4=fd00::1".to_owned()),
        ("the unspecified source", "com.docker.network.host_ipv4=0.0.0.0".to_owned()),
        ("an interface that cannot be", format!("{KEY}.trusted_host_interfaces=a/b")),
        ("icc that is none", format!("{KEY}.enable_icc=maybe")),
        ("a binding that is none", format!("{KEY}.host_binding_ipv4=here")),
        ("an MTU that is none", "com.docker.network.driver.mtu=many".to_owned()),
        ("a bridge that is no name", format!("{KEY}.name=a/b")),
    ] {
        side.tries_network(what, &format!("{subnet} -o {option}"));
    }
}

#[test]
fn gateway_modes() {
    compare(&[
        same("nat", nat),
        same("nat-unprotected", unprotected),
        same("routed", routed),
        same("isolated", isolated),
        // Docker drops the answers, as it drops whatever is sent to the container's address.
        but(
            "no masquerading",
            without_masquerading,
            &[
                ("@two asks 192.0.2.2 port 80", NONE, "10.84.0.3"),
                ("@two asks 2001:db8:1::2 port 80", NONE, "fd84::3"),
            ],
        ),
    ]);
}

/// On a host that forwards whatever nothing drops, as Docker leaves it where forwarding was on before.
fn accepting(side: &mut Side<'_>, mode: &str, more: &str) {
    create(side, mode, more);
    let world = side.bed.world();
    let tools = ["iptables", "ip6tables"];
    let policies = tools.map(|tool| world.sh(&format!("{tool} -S FORWARD | grep -e ^-P")));
    tools.iter().for_each(|tool| drop(world.sh(&format!("{tool} -P FORWARD ACCEPT"))));
    passages(side);
    for (tool, policy) in tools.iter().zip(policies) {
        world.sh(&format!("{tool} -S FORWARD | grep -qxe '-P FORWARD ACCEPT'; {tool} {policy}"));
    }
}

fn nat_accepting(side: &mut Side<'_>) {
    accepting(side, "nat", "");
}

fn unprotected_accepting(side: &mut Side<'_>) {
    accepting(side, "nat-unprotected", "");
}

fn routed_accepting(side: &mut Side<'_>) {
    accepting(side, "routed", "");
}

fn isolated_accepting(side: &mut Side<'_>) {
    accepting(side, "isolated", "--internal");
}

#[test]
fn gateway_modes_where_the_host_forwards_all() {
    compare(&[
        // A router stays one (docs/docker.md, direct access); Docker 28 drops these by rules of its own.
        but(
            "nat",
            nat_accepting,
            &[
                ("far asks 10.84.0.2 port 80", NONE, "198.51.100.2"),
                ("lan asks 10.84.0.2 port 80", NONE, "192.0.2.2"),
                ("lan asks 10.84.0.2 port 81", NONE, "192.0.2.2"),
                ("lan asks 10.84.0.3 port 80", NONE, "192.0.2.2"),
                ("lan asks fd84::2 port 80", NONE, "2001:db8:1::2"),
                ("lan asks fd84::3 port 80", NONE, "2001:db8:1::2"),
            ],
        ),
        same("nat-unprotected", unprotected_accepting),
        same("routed", routed_accepting),
        same("isolated", isolated_accepting),
    ]);
}

#[test]
fn modes_of_one_family() {
    compare(&[
        same("IPv6 routed", routed_6),
        same("IPv4 routed", routed_4),
        same("IPv4 unprotected and IPv6 routed", unprotected_4),
        same("IPv6 unprotected", unprotected_6),
        same("IPv6 isolated", isolated_6),
        same("IPv4 isolated", isolated_4),
        same("IPv4 isolated and IPv6 routed", isolated_beside_routed),
    ]);
}

#[test]
fn trust_and_sources() {
    compare(&[
        same("trusted interfaces", trusting),
        same("other trusted interfaces", trusting_others),
        same("a source of one's own", leaving_as),
        but(
            "what is wrong",
            bad_options,
            &[
                ("an interface that cannot be", "done", "refused"),
                ("the unspecified source", "done", "refused"),
            ],
        ),
    ]);
}
