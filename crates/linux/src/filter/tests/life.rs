use std::num::NonZeroU16;

use model::{IfName, IngressPolicy, Kind, PortMap, Protocol};

use super::space::{Space, alive};
use crate::filter::{
    Elements, Guard, Owner, find_owned, forget_bridge, guard_bridge, holder, install, list_owners,
    police, remove, verify,
};

fn port(host: Option<&str>, host_port: u16) -> PortMap {
    PortMap {
        host: host.map(|host| host.parse().unwrap()),
        host_port: NonZeroU16::new(host_port).unwrap(),
        container_port: NonZeroU16::new(80).unwrap(),
        protocol: Protocol::Tcp,
    }
}

fn full(owner: &str, last: u8, host_port: u16) -> Elements {
    on_bridge(owner, "br0", last, host_port)
}

fn on_bridge(owner: &str, bridge: &str, last: u8, host_port: u16) -> Elements {
    let bridge: IfName = bridge.parse().unwrap();
    let mut elements = Elements::new(owner.parse().unwrap());
    for address in [format!("10.1.0.{last}"), format!("fd00:1::{last:x}")] {
        let address = address.parse().unwrap();
        elements
            .publish(&port(None, host_port), address)
            .publish(&port(Some("192.0.2.1"), host_port + 1), address)
            .publish(&port(Some("::"), host_port + 2), address)
            .hairpin(&bridge, address)
            .home(&bridge, address)
            .masquerade(address)
            .masquerade_all(address)
            .routed(address)
            .ingress(IngressPolicy::SameBridge, &bridge, address)
            .ingress(IngressPolicy::Isolated, &bridge, address);
    }
    elements
}

#[test]
fn in_found_and_out() {
    let space = Space::new();
    let mut socket = space.socket();
    let elements = full("attachment-a", 2, 8080);
    assert_eq!(elements.entries().count(), 18);
    assert_eq!(verify(&mut socket, &elements).unwrap_err().kind(), Kind::NotFound);
    install(&mut socket, &elements, alive).unwrap();
    verify(&mut socket, &elements).unwrap();
    install(&mut socket, &elements, alive).unwrap();
    let listed = space.run("nft list map inet spoke dnat4_host");
    let line = "192.0.2.1 . tcp . 8081 comment \"attachment-a\" : 10.1.0.2 . 80";
    assert!(listed.contains(line), "{listed}");

    let owner: Owner = "attachment-a".parse().unwrap();
    assert_eq!(find_owned(&mut socket, &owner).unwrap(), elements);
    assert_eq!(list_owners(&mut socket).unwrap(), [(owner, 18)].into());

    remove(&mut socket, &elements).unwrap();
    remove(&mut socket, &elements).unwrap();
    let policed = |space: &Space| space.run("nft list set inet spoke policed");
    install(&mut socket, &on_bridge("b", "br1", 3, 8090), alive).unwrap();
    forget_bridge(&mut socket, &"br1".parse().unwrap()).unwrap();
    assert!(policed(&space).contains("docker_gwbridge"), "while another bridge is policed");
    remove(&mut socket, &on_bridge("b", "br1", 3, 8090)).unwrap();
    forget_bridge(&mut socket, &"br0".parse().unwrap()).unwrap();
    forget_bridge(&mut socket, &"br0".parse().unwrap()).unwrap();
    assert!(list_owners(&mut socket).unwrap().is_empty());
    assert!(!space.run("nft list table inet spoke").contains("elements"));

    let open = "br2".parse().unwrap();
    police(&mut socket, &open).unwrap();
    police(&mut socket, &open).unwrap();
    assert!(policed(&space).contains("\"br2\""));
    forget_bridge(&mut socket, &open).unwrap();
    space.run("nft delete table inet spoke");
    police(&mut socket, &open).unwrap();
    assert!(policed(&space).contains("\"br2\""), "also where the table is gone");
}

#[test]
fn a_guarded_bridge_is_known_until_it_goes() {
    let space = Space::new();
    let mut socket = space.socket();
    let (bridge, underlay) = ("br0".parse().unwrap(), "eth0".parse().unwrap());
    let listed = |set: &str| space.run(&format!("nft list set inet spoke {set}"));
    let guard = Guard { is_guarded: true, is_internal: true, underlay: Some(underlay) };
    for _ in 0..2 {
        guard_bridge(&mut socket, &bridge, &guard).unwrap();
    }
    let sets = ["policed", "guarded_bridges", "bounded_bridges", "internal"];
    for set in sets {
        assert!(listed(set).contains("\"br0\""), "{}", listed(set));
    }
    let inside = listed("inside");
    assert!(
        inside.contains("\"br0\" . \"br0\"") && inside.contains("\"eth0\" . \"br0\""),
        "{inside}"
    );
    let guard = Guard { underlay: None, ..guard };
    guard_bridge(&mut socket, &"br1".parse().unwrap(), &guard).unwrap();
    forget_bridge(&mut socket, &bridge).unwrap();
    forget_bridge(&mut socket, &bridge).unwrap();
    for set in sets.into_iter().chain(["inside"]) {
        let listed = listed(set);
        assert!(!listed.contains("br0") && listed.contains("br1"), "{listed}");
    }
}

