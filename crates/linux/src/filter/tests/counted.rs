use model::{PortMap, Protocol};

use super::space::Space;
use super::table::listed;
use crate::filter::counted::{Counted, drop, keep, read};
use crate::filter::{Elements, Owner};

const TRUTH: &str = include_str!("../counted.nft");
const LIST: &str = "nft list table inet spoke_ports";
const DIGITS: &str = "0123456789abcdef0123456789abcdef";

fn elements(digits: &str, ports: &[u16], containers: &[&str]) -> Elements {
    let owner: Owner = format!("{digits}/link").parse().unwrap();
    let mut elements = Elements::new(owner);
    for container in containers {
        for port in ports {
            let map = PortMap {
                host: None,
                host_port: (*port).try_into().unwrap(),
                container_port: 80.try_into().unwrap(),
                protocol: Protocol::Tcp,
            };
            elements.publish(&map, container.parse().unwrap());
        }
    }
    elements
}

fn nothing(digits: &str, port: u16) -> Counted {
    let digits = digits.to_owned();
    Counted { digits, protocol: Protocol::Tcp, port, received: (0, 0), sent: (0, 0) }
}

#[test]
fn is_what_the_file_says() {
    let truth = listed(TRUTH, LIST);
    let space = Space::new();
    let mut socket = space.socket();
    keep(&mut socket, &elements(DIGITS, &[8080], &["10.1.2.3"])).unwrap();
    for map in ["to4", "from4"] {
        space.run(&format!("nft flush map inet spoke_ports {map}"));
    }
    for way in ["to", "from"] {
        space.run(&format!("nft delete counter inet spoke_ports {way}-{DIGITS}-tcp-8080"));
    }
    assert_eq!(space.run(LIST), truth);
}

#[test]
fn counters_come_and_go_with_ports() {
    let space = Space::new();
    let mut socket = space.socket();
    assert_eq!(read(&mut socket).unwrap(), []);
    let both = elements(DIGITS, &[8080, 8081], &["10.1.2.3", "fd00::3"]);
    assert!(keep(&mut socket, &both).unwrap());
    assert!(!keep(&mut socket, &both).unwrap(), "they are there");
    let mut counted = read(&mut socket).unwrap();
    counted.sort_by_key(|it| it.port);
    assert_eq!(counted, [nothing(DIGITS, 8080), nothing(DIGITS, 8081)]);

    // One family goes: the other one's element has the counter on.
    drop(&mut socket, &elements(DIGITS, &[8080, 8081], &["fd00::3"]), None).unwrap();
    assert_eq!(read(&mut socket).unwrap().len(), 2);
    drop(&mut socket, &elements(DIGITS, &[8081], &["10.1.2.3"]), None).unwrap();
    assert_eq!(read(&mut socket).unwrap(), [nothing(DIGITS, 8080)]);

    // A container that has the address now counts anew.
    let other = DIGITS.replace('0', "f");
    assert!(keep(&mut socket, &elements(&other, &[8080], &["10.1.2.3"])).unwrap());
    assert!(read(&mut socket).unwrap().contains(&nothing(&other, 8080)));
    drop(&mut socket, &both, None).unwrap();
    assert!(read(&mut socket).unwrap().contains(&nothing(&other, 8080)));
    drop(&mut socket, &elements(&other, &[8080], &["10.1.2.3"]), None).unwrap();
    assert_eq!(space.run("nft list tables"), "", "the table goes with the last");
    drop(&mut socket, &both, None).unwrap();
}

#[test]
fn what_a_port_at_another_address_needs_stays() {
    let space = Space::new();
    let mut socket = space.socket();
    let at = |hosts: &[&str]| {
        let mut elements = Elements::new(format!("{DIGITS}/link").parse().unwrap());
        for host in hosts {
            let map = PortMap {
                host: Some(host.parse().unwrap()),
                host_port: 8080.try_into().unwrap(),
                container_port: 80.try_into().unwrap(),
                protocol: Protocol::Tcp,
            };
            elements.publish(&map, "10.1.2.3".parse().unwrap());
        }
        elements
    };
    let (one, other) = (at(&["127.0.0.1"]), at(&["192.0.2.1"]));
    keep(&mut socket, &at(&["127.0.0.1", "192.0.2.1"])).unwrap();
    drop(&mut socket, &one, Some(&other)).unwrap();
    assert_eq!(read(&mut socket).unwrap(), [nothing(DIGITS, 8080)]);
    assert!(!keep(&mut socket, &other).unwrap(), "it is still there");
    drop(&mut socket, &other, None).unwrap();
    assert_eq!(space.run("nft list tables"), "");
}

#[test]
fn a_counter_in_use_keeps_no_other() {
    let space = Space::new();
    let mut socket = space.socket();
    let ports = elements(DIGITS, &[8080, 8081], &["10.1.2.3"]);
    keep(&mut socket, &ports).unwrap();
    // Another owner's element leads to one of them.
    let counter = format!("to-{DIGITS}-tcp-8080");
    space.run(&format!(
        "nft add element inet spoke_ports to4 '{{ tcp . 9 . 10.1.2.9 : \"{counter}\" }}'"
    ));
    drop(&mut socket, &ports, None).unwrap();
    let left = space.run("nft list counters table inet spoke_ports");
    assert_eq!(left.matches("counter ").count(), 1, "{left}");
    assert!(left.contains(&counter), "{left}");
}
