//! Machines beyond this host: by which uplink they come, whether they answer there, and networks that they reach by a route.

use crate::bed::{Bed, Fault};
use crate::faults::OUT;

/// A second uplink; the machine beyond calls this host's address there from its own one, which is behind the first.
const TWO_UPLINKS: &str = "ip link add up1 type veth peer name eth1 netns far
    ip address add 192.0.3.1/24 dev up1; ip link set up1 up
    ip -n far address add 192.0.3.2/24 dev eth1; ip -n far link set eth1 up
    ip -n far route add 192.0.3.1/32 dev eth1 src 203.0.113.77
    busybox httpd -p 7070 -h /run/www";
const STRICT: &str = "sysctl -qw net.ipv4.conf.up0.rp_filter=1 net.ipv4.conf.up1.rp_filter=1";
const OFF: &str = "sysctl -qw net.ipv4.conf.up0.rp_filter=0 net.ipv4.conf.up1.rp_filter=0";
const IN_BY_UP1: &str = "timeout TIME ip netns exec far bash -c '</dev/tcp/192.0.3.1/8080'";
const HOST_BY_UP1: &str = "timeout TIME ip netns exec far bash -c '</dev/tcp/192.0.3.1/7070'";

/// Networks without masquerading: one that others reach by a route through this host, and one that they do not.
const ROUTED: &str =
    "/opt/cni/bin/spoke network create --no-masquerade --direct --subnet 10.70.5.0/24 open
    /opt/cni/bin/spoke network create --no-masquerade --subnet 10.70.6.0/24 plain
    for name in r p; do ip netns add $name; done
    /opt/cni/bin/spoke network connect --ip 10.70.5.2 open r
    /opt/cni/bin/spoke network connect --ip 10.70.6.2 plain p
    for name in r p; do ip netns exec $name busybox httpd -p 80 -h /run/www; done";
const BY_ROUTE: &str = "timeout TIME ip netns exec far bash -c '</dev/tcp/10.70.5.2/80'";
const OUT_OF_R: &str = "timeout TIME ip netns exec r bash -c '</dev/tcp/198.51.100.1/80'";
/// Nothing answers at this address of the uplink's segment.
const ASKED: &str = "! timeout 10 ping -q -c 1 -W 8 192.0.2.9";
const FORGOTTEN: &str = "ip neigh del 192.0.2.9 dev up0 || true";

const FAULTS: &[Fault] = &[
    Fault {
        ask: "203.0.113.77 192.0.3.1 8080",
        seed: STRICT,
        undo: OFF,
        tries: IN_BY_UP1,
        hop: "rp-filter",
        says: "rp_filter of up1 drops it: what is for 203.0.113.77 does not leave by up1, by which it came, but by up0",
    },
    // What is for this host itself.
    Fault {
        ask: "203.0.113.77 192.0.3.1 7070",
        seed: STRICT,
        undo: OFF,
        tries: HOST_BY_UP1,
        hop: "rp-filter",
        says: "sysctl -w net.ipv4.conf.up1.rp_filter=2",
    },
    Fault {
        ask: "a 192.0.2.9 80",
        seed: ASKED,
        undo: FORGOTTEN,
        tries: "timeout TIME ip netns exec a bash -c '</dev/tcp/192.0.2.9/80'",
        hop: "neighbour",
        says: "192.0.2.9 does not answer on up0: its neighbour entry is FAILED",
    },
    Fault {
        ask: "192.0.2.9 b 80",
        seed: ASKED,
        undo: FORGOTTEN,
        tries: "false",
        hop: "neighbour",
        says: "ip neigh del 192.0.2.9 dev up0",
    },
    Fault {
        ask: "192.0.2.2 r 80",
        seed: "nft add table inet op
            nft add chain inet op f '{ type filter hook forward priority 0; }'
            nft add rule inet op f iifname up0 ip daddr 10.70.5.2 drop",
        undo: "nft delete table inet op",
        tries: BY_ROUTE,
        hop: "filter",
        says: "chain f in table inet op drops what passes from up0 to sp-open",
    },
    // It has a route, and the network is not for others.
    Fault {
        ask: "192.0.2.2 10.70.6.2 80",
        seed: "ip -n far route add 10.70.6.0/24 via 192.0.2.1",
        undo: "ip -n far route del 10.70.6.0/24",
        tries: "timeout TIME ip netns exec far bash -c '</dev/tcp/10.70.6.2/80'",
        hop: "published",
        says: "spoke port add spoke:p 80:80",
    },
];

