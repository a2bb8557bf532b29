//! Faults of links, addresses, routes, bridges, neighbours and sockets.

use crate::bed::{Bed, Fault};

/// What is tried: a connection to port 80 of b, a page from beyond, the published port from there.
pub(crate) const TO_B: &str = "timeout TIME ip netns exec a bash -c '</dev/tcp/10.70.1.3/80'";
pub(crate) const TO_B6: &str = "timeout TIME ip netns exec a bash -c '</dev/tcp/fd70:1::3/80'";
pub(crate) const OUT: &str = "timeout TIME ip netns exec a bash -c '</dev/tcp/198.51.100.1/80'";
pub(crate) const IN: &str = "timeout TIME ip netns exec far bash -c '</dev/tcp/192.0.2.1/8080'";
const HOST_TO_B: &str = "timeout TIME bash -c '</dev/tcp/10.70.1.3/80'";
const HOST_BY_LOOPBACK: &str = "timeout TIME bash -c '</dev/tcp/127.0.0.1/8080'";
/// A container calls itself by its published port.
const B_BY_PORT: &str = "timeout TIME ip netns exec b bash -c '</dev/tcp/192.0.2.1/8080'";
const PING: &str = "timeout TIME ip netns exec a ping -q -c 1 10.70.1.3";

const NEVER: &str = "false";

/// Puts back what a link that was down has lost.
const UP_A: &str = "ip -n a link set eth0 up; ip -n a route replace default via 10.70.1.1;
    ip -n a address replace fd70:1::2/64 dev eth0 nodad";
const UP_B: &str = "ip -n b link set eth0 up; ip -n b route replace default via 10.70.1.1;
    ip -n b address replace fd70:1::3/64 dev eth0 nodad";

/// One that is asked about port 80 of b, as a calls it.
const fn of_b(
    seed: &'static str,
    undo: &'static str,
    hop: &'static str,
    says: &'static str,
) -> Fault {
    Fault { ask: "a b 80", seed, undo, tries: TO_B, hop, says }
}

/// One that is asked about the way out.
const fn out(
    seed: &'static str,
    undo: &'static str,
    hop: &'static str,
    says: &'static str,
) -> Fault {
    Fault { ask: "a outside 80", seed, undo, tries: OUT, hop, says }
}

