//! Flows that others begin to a fenced container, or in its name: it sends no more because of them.

use crate::bed::{Bed, FORWARDS};
use crate::flow::Flow;

/// `agent` is on the network with rules, `tight` has rules of its own on one without, `plain` is on another network,
/// and `mate` beside `agent`. Servers are at port 8022 of `agent` and `tight`.
fn bed() -> Bed {
    let bed = Bed::after(FORWARDS, &["agent", "mate", "tight", "plain"]);
    bed.spoke("network create --names --subnet 10.81.5.0/24 --subnet fd81:5::/64 open");
    bed.spoke("network create --subnet 10.81.6.0/24 --subnet fd81:6::/64 both");
    bed.spoke("network connect --ip 10.81.1.10 --ip6 fd81:1::10 --publish 8080:8022 agents agent");
    bed.spoke("network connect --ip 10.81.1.11 --ip6 fd81:1::11 agents mate");
    bed.spoke(
        "network connect --ip 10.81.5.10 --ip6 fd81:5::10 --publish 8081:8022 \
         --egress 203.0.113.20:5432 open tight",
    );
    bed.spoke("network connect --ip 10.81.6.10 --ip6 fd81:6::10 both plain");
    for name in ["agent", "tight"] {
        bed.listens(name, 8022);
    }
    bed.world.sh(
        "for each in all up0 default; do echo 0 >/proc/sys/net/ipv4/conf/$each/rp_filter; done
        for each in $(ls /sys/class/net); do echo 0 >/proc/sys/net/ipv4/conf/$each/rp_filter; done
        for each in /proc/sys/net/bridge/bridge-nf-call-ip*tables; do echo 1 >$each; done",
    );
    bed
}

/// The fenced containers, with their addresses.
const FENCED: [(&str, &str, &str); 2] =
    [("agent", "10.81.1.10", "fd81:1::10"), ("tight", "10.81.5.10", "fd81:5::10")];

#[test]
fn nothing_leaves_as_an_answer_to_a_forged_address() {
    let bed = bed();
    for (name, four, six) in FENCED {
        let begun = [(four, "203.0.113.98", "10.81.6.1"), (six, "2001:db8:113::98", "fd81:6::1")];
        for (address, forged, gateway) in begun {
            bed.attempt("plain", &format!("starts {forged} 8443 {address} 4001 {gateway}"));
            let answer = format!("udp {forged} 8443 from={address}/4001");
            assert_eq!(bed.attempt(name, &answer), "shut", "{name}: {forged}");
        }
    }
    for port in ["8080", "8081"] {
        bed.attempt("plain", &format!("begins 203.0.113.95 203.0.113.254 {port} 10.81.6.1"));
    }
    // What is sent after it comes after it.
    assert_eq!(bed.attempt("plain", "tcp 203.0.113.94 443"), "open");
    let seen = bed.seen();
    assert!(!seen.contains("113.95") && seen.contains("113.94"), "{seen}");
    assert!(!seen.contains("113.98") && !seen.contains("113::98"), "{seen}");
    let denied = bed.spoke("denied");
    assert!(denied.contains("203.0.113.98:8443") && denied.contains("agent"), "{denied}");
}

/// Another container begins a flow to the world with the fenced one's address, and the world answers.
#[test]
fn nothing_leaves_because_another_one_used_its_address() {
    let bed = bed();
    for (name, four, six) in FENCED {
        let begun = [(four, "203.0.113.97", "10.81.6.1"), (six, "2001:db8:113::97", "fd81:6::1")];
        for (address, world, gateway) in begun {
            bed.attempt("plain", &format!("starts {address} 4002 {world} 8443 {gateway}"));
            let rest = format!("udp {world} 8443 from={address}/4002");
            assert_eq!(bed.attempt(name, &rest), "shut", "{name}: {world}");
        }
    }
    let denied = bed.spoke("denied");
    assert!(denied.contains("203.0.113.97:8443") && denied.contains("tight"), "{denied}");
    assert!(denied.contains("[2001:db8:113::97]:8443"), "{denied}");
}