#[test]
fn machines_beyond_are_followed() {
    let bed = Bed::new();
    bed.sh(&format!("{TWO_UPLINKS}\n{ROUTED}\nip -n far route add 10.70.5.0/24 via 192.0.2.1"));
    bed.reaches("203.0.113.77 192.0.3.1 8080", IN_BY_UP1);
    bed.reaches("203.0.113.77 192.0.3.1 7070", HOST_BY_UP1);
    bed.reaches("192.0.2.2 r 80", BY_ROUTE);
    bed.finds(FAULTS);
    let says = |ask: &str, code: i32, wanted: &str| {
        let (found_code, found) = bed.explain(ask);
        assert_eq!(found_code, code, "{ask}: {found:#}");
        assert!(found.to_string().contains(wanted), "{ask}: {found:#}");
    };
    bed.sh("ip neigh replace 192.0.2.9 dev up0 nud incomplete");
    says("a 192.0.2.9 80", 5, "its neighbour entry is INCOMPLETE");
    bed.sh(FORGOTTEN);
    // By the first uplink it works all the same, with the other one named.
    bed.sh(STRICT);
    bed.reaches("outside b 80", crate::faults::IN);
    says("outside b 80", 0, "by up1 it would be dropped: rp_filter of up1 is strict");
    // The answer comes by the link that the packet took, also where that is not the default route's.
    bed.sh("ip rule add from 10.70.1.0/24 priority 50 lookup 77; ip route add default via 192.0.3.2 table 77
        ip route add 10.70.1.0/24 dev sp-front table 77");
    bed.reaches("a outside 80", OUT);
    bed.sh(&format!("ip rule del priority 50; {OFF}"));
    // Nothing of this host says whether the machine beyond has a route back.
    let route = "has a route to 10.70.5.0/24 by 192.0.2.1";
    says("r outside 80", 5, route);
    assert!(bed.works(OUT_OF_R, "10"));
    bed.sh("ip -n far route del 10.70.5.0/24");
    says("r outside 80", 5, route);
    assert!(!bed.works(OUT_OF_R, "0.3"));
}

/// The second uplink as a worse way out. Without the first one, the machine beyond answers by the second.
const WORSE: &str = "ip route add default via 192.0.3.2 metric 200
    ip -n far route add 192.0.2.1/32 via 192.0.3.1 metric 9";
/// The other end of the first uplink is off: that has no carrier. What was by it is made again.
const UNPLUGGED: &str = "ip -n far link set eth0 down
    timeout 10 bash -c 'until ip route show dev up0 | grep -q linkdown; do sleep 0.05; done'";
const PLUGGED: &str =
    "ip -n far link set eth0 up; ip -n far route add 192.0.2.1/32 dev eth0 src 203.0.113.77
    sysctl -qw net.ipv4.conf.up0.ignore_routes_with_linkdown=0
    timeout 10 bash -c 'until [ $(cat /sys/class/net/up0/carrier) = 1 ]; do sleep 0.05; done'";
const WITHOUT: &str = "has no carrier: its other end is off, or is not connected. Another default route is not taken \
    meanwhile, unless sysctl -w net.ipv4.conf.up0.ignore_routes_with_linkdown=1 was run";

const LOST_CARRIER: &[Fault] = &[
    Fault {
        ask: "a outside 80",
        seed: UNPLUGGED,
        undo: PLUGGED,
        tries: OUT,
        hop: "uplink",
        says: WITHOUT,
    },
    // It comes in by the second, and the answer leaves by the first.
    Fault {
        ask: "203.0.113.77 192.0.3.1 8080",
        seed: UNPLUGGED,
        undo: PLUGGED,
        tries: IN_BY_UP1,
        hop: "uplink",
        says: "up0, by which it leaves this host, has no carrier",
    },
    Fault {
        ask: "outside b 80",
        seed: UNPLUGGED,
        undo: PLUGGED,
        tries: IN_BY_UP1,
        hop: "uplink",
        says: "up0, the way to the outside, has no carrier",
    },
];

/// Two default routes with metrics: the kernel takes the worse one where the better one is gone, and not where its link
/// has only lost its carrier.
#[test]
fn the_worse_of_two_ways_out() {
    let bed = Bed::new();
    bed.sh(&format!("{TWO_UPLINKS}\n{WORSE}"));
    bed.reaches("a outside 80", OUT);
    // It comes by the second, and is answered by the first.
    bed.reaches("203.0.113.77 192.0.3.1 8080", IN_BY_UP1);
    bed.finds(LOST_CARRIER);
    bed.sh(&format!("{UNPLUGGED}; sysctl -qw net.ipv4.conf.up0.ignore_routes_with_linkdown=1"));
    bed.reaches("a outside 80", OUT);
    bed.reaches("203.0.113.77 192.0.3.1 8080", IN_BY_UP1);
    bed.sh(PLUGGED);
    bed.reaches("a outside 80", OUT);
    // The kernel takes the routes by a link away with it.
    bed.sh("ip link set up0 down");
    bed.reaches("a outside 80", OUT);
    bed.reaches("outside b 80", IN_BY_UP1);
    bed.sh("ip link set up0 up; ip route add default via 192.0.2.2");
    bed.reaches("a outside 80", OUT);
}
