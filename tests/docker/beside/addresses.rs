//! Addresses and where they come from.

use super::facts::Side;
use super::{but, compare, same};

/// What a container has on a network, in the engine's words and its own.
const END: &str = "{{range .NetworkSettings.Networks}}{{.IPAddress}}/{{.IPPrefixLen}} {{.Gateway}} \
    {{.GlobalIPv6Address}}/{{.GlobalIPv6PrefixLen}} {{.IPv6Gateway}} {{end}}";
const HAS: &str =
    "ip -o address show scope global | awk '{print $2, $4}'; ip route; ip -6 route | grep default";

fn has(side: &mut Side<'_>, name: &str) {
    side.says(&format!("{name} in the engine's words"), name, END);
    side.inside(&format!("{name} in its own"), name, HAS);
}

fn dual(side: &mut Side<'_>) {
    side.network("front", "--ipv6 --subnet 10.84.0.0/24 --subnet fd84::/64 --gateway 10.84.0.9");
    for name in ["one", "two"] {
        side.serve(name, "--network front");
        has(side, name);
    }
    side.serve("three", "--network front --ip 10.84.0.200 --ip6 fd84::200");
    has(side, "three");
    let run = |ip: &str| format!("run --name four --network front --ip {ip} busybox true");
    side.tries("an address that is taken", Some("four"), &run("10.84.0.200"));
    side.forget("four");
    side.tries("the gateway's address", None, &run("10.84.0.9"));
    side.forget("four");
    side.tries("an address of elsewhere", None, &run("10.85.0.2"));
    side.forget("four");
    side.tries("the broadcast address", None, &run("10.84.0.255"));
    side.forget("four");
    side.tries("the address of the network", None, &run("10.84.0.0"));
}

fn ranges(side: &mut Side<'_>) {
    side.network(
        "front",
        "--subnet 10.84.0.0/24 --ip-range 10.84.0.128/26 --gateway 10.84.0.254 \
         --aux-address a=10.84.0.129 --aux-address b=10.84.0.7",
    );
    for name in ["one", "two", "three"] {
        side.serve(name, "--network front");
        has(side, name);
    }
    let run = |ip: &str| format!("run --name four --network front --ip {ip} busybox true");
    side.tries("outside of the range", Some("four"), &run("10.84.0.20"));
    side.forget("four");
    side.tries("an auxiliary address", None, &run("10.84.0.7"));
}

fn small(side: &mut Side<'_>) {
    side.network("front", "--subnet 10.84.0.0/30");
    side.serve("one", "--network front");
    has(side, "one");
    let run = "run --name two --network front busybox true";
    side.tries("the next in a full subnet", Some("two"), run);
    side.forget("two");
    side.tries_network("a subnet of one address", "--subnet 10.84.1.0/32");
    side.tries_network("a subnet of two", "--subnet 10.84.1.0/31");
    side.tries_network("the same subnet again", "--subnet 10.84.0.0/30");
    side.tries_network("a part of it", "--subnet 10.84.0.0/31");
    side.tries_network("a gateway of elsewhere", "--subnet 10.84.1.0/24 --gateway 10.85.0.1");
    side.tries_network("a range of elsewhere", "--subnet 10.84.1.0/24 --ip-range 10.85.0.0/26");
    side.tries_network("a host as subnet", "--subnet 10.84.1.5/24");
}

fn large(side: &mut Side<'_>) {
    side.network(
        "front",
        "--ipv6 --subnet 10.84.0.0/24 --subnet fd84::/64 --ip-range fd84::1:0:0:0/80",
    );
    side.serve("one", "--network front");
    has(side, "one");
    side.serve("two", "--network front");
    has(side, "two");
}

fn only_v6(side: &mut Side<'_>) {
    side.network("front", "--ipv4=false --ipv6 --subnet fd84::/64");
    side.serve("one", "--network front -p 18880:80");
    side.serve("two", "--network front");
    has(side, "one");
    side.pings("one", &["two", "fd84::1"]);
    side.asks(&[
        ("@one", "2001:db8:1::2", 80),
        ("lan", "2001:db8:1::1", 18880),
        ("lan", "192.0.2.1", 18880),
        ("", "fd84::2", 81),
    ]);
}

/// No subnet is given: any, as long as it works.
fn of_the_pools(side: &mut Side<'_>) {
    side.network("front", "");
    side.network("back", "--ipv6");
    side.serve("one", "--network front");
    side.serve("two", "--network back");
    side.bed.docker("network connect back one");
    side.pings("one", &["two"]);
    side.inside("families", "two", "ip -o address show dev eth0 scope global | awk '{print $3}'");
    side.says("its prefix", "one", "{{(index .NetworkSettings.Networks \"front\").IPPrefixLen}}");
    let long = "{{(index .NetworkSettings.Networks \"back\").GlobalIPv6PrefixLen}}";
    side.says("its prefix of IPv6", "two", long);
}

/// What a container had, it has after a restart, as far as Docker says.
fn again(side: &mut Side<'_>) {
    side.network("front", "--ipv6 --subnet 10.84.0.0/24 --subnet fd84::/64");
    side.serve("fixed", "--network front --ip 10.84.0.50 --mac-address 02:42:0a:00:00:32");
    side.serve("loose", "--network front");
    let mac = "{{(index .NetworkSettings.Networks \"front\").MacAddress}}";
    let of = |side: &Side<'_>, name: &str| side.bed.docker(&format!("inspect -f '{mac}' {name}"));
    let before = of(side, "loose");
    has(side, "fixed");
    side.bed.docker("restart -t 0 fixed loose");
    let after = of(side, "loose");
    side.fact("the address of hardware is kept", (before == after).to_string());
    for name in ["fixed", "loose"] {
        side.until_served(name);
    }
    side.says("the fixed one's hardware address", "fixed", mac);
    side.inside("in its own words", "fixed", "cat /sys/class/net/eth0/address");
    side.says("fixed after a restart", "fixed", END);
    side.pings("loose", &["fixed", "10.84.0.50"]);
    side.bed.docker("stop -t 0 loose");
    side.says("stopped", "loose", END);
}

/// A second address of the segment itself.
fn link_local(side: &mut Side<'_>) {
    side.network("front", "--subnet 10.84.0.0/24");
    side.serve("one", "--network front --link-local-ip 169.254.34.68");
    side.serve("two", "--network front --link-local-ip 169.254.34.69");
    side.inside("its addresses", "one", "ip -o -4 address show dev eth0 | awk '{print $4}'");
    side.pings("one", &["169.254.34.69"]);
}

#[test]
fn where_addresses_come_from() {
    compare(&[
        same("two families", dual),
        same("ranges", ranges),
        same("small subnets", small),
        same("a range of IPv6", large),
        same("IPv6 only", only_v6),
        but("default pools", of_the_pools, &[("its prefix", "16", "24")]),
        but("restart", again, &[("the address of hardware is kept", "false", "true")]),
        same("link-local", link_local),
    ]);
}