#[test]
fn a_taken_port_names_the_holder_and_changes_nothing() {
    let space = Space::new();
    let mut socket = space.socket();
    install(&mut socket, &full("a", 2, 8080), alive).unwrap();
    let before = space.run("nft list table inet spoke");
    let error = install(&mut socket, &full("b", 3, 8080), alive).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict);
    let text = error.to_string();
    assert!(text.contains("port 8080/tcp") && text.contains("taken by a,"), "{text}");
    assert_eq!(space.run("nft list table inet spoke"), before);
    assert_eq!(holder(&mut socket, &port(None, 8080)).unwrap().unwrap().as_str(), "a");
    assert_eq!(holder(&mut socket, &port(Some("192.0.2.1"), 8081)).unwrap().unwrap().as_str(), "a");
    assert_eq!(holder(&mut socket, &port(None, 1)).unwrap(), None);
}

#[test]
fn of_a_port_that_is_named_twice_the_first_leads() {
    let space = Space::new();
    let mut socket = space.socket();
    let mut elements = Elements::new("a".parse().unwrap());
    let second = PortMap { container_port: NonZeroU16::new(81).unwrap(), ..port(None, 8080) };
    for address in ["10.1.0.2", "fd00:1::2"] {
        let address = address.parse().unwrap();
        elements.publish(&port(None, 8080), address).publish(&second, address);
        elements.publish(&port(Some("127.0.0.1"), 8080), address);
    }
    assert_eq!(elements.entries().count(), 3);
    install(&mut socket, &elements, alive).unwrap();
    let listed = space.run("nft list map inet spoke dnat4_any");
    assert!(listed.contains("10.1.0.2 . 80") && !listed.contains("10.1.0.2 . 81"), "{listed}");
}

#[test]
fn a_new_holder_gets_the_elements_of_the_dead() {
    let space = Space::new();
    let mut socket = space.socket();
    let (old, new) = (full("old", 2, 8080), full("new", 2, 8080));
    install(&mut socket, &old, alive).unwrap();
    let is_old = |owner: &Owner| Ok(owner.as_str() == "old");
    install(&mut socket, &new, is_old).unwrap();
    verify(&mut socket, &new).unwrap();
    assert_eq!(verify(&mut socket, &old).unwrap_err().kind(), Kind::Conflict);
    remove(&mut socket, &old).unwrap();
    verify(&mut socket, &new).unwrap();
}

#[test]
fn the_living_keep_their_elements() {
    let space = Space::new();
    let mut socket = space.socket();
    let (first, second) = (full("first", 2, 8080), full("second", 2, 9090));
    install(&mut socket, &first, alive).unwrap();
    let error = install(&mut socket, &second, alive).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(error.to_string().contains("is taken by first"), "{error}");
    remove(&mut socket, &second).unwrap();
    verify(&mut socket, &first).unwrap();
}

#[test]
fn a_flushed_ruleset_is_made_again() {
    let space = Space::new();
    let mut socket = space.socket();
    let elements = full("a", 2, 8080);
    install(&mut socket, &elements, alive).unwrap();
    space.run("nft flush ruleset");
    assert_eq!(verify(&mut socket, &elements).unwrap_err().kind(), Kind::NotFound);
    remove(&mut socket, &elements).unwrap();
    install(&mut socket, &elements, alive).unwrap();
    verify(&mut socket, &elements).unwrap();
    space.run("nft delete element inet spoke masq4 '{ 10.1.0.2 }'");
    let error = verify(&mut socket, &elements).unwrap_err().to_string();
    assert!(error.contains("masquerading of 10.1.0.2"), "{error}");
    install(&mut socket, &elements, alive).unwrap();
    verify(&mut socket, &elements).unwrap();
}

#[test]
fn a_thousand_ports_come_and_go() {
    let space = Space::new();
    let mut socket = space.socket();
    let mut elements = Elements::new("a".parse().unwrap());
    for number in 1..=1000 {
        elements.publish(&port(None, number), [10, 1, 0, 2].into());
    }
    install(&mut socket, &elements, alive).unwrap();
    install(&mut socket, &elements, alive).unwrap();
    verify(&mut socket, &elements).unwrap();
    remove(&mut socket, &elements).unwrap();
    remove(&mut socket, &elements).unwrap();
    assert!(list_owners(&mut socket).unwrap().is_empty());
}
