//! A host with two bridges, containers on them, one container behind an interface of its own,
//! a client outside, and another server outside.

use std::net::IpAddr;
use std::num::NonZeroU16;

use model::{IfName, IngressPolicy, PortMap, Protocol};
use netlink::Socket;

use super::space::{Space, alive};
use crate::filter::{Elements, install, remove};

pub(super) struct World {
    pub(super) host: Space,
    pub(super) client: Space,
    pub(super) server: Space,
    pub(super) first: Space,
    pub(super) second: Space,
    pub(super) other: Space,
    routed: Space,
    pub(super) socket: Socket,
}

const HOST: &str = "
    sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
    sysctl -qw net.bridge.bridge-nf-call-iptables=0 net.bridge.bridge-nf-call-ip6tables=0 || true
    for n in 1 2; do
        ip link add br$n type bridge; ip link set br$n up
        ip address add 10.$n.0.1/24 dev br$n; ip address add fd00:$n::1/64 dev br$n nodad
        sysctl -qw net.ipv4.conf.br$n.route_localnet=1
    done";

/// Everybody, from the host: waiting for them means that links are up and neighbours are known.
const REACHABLE: [&str; 11] = [
    "10.1.0.2",
    "10.1.0.3",
    "10.2.0.2",
    "10.3.0.2",
    "192.0.2.2",
    "198.51.100.2",
    "fd00:1::2",
    "fd00:1::3",
    "fd00:2::2",
    "2001:db8:2::2",
    "2001:db8:3::2",
];

impl World {
    pub(super) fn new() -> Self {
        let host = Space::new();
        host.run(HOST);
        let bridged = |name: &'static str, n: u8, last: u8| {
            let space = Space::new();
            connect(&host, &space, name, &format!("ip link set {name} master br{n}"));
            address(&space, &format!("10.{n}.0.{last}/24"), &format!("10.{n}.0.1"));
            address(&space, &format!("fd00:{n}::{last}/64"), &format!("fd00:{n}::1"));
            space.serve(name, 80);
            space
        };
        let outside = |name: &'static str, net: &str, net6: &str| {
            let space = Space::new();
            let here = format!(
                "ip address add {net}.1/24 dev {name}; ip address add {net}.9/24 dev {name}
                 ip address add {net6}::1/64 dev {name} nodad"
            );
            connect(&host, &space, name, &here);
            address(&space, &format!("{net}.2/24"), &format!("{net}.1"));
            address(&space, &format!("{net6}::2/64"), &format!("{net6}::1"));
            space.serve(name, 8080);
            space.serve(name, 80);
            space
        };
        let (first, second) = (bridged("first", 1, 2), bridged("second", 1, 3));
        let other = bridged("other", 2, 2);
        let routed = Space::new();
        let here = "ip address add 10.3.0.1/32 dev routed; ip route add 10.3.0.2 dev routed";
        connect(&host, &routed, "routed", here);
        routed.run(
            "ip address add 10.3.0.2/32 dev eth0; ip route add 10.3.0.1 dev eth0
             ip route add default via 10.3.0.1",
        );
        routed.serve("routed", 80);
        let client = outside("client", "192.0.2", "2001:db8:2");
        let server = outside("server", "198.51.100", "2001:db8:3");
        for address in REACHABLE {
            host.reach(address, 80);
        }
        let socket = host.socket();
        Self { host, client, server, first, second, other, routed, socket }
    }

    /// As the three parts of an attachment would ask: link, publish, and what `more` adds.
    pub(super) fn attach(
        &mut self,
        last: u8,
        ports: &[PortMap],
        more: impl Fn(&mut Elements, IpAddr),
    ) {
        let elements = elements(last, ports, more);
        install(&mut self.socket, &elements, alive).unwrap();
    }
}

