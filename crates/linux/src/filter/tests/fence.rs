//! Who is kept out: of internal networks, and of ports that are published for some only.

use std::net::IpAddr;
use std::num::NonZeroU16;

use model::{PortMap, Protocol, Reach};

use super::space::alive;
use super::traffic::{World, br, elements, port};
use crate::filter::{Elements, forget_bridge, install, make_internal, restore, set_lan, verify};

fn of_other(more: impl Fn(&mut Elements, IpAddr)) -> Elements {
    let mut elements = Elements::new("other".parse().unwrap());
    for address in ["10.2.0.2", "fd00:2::2"] {
        more(&mut elements, address.parse().unwrap());
    }
    elements
}

#[test]
fn nothing_passes_into_or_out_of_an_internal_network() {
    let mut world = World::new();
    let internal = |elements: &mut Elements, _: IpAddr| {
        elements.internal(&br(1));
    };
    assert_ne!(world.first.tcp("10.2.0.2", 80), "");
    world.attach(2, &[port(None, 8080, Protocol::Tcp)], internal);
    world.attach(3, &[], internal);
    for (other, server, host) in
        [("10.2.0.2", "198.51.100.2", "10.1.0.1"), ("fd00:2::2", "2001:db8:3::2", "fd00:1::1")]
    {
        assert_eq!(world.first.tcp(server, 80), "");
        assert_eq!(world.first.udp(server, 80), "");
        assert_eq!(world.first.tcp(other, 80), "");
        world.first.run(&format!("ping -c1 -W2 {host}"));
    }
    assert_eq!(world.other.tcp("10.1.0.2", 80), "");
    assert_eq!(world.server.tcp("fd00:1::2", 80), "");
    assert_eq!(world.client.tcp("192.0.2.1", 8080), "", "published or not");
    assert_eq!(world.second.tcp("10.1.0.2", 80), "first 10.1.0.3", "its own network");
    assert_eq!(world.second.tcp("192.0.2.1", 8080), "first 10.1.0.1", "its own network");
    assert_eq!(world.host.tcp("10.1.0.2", 80), "first 10.1.0.1", "the host");
    assert_ne!(world.other.tcp("198.51.100.2", 80), "", "other networks");

    world.host.run(
        "sysctl -qw net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1",
    );
    assert_eq!(world.second.tcp("10.1.0.2", 80), "first 10.1.0.3", "with br_netfilter");
    assert_eq!(world.first.tcp("10.2.0.2", 80), "", "with br_netfilter");

    forget_bridge(&mut world.socket, &br(1)).unwrap();
    assert_ne!(world.first.tcp("198.51.100.2", 80), "");
    make_internal(&mut world.socket, &br(1)).unwrap();
    assert_eq!(world.first.tcp("198.51.100.2", 80), "", "before any container says so");
}

#[test]
fn ports_for_the_lan_are_for_connected_subnets() {
    let mut world = World::new();
    world.client.run("ip address add 203.0.113.7/32 dev lo");
    world.client.run("ip address add 2001:db8:9::7/128 dev lo nodad");
    world.host.run(
        "ip route add 203.0.113.7 via 192.0.2.2; ip route add 2001:db8:9::7 via 2001:db8:2::2",
    );
    world.attach(2, &[port(None, 8080, Protocol::Tcp)], |elements, address| {
        elements.reach(Reach::Lan, address);
    });
    let far = |world: &World, to: &str, from: &str| {
        let command = format!("ip route replace {to}/128 via 2001:db8:2::1 src {from}");
        let v4 = format!("ip route replace {to}/32 via 192.0.2.1 src {from}");
        world.client.run(if to.contains(':') { &command } else { &v4 });
        world.client.tcp(to, 8080)
    };
    assert_eq!(world.client.tcp("192.0.2.1", 8080), "", "no subnet is known yet");
    let nets: Vec<_> = ["192.0.2.0/24", "198.51.100.0/24", "10.2.0.0/24", "2001:db8:2::/64"]
        .iter()
        .map(|net| net.parse().unwrap())
        .collect();
    set_lan(&mut world.socket, &nets).unwrap();
    assert_eq!(world.client.tcp("192.0.2.1", 8080), "first 192.0.2.2");
    assert_eq!(world.client.tcp("2001:db8:2::1", 8080), "first 2001:db8:2::2");
    assert_eq!(world.server.tcp("198.51.100.1", 8080), "first 198.51.100.2");
    assert_eq!(world.server.tcp("2001:db8:3::1", 8080), "", "not among them");
    assert_eq!(far(&world, "198.51.100.1", "203.0.113.7"), "");
    assert_eq!(far(&world, "2001:db8:3::1", "2001:db8:9::7"), "");
    assert_ne!(world.other.tcp("10.2.0.1", 8080), "", "another network of this host");
    assert_ne!(world.second.tcp("192.0.2.1", 8080), "", "its own network");
    assert_ne!(world.host.tcp("192.0.2.1", 8080), "");
    assert_ne!(world.host.tcp("127.0.0.1", 8080), "");

    let before = world.host.run("nft list set inet spoke lan4");
    assert!(before.contains("198.51.100.0/24"), "{before}");
    let generation = netlink::nft::generation(&mut world.socket).unwrap();
    set_lan(&mut world.socket, &nets).unwrap();
    assert_eq!(netlink::nft::generation(&mut world.socket).unwrap(), generation);
    set_lan(&mut world.socket, &["192.0.2.0/31".parse().unwrap()]).unwrap();
    assert_eq!(world.client.tcp("192.0.2.1", 8080), "", "no longer connected");
    set_lan(&mut world.socket, &["0.0.0.0/0".parse().unwrap()]).unwrap();
    assert_eq!(world.client.tcp("192.0.2.1", 8080), "first 192.0.2.2");
    assert_eq!(far(&world, "198.51.100.1", "203.0.113.7"), "first 203.0.113.7");
    set_lan(&mut world.socket, &[]).unwrap();
}

