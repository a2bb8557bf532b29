//! By which link a machine beyond comes in, and with which address.

use super::*;
use crate::packet::Carried;
use crate::walk::fake::{Fake, out, trip};

const FAR: &str = "203.0.113.77";

fn at(address: &str) -> End {
    End::Address(address.parse().unwrap())
}

/// Where a call of this address comes in, and from whom; else the last hop.
fn comes(kernel: &mut Fake, from: End, called: &str) -> Result<(String, String), String> {
    let trip = trip(from, End::Host);
    let mut walker = Walker::new(kernel, &trip, Vec::new());
    let unspecified = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
    let mut packet = Packet::new(unspecified, called.parse().unwrap(), Carried::Tcp(80));
    let walked = walker.comes_from_outside(&mut packet);
    let last = walker.hops.last().map_or(String::new(), |hop| hop.what.clone());
    match packet.input {
        Some(input) if walked.is_ok() || !last.starts_with("rp_filter") => {
            Ok((input.name, packet.source.to_string()))
        }
        _ => Err(last),
    }
}

fn came(link: &str, from: &str) -> Result<(String, String), String> {
    Ok((link.to_owned(), from.to_owned()))
}

fn strict(kernel: &mut Fake, links: &[&str]) {
    for link in links {
        kernel.set(Parameter::rp_filter(link).path(), "1");
    }
}

/// An uplink, and a bridge of another program's containers.
fn beside_docker() -> Fake {
    let mut kernel = Fake::default();
    let up = kernel.link("eth0", None, &["192.0.2.1/24"]);
    let docker = kernel.link("docker0", Some("bridge"), &["172.17.0.1/16"]);
    kernel.route(FAR, out(up, Some("192.0.2.254"), "192.0.2.1"));
    kernel.route("172.17.0.2", out(docker, None, "172.17.0.1"));
    strict(&mut kernel, &["eth0", "docker0"]);
    kernel
}

#[test]
fn who_is_on_a_segment_comes_in_by_that() {
    let mut kernel = beside_docker();
    assert_eq!(comes(&mut kernel, at("172.17.0.2"), "192.0.2.1"), came("docker0", "172.17.0.2"));
    let lan = kernel.link("eth1", None, &["198.51.100.1/24"]);
    kernel.route("198.51.100.9", out(lan, None, "198.51.100.1"));
    strict(&mut kernel, &["eth1"]);
    assert_eq!(comes(&mut kernel, at("198.51.100.9"), "192.0.2.1"), came("eth1", "198.51.100.9"));
}

/// Who is behind a gateway comes by the link of the address that it calls, and is dropped there if the way back is
/// another one.
#[test]
fn who_is_behind_a_gateway_comes_by_the_called_link() {
    let mut kernel = beside_docker();
    kernel.link("eth1", None, &["198.51.100.1/24"]);
    assert_eq!(comes(&mut kernel, at(FAR), "198.51.100.1"), came("eth1", FAR));
    strict(&mut kernel, &["eth1"]);
    let last = comes(&mut kernel, at(FAR), "198.51.100.1").unwrap_err();
    assert!(last.starts_with("rp_filter of eth1 drops it"), "{last}");
}

#[test]
fn nothing_comes_in_by_a_device_that_leads_nowhere() {
    for kind in ["dummy", "vrf", "ifb", "bridge"] {
        let mut kernel = beside_docker();
        kernel.link("vip0", Some(kind), &["192.0.2.80/32"]);
        assert_eq!(comes(&mut kernel, End::Outside, "192.0.2.80"), came("eth0", FAR), "{kind}");
        assert_eq!(comes(&mut kernel, at(FAR), "192.0.2.80"), came("eth0", FAR), "{kind}");
    }
}

/// A neighbour there calls it; but a second way out may be meant for what is beyond.
#[test]
fn an_address_of_a_second_segment_is_called_from_there() {
    let mut kernel = beside_docker();
    let lan = kernel.link("eth1", None, &["198.51.100.1/24"]);
    kernel.route("198.51.100.2", out(lan, None, "198.51.100.1"));
    strict(&mut kernel, &["eth1"]);
    assert_eq!(comes(&mut kernel, End::Outside, "198.51.100.1"), came("eth1", "198.51.100.2"));
    kernel.route_from("198.51.100.1", out(lan, Some("198.51.100.254"), "198.51.100.1"));
    kernel.set(Parameter::rp_filter("eth1").path(), "0");
    assert_eq!(comes(&mut kernel, End::Outside, "198.51.100.1"), came("eth1", FAR));
}

#[test]
fn without_a_default_route_a_neighbour_calls() {
    let mut kernel = Fake::default();
    kernel.link("vip0", Some("dummy"), &["192.0.2.80/32"]);
    let first = kernel.link("eth0", None, &["192.0.2.1/24"]);
    let second = kernel.link("eth1", None, &["198.51.100.1/32", "10.9.0.1/24", "198.51.100.5/24"]);
    kernel.route("192.0.2.2", out(first, None, "192.0.2.1"));
    kernel.route("198.51.100.2", out(second, None, "198.51.100.5"));
    kernel.route("10.9.0.2", out(second, None, "10.9.0.1"));
    for (called, link, from) in [
        ("192.0.2.1", "eth0", "192.0.2.2"),
        ("192.0.2.80", "eth0", "192.0.2.2"),
        ("198.51.100.5", "eth1", "198.51.100.2"),
        // Alone in its subnet: the link has another one.
        ("198.51.100.1", "eth1", "10.9.0.2"),
    ] {
        assert_eq!(comes(&mut kernel, End::Outside, called), came(link, from), "{called}");
    }
}