pub(super) fn elements(
    last: u8,
    ports: &[PortMap],
    more: impl Fn(&mut Elements, IpAddr),
) -> Elements {
    let mut elements = Elements::new(format!("owner-{last}").parse().unwrap());
    for address in [format!("10.1.0.{last}"), format!("fd00:1::{last}")] {
        let address: IpAddr = address.parse().unwrap();
        elements.home(&br(1), address).masquerade(address);
        for port in ports {
            elements.publish(port, address).hairpin(&br(1), address);
        }
        more(&mut elements, address);
    }
    elements
}

pub(super) fn br(number: u8) -> IfName {
    format!("br{number}").parse().unwrap()
}

fn connect(host: &Space, space: &Space, name: &str, here: &str) {
    let peer = space.pid();
    host.run(&format!("ip link add {name} type veth peer name eth0 netns {peer}"));
    space.run("ip link set eth0 up");
    host.run(&format!("ip link set {name} up; {here}"));
}

fn address(space: &Space, address: &str, gateway: &str) {
    let nodad = if address.contains(':') { "nodad" } else { "" };
    space.run(&format!("ip address add {address} dev eth0 {nodad}"));
    space.run(&format!("ip route add default via {gateway}"));
}

pub(super) fn port(host: Option<&str>, host_port: u16, protocol: Protocol) -> PortMap {
    PortMap {
        host: host.map(|host| host.parse().unwrap()),
        host_port: NonZeroU16::new(host_port).unwrap(),
        container_port: NonZeroU16::new(80).unwrap(),
        protocol,
    }
}

fn published() -> [PortMap; 4] {
    [
        port(None, 8080, Protocol::Tcp),
        port(None, 8080, Protocol::Udp),
        port(Some("192.0.2.9"), 8081, Protocol::Tcp),
        port(Some("127.0.0.1"), 8082, Protocol::Tcp),
    ]
}

#[test]
fn published_ports_are_reached_and_see_the_client() {
    let mut world = World::new();
    world.attach(2, &published(), |_, _| {});
    let client = &world.client;
    assert_eq!(client.tcp("192.0.2.1", 8080), "first 192.0.2.2");
    assert_eq!(client.udp("192.0.2.1", 8080), "first 192.0.2.2");
    assert_eq!(client.tcp("2001:db8:2::1", 8080), "first 2001:db8:2::2");
    assert_eq!(client.udp("2001:db8:2::1", 8080), "first 2001:db8:2::2");
    assert_eq!(client.tcp("192.0.2.9", 8081), "first 192.0.2.2");
    assert_eq!(client.tcp("192.0.2.1", 8081), "", "on another address of the host");
    assert_eq!(client.tcp("192.0.2.1", 8082), "", "on loopback only");
    assert_eq!(client.tcp("198.51.100.2", 8080), "server 192.0.2.2", "through the host");
    assert_eq!(client.tcp("2001:db8:3::2", 8080), "server 2001:db8:2::2", "through the host");
    assert_eq!(client.udp("198.51.100.2", 8080), "server 192.0.2.2", "through the host");

    remove(&mut world.socket, &elements(2, &published(), |_, _| {})).unwrap();
    assert_eq!(world.client.tcp("192.0.2.1", 8080), "");
    assert_eq!(world.client.tcp("2001:db8:2::1", 8080), "");
}

#[test]
fn the_specific_address_comes_first() {
    let mut world = World::new();
    world.attach(2, &[port(None, 8080, Protocol::Tcp)], |_, _| {});
    world.attach(3, &[port(Some("192.0.2.9"), 8080, Protocol::Tcp)], |_, _| {});
    assert_eq!(world.client.tcp("192.0.2.9", 8080), "second 192.0.2.2");
    assert_eq!(world.client.tcp("192.0.2.1", 8080), "first 192.0.2.2");
}

