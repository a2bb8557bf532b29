//! Faults that operators of real hosts make, and hung programs.

use crate::bed::{Bed, Fault};
use crate::faults::{IN, OUT, TO_B, TO_B6};

/// A program in b that takes no connection; so many wait as may.
const HANGS: &str = "cat >/run/hangs.py <<'PY'\nimport os, socket, time\n\
    heard = socket.socket()\nheard.bind(('0.0.0.0', 86))\nheard.listen(0)\n\
    if os.fork() == 0:\n os.close(1)\n os.close(2)\n time.sleep(600)\nPY\n\
    ip netns exec b python3 /run/hangs.py; \
    ip netns exec b bash -c 'exec 7<>/dev/tcp/127.0.0.1/86; sleep 600 >&- 2>&- & disown'";

/// One that takes only what comes by lo.
const BOUND: &str = "cat >/run/bound.py <<'PY'\nimport os, socket, time\n\
    heard = socket.socket()\nheard.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'lo')\n\
    heard.bind(('0.0.0.0', 85))\nheard.listen()\n\
    if os.fork() == 0:\n os.close(1)\n os.close(2)\n time.sleep(600)\nPY\n\
    ip netns exec b python3 /run/bound.py";

const fn fault(ask: &'static str, seed: &'static str, undo: &'static str) -> Fault {
    Fault { ask, seed, undo, tries: TO_B, hop: "", says: "" }
}

impl Fault {
    const fn tried(self, tries: &'static str) -> Self {
        Self { tries, ..self }
    }

    const fn found(self, hop: &'static str, says: &'static str) -> Self {
        Self { hop, says, ..self }
    }
}

/// Stops the programs of b, as `docker pause` does: the kernel goes on taking connections for them.
const PAUSED: &str =
    "for top in /sys/fs/cgroup /sys/fs/cgroup/unified; do [ -e $top/cgroup.procs ] && break; done
    mkdir $top/spoke-$$; echo $top/spoke-$$ >/run/paused
    for pid in $(ip netns pids b); do echo $pid >$(cat /run/paused)/cgroup.procs; done
    echo 1 >$(cat /run/paused)/cgroup.freeze";
const RESUMED: &str = "echo 0 >$(cat /run/paused)/cgroup.freeze
    for pid in $(cat $(cat /run/paused)/cgroup.procs); do echo $pid >$(dirname $(cat /run/paused))/cgroup.procs; done
    rmdir $(cat /run/paused)";
/// A page of b, as a reads it.
const PAGE: &str = "timeout TIME ip netns exec a busybox wget -qO- http://10.70.1.3/";

