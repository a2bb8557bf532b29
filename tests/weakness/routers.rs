//! A container must not give the host a route by a router advertisement (CVE-2020-10749).

use serde_json::{Value, json};
use tests::{Cni, World};

use crate::bed::{bridge, list, many, ok, ours};

/// An advertisement (RFC 4861, 4.2) of a router for everything, with a prefix for addresses
/// (4.6.2), to all nodes; then echo requests, whose reply says that what came before was read.
const ADVERTISE: &str = r#"
import os, socket, struct, sys
os.sched_setaffinity(0, {0})
index = socket.if_nametoindex("eth0")
prefix = struct.pack("!BBBBIII", 3, 4, 64, 0xc0, 1800, 900, 0) + socket.inet_pton(socket.AF_INET6, "2001:db8:bad::")
message = struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0) + prefix
s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
s.bind(("fe80::bad", 0, 0, index))
s.sendto(message, ("ff02::1", 0, 0, index))
"#;

/// What the host believes after an advertisement of the container's.
fn believed(world: &World, plugin: &Value) -> Vec<String> {
    // A host that forwards IPv6 believes no router: the networks have IPv4 alone.
    world.sh("echo 1 >/proc/sys/net/ipv6/conf/default/accept_ra");
    let mut cni = Cni::new(world);
    ok(&cni.add(&list(&json!([plugin]))));
    let gateway = "10.9.0.1";
    world.sh(&format!(
        "ip netns exec c1 ip addr add fe80::bad/64 dev eth0 nodad
         ip netns exec c1 python3 - <<'END'\n{ADVERTISE}\nEND
         ip netns exec c1 taskset -c 0 ping -q -c 1 -W 5 {gateway}"
    ));
    let reported = world.sh("ip -6 route show proto ra; ip -6 -o addr show dynamic");
    reported.lines().map(|line| format!("{}: {line}", plugin["type"])).collect()
}

#[test]
fn of_a_container_are_not_believed() {
    let ptp = json!({"type": "ptp", "ipam": many()});
    for plugin in [ptp, bridge(&json!({}))] {
        ours(|world| believed(world, &plugin));
    }
}