#[test]
fn the_host_reaches_published_ports() {
    let mut world = World::new();
    world.attach(2, &published(), |_, _| {});
    let host = &world.host;
    assert_eq!(host.tcp("127.0.0.1", 8080), "first 10.1.0.1");
    assert_eq!(host.udp("127.0.0.1", 8080), "first 10.1.0.1");
    assert_eq!(host.tcp("127.0.0.1", 8082), "first 10.1.0.1");
    assert_eq!(host.tcp("192.0.2.1", 8080), "first 192.0.2.1");
    assert_eq!(host.tcp("2001:db8:2::1", 8080), "first 2001:db8:2::1");
    assert_eq!(host.tcp("198.51.100.2", 8080), "server 198.51.100.1", "not on this host");
    let refused = host.run("timeout 5 bash -c 'exec 3<>/dev/tcp/::1/8080' 2>&1 || true");
    assert!(refused.contains("refused"), "{refused}");
}

#[test]
fn neighbours_and_the_container_itself_reach_published_ports() {
    let mut world = World::new();
    world.attach(2, &published(), |_, _| {});
    world.attach(3, &[], |_, _| {});
    for (address, gateway) in [("192.0.2.1", "10.1.0.1"), ("2001:db8:2::1", "fd00:1::1")] {
        let seen = format!("first {gateway}");
        assert_eq!(world.first.tcp(address, 8080), seen, "itself");
        assert_eq!(world.second.tcp(address, 8080), seen, "a neighbour");
        assert_eq!(world.first.tcp(gateway, 8080), seen, "by its gateway");
    }
    assert_eq!(world.other.tcp("10.2.0.1", 8080), "first 10.2.0.2", "another network");
}

#[test]
fn bridges_that_call_iptables_are_served_too() {
    let mut world = World::new();
    world.attach(2, &published(), |_, _| {});
    world.attach(3, &[], |_, _| {});
    world.host.run(
        "sysctl -qw net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1
         ip link set first type bridge_slave hairpin on",
    );
    assert_eq!(world.second.tcp("10.1.0.2", 80), "first 10.1.0.3", "not masqueraded");
    assert_eq!(world.first.tcp("192.0.2.1", 8080), "first 10.1.0.1", "itself");
    assert!(world.second.tcp("192.0.2.1", 8080).starts_with("first "), "a neighbour");
    assert_eq!(world.client.tcp("192.0.2.1", 8080), "first 192.0.2.2");
}

/// What the first bridge's gateway is in a VLAN: the one end of a pair whose other is a port.
const APART: &str = "
    sysctl -qw net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1
    ip address flush dev br1 scope global
    ip link add br1.10 type veth peer name gateway
    ip link set gateway master br1 up; ip link set br1.10 up
    ip address add 10.1.0.1/24 dev br1.10; ip address add fd00:1::1/64 dev br1.10 nodad
    conntrack -F 2>/dev/null || true";

#[test]
fn what_a_bridge_only_passes_in_a_vlan_is_left_alone() {
    let mut world = World::new();
    world.host.run(APART);
    let gateway: IfName = "br1.10".parse().unwrap();
    for last in [2, 3] {
        let mut elements = Elements::new(format!("owner-{last}").parse().unwrap());
        for address in [format!("10.1.0.{last}"), format!("fd00:1::{last}")] {
            let address: IpAddr = address.parse().unwrap();
            elements.home(&gateway, address).masquerade(address).switched(&br(1), address);
            if last == 2 {
                elements.publish(&published()[0], address).hairpin(&gateway, address);
            }
            world.host.reach(&address.to_string(), 80);
        }
        install(&mut world.socket, &elements, alive).unwrap();
    }
    assert_eq!(world.second.tcp("10.1.0.2", 80), "first 10.1.0.3", "a neighbour");
    assert_eq!(world.second.tcp("fd00:1::2", 80), "first fd00:1::3", "a neighbour");
    assert_eq!(world.first.tcp("198.51.100.2", 80), "server 198.51.100.1");
    assert_eq!(world.first.udp("198.51.100.2", 80), "server 198.51.100.1");
    assert_eq!(world.first.tcp("2001:db8:3::2", 80), "server 2001:db8:3::1");
    assert_eq!(world.server.tcp("10.1.0.2", 80), "first 198.51.100.2", "what comes in");
    assert_eq!(world.client.tcp("192.0.2.1", 8080), "first 192.0.2.2");
    assert_eq!(world.second.tcp("192.0.2.1", 8080), "first 10.1.0.1", "a neighbour's port");
}