const FAULTS: &[Fault] = &[
    fault("a b 80", PAUSED, RESUMED)
        .tried(PAGE)
        .found("paused", "b is paused (control group /spoke-"),
    fault("b a", PAUSED, RESUMED).tried("false").found("paused", "sh -c 'echo 0 >/sys/fs/cgroup/"),
    fault("a b 86", HANGS, ":")
        .tried("timeout TIME ip netns exec a bash -c '</dev/tcp/10.70.1.3/86'")
        .found("listener", "does not accept connections: 1 wait, and at most 0 may"),
    fault("a b 85", BOUND, ":")
        .tried("timeout TIME ip netns exec a bash -c '</dev/tcp/10.70.1.3/85'")
        .found("listener", "only for what comes by lo"),
    fault("a b 80", "bridge link set dev $VA state 2", "bridge link set dev $VA state 3")
        .found("bridge", "does not forward what comes by"),
    fault(
        "a b 80",
        "ip -n b link set eth0 arp off; ip -n a neigh flush dev eth0",
        "ip -n b link set eth0 arp on",
    )
    .found("neighbour", "ip -n b link set eth0 arp on"),
    fault(
        "a b 80",
        "ip netns exec b sysctl -qw net.ipv4.conf.eth0.arp_ignore=8; ip -n a neigh flush dev eth0",
        "ip netns exec b sysctl -qw net.ipv4.conf.eth0.arp_ignore=0",
    )
    .found("neighbour", "net.ipv4.conf.eth0.arp_ignore is 8"),
    fault(
        "a outside 80",
        "ip link set sp-front arp off; ip -n a neigh flush dev eth0",
        "ip link set sp-front arp on",
    )
    .tried(OUT)
    .found("neighbour", "ip link set sp-front arp on"),
    fault(
        "a b 80",
        "bridge link set dev $VB bcast_flood off; ip -n a neigh flush dev eth0",
        "bridge link set dev $VB bcast_flood on",
    )
    .found("neighbour", "sends no broadcast out of"),
    fault(
        "a b 80",
        "bridge link set dev $VA locked on; ip link set $VA type bridge_slave fdb_flush",
        "bridge link set dev $VA locked off",
    )
    .found("bridge", "is a locked port of bridge sp-front"),
    fault(
        "a b 80",
        "ip netns exec b nft 'add table arp t; add chain arp t in { type filter hook input priority 0; }; \
            add rule arp t in arp saddr ip 10.70.1.2 drop'; ip -n a neigh flush dev eth0",
        "ip netns exec b nft delete table arp t",
    )
    .found("filter", "in table arp t drops the packets of ARP by which a asks who has 10.70.1.3"),
    fault(
        "a b 80",
        "ip netns exec b nft 'add table arp t; add chain arp t out { type filter hook output priority 0; }; \
            add rule arp t out arp operation reply drop'; ip -n a neigh flush dev eth0",
        "ip netns exec b nft delete table arp t",
    )
    .found("filter", "ip netns exec b nft delete rule arp t out handle"),
    fault(
        "a outside 80",
        "nft 'add table arp t; add chain arp t in { type filter hook input priority 0; policy drop; }'; \
            ip -n a neigh flush dev eth0",
        "nft delete table arp t",
    )
    .tried(OUT)
    .found("filter", "the policy of chain in in table arp t drops"),
    fault(
        "a outside 80",
        "ip rule add ipproto tcp dport 80 priority 50 prohibit",
        "ip rule del priority 50",
    )
    .tried(OUT)
    .found("host-route", "this host has a prohibiting route"),
    fault(
        "a b 80",
        "ip -n a rule add ipproto tcp dport 80 priority 50 prohibit",
        "ip -n a rule del priority 50",
    )
    .found("route", "a has a prohibiting route to 10.70.1.3"),
    fault(
        "a outside 80",
        "ip route add 10.70.1.2/32 via 192.0.2.2",
        "ip route del 10.70.1.2/32 via 192.0.2.2",
    )
    .tried(OUT)
    .found("host-route", "the answer to 10.70.1.2 goes out of this host, not back to a"),
    fault(
        "a outside 80",
        "ip rule add to 10.70.1.2 priority 50 blackhole",
        "ip rule del priority 50",
    )
    .tried(OUT)
    .found("host-route", "a blackhole route"),
    fault(
        "a b 80",
        "ip -n b address del 10.70.1.3/24 dev eth0; ip -n b address add 10.70.1.3/32 dev eth0",
        "ip -n b address del 10.70.1.3/32 dev eth0; ip -n b address add 10.70.1.3/24 dev eth0; \
            ip -n b route replace default via 10.70.1.1",
    )
    .found("route", "ip -n b addr add 10.70.1.3/24 dev eth0"),
    fault(
        "a b 80",
        "ip -n a address add 10.9.9.9/32 dev eth0; ip -n a route add 10.70.1.3/32 dev eth0 src 10.9.9.9",
        "ip -n a route del 10.70.1.3/32 dev eth0; ip -n a address del 10.9.9.9/32 dev eth0",
    )
    .found("route", "a sends from 10.9.9.9, which is none of its own"),
    fault(
        "a outside 80",
        "iptables -t nat -I POSTROUTING -s 10.70.1.0/24 -o up0 -j SNAT --to 192.0.2.250",
        "iptables -t nat -F POSTROUTING",
    )
    .tried(OUT)
    .found("masquerade", "sends it from 192.0.2.250, which this host does not have"),
    fault(
        "outside b 80",
        "iptables -t nat -I PREROUTING -p tcp --dport 8080 -j REDIRECT --to-port 9",
        "iptables -t nat -F PREROUTING",
    )
    .tried(IN)
    .found("port-map", "leads what is for 192.0.2.1:8080 to 192.0.2.1:9, not to b"),
    fault(
        "a fd70:1::3 80",
        "ip -n b link set eth0 mtu 1000",
        "ip -n b link set eth0 mtu 1500; ip -n b address replace fd70:1::3/64 dev eth0 nodad",
    )
    .tried(TO_B6)
    .found("mtu", "IPv6 needs an MTU of 1280"),
    fault(
        "a fd70:1::3 80",
        "ip netns exec b ip6tables -A INPUT -p tcp --dport 80 -j ACCEPT; \
            ip netns exec b ip6tables -P INPUT DROP; ip -n a -6 neigh flush dev eth0",
        "ip netns exec b ip6tables -F; ip netns exec b ip6tables -P INPUT ACCEPT",
    )
    .tried(TO_B6)
    .found("filter", "drops the packets of ICMPv6 by which a asks who has fd70:1::3"),
    fault(
        "a fd70:1::3 80",
        "ip netns exec a ip6tables -A INPUT -m state --state ESTABLISHED,RELATED -j ACCEPT; \
            ip netns exec a ip6tables -P INPUT DROP; ip -n a -6 neigh flush dev eth0",
        "ip netns exec a ip6tables -F; ip netns exec a ip6tables -P INPUT ACCEPT",
    )
    .tried(TO_B6)
    .found("filter", "ip netns exec a ip6tables -I INPUT -p ipv6-icmp -j ACCEPT"),
    fault(
        "a fd70:1::1",
        "sysctl -qw net.ipv6.conf.sp-front.disable_ipv6=1",
        "sysctl -qw net.ipv6.conf.sp-front.disable_ipv6=0; \
            ip address replace fd70:1::1/64 dev sp-front nodad",
    )
    .tried("timeout TIME ip netns exec a ping -q -c 1 fd70:1::1")
    .found("ipv6", "IPv6 is disabled on bridge sp-front"),
    // Last: nothing here makes it again.
    fault("a outside 80", "nft delete table inet spoke", ":")
        .tried(OUT)
        .found("masquerade", "nothing masquerades what a sends"),
];

