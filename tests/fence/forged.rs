//! Connections that a container has although nobody let it begin them: by a frame to all of its link, or by a packet in
//! another's name.

use crate::bed::{Bed, FORWARDS, until};

const TO_ALL: &str = "ff-ff-ff-ff-ff-ff";
/// Nothing that the kernel itself checks about sources is on, as on many hosts.
pub(crate) const UNCHECKED: &str = "for each in $(ls /proc/sys/net/ipv4/conf); do echo 0 >/proc/sys/net/ipv4/conf/$each/rp_filter; done";

/// With `br_netfilter` the kernel tracks a packet for the world in a frame to all, though it does not route it. One from
/// there is its answer then, whoever sent it.
#[test]
fn a_frame_to_all_begins_nothing() {
    let bed = Bed::new(&["agent", "tight", "plain"]);
    bed.spoke("network create --names --subnet 10.81.5.0/24 --subnet fd81:5::/64 open");
    bed.spoke("network create --subnet 10.81.6.0/24 --subnet fd81:6::/64 both");
    bed.spoke("network connect --ip 10.81.1.10 --ip6 fd81:1::10 agents agent");
    bed.spoke("network connect --ip 10.81.5.10 --ip6 fd81:5::10 --egress 203.0.113.20:8443/udp,[2001:db8:113::53]:8443/udp open tight");
    bed.spoke("network connect --ip 10.81.6.10 --ip6 fd81:6::10 both plain");
    bed.world
        .sh("for each in /proc/sys/net/bridge/bridge-nf-call-ip*tables; do echo 1 >$each; done");
    bed.world.sh(UNCHECKED);
    let fenced = [("agent", "10.81.1.10", "fd81:1::10"), ("tight", "10.81.5.10", "fd81:5::10")];
    for (name, four, six) in fenced {
        let worlds = [
            (four, "203.0.113.91", "10.81.6.1", TO_ALL),
            (six, "2001:db8:113::91", "fd81:6::1", "33-33-00-00-00-01"),
            // This host, of which the container reaches nothing, either.
            (four, "203.0.113.254", "10.81.6.1", TO_ALL),
        ];
        for (address, world, gateway, all) in worlds {
            let begins = format!("starts {address} 4005 {world} 8055 {all}");
            assert_eq!(bed.attempt(name, &begins), "sent");
            let answers = format!("starts {world} 8055 {address} 4005 {gateway}");
            assert_eq!(bed.attempt("plain", &answers), "sent");
            let goes_on = format!("udp {world} 8055 from={address}/4005");
            assert_eq!(bed.attempt(name, &goes_on), "shut", "{name}: {world}");
        }
    }
    // What the fence lets begin, by the same ways: the world answers, and whom the host sends to is heard.
    bed.all(
        "tight",
        &[
            ("udp 203.0.113.20 8443 from=10.81.5.10/4005", "open"),
            ("udp 2001:db8:113::53 8443 from=fd81:5::10/4005", "open"),
        ],
    );
    bed.all("plain", &[("udp 203.0.113.91 8443 from=10.81.6.10/4007", "open")]);
    // One that may go anywhere does so as this host, and not with its own address.
    bed.attempt("plain", &format!("starts 10.81.6.10 4006 203.0.113.90 8443 {TO_ALL}"));
    assert_eq!(bed.attempt("plain", "udp 203.0.113.90 8443 from=10.81.6.10/4006"), "open");
}

/// Networks that keep to themselves, on a host that forwards whatever there is.
fn apart() -> Bed {
    let bed = Bed::after(FORWARDS, &["one", "other", "shut", "stranger"]);
    bed.spoke("network create --ingress same-bridge --subnet 10.81.6.0/24 front");
    bed.spoke("network create --ingress same-bridge --subnet 10.81.7.0/24 back");
    bed.spoke("network create --ingress isolated --subnet 10.81.8.0/24 closed");
    bed.spoke("network connect --ip 10.81.6.10 front one");
    bed.spoke("network connect --ip 10.81.7.10 back other");
    bed.spoke("network connect --ip 10.81.8.10 closed shut");
    for name in ["one", "other", "shut"] {
        bed.listens(name, 8055);
    }
    bed.world.sh(UNCHECKED);
    bed
}

/// Each listens, and answers the host.
fn listeners_answer(bed: &Bed) {
    for address in ["10.81.6.10", "10.81.7.10", "10.81.8.10"] {
        assert_eq!(bed.attempt_of_host(&format!("udp {address} 8055")), "open", "{address}");
    }
}