#[test]
fn masquerades_what_leaves_the_network_only() {
    let mut world = World::new();
    world.attach(2, &[], |_, _| {});
    assert_eq!(world.first.tcp("198.51.100.2", 80), "server 198.51.100.1");
    assert_eq!(world.first.udp("198.51.100.2", 80), "server 198.51.100.1");
    assert_eq!(world.first.tcp("2001:db8:3::2", 80), "server 2001:db8:3::1");
    assert_eq!(world.first.tcp("10.2.0.2", 80), "other 10.2.0.1");
    assert_eq!(world.first.tcp("10.1.0.3", 80), "second 10.1.0.2");
    assert_eq!(world.first.tcp("10.1.0.1", 22), "", "the host itself");
    assert_eq!(world.server.tcp("10.1.0.2", 80), "first 198.51.100.2", "what comes in");
    assert_eq!(world.second.tcp("198.51.100.2", 80), "server 10.1.0.3", "not asked for");
}

#[test]
fn routed_containers_keep_their_source_among_themselves() {
    let mut world = World::new();
    let mut elements = Elements::new("routed".parse().unwrap());
    for address in ["10.3.0.2", "10.2.0.2"] {
        let address = address.parse().unwrap();
        elements.routed(address).masquerade(address);
    }
    let (behind, address) = ("routed".parse().unwrap(), "10.3.0.2".parse().unwrap());
    elements.publish(&port(None, 8080, Protocol::Tcp), address).hairpin(&behind, address);
    install(&mut world.socket, &elements, alive).unwrap();
    assert_eq!(world.routed.tcp("10.2.0.2", 80), "other 10.3.0.2");
    assert_eq!(world.routed.tcp("198.51.100.2", 80), "server 198.51.100.1");
    assert_eq!(world.routed.tcp("10.1.0.2", 80), "first 10.1.0.1");
    assert_eq!(world.client.tcp("192.0.2.1", 8080), "routed 192.0.2.2");
    assert_eq!(world.other.tcp("192.0.2.1", 8080), "routed 10.2.0.2", "another routed one");
    assert_eq!(world.routed.tcp("192.0.2.1", 8080), "routed 10.3.0.1", "itself");
}

#[test]
fn all_clients_appear_as_the_host_where_asked() {
    let mut world = World::new();
    world.attach(2, &published(), |elements, address| {
        elements.masquerade_all(address);
    });
    assert_eq!(world.client.tcp("192.0.2.1", 8080), "first 10.1.0.1");
    assert_eq!(world.client.tcp("2001:db8:2::1", 8080), "first fd00:1::1");
    assert_eq!(world.client.tcp("10.1.0.2", 80), "first 192.0.2.2", "not published");
}

#[test]
fn bridges_with_a_policy_are_apart() {
    let mut world = World::new();
    let guard = |elements: &mut Elements, address: IpAddr| {
        elements.ingress(IngressPolicy::SameBridge, &br(1), address);
    };
    world.attach(2, &published(), guard);
    world.attach(3, &[], guard);
    assert_eq!(world.other.tcp("10.1.0.2", 80), "", "a third party's bridge");
    assert_eq!(world.other.tcp("10.2.0.1", 8080), "first 10.2.0.2", "published");
    let mut other = Elements::new("other".parse().unwrap());
    for address in ["10.2.0.2", "fd00:2::2"] {
        other.ingress(IngressPolicy::SameBridge, &br(2), address.parse().unwrap());
    }
    install(&mut world.socket, &other, alive).unwrap();
    for (far, near) in [("10.2.0.2", "10.1.0.2"), ("fd00:2::2", "fd00:1::2")] {
        assert_eq!(world.first.tcp(far, 80), "");
        assert_eq!(world.other.tcp(near, 80), "");
        assert_ne!(world.second.tcp(near, 80), "", "the same bridge");
    }
    for host in ["10.2.0.1", "192.0.2.1", "2001:db8:2::1", "fd00:1::1"] {
        assert!(world.other.tcp(host, 8080).starts_with("first "), "published at {host}");
    }
    assert_eq!(world.client.tcp("192.0.2.1", 8080), "first 192.0.2.2");
    assert_eq!(world.second.tcp("192.0.2.1", 8080), "first 10.1.0.1");
    assert_eq!(world.first.tcp("198.51.100.2", 80), "server 198.51.100.1");
    assert_eq!(world.host.tcp("10.1.0.2", 80), "first 10.1.0.1");
    remove(&mut world.socket, &other).unwrap();
    assert_ne!(world.first.tcp("10.2.0.2", 80), "");
}