/// A frame to a neighbour carries a packet for the world, which the bridge switches before the eyes of connection
/// tracking; and the world sends what answers it.
#[test]
fn nothing_leaves_because_the_bridge_has_switched_it() {
    let bed = bed();
    let begun = [
        ("10.81.1.10", "203.0.113.92", "10.81.1.11"),
        ("fd81:1::10", "2001:db8:113::92", "fd81:1::11"),
    ];
    for (address, world, mate) in begun {
        assert_eq!(
            bed.attempt("agent", &format!("starts {address} 4003 {world} 4004 {mate}")),
            "sent"
        );
        bed.world.sh(&format!(
            "ip netns exec world python3 -c \"
import socket
s = socket.socket(socket.AF_INET6 if ':' in '{world}' else socket.AF_INET, socket.SOCK_DGRAM)
s.family == socket.AF_INET6 and s.setsockopt(41, 78, 1)  # IPV6_FREEBIND
s.bind(('{world}', 4004)); s.sendto(b'x', ('{address}', 4003))\""
        ));
        assert_eq!(bed.attempt("agent", &format!("udp {world} 4004 from={address}/4003")), "shut");
    }
    let heard = bed.seen();
    assert!(!heard.contains("4004"), "{heard}");
}

/// The host forwards anyway, and the world has a route to the container.
#[test]
fn a_port_that_is_not_published_does_not_answer_the_world() {
    let bed = bed();
    for (_, four, six) in FENCED {
        for address in [four, six] {
            assert_eq!(bed.attempt("world", &format!("tcp {address} 8022")), "shut", "{address}");
        }
    }
}

/// What a container answers as before: published ports, other networks, itself by the host's address, a bridge and a link
/// of another program.
#[test]
fn honest_calls_are_answered() {
    let bed = bed();
    bed.world.netns("guest");
    bed.world.netns("pod");
    bed.world.sh(
        "ip link add br9 type bridge; ip link add guest0 type veth peer name eth0 netns guest
        ip link set guest0 master br9 up; ip address add 10.99.9.1/24 dev br9; ip link set br9 up
        ip -n guest address add 10.99.9.2/24 dev eth0; ip -n guest link set eth0 up
        ip -n guest route add default via 10.99.9.1
        nft 'add table ip guests; add chain ip guests post { type nat hook postrouting priority 100; }
            add rule ip guests post ip saddr 10.99.9.0/24 oifname != br9 masquerade;
            add rule ip guests post ip saddr 10.99.8.2 oifname != pod0 masquerade'
        ip link add pod0 type veth peer name eth0 netns pod; ip link set pod0 up
        ip address add 10.99.8.1/32 dev pod0; ip route add 10.99.8.2 dev pod0
        ip -n pod address add 10.99.8.2/32 dev eth0; ip -n pod link set eth0 up
        ip -n pod route add 10.99.8.1 dev eth0; ip -n pod route add default via 10.99.8.1",
    );
    for caller in ["guest", "pod"] {
        bed.all(caller, &[("tcp 10.81.1.10 8022", "open"), ("tcp 10.81.5.10 8022", "open")]);
    }
    bed.all("world", &[("tcp 203.0.113.254 8080", "open"), ("tcp 203.0.113.254 8081", "open")]);
    for caller in ["plain", "agent", "tight", "guest", "pod"] {
        bed.all(
            caller,
            &[
                ("tcp 203.0.113.254 8080", if caller == "tight" { "shut" } else { "open" }),
                ("tcp 203.0.113.254 8081", if caller == "agent" { "shut" } else { "open" }),
            ],
        );
    }
    bed.all("plain", &[("tcp 10.81.1.10 8022", "open"), ("tcp 10.81.5.10 8022", "open")]);
    bed.all("plain", &[("tcp fd81:1::10 8022", "open"), ("tcp fd81:5::10 8022", "open")]);
    bed.all("mate", &[("tcp 10.81.1.10 8022", "open"), ("tcp fd81:1::10 8022", "open")]);
}

/// What comes by one uplink is answered by another one.
#[test]
fn an_uplink_may_be_answered_by_another_one() {
    let bed = bed();
    bed.add_uplink();
    bed.all("world", &[("tcp 203.0.114.254 8080", "open"), ("tcp 203.0.114.254 8081", "open")]);
    let came = bed.world.sh("ip -s link show up1 | awk '/RX/ { getline; print $2 }'");
    assert_ne!(came.trim(), "0");
}

/// A network that is reached by routes answers whoever calls.
#[test]
fn a_network_that_is_reached_by_routes_answers_the_world() {
    let bed = Bed::new(&["routed"]);
    bed.spoke("network create --direct --egress none --subnet 10.81.8.0/24 near");
    bed.spoke("network connect --ip 10.81.8.10 near routed");
    bed.listens("routed", 8022);
    bed.all("world", &[("tcp 10.81.8.10 8022", "open")]);
    assert_eq!(bed.attempt("routed", "tcp 203.0.113.90 443"), "shut");
}