/// A container sends itself a packet of another network's container, by its gateway: that is masqueraded, and its answer
/// to the gateway would be led to that container.
#[test]
fn no_container_answers_what_it_began_in_anothers_name() {
    let bed = apart();
    listeners_answer(&bed);
    // By the same way in its own name: the gateway takes the packet, and the world answers.
    let own = "starts 10.81.6.10 8055 203.0.113.90 5000 10.81.6.1";
    assert_eq!(bed.attempt("one", own), "sent");
    let answer = "udp 203.0.113.254 8055 from=203.0.113.90/5000";
    assert_eq!(bed.attempt("world", answer), "open");
    let mut port = 5000;
    for target in ["10.81.7.10", "10.81.8.10"] {
        port += 1;
        assert_eq!(
            bed.attempt("one", &format!("starts {target} 8055 10.81.6.10 {port} 10.81.6.1")),
            "sent"
        );
        for by in ["10.81.6.1", target] {
            let answer = format!("udp {by} 8055 from=10.81.6.10/{port}");
            assert_eq!(bed.attempt("one", &answer), "shut", "{target} by {by}");
        }
    }
    // A bridge of another program, whose containers are masqueraded.
    bed.world.sh(
        "ip link add br9 type bridge; ip link add guest0 type veth peer name eth0 netns stranger
        ip link set guest0 master br9 up; ip address add 10.99.9.1/24 dev br9; ip link set br9 up
        ip -n stranger address add 10.99.9.2/24 dev eth0; ip -n stranger link set eth0 up
        ip -n stranger route add default via 10.99.9.1
        nft 'add table ip guests; add chain ip guests post { type nat hook postrouting priority 90; }
            add rule ip guests post ip saddr != 10.99.9.0/24 oifname br9 masquerade'",
    );
    bed.world.sh(UNCHECKED);
    assert_eq!(bed.attempt("stranger", "udp 203.0.113.90 8443 from=10.99.9.2/5009"), "open");
    let begins = "starts 10.81.7.10 8055 10.99.9.2 5009 10.99.9.1";
    assert_eq!(bed.attempt("stranger", begins), "sent");
    assert_eq!(bed.attempt("stranger", "udp 10.99.9.1 8055 from=10.99.9.2/5009"), "shut");
}

/// With `br_netfilter` a frame to all, or to a neighbour, has a packet for another network tracked, and one that is sent in
/// the name of its container answers it.
#[test]
fn no_container_goes_on_with_what_a_bridge_has_switched() {
    let bed = apart();
    bed.world.netns("mate");
    bed.spoke("network connect --ip 10.81.6.11 front mate");
    bed.world
        .sh("for each in /proc/sys/net/bridge/bridge-nf-call-ip*tables; do echo 1 >$each; done");
    bed.world.sh(UNCHECKED);
    listeners_answer(&bed);
    // What the bridge switches arrives, and what comes by the gateway is answered, with the same ports.
    bed.listens("mate", 8055);
    assert_eq!(bed.attempt("one", "udp 10.81.6.11 8055 from=10.81.6.10/5100"), "open");
    assert_eq!(bed.attempt("one", "udp 203.0.113.90 8443 from=10.81.6.10/5100"), "open");
    let mut port = 5100;
    for target in ["10.81.7.10", "10.81.8.10"] {
        for by in [TO_ALL, "10.81.6.11"] {
            port += 1;
            for packet in [
                format!("starts 10.81.6.10 {port} {target} 8055 {by}"),
                format!("starts {target} 8055 10.81.6.10 {port} 10.81.6.1"),
            ] {
                assert_eq!(bed.attempt("one", &packet), "sent", "{packet}");
            }
            let goes_on = format!("udp {target} 8055 from=10.81.6.10/{port}");
            assert_eq!(bed.attempt("one", &goes_on), "shut", "{target} by {by}");
        }
    }
}

/// Who is on the uplink's segment sends this host a packet of the container, and is its answer's receiver.
#[test]
fn no_stranger_reaches_what_is_not_published() {
    let bed = Bed::after(FORWARDS, &["near"]);
    bed.spoke("network create --trusted-interface none0 --subnet 10.81.8.0/24 trusting");
    bed.spoke("network connect --ip 10.81.8.10 --publish 8090:90/udp trusting near");
    bed.listens("near", 8055);
    bed.listens("near", 90);
    bed.world.sh(UNCHECKED);
    let uplink = bed.world.sh("cat /sys/class/net/up0/address").trim().replace(':', "-");
    let link = bed.world.sh("ip -n world -o link show out0");
    assert!(link.contains("out0"), "{link}");
    bed.world.sh("ip -n world link set out0 name eth0");
    let begins = format!("starts 10.81.8.10 8055 203.0.113.90 5002 {uplink}");
    // Its own call of what is published is answered, and so is that of the container.
    let own = "udp 203.0.113.254 8090 from=203.0.113.90/5003";
    assert_eq!(bed.attempt("world", own), "open");
    assert_eq!(bed.attempt("near", "starts 10.81.8.10 8055 203.0.113.90 5004 10.81.8.1"), "sent");
    let answer = "udp 203.0.113.254 8055 from=203.0.113.90/5004";
    assert_eq!(bed.attempt("world", answer), "open");
    assert_eq!(bed.attempt("world", &begins), "sent");
    assert_eq!(bed.attempt("world", "udp 203.0.113.254 8055 from=203.0.113.90/5002"), "shut");
    assert_eq!(bed.attempt("world", "udp 10.81.8.10 8055 from=203.0.113.90/5002"), "shut");
}