const FAULTS: &[Fault] = &[
    of_b("ip -n a link set eth0 down", UP_A, "interface", "eth0 of a is down"),
    of_b("ip -n b link set eth0 down", UP_B, "interface", "eth0 of b is down"),
    of_b("ip link set $VA down", "ip link set $VA up", "host-end", "the host's end of eth0 of a"),
    of_b("ip link set $VB down", "ip link set $VB up", "host-end", "the host's end of eth0 of b"),
    of_b(
        "ip link set $VB nomaster",
        "ip link set $VB master sp-front",
        "bridge",
        "master sp-front",
    ),
    of_b(
        "ip link set $VA nomaster",
        "ip link set $VA master sp-front",
        "bridge",
        "the host's end of a, is not in bridge sp-front",
    ),
    of_b(
        "ip link add other type bridge; ip link set other up; ip link set $VB master other",
        "ip link set $VB master sp-front; ip link del other",
        "bridge",
        "is in bridge other, not in sp-front",
    ),
    of_b(
        "ip -n b address del 10.70.1.3/24 dev eth0",
        "ip -n b address add 10.70.1.3/24 dev eth0; ip -n b route replace default via 10.70.1.1",
        "address",
        "lacks 10.70.1.3/24",
    ),
    of_b(
        "ip -n a address del 10.70.1.2/24 dev eth0",
        "ip -n a address add 10.70.1.2/24 dev eth0; ip -n a route replace default via 10.70.1.1",
        "address",
        "ip -n a addr add 10.70.1.2/24 dev eth0",
    ),
    of_b(
        "ip -n a route add blackhole 10.70.1.3/32",
        "ip -n a route del blackhole 10.70.1.3/32",
        "route",
        "blackhole",
    ),
    of_b(
        "ip -n a route add prohibit 10.70.1.3/32",
        "ip -n a route del prohibit 10.70.1.3/32",
        "route",
        "prohibiting",
    ),
    of_b(
        "ip -n b route add unreachable 10.70.1.2/32",
        "ip -n b route del unreachable 10.70.1.2/32",
        "route",
        "unreachable",
    ),
    of_b(
        "ip -n a neigh replace 10.70.1.3 lladdr 02:00:00:00:00:99 dev eth0 nud permanent",
        "ip -n a neigh del 10.70.1.3 dev eth0",
        "neighbour",
        "02:00:00:00:00:99 (set by hand)",
    ),
    of_b(
        "ip -n b neigh replace 10.70.1.2 lladdr 02:00:00:00:00:99 dev eth0 nud permanent",
        "ip -n b neigh del 10.70.1.2 dev eth0",
        "neighbour",
        "ip -n b neigh del 10.70.1.2 dev eth0",
    ),
    of_b(
        "bridge fdb replace $MB dev $VA master static",
        "bridge fdb del $MB dev $VA master",
        "forwarding-entry",
        "set by hand",
    ),
    of_b(
        "bridge link set dev $VA isolated on; bridge link set dev $VB isolated on",
        "bridge link set dev $VA isolated off; bridge link set dev $VB isolated off",
        "isolation",
        "isolated ports",
    ),
    // Only f answers, and a has learnt its hardware address.
    of_b(
        "ip -n b link set eth0 arp off; ip -n f address add 10.70.1.3/32 dev eth0; ip -n a neigh replace 10.70.1.3 dev eth0 \
            lladdr $(ip netns exec f cat /sys/class/net/eth0/address) nud reachable",
        "ip -n b link set eth0 arp on; ip -n f address del 10.70.1.3/32 dev eth0; ip -n a neigh del 10.70.1.3 dev eth0",
        "duplicate",
        "f has it",
    ),
    Fault {
        ask: "a fd70:1::3 80",
        seed: "ip netns exec b sysctl -qw net.ipv6.conf.eth0.disable_ipv6=1",
        undo: "ip netns exec b sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0; \
            ip -n b address replace fd70:1::3/64 dev eth0 nodad",
        tries: TO_B6,
        hop: "ipv6",
        says: "IPv6 is disabled on eth0 of b",
    },
    Fault {
        ask: "a b 81",
        seed: ":",
        undo: ":",
        tries: "timeout TIME ip netns exec a bash -c '</dev/tcp/10.70.1.3/81'",
        hop: "listener",
        says: "nothing in b listens at port 81/tcp",
    },
    Fault {
        ask: "a b 80/udp",
        seed: ":",
        undo: ":",
        tries: NEVER,
        hop: "listener",
        says: "nothing in b listens at port 80/udp",
    },
    Fault {
        ask: "a b 82",
        seed: ":",
        undo: ":",
        tries: "timeout TIME ip netns exec a bash -c '</dev/tcp/10.70.1.3/82'",
        hop: "listener",
        says: "of 127.0.0.1 only",
    },
    Fault {
        ask: "b b 80",
        seed: "ip -n b link set lo down",
        undo: "ip -n b link set lo up",
        tries: "timeout TIME ip netns exec b bash -c '</dev/tcp/10.70.1.3/80'",
        hop: "loopback",
        says: "lo of b is down",
    },
    Fault {
        ask: "a b",
        seed: "ip netns exec b sysctl -qw net.ipv4.icmp_echo_ignore_all=1",
        undo: "ip netns exec b sysctl -qw net.ipv4.icmp_echo_ignore_all=0",
        tries: PING,
        hop: "echo",
        says: "icmp_echo_ignore_all",
    },
    Fault {
        ask: "a b",
        seed: "ip link set $VB mtu 1400",
        undo: "ip link set $VB mtu 1500",
        tries: "timeout TIME ip netns exec a ping -q -M do -s 1472 -c 1 10.70.1.3",
        hop: "mtu",
        says: "larger packets than 1400 bytes",
    },
    Fault {
        ask: "host b 80",
        seed: "ip neigh replace 10.70.1.3 lladdr 02:00:00:00:00:99 dev sp-front nud permanent",
        undo: "ip neigh del 10.70.1.3 dev sp-front",
        tries: HOST_TO_B,
        hop: "neighbour",
        says: "this host sends what is for 10.70.1.3 to 02:00:00:00:00:99",
    },
    out(
        "ip -n a route del default",
        "ip -n a route add default via 10.70.1.1",
        "route",
        "ip -n a route add default via 10.70.1.1 dev eth0",
    ),
    out(
        "ip -n a route replace default via 10.70.1.99",
        "ip -n a route replace default via 10.70.1.1",
        "gateway",
        "the gateway of network front is 10.70.1.1",
    ),
    out(
        "ip address del 10.70.1.1/24 dev sp-front",
        "ip address add 10.70.1.1/24 dev sp-front",
        "gateway",
        "ip addr add 10.70.1.1/24 dev sp-front",
    ),
    out(
        "sysctl -qw net.ipv4.ip_forward=0",
        "sysctl -qw net.ipv4.ip_forward=1",
        "forwarding",
        "spoke network connect front spoke-forward",
    ),
    out(
        "sysctl -qw net.ipv4.conf.sp-front.forwarding=0",
        "sysctl -qw net.ipv4.conf.sp-front.forwarding=1",
        "forwarding",
        "net.ipv4.conf.sp-front.forwarding=1",
    ),
    out(
        "ip route add 10.70.1.2/32 dev up0; sysctl -qw net.ipv4.conf.sp-front.rp_filter=1",
        "sysctl -qw net.ipv4.conf.sp-front.rp_filter=0; ip route del 10.70.1.2/32 dev up0",
        "rp-filter",
        "10.70.1.2 does not leave by sp-front",
    ),
    out("ip route del default", "ip route add default via 192.0.2.2", "host-route", "no route"),
    out(
        "ip link set up0 down",
        "ip link set up0 up; ip route add default via 192.0.2.2",
        "host-route",
        "this host has",
    ),
    Fault {
        ask: "outside b 80",
        seed: "ip -n b route del default",
        undo: "ip -n b route add default via 10.70.1.1",
        tries: IN,
        hop: "route",
        says: "no route back to 203.0.113.77",
    },
    Fault {
        ask: "outside b 81",
        seed: ":",
        undo: ":",
        tries: "timeout TIME ip netns exec far bash -c '</dev/tcp/192.0.2.1/81'",
        hop: "published",
        says: "b publishes no port that leads to 81/tcp",
    },
    Fault {
        ask: "outside e 80",
        seed: ":",
        undo: ":",
        tries: "timeout TIME ip netns exec far bash -c '</dev/tcp/192.0.2.1/8081'",
        hop: "published",
        says: "127.0.0.1 only",
    },
    Fault {
        ask: "d outside 80",
        seed: ":",
        undo: ":",
        tries: "timeout TIME ip netns exec d bash -c '</dev/tcp/198.51.100.1/80'",
        hop: "internal",
        says: "network inner is internal",
    },
    Fault {
        ask: "a d 80",
        seed: ":",
        undo: ":",
        tries: "timeout TIME ip netns exec a bash -c '</dev/tcp/10.70.3.2/80'",
        hop: "internal",
        says: "spoke network connect inner a",
    },
    Fault {
        ask: "a nobody.front.spoke 80",
        seed: ":",
        undo: ":",
        tries: NEVER,
        hop: "name",
        says: "no container is called 'nobody.front.spoke'",
    },
    Fault {
        ask: "a b.front.spoke 80",
        seed: ":",
        undo: ":",
        tries: NEVER,
        hop: "name",
        says: "spoke serve does not answer",
    },
    Fault {
        ask: "a g 80",
        // The kernel takes the links of a namespace away a moment after its name.
        seed: "count() { ip -o link show type veth | wc -l; }; before=$(count); ip netns del g; \
               for try in $(seq 400); do [ $(count) -lt $before ] && break; sleep 0.05; done",
        undo: ":",
        tries: "timeout TIME ip netns exec a bash -c '</dev/tcp/10.70.1.7/80'",
        hop: "container",
        says: "g is gone",
    },
    of_b(
        "nft -f - <<NFT\ntable netdev t {\n chain i { type filter hook ingress device \"$VA\" priority 0; ether type arp drop; }\n}\nNFT
        ip -n a neigh flush all",
        "nft delete table netdev t",
        "filter",
        "chain i in table netdev t drops the packets of ARP",
    ),
    of_b(
        "nft add table bridge t; nft add chain bridge t f '{ type filter hook forward priority 0; }'
        nft add rule bridge t f ether type arp drop; ip -n a neigh flush all; ip -n b neigh flush all",
        "nft delete table bridge t",
        "filter",
        "chain f in table bridge t drops the packets of ARP",
    ),
    Fault {
        ask: "host 127.0.0.1 8080",
        seed: "sysctl -qw net.ipv4.conf.sp-front.route_localnet=0",
        undo: "sysctl -qw net.ipv4.conf.sp-front.route_localnet=1",
        tries: HOST_BY_LOOPBACK,
        hop: "host-route",
        says: "sysctl -w net.ipv4.conf.sp-front.route_localnet=1",
    },
    // A bridge that has forgotten where b is asks at no other port.
    of_b(
        "ip -n a neigh replace 10.70.1.3 lladdr $MB dev eth0 nud permanent
        bridge link set dev $VB flood off learning off; bridge fdb del $MB dev $VB master",
        "bridge link set dev $VB flood on learning on; ip -n a neigh del 10.70.1.3 dev eth0",
        "forwarding-entry",
        "flood on",
    ),
    of_b(
        "bridge fdb replace $MB dev sp-front self local",
        "bridge fdb del $MB dev sp-front self",
        "forwarding-entry",
        "dev sp-front self",
    ),
    // Whoever has used up a quota is not found by ARP, either.
    of_b(
        "/opt/cni/bin/spoke limit b --quota 1kB/month
        ip netns exec a ping -q -c 2 -W 0.3 -s 1400 10.70.1.3 || true
        ip -n a neigh flush all; ip -n b neigh flush all",
        "/opt/cni/bin/spoke limit b --quota none",
        "quota",
        "spoke limit spoke:b --quota",
    ),
    // The network is made so: what the next container gets is no port's setting.
    Fault {
        ask: "x y 80",
        seed: "/opt/cni/bin/spoke network create --ingress isolated --subnet 10.70.9.0/24 apart
            for name in x y; do ip netns add $name; /opt/cni/bin/spoke network connect apart $name; done
            ip netns exec y busybox httpd -p 80 -h /run/www",
        undo: "for name in x y; do /opt/cni/bin/spoke network disconnect apart $name; ip netns del $name; done
            /opt/cni/bin/spoke network rm apart",
        tries: "timeout TIME ip netns exec x bash -c '</dev/tcp/10.70.9.3/80'",
        hop: "isolation",
        says: "spoke network create shared && spoke network connect shared x && spoke network connect shared y",
    },
    // Last: what a bridge has of IPv6 is lost with it.
    of_b(
        "ip link set sp-front down",
        "ip link set sp-front up",
        "bridge",
        "bridge sp-front is down",
    ),
];

#[test]
fn faults_are_named() {
    let bed = Bed::new();
    for (ask, tries) in [
        ("a b 80", TO_B),
        ("a b", PING),
        ("a fd70:1::3 80", TO_B6),
        ("a 10.70.1.3 80", TO_B),
        ("host b 80", HOST_TO_B),
        ("a outside 80", OUT),
        ("outside b 80", IN),
        ("outside host 8080", IN),
        ("host 127.0.0.1 8080", HOST_BY_LOOPBACK),
        ("b 192.0.2.1 8080", B_BY_PORT),
    ] {
        bed.reaches(ask, tries);
    }
    bed.finds(FAULTS);
    bed.sh("ip route replace default via 192.0.2.2");
    bed.reaches("a b 80", TO_B);
    bed.reaches("a outside 80", OUT);
    bed.reaches("outside b 80", IN);
}
