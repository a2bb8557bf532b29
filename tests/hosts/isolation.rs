//! Isolated networks of one host, and containers on networks of many.

use crate::bed::{Segment, until_reached};

/// An isolated network of a host holds against containers on networks of many hosts, also those of other hosts, which may
/// make a route by that host's address on their network. It reaches them itself.
#[test]
fn an_isolated_network_holds_against_other_hosts() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all front");
    a.spoke("network create --subnet 10.90.1.0/24 --ingress same-bridge same");
    a.spoke("network create --subnet 10.90.2.0/24 --ingress isolated alone");
    let (same, alone) = (a.attach("same", "same"), a.attach("alone", "alone"));
    let ping = |from: &str, to: &str| format!("ip netns exec {from} ping -q -c 1 -W 1 {to}");
    let two = b.attach("front", "two");
    let gateway = a.sh("ip -4 -o address show dev sp-front | sed -E 's/.* inet ([0-9.]+).*/\\1/'");
    // Before a container of its own is there, too.
    until_reached(&b.world, "two", gateway.trim());
    let refused = |to: &str| {
        b.sh(&format!("ip -n two route replace {to} via {}", gateway.trim()));
        let said = b.world.try_sh(&ping("two", to));
        assert_ne!(said.status, 0, "{to} from the other host: {said:?}");
    };
    refused(&same);
    refused(&alone);
    let one = a.attach("front", "one");
    until_reached(&b.world, "two", &one);
    for to in [&same, &alone] {
        refused(to);
        let said = a.world.try_sh(&ping("one", to));
        assert_ne!(said.status, 0, "{to} from the same host: {said:?}");
    }
    for from in ["same", "alone"] {
        for to in [&one, &two] {
            a.sh(&ping(from, to));
        }
    }
    // Who deletes the table by hand finds it again.
    a.sh("nft delete table inet spoke");
    let policed = "nft list set inet spoke policed | grep -q sp-front";
    crate::bed::until(&a.world, policed);
    refused(&same);
}