/// So does one that is not masqueraded, where the host forwarded before Spoke.
#[test]
fn a_network_that_is_not_masqueraded_answers_the_world() {
    let bed = Bed::after(FORWARDS, &["routed", "own"]);
    bed.spoke(
        "network create --no-masquerade --egress none --subnet 10.81.8.0/24 --subnet fd81:8::/64 near",
    );
    bed.spoke("network create --no-masquerade --names --subnet 10.81.9.0/24 open");
    bed.spoke("network connect --ip 10.81.8.10 --ip6 fd81:8::10 near routed");
    bed.spoke("network connect --ip 10.81.9.10 --egress none open own");
    for name in ["routed", "own"] {
        bed.listens(name, 8022);
    }
    for address in ["10.81.8.10", "10.81.9.10"] {
        bed.all("world", &[(&format!("tcp {address} 8022"), "open")]);
    }
    for name in ["routed", "own"] {
        assert_eq!(bed.attempt(name, "tcp 203.0.113.90 443"), "shut", "{name}");
    }
}

/// Who comes by a device that the network trusts reaches published ports at the container's own address.
#[test]
fn a_network_answers_by_the_devices_that_it_trusts() {
    let mut bed = Bed::new(&["near", "own"]);
    bed.spoke(
        "network create --trusted-interface up0 --egress none --subnet 10.81.8.0/24 trusting",
    );
    bed.spoke("network create --trusted-interface up0 --names --subnet 10.81.9.0/24 open");
    bed.spoke("network connect --ip 10.81.8.10 --publish 8082:8022 trusting near");
    bed.spoke("network connect --ip 10.81.9.10 --publish 8083:8022 --egress none open own");
    for (name, address) in [("near", "10.81.8.10"), ("own", "10.81.9.10")] {
        bed.listens(name, 8022);
        bed.all("world", &[(&format!("tcp {address} 8022"), "open")]);
        assert_eq!(bed.attempt(name, "tcp 203.0.113.90 443"), "shut", "{name}");
    }
    bed.serve.take().expect("it runs").kill();
    bed.world.sh("nft flush set inet spoke_fence trusted");
    assert_eq!(bed.attempt("world", "tcp 10.81.8.10 8022"), "shut");
}

/// The host itself would answer by the uplink who calls by a network's way.
#[test]
fn who_calls_by_the_way_is_answered_by_it() {
    let mut bed = Bed::new(&["vpn", "near", "own"]);
    bed.world.sh(
        "ip link add way0 type veth peer name far0 netns vpn; ip address add 10.99.0.1/24 dev way0
        ip link set way0 up; ip -n vpn address add 10.99.0.2/24 dev far0; ip -n vpn link set far0 up
        ip -n vpn link set lo up; ip -n vpn address add 198.18.5.5/32 dev lo
        ip -n vpn route add default via 10.99.0.1
        ip route add default via 10.99.0.2 dev way0 metric 9000
        for each in all way0; do echo 0 >/proc/sys/net/ipv4/conf/$each/rp_filter; done",
    );
    bed.spoke("network create --via way0 --egress none --subnet 10.81.8.0/24 led");
    bed.spoke("network create --via way0 --names --subnet 10.81.9.0/24 open");
    bed.spoke("network connect --ip 10.81.8.10 --publish 8082:8022 led near");
    bed.spoke("network connect --ip 10.81.9.10 --publish 8083:8022 --egress none open own");
    for (name, port) in [("near", 8082), ("own", 8083)] {
        bed.listens(name, 8022);
        bed.all("vpn", &[(&format!("tcp 10.99.0.1 {port} from=198.18.5.5"), "open")]);
        bed.all("world", &[(&format!("tcp 203.0.113.254 {port}"), "open")]);
        assert_eq!(bed.attempt(name, "tcp 198.18.5.5 443"), "shut", "{name}");
    }
    bed.serve.take().expect("it runs").kill();
    bed.world.sh("nft flush chain inet spoke_via calling");
    assert_eq!(bed.attempt("vpn", "tcp 10.99.0.1 8082 from=198.18.5.5"), "shut");
}

/// What goes on of a flow is let pass without its rules being asked again, but for packets that may say by which way they go.
#[test]
fn a_flow_that_goes_on_sends_no_options() {
    let bed = Bed::new(&["agent", "own", "free"]);
    bed.spoke("network connect agents agent");
    bed.spoke("network connect --egress 203.0.113.20:5432 agents own");
    bed.spoke("network connect plain free");
    for (namespace, expected) in [("agent", "shut"), ("own", "shut"), ("free", "goes on")] {
        let mut flow = Flow::open(&bed.world, namespace, "203.0.113.20", 5432);
        assert_eq!(flow.state(), "goes on", "{namespace}");
        assert_eq!(flow.state_with_options(), expected, "{namespace}");
    }
}