#[test]
fn local_ports_are_for_this_host_and_its_containers() {
    let mut world = World::new();
    let group = crate::identity::GROUP;
    world.host.run(&format!("ip link set br2 group {group}"));
    world.attach(2, &[port(None, 8080, Protocol::Tcp)], |elements, address| {
        elements.reach(Reach::Local, address);
    });
    assert_eq!(world.client.tcp("192.0.2.1", 8080), "");
    assert_eq!(world.client.udp("192.0.2.1", 8080), "");
    assert_eq!(world.server.tcp("2001:db8:3::1", 8080), "");
    assert_ne!(world.host.tcp("192.0.2.1", 8080), "");
    assert_ne!(world.host.tcp("2001:db8:2::1", 8080), "");
    assert_ne!(world.host.tcp("127.0.0.1", 8080), "");
    assert_ne!(world.second.tcp("192.0.2.1", 8080), "", "a neighbour");
    assert_ne!(world.other.tcp("10.2.0.1", 8080), "", "behind another bridge of ours");
    assert_ne!(world.other.tcp("fd00:2::1", 8080), "", "behind another bridge of ours");
    world.host.run("ip link set br2 group 0");
    assert_eq!(world.other.tcp("10.2.0.1", 8080), "", "a third party's bridge");
    assert_ne!(world.client.tcp("10.1.0.2", 80), "", "what is not published is routed as ever");
}

#[test]
fn what_is_there_is_not_restored() {
    let world = &mut World::new();
    let ports = [port(None, 8080, Protocol::Tcp)];
    let wanted = of_other(|elements, address| {
        elements.publish(&ports[0], address).internal(&br(2)).reach(Reach::Lan, address);
    });
    assert!(restore(&mut world.socket, &wanted, alive).unwrap());
    let generation = netlink::nft::generation(&mut world.socket).unwrap();
    assert!(!restore(&mut world.socket, &wanted, alive).unwrap());
    assert_eq!(netlink::nft::generation(&mut world.socket).unwrap(), generation);
    for harm in ["flush set inet spoke inside", "flush map inet spoke dnat4_any", "flush ruleset"] {
        world.host.run(&format!("nft '{harm}'"));
        assert!(verify(&mut world.socket, &wanted).is_err(), "{harm}");
        assert!(restore(&mut world.socket, &wanted, alive).unwrap(), "{harm}");
        verify(&mut world.socket, &wanted).unwrap();
    }
}

/// The kernel here need not know the protocol: its rules are there.
#[test]
fn sctp_ports_are_elements_too() {
    let mut world = World::new();
    let ports: Vec<PortMap> = (1..=3)
        .map(|n| PortMap {
            host_port: NonZeroU16::new(36411 + n).unwrap(),
            ..port(None, 1, Protocol::Sctp)
        })
        .collect();
    install(&mut world.socket, &elements(2, &ports, |_, _| {}), alive).unwrap();
    let listed = world.host.run("nft list map inet spoke dnat4_any");
    assert!(listed.contains("sctp . 36412"), "{listed}");
    assert_eq!(listed.matches("sctp").count(), 3, "{listed}");
}
