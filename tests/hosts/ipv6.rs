//! Networks of many hosts with IPv4 and IPv6.

use crate::bed::{Segment, address6, until, until_equal, until_reached};

/// Containers have an address of each family and reach each other by both, neighbours are asked for on their own
/// host only, and an address follows its container; others learn where it is.
#[test]
fn both_families_between_hosts() {
    let segment = Segment::new();
    let [a, b, c] = segment.cluster(["a", "b", "c"]);
    a.spoke("network create --hosts all --ipv6 front");
    let chosen = a.spoke("network inspect front");
    let subnet = chosen.split('"').find(|word| word.starts_with("fd") && word.ends_with("/64"));
    let subnet = subnet.unwrap_or_else(|| panic!("{chosen}")).trim_end_matches("::/64").to_owned();
    for (host, name) in [(&a, "one"), (&b, "two"), (&c, "three")] {
        host.attach("front", name);
    }
    let (two, three) = (address6(&b.world, "two"), address6(&c.world, "three"));
    assert!(two.starts_with(&subnet), "{two} {subnet}");
    // Gateways and containers of two other hosts, with two addresses each.
    for (host, name) in [(&a, "a"), (&b, "b"), (&c, "c")] {
        until_equal(&segment, &host.world, "front", name, 8);
    }
    until_reached(&a.world, "one", &two);
    until_reached(&b.world, "two", &three);
    // The host reaches them too, and whole packets arrive.
    a.sh(&format!("ping -q -c 1 -W 3 {two}"));
    a.sh(&format!("ip netns exec one ping -q -c 1 -W 3 -M do -s 1402 {two}"));
    // What is asked on a is answered there.
    let sent =
        "ip -s -o link show type vxlan | grep -o 'TX:.*' | tr -s ' \\\\' ' ' | cut -d ' ' -f 8";
    a.sh("ip netns exec one ip neigh flush all");
    let before = a.sh(sent);
    let asked = a.world.try_sh(&format!("ip netns exec one ping -q -c 1 -W 1 {subnet}:9:9:9:9"));
    assert_ne!(asked.status, 0, "{asked:?}");
    assert_eq!(a.sh(sent), before, "a question was sent to other hosts");
    // An address of a block that no host has moves twice, with what others have learnt of it.
    let free = format!("{subnet}:c800::7");
    c.world.netns("other");
    for host in [&a, &b, &a] {
        host.world.netns("db");
        until(&host.world, &format!("/opt/cni/bin/spoke network connect --ip6 {free} front db"));
        let mac = host.sh("ip netns exec db cat /sys/class/net/eth0/address");
        let said = c.refused(&format!("network connect --ip6 {free} front other"));
        assert!(
            said.contains(&format!("address {free} of network front is held by db on host")),
            "{said}"
        );
        until_reached(&c.world, "three", &free);
        let known = format!("ip netns exec three ip -6 neigh show {free} | grep -q {}", mac.trim());
        until(&c.world, &known);
        host.sh(&format!("ip netns exec db ping -q -c 1 -W 3 {three}"));
        host.spoke("network disconnect front db");
        host.sh("ip netns del db");
    }
    segment.until_gone("/pin/");
    // One of b's own block goes to a while b does not use it, and is refused while it does.
    a.world.netns("moved");
    let said = a.refused(&format!("network connect --ip6 {two} front moved"));
    assert!(said.contains("held by") && said.contains("on host b"), "{said}");
    b.spoke("network disconnect front two");
    a.spoke(&format!("network connect --ip6 {two} front moved"));
    until_reached(&c.world, "three", &two);
    // A subnet that overlaps; one of each family.
    let said = a.refused(&format!("network create --hosts all --subnet {subnet}::/72 back"));
    assert!(said.contains("overlaps"), "{said}");
}
