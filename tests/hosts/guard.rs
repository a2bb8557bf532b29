//! What comes from outside: only members send packets of VXLAN, and nothing is flooded.

use std::time::{Duration, Instant};

use crate::bed::{Segment, until, until_equal, until_reached};

/// A stranger on the segment knows everything: network number, addresses, hardware addresses.
#[test]
fn packets_of_strangers_are_dropped() {
    let segment = Segment::new();
    let [mut a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all front");
    let (one, two) = (a.attach("front", "one"), b.attach("front", "two"));
    until_reached(&a.world, "one", &two);
    let mac = a.sh("ip netns exec one cat /sys/class/net/eth0/address");
    let (mac, stranger) = (mac.trim(), segment.host("x", 9));
    stranger.sh(&format!(
        "ip link add vx type vxlan id 4097 local {} remote {} dstport 4789
         ip address add 10.64.9.9/16 dev vx; ip link set vx up
         ip neigh replace {one} lladdr {mac} dev vx nud permanent",
        stranger.address, a.address
    ));
    // Echo requests that the container has received.
    let count = "ip netns exec one awk '/^Icmp:/ { if (at) print $at; \
        for (i = 1; i <= NF; i++) if ($i == \"InEchos\") at = i }' /proc/net/snmp";
    let before = a.sh(count);
    let said = stranger.world.try_sh(&format!("ping -q -c 3 -i 0.2 -W 1 {one}"));
    assert_ne!(said.status, 0, "{said:?}");
    assert_eq!(a.sh(count), before, "what a stranger sent has come to a container");
    // The guard is what keeps it out; the daemon would put it right at once.
    a.kill();
    a.sh("nft add element ip spoke_overlay members { 192.0.2.9 }");
    stranger.sh(&format!("ping -q -c 1 -W 1 {one} || true"));
    assert_ne!(a.sh(count), before, "the packets do not come at all");
    // What another program added is removed again.
    a.start();
    until(&a.world, "! nft list table ip spoke_overlay | grep -q 192.0.2.9");
    // It is put back when it is removed, not with the comparison every three seconds: ten of these are
    // thirty seconds.
    let begin = Instant::now();
    for _ in 0..10 {
        a.sh("nft delete table ip spoke_overlay");
        until(&a.world, "nft list table ip spoke_overlay 2>/dev/null | grep -q 192.0.2.2");
    }
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
}

/// What a container sends has its host's address by the time it arrives, and what a user of the host sends
/// as well: members believe both, so the host lets neither send to the port.
#[test]
fn packets_of_a_members_containers_and_users_stay_there() {
    let segment = Segment::new();
    let [mut a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all front");
    a.spoke("network create --subnet 10.201.7.0/24 private");
    let (one, two) = (a.attach("front", "one"), b.attach("front", "two"));
    a.attach("private", "mallory");
    until_reached(&a.world, "one", &two);
    until_reached(&b.world, "two", &one);
    // All that comes to the port and is not from the kernel's own port range of tunnels.
    b.sh("nft add table ip count; nft add chain ip count input '{ type filter hook input priority -300; }'
        nft add rule ip count input udp sport 9009-9010 udp dport 4789 counter");
    // Each from a port of its own: the host translates the container's address.
    let send = |port: u16| {
        format!(
            "python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((\"0.0.0.0\", {port}))
s.sendto(b\"12345678\", (\"192.0.2.2\", 4789))'"
        )
    };
    let container = format!("ip netns exec mallory {}", send(9009));
    let user = format!("setpriv --reuid 65534 --clear-groups {}", send(9010));
    let count = "nft list chain ip count input | grep -o 'packets [0-9]*'";
    for sender in [&container, &user] {
        // A user learns that it is not permitted; a container does not.
        a.sh(&format!("{sender} 2>/dev/null || true"));
        assert_eq!(b.sh(count), "packets 0\n", "{sender}");
    }
    // It is the guard that keeps them: the daemon would put it right at once.
    a.kill();
    a.sh("nft delete table ip spoke_overlay");
    for sender in [&container, &user] {
        let before = b.sh(count);
        a.sh(sender);
        until(&b.world, &format!("[ \"$({count})\" != '{}' ]", before.trim()));
    }
}

/// ARP is answered on the host, and what no container has is not sent to any host.
#[test]
fn nothing_is_flooded() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all front");
    let (_, two) = (a.attach("front", "one"), b.attach("front", "two"));
    until_equal(&segment, &a.world, "front", "a", 2);
    until_equal(&segment, &b.world, "front", "b", 2);
    let sent =
        "ip -s -o link show type vxlan | grep -o 'TX:.*' | tr -s ' \\\\' ' ' | cut -d ' ' -f 8";
    a.sh("ip netns exec one ip neigh flush all");
    let before = a.sh(sent);
    a.sh("ip netns exec one busybox arping -q -c 2 -w 1 -I eth0 10.64.77.77 || true");
    a.sh("ip netns exec one ping -q -c 1 -W 1 -b 10.64.255.255 || true");
    assert_eq!(a.sh(sent), before, "a broadcast was sent to other hosts");
    let said = a.sh(&format!("ip netns exec one busybox arping -c 1 -w 3 -I eth0 {two}"));
    assert!(said.contains("reply"), "{said}");
    assert_eq!(a.sh(sent), before, "a question that the host can answer was sent to others");
    a.sh(&format!("ip netns exec one ping -q -c 1 -W 3 {two}"));
    assert_ne!(a.sh(sent), before, "nothing is counted");
    // Who has asked too early hears of a new address at once, and not when it asks again after a second.
    let theirs = segment.prefix("front", "a");
    b.sh(&format!(
        "ip netns exec two tcpdump -nn -l -c 1 -i eth0 'arp and src net {theirs}0/24' >/world/arp 2>/world/arp.said &
         timeout 20 sh -c 'until grep -q listening /world/arp.said; do sleep 0.05; done'"
    ));
    let new = a.attach("front", "new");
    until(&b.world, &format!("grep -qw '{new}' /world/arp"));
}
