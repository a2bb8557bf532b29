//! Namespaces, kernel parameters, tracked connections.

use std::collections::BTreeSet;
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::process::Command;

use model::{Family, Kind};
use netlink::conntrack::Flow;
use netlink::conntrack::selected::Led;
use netlink::conntrack::tracked::Tracked;
use netlink::wire::Batch;
use netlink::{At, Change, Netns, Socket, conntrack, sysctl};

use crate::{elsewhere, isolated};

/// Whichever way they were written.
#[test]
fn parameters_of_devices_are_those_of_their_files() {
    isolated(|| {
        let mut socket = Socket::route().unwrap();
        let lo = crate::name("lo");
        for (key, value) in [
            ("net/ipv4/conf/lo/tag", "1936748395"),
            ("net/ipv4/conf/lo/forwarding", "0"),
            ("net/ipv4/conf/lo/route_localnet", "1"),
            ("net/ipv6/conf/lo/forwarding", "1"),
        ] {
            for family in [Family::V4, Family::V6] {
                let (number, path) = match family {
                    Family::V4 => (4, "net/ipv4/ip_forward"),
                    Family::V6 => (6, "net/ipv6/conf/all/forwarding"),
                };
                sysctl::write(path, if number == 4 { "1" } else { "0" }).unwrap();
                assert_eq!(socket.forwards(family).unwrap(), Some(number == 4));
                sysctl::write(path, if number == 4 { "0" } else { "1" }).unwrap();
                assert_eq!(socket.forwards(family).unwrap(), Some(number == 6));
            }
            sysctl::write(key, value).unwrap();
            let read = |key: &str| sysctl::read(key).unwrap();
            let there = socket.parameters(At::Name(&lo)).unwrap().unwrap();
            assert_eq!(Some(there), socket.parameters(At::Index(1)).unwrap());
            assert_eq!(there.tag.to_string(), read("net/ipv4/conf/lo/tag"));
            let is_on = |on: bool| u8::from(on).to_string();
            let localnet = "net/ipv4/conf/lo/route_localnet";
            assert_eq!(is_on(there.route_localnet), read(localnet));
            for (family, version) in [(Family::V4, "ipv4"), (Family::V6, "ipv6")] {
                let forwards = there.forwards(family).unwrap();
                assert_eq!(is_on(forwards), read(&format!("net/{version}/conf/lo/forwarding")));
            }
        }
        assert_eq!(socket.parameters(At::Name(&crate::name("absent"))).unwrap(), None);
    });
}

#[test]
fn a_namespace_is_entered_and_left() {
    isolated(|| {
        let (home, other) = (Netns::current().unwrap(), elsewhere());
        assert!(!home.is_same(&other));
        let inside = other.enter(|| Netns::current().unwrap()).unwrap();
        assert!(inside.is_same(&other) && inside.inode() == other.inode());
        assert!(Netns::current().unwrap().is_same(&home));

        let panicked = std::panic::catch_unwind(|| other.enter(|| panic!("on purpose")));
        assert!(panicked.is_err());
        assert!(Netns::current().unwrap().is_same(&home));
    });
}

#[test]
fn kernel_parameters_are_the_namespaces_own() {
    isolated(|| {
        let other = elsewhere();
        let key = "net/ipv4/conf/all/rp_filter";
        let before = sysctl::read(key).unwrap();
        let wanted = if before == "2" { "1" } else { "2" };
        other.enter(|| sysctl::write(key, wanted)).unwrap().unwrap();
        assert_eq!(other.enter(|| sysctl::read(key)).unwrap().unwrap(), wanted);
        assert_eq!(sysctl::read(key).unwrap(), before);
        let error = sysctl::write(key, "no number").unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid);
    });
}

#[test]
fn tracked_flows_are_forgotten() {
    isolated(|| {
        let mut socket = Socket::route().unwrap();
        let mut batch = Batch::new();
        batch.change_link(At::Index(1), &[Change::Up(true)]);
        socket.send(&mut batch).unwrap().into_result().unwrap();
        let mut netfilter = Socket::netfilter().unwrap();
        let ports = BTreeSet::from([5300, 5301]);
        let mut flush = |ports: &BTreeSet<u16>, meant: &dyn Fn(&Flow) -> bool| {
            conntrack::flush_udp(&mut netfilter, ports, meant).unwrap()
        };
        assert_eq!(flush(&ports, &|_| true), 0);

        // Nothing is tracked before a rule asks for it.
        let rules = "add table inet t; \
            add chain inet t c { type filter hook output priority 0; }; \
            add rule inet t c ct state new accept; \
            add chain inet t n { type nat hook output priority -100; }; \
            add rule inet t n ip daddr 127.0.0.7 dnat ip to 127.0.0.8";
        assert!(Command::new("nft").arg(rules).status().unwrap().success());
        for (source, target) in
            [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "[::1]"), ("127.0.0.1:0", "127.0.0.7")]
        {
            let sender = UdpSocket::bind(source).unwrap();
            let _ = TcpStream::connect(format!("{target}:5302"));
            for port in [5300, 5301, 5302] {
                let _ = sender.send_to(b"x", format!("{target}:{port}"));
            }
        }
        let translated = |flow: &Flow| {
            let to = flow.to.ip() == IpAddr::from([127, 0, 0, 7]);
            to && flow.led_to == Some([127, 0, 0, 8].into())
        };
        assert_eq!(flush(&ports, &translated), 2);
        assert_eq!(flush(&ports, &|flow| flow.led_to.is_some()), 0);
        assert_eq!(flush(&ports, &|flow| flow.to.is_ipv6()), 2);
        assert_eq!(flush(&ports, &|_| true), 2);
        assert_eq!(flush(&ports, &|_| true), 0);
        assert_eq!(flush(&BTreeSet::from([5302]), &|_| true), 3);
    });
}