#[test]
fn faults_of_operators_are_named() {
    let bed = Bed::new();
    // Two ways out: the answer comes by the same one.
    bed.sh("ip link add up1 type veth peer name eth1 netns far; \
        ip address add 192.0.3.1/24 dev up1; ip link set up1 up; \
        ip -n far address add 192.0.3.2/24 dev eth1; ip -n far link set eth1 up; \
        ip rule add from 10.70.1.0/24 priority 50 lookup 77; \
        ip route add default via 192.0.3.2 table 77; ip route add 10.70.1.0/24 dev sp-front table 77");
    bed.reaches("a outside 80", OUT);
    // No host answers there, and why cannot be seen.
    bed.sh("ip -n far address del 192.0.3.2/24 dev eth1; ip neigh del 192.0.3.2 dev up1; \
        ! timeout 10 ping -q -c 1 -W 8 192.0.3.2");
    let (code, found) = bed.explain("a outside 80");
    assert_eq!((code, &found["verdict"]), (5, &"cannot-tell".into()), "{found:#}");
    assert!(found.to_string().contains("who has 192.0.3.2, and got no answer"), "{found:#}");
    bed.sh("ip rule del priority 50; ip link del up1");
    // Another container is the router.
    bed.sh("ip netns exec f sysctl -qw net.ipv4.ip_forward=1; \
        ip -n a route replace default via 10.70.1.6");
    let (code, found) = bed.explain("a outside 80");
    assert_eq!((code, &found["verdict"]), (5, &"cannot-tell".into()), "{found:#}");
    assert!(bed.works(OUT, "10"));
    bed.sh("ip -n a route replace default via 10.70.1.1");
    // What a container's own filter lets pass.
    bed.sh("ip netns exec a ip6tables -A INPUT -m state --state ESTABLISHED,RELATED -j ACCEPT; \
        ip netns exec a ip6tables -A INPUT -p ipv6-icmp -j ACCEPT; \
        ip netns exec a ip6tables -P INPUT DROP; ip -n a -6 neigh flush dev eth0");
    bed.reaches("a fd70:1::3 80", TO_B6);
    bed.sh("ip netns exec a ip6tables -F; ip netns exec a ip6tables -P INPUT ACCEPT");
    bed.finds(FAULTS);
}