/// What honest containers do beside that: one that is on two networks answers by its default route, one routes for others,
/// and the host has a second uplink.
#[test]
fn honest_packets_pass_by_any_interface() {
    let bed = Bed::after(FORWARDS, &["two", "router", "other"]);
    bed.spoke("network create --ingress same-bridge --subnet 10.81.6.0/24 front");
    bed.spoke("network create --ingress same-bridge --subnet 10.81.7.0/24 back");
    bed.spoke("network connect --ip 10.81.6.10 --ifname eth0 front two");
    bed.spoke("network connect --ip 10.81.7.10 --ifname eth1 back two");
    bed.spoke("network connect --ip 10.81.6.11 --publish 8091:8055 front router");
    bed.spoke("network connect --ip 10.81.7.12 --publish 8092:8055 back other");
    for name in ["two", "router", "other"] {
        bed.listens(name, 8055);
    }
    bed.add_uplink();
    bed.world.sh(UNCHECKED);
    // The host calls the address that is not behind the container's default route, from an address of its uplink.
    assert_eq!(bed.attempt_of_host("udp 10.81.7.10 8055 from=203.0.113.254"), "open");
    bed.all("world", &[("tcp 203.0.114.254 8091", "open"), ("tcp 203.0.114.254 8092", "open")]);
    bed.all("router", &[("tcp 203.0.113.254 8092", "open"), ("udp 10.81.7.12 8055", "shut")]);
    bed.all("other", &[("tcp 203.0.113.90 443", "open")]);
    // A router behind which others are, to whom this host has a route.
    bed.world.netns("behind");
    bed.world.sh("ip link add down0 netns router type veth peer name eth0 netns behind
        ip -n router address add 10.99.7.1/24 dev down0; ip -n router link set down0 up
        ip netns exec router sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
        ip -n behind address add 10.99.7.2/24 dev eth0; ip -n behind link set eth0 up
        ip -n behind route add default via 10.99.7.1; ip route add 10.99.7.0/24 via 10.81.6.11
        nft 'add table ip leads; add chain ip leads post { type nat hook postrouting priority 90; }
            add rule ip leads post ip saddr 10.99.7.0/24 oifname up0 masquerade'");
    bed.all("behind", &[("tcp 203.0.113.90 443", "open"), ("tcp 203.0.113.254 8092", "open")]);
}

/// Two on an isolated network: one publishes a port, and calls it by the host in the other's name. The answer to the host
/// would be led to that one.
#[test]
fn no_neighbour_on_an_isolated_network_is_answered_for() {
    let bed = apart();
    bed.world.netns("mate");
    bed.spoke(
        "network connect --ip 10.81.8.11 --publish 8093:5200/udp --publish 8094:8055/udp closed mate",
    );
    bed.listens("mate", 8055);
    bed.world.sh(UNCHECKED);
    // The port is published, the neighbour listens, and in its own name the world answers it.
    assert_eq!(bed.attempt("world", "udp 203.0.113.254 8094"), "open");
    assert_eq!(bed.attempt_of_host("udp 10.81.8.10 8055"), "open");
    assert_eq!(bed.attempt("shut", "udp 203.0.113.90 8443 from=10.81.8.10/5201"), "open");
    assert_eq!(bed.attempt("mate", "starts 10.81.8.10 8055 203.0.113.254 8093 10.81.8.1"), "sent");
    assert_eq!(bed.attempt("mate", "udp 10.81.8.1 8055 from=10.81.8.11/5200"), "shut");
}

/// The kernel takes a tag off before the rules see the frame, and sends it on with it.
#[test]
fn no_neighbour_hears_what_is_behind_a_tag() {
    let bed = Bed::new(&["agent", "mate"]);
    bed.spoke("network connect --ip 10.81.1.10 agents agent");
    bed.spoke("network connect --ip 10.81.1.11 agents mate");
    let hears = "import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)); s.bind(('eth0', 0)); s.settimeout(20)
open('/world/ready', 'w')
while True:
    data, (_, _, way, *_) = s.recvfrom(2000)
    if way != socket.PACKET_OUTGOING and b'c2vjcmv0' in data: print('heard')
    if data[36:38] == (4001).to_bytes(2, 'big'): break";
    bed.world.sh(&format!(
        "(ip netns exec mate python3 -c \"{hears}\" >/world/heard; touch /world/done) >/dev/null 2>&1 &"
    ));
    until(&bed.world, "test -e /world/ready");
    for tags in ["81000005", "8100000181000001", "88a80005", "81000000"] {
        bed.attempt("agent", &format!("tagged 10.81.1.10 10.81.1.11 10.81.1.11 {tags}"));
    }
    // The same without a tag is heard: once.
    bed.attempt("agent", "returned 10.81.1.10 10.81.1.11 10.81.1.11 whole");
    // What is sent after them comes after them.
    bed.attempt("agent", "starts 10.81.1.10 4000 10.81.1.11 4001 10.81.1.11");
    until(&bed.world, "test -e /world/done");
    assert_eq!(bed.world.sh("cat /world/heard"), "heard\n");
}