/// The address, port and zone of what is tracked besides what a client asked for itself.
fn tracked(netfilter: &mut Socket) -> BTreeSet<(IpAddr, u16, u16)> {
    let of =
        |it: Tracked| (it.original.destination, it.original.destination_port.unwrap(), it.zone);
    let all = conntrack::tracked::list(netfilter, 100, |it| it.protocol == 17).unwrap();
    all.entries.into_iter().map(of).collect()
}

/// Ends what an address sent: all of this host's are there, in one family after the other.
fn sent(netfilter: &mut Socket, mut rest: BTreeSet<(IpAddr, u16, u16)>) {
    let mut end = |source: &str| {
        let source: IpAddr = source.parse().unwrap();
        conntrack::selected::end_sent_by(netfilter, &[source]).unwrap();
        tracked(netfilter)
    };
    // Where packets went to is no sender.
    assert_eq!(end("127.0.0.9"), rest);
    assert_eq!(end("::2"), rest);
    rest.retain(|(to, ..)| to.is_ipv6());
    assert!(!rest.is_empty());
    assert_eq!(end("127.0.0.1"), rest);
    assert_eq!(end("::1"), BTreeSet::new());
}

#[test]
fn what_was_led_to_an_address_is_ended() {
    let rules = "add table inet t; \
        add chain inet t z { type filter hook output priority raw; }; \
        add rule inet t z ip daddr 127.0.0.9 ct zone set 5; \
        add chain inet t n { type nat hook output priority -100; }; \
        add rule inet t n ip daddr { 127.0.0.7, 127.0.0.9 } dnat ip to 127.0.0.8; \
        add rule inet t n ip6 daddr ::1 udp dport 5300 dnat ip6 to [::1]:5399";
    // Of more than a few a list is asked for.
    for count in [1, 20] {
        isolated(move || {
            let mut socket = Socket::route().unwrap();
            let mut batch = Batch::new();
            batch.change_link(At::Index(1), &[Change::Up(true)]);
            socket.send(&mut batch).unwrap().into_result().unwrap();
            assert!(Command::new("nft").arg(rules).status().unwrap().success());
            let v4: IpAddr = [127, 0, 0, 8].into();
            let v6: IpAddr = "::1".parse().unwrap();
            for to in ["127.0.0.7", "127.0.0.8", "127.0.0.9", "[::1]"] {
                let any = if to.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
                let sender = UdpSocket::bind(any).unwrap();
                for port in [5300, 5301] {
                    let _ = sender.send_to(b"x", format!("{to}:{port}"));
                }
            }
            let mut netfilter = Socket::netfilter().unwrap();
            let all = tracked(&mut netfilter);
            assert_eq!(all.len(), 8, "{all:?}");
            let led = |to, host, port| Led { protocol: 17, port, host, to };
            let others = (0..count - 1).map(|at| led(v4, None, 6000 + at));
            let others: BTreeSet<Led> = others.collect();
            let mut end = |it: Led| {
                let mut all = others.clone();
                all.insert(it);
                conntrack::selected::end_led(&mut netfilter, &all).unwrap();
                tracked(&mut netfilter)
            };
            let seven: IpAddr = [127, 0, 0, 7].into();
            let nine: IpAddr = [127, 0, 0, 9].into();
            let mut rest = all;
            // Nothing of another protocol, port, address or family.
            assert_eq!(end(Led { protocol: 6, ..led(v4, None, 5300) }), rest);
            assert_eq!(end(led(v4, None, 5302)), rest);
            assert_eq!(end(led(seven, None, 5300)), rest);
            assert_eq!(end(led(v4, Some([127, 0, 0, 6].into()), 5300)), rest);
            rest.remove(&(seven, 5301, 0));
            assert_eq!(end(led(v4, Some(seven), 5301)), rest, "at one address of the host");
            // What was sent to the address itself stays.
            rest.remove(&(seven, 5300, 0));
            rest.remove(&(nine, 5300, 5));
            assert_eq!(end(led(v4, None, 5300)), rest, "in every zone");
            rest.remove(&(v6, 5300, 0));
            assert_eq!(end(led(v6, None, 5300)), rest, "of IPv6");
            assert_eq!(end(led(v6, None, 5301)), rest, "which was not led");
            sent(&mut netfilter, rest);
        });
    }
}