#[test]
fn an_isolated_container_is_reached_from_outside_only() {
    let mut world = World::new();
    world.attach(2, &published(), |elements, address| {
        elements.ingress(IngressPolicy::Isolated, &br(1), address);
    });
    world.attach(3, &[], |elements, address| {
        elements.ingress(IngressPolicy::Isolated, &br(1), address);
    });
    assert_eq!(world.second.tcp("192.0.2.1", 8080), "", "a neighbour, by a published port");
    assert_eq!(world.second.tcp("2001:db8:2::1", 8080), "");
    assert_eq!(world.client.tcp("192.0.2.1", 8080), "first 192.0.2.2");
    assert_eq!(world.first.tcp("198.51.100.2", 80), "server 198.51.100.1");
    world.host.run("for n in first second; do ip link set $n type bridge_slave isolated on; done");
    assert_eq!(world.second.tcp("10.1.0.2", 80), "", "a neighbour, directly");
    assert_eq!(world.client.tcp("192.0.2.1", 8080), "first 192.0.2.2");
}

/// Where iptables drops what is forwarded, as Docker makes it do.
#[test]
fn a_dropping_host_forwards_for_containers() {
    let mut world = World::new();
    world.attach(2, &published(), |_, _| {});
    world.host.run("iptables-nft -P FORWARD DROP; ip6tables-nft -P FORWARD DROP");
    assert_eq!(world.client.tcp("192.0.2.1", 8080), "");
    crate::filter::allow_forwarding(&mut world.socket, &br(1), crate::filter::Open::default(), &[])
        .unwrap();
    assert_eq!(world.client.tcp("192.0.2.1", 8080), "first 192.0.2.2");
    assert_eq!(world.client.tcp("2001:db8:2::1", 8080), "first 2001:db8:2::2");
    assert_eq!(world.first.tcp("198.51.100.2", 80), "server 198.51.100.1");
    assert_eq!(world.client.tcp("10.1.0.2", 80), "", "neither published nor an answer");
    assert_eq!(world.client.tcp("198.51.100.2", 80), "", "not ours");
}

/// `route_localnet`, which loopback publishing needs, opens the host's loopback to containers.
#[test]
fn the_hosts_loopback_is_closed_to_containers() {
    let mut world = World::new();
    world.attach(2, &published(), |_, _| {});
    world.host.serve("host", 9);
    world.first.run(
        "sysctl -qw net.ipv4.conf.eth0.route_localnet=1; ip address del 127.0.0.1/8 dev lo
         ip route add 127.0.0.1 via 10.1.0.1 dev eth0 src 10.1.0.2",
    );
    assert_eq!(world.first.tcp("127.0.0.1", 9), "");
    assert_eq!(world.first.tcp("127.0.0.1", 8082), "", "nor by what is published there");
    assert_eq!(world.host.tcp("127.0.0.1", 9), "host 127.0.0.1");
    world.host.run("nft flush chain inet spoke loopback");
    assert_eq!(world.first.tcp("127.0.0.1", 9), "host 10.1.0.2", "it takes that chain");
}
