//! Against the kernel, each test in namespaces of its own that end with its threads.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;
use std::thread;

use model::{Family, IfName, IpNet, Kind, Mac, Mtu};
use netlink::link::OperState;
use netlink::wire::Batch;
use netlink::{At, Change, Errno, Existing, Link, Links, Neighbour, Netns, NewAddress, NewBridge};
use netlink::{Peer, Route, Routes, Socket, Veth, conntrack, reap, sysctl};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Runs `test` on a thread in a new namespace, which ends with it.
fn isolated(test: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(|| {
        unshare();
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

#[allow(unsafe_code)]
fn unshare() {
    // SAFETY: a new network namespace for this thread leaves memory and descriptors alone.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.expect("root may unshare");
}

/// Another new namespace.
fn elsewhere() -> Netns {
    thread::spawn(|| {
        unshare();
        Netns::current().unwrap()
    })
    .join()
    .unwrap()
}

fn name(text: &str) -> IfName {
    text.parse().unwrap()
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn find(socket: &mut Socket, link: &str) -> Option<Link> {
    socket.link(At::Name(&name(link))).unwrap()
}

fn simple<'a>(link: &'a IfName, peer: &'a IfName) -> Veth<'a> {
    Veth {
        name: link,
        index: None,
        mac: None,
        mtu: None,
        master: None,
        group: None,
        up: true,
        peer: Peer { name: peer, index: None, mac: None, netns: None },
    }
}

fn make_pair(socket: &mut Socket, link: &str, peer: &str) {
    let mut batch = Batch::new();
    batch.new_veth(&simple(&name(link), &name(peer)));
    socket.send(&mut batch).unwrap().into_result().unwrap();
}

fn address(link: u32, text: &str) -> NewAddress {
    NewAddress { link, address: net(text), broadcast: None, duplicate_detection: false }
}

#[test]
fn a_veth_is_born_in_two_namespaces() {
    isolated(|| {
        let container = elsewhere();
        let mut socket = Socket::route().unwrap();
        let (bridge, host, inner) = (name("br0"), name("vethhost"), name("eth0"));
        let mac = Mac::new([2, 0, 0, 0, 0, 7]);
        let mut batch = Batch::new();
        batch.new_bridge(&NewBridge {
            name: &bridge,
            mac: Some(mac),
            mtu: None,
            vlan_filtering: false,
            up: true,
        });
        socket.send(&mut batch).unwrap().into_result().unwrap();
        let master = socket.link(At::Name(&bridge)).unwrap().unwrap();
        assert_eq!((master.mac, master.kind.as_deref()), (Some(mac), Some("bridge")));

        let netns = Some(container.as_fd());
        let peer = Peer { name: &inner, index: Some(5), mac: Some(mac), netns };
        let mut batch = Batch::new();
        batch.new_veth(&Veth {
            index: Some(1234),
            mtu: Mtu::new(1400),
            master: Some(master.index),
            group: Some(77),
            peer,
            ..simple(&host, &inner)
        });
        let port = [Change::NoIpv6Addresses, Change::Hairpin(true), Change::Isolated(true)];
        batch.change_link(At::Name(&host), &port);
        socket.send(&mut batch).unwrap().into_result().unwrap();

        let link = socket.link(At::Index(1234)).unwrap().unwrap();
        assert_eq!((&link.name, link.mtu, link.group), (&host, 1400, 77));
        assert_eq!((link.master, link.peer), (Some(master.index), Some(5)));
        assert!(link.peer_netns.is_some() && link.flags.is_up());
        let port = link.port.unwrap();
        assert!(port.hairpin && port.isolated);

        let mut inside = container.enter(Socket::route).unwrap().unwrap();
        let link = inside.link(At::Index(5)).unwrap().unwrap();
        assert_eq!((&link.name, link.mac, link.mtu), (&inner, Some(mac), 1400));
        assert!(!link.flags.is_up());
        let mut batch = Batch::new();
        batch.change_link(At::Index(1), &[Change::Up(true)]);
        batch.change_link(At::Index(5), &[Change::Up(true)]);
        inside.send(&mut batch).unwrap().into_result().unwrap();
        let link = inside.link(At::Index(5)).unwrap().unwrap();
        assert!(link.flags.is_up() && link.flags.has_carrier());
        assert_eq!(link.state, OperState::Up);

        let ports = Links { master: Some(master.index), kind: Some("veth") };
        let ports = socket.links(ports).unwrap();
        assert_eq!(ports.iter().map(|link| link.index).collect::<Vec<_>>(), [1234]);
        assert_eq!(socket.links(Links::default()).unwrap().len(), 3);
    });
}

#[test]
fn a_bridge_may_separate_vlans() {
    isolated(|| {
        let mut socket = Socket::route().unwrap();
        let bridge = name("br0");
        let mut batch = Batch::new();
        batch.new_bridge(&NewBridge {
            name: &bridge,
            mac: None,
            mtu: Mtu::new(1400),
            vlan_filtering: true,
            up: false,
        });
        let outcome = socket.send(&mut batch).unwrap();
        if outcome.failures().iter().any(|failure| failure.errno == Errno::OPNOTSUPP) {
            return; // A kernel built without VLANs in bridges says so.
        }
        outcome.into_result().unwrap();
        let output = Command::new("ip").args(["-d", "link", "show", "br0"]).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("vlan_filtering 1"));
    });
}

#[test]
fn every_message_of_a_batch_has_its_own_result() {
    isolated(|| {
        let mut socket = Socket::route().unwrap();
        make_pair(&mut socket, "a", "b");
        let mut batch = Batch::new();
        let twice = batch.new_veth(&simple(&name("a"), &name("c")));
        let missing = batch.delete_link(At::Name(&name("none")));
        let fine = batch.change_link(At::Name(&name("a")), &[Change::Mtu(Mtu::new(1300).unwrap())]);
        assert_eq!((twice, missing, fine), (0, 1, 2));
        let outcome = socket.send(&mut batch).unwrap();
        let errors: Vec<_> = outcome.failures().iter().map(|f| (f.index, f.errno)).collect();
        assert_eq!(errors, [(0, Errno::EXIST), (1, Errno::NODEV)]);
        assert_eq!(find(&mut socket, "a").unwrap().mtu, 1300);

        let error = outcome.except(Errno::NODEV).into_result().unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict);
        assert!(error.to_string().starts_with("making veth a with peer c: "), "{error}");
        let outcome = socket.send(&mut batch).unwrap();
        outcome.except_at(0, Errno::EXIST).except_at(1, Errno::NODEV).into_result().unwrap();
    });
}

#[test]
fn the_kernels_own_sentence_is_in_the_error() {
    isolated(|| {
        let mut socket = Socket::route().unwrap();
        let mut batch = Batch::new();
        let route = Route::new(net("10.9.0.0/16"), Some(ip("10.1.1.1")), None);
        batch.add_route(&route, Existing::Refuse);
        let error = socket.send(&mut batch).unwrap().into_result().unwrap_err();
        let text = error.to_string();
        assert!(text.contains("the kernel says \"Nexthop has invalid gateway\""), "{text}");
    });
}

#[test]
fn links_change_and_go() {
    isolated(|| {
        let mut socket = Socket::route().unwrap();
        make_pair(&mut socket, "a", "b");
        let index = find(&mut socket, "a").unwrap().index;
        let mac = Mac::new([2, 1, 1, 1, 1, 1]);
        let changes = [
            Change::Up(false),
            Change::Promiscuous(true),
            Change::AllMulticast(true),
            Change::Mac(mac),
            Change::TxQueue(42),
            Change::Group(5),
            Change::Alias("spoke".to_owned()),
            Change::Name(name("z")),
        ];
        let mut batch = Batch::new();
        batch.change_link(At::Index(index), &changes);
        socket.send(&mut batch).unwrap().into_result().unwrap();
        let link = find(&mut socket, "z").unwrap();
        assert_eq!((link.index, link.mac, link.tx_queue, link.group), (index, Some(mac), 42, 5));
        assert_eq!(link.alias.as_deref(), Some("spoke"));
        assert!(!link.flags.is_up());
        assert!(link.flags.is_promiscuous() && link.flags.is_all_multicast());
        assert_eq!(find(&mut socket, "a"), None);

        let mut batch = Batch::new();
        batch.delete_group(5);
        socket.send(&mut batch).unwrap().into_result().unwrap();
        assert_eq!(find(&mut socket, "b"), None);
        let outcome = socket.send(&mut batch).unwrap();
        assert_eq!(outcome.failures()[0].errno, Errno::NODEV);
    });
}

#[test]
fn addresses_come_and_go() {
    isolated(|| {
        let mut socket = Socket::route().unwrap();
        make_pair(&mut socket, "a", "b");
        let index = find(&mut socket, "a").unwrap().index;
        let with =
            NewAddress { broadcast: Some([10, 1, 0, 255].into()), ..address(index, "10.1.0.2/24") };
        let mut batch = Batch::new();
        batch.add_address(&with);
        batch.add_address(&address(index, "fd00::2/64"));
        socket.send(&mut batch).unwrap().into_result().unwrap();
        let found = socket.addresses(Some(index)).unwrap();
        let of = |text: &str| found.iter().find(|held| held.address == net(text)).unwrap();
        assert_eq!(of("10.1.0.2/24").broadcast, Some(ip("10.1.0.255")));
        assert!(!of("fd00::2/64").tentative && !of("fd00::2/64").duplicate);
        assert_eq!(socket.addresses(Some(9999)).unwrap(), []);
        assert_eq!(socket.addresses(None).unwrap().len(), found.len());

        let again = socket.send(&mut batch).unwrap();
        assert!(again.failures().iter().all(|failure| failure.errno == Errno::EXIST));
        let mut batch = Batch::new();
        batch.delete_address(index, net("10.1.0.2/24"));
        batch.delete_address(index, net("fd00::2/64"));
        socket.send(&mut batch).unwrap().into_result().unwrap();
        let again = socket.send(&mut batch).unwrap();
        assert_eq!(again.failures().len(), 2);
        again.except(Errno::ADDRNOTAVAIL).into_result().unwrap();
    });
}

#[test]
fn routes_come_and_go() {
    isolated(|| {
        let mut socket = Socket::route().unwrap();
        make_pair(&mut socket, "a", "b");
        let index = find(&mut socket, "a").unwrap().index;
        let peer = find(&mut socket, "b").unwrap().index;
        let mut batch = Batch::new();
        batch.change_link(At::Index(peer), &[Change::Up(true)]);
        batch.add_address(&address(index, "10.1.0.2/24"));
        batch.add_address(&address(index, "fd00::2/64"));
        let plain = Route::new(net("0.0.0.0/0"), Some(ip("10.1.0.1")), Some(index));
        let rich = Route {
            priority: Some(50),
            table: 1000,
            mtu: Some(1400),
            advmss: Some(1360),
            source: Some(ip("10.1.0.2")),
            ..Route::new(net("10.2.0.0/16"), Some(ip("10.1.0.1")), Some(index))
        };
        let beyond = Some(ip("192.0.2.1"));
        let on_link =
            Route { gateway_on_link: true, ..Route::new(net("10.3.0.0/16"), beyond, Some(index)) };
        let direct = Route::new(net("10.4.0.0/16"), None, Some(index));
        let v6 = Route::new(net("::/0"), Some(ip("fd00::1")), Some(index));
        let all = [plain, rich, on_link, direct, v6];
        for route in &all {
            batch.add_route(route, Existing::Refuse);
        }
        socket.send(&mut batch).unwrap().into_result().unwrap();

        let listed = |socket: &mut Socket, family, table| {
            socket.routes(Routes { family, table, link: Some(index) }).unwrap()
        };
        let main = listed(&mut socket, Family::V4, Some(254));
        assert!([plain, on_link, direct].iter().all(|route| main.contains(route)), "{main:?}");
        assert_eq!(listed(&mut socket, Family::V4, Some(1000)), [rich]);
        assert_eq!(listed(&mut socket, Family::V4, Some(4711)), []);
        let six = listed(&mut socket, Family::V6, Some(254));
        assert!(six.iter().any(|route| route.gateway == v6.gateway && route.dst == v6.dst));

        let way = socket.route_to(ip("8.8.8.8")).unwrap().unwrap();
        assert_eq!((way.link, way.gateway), (Some(index), plain.gateway));
        assert_eq!(way.source, Some(ip("10.1.0.2")));

        let mut batch = Batch::new();
        batch.add_route(&Route { mtu: Some(1300), ..plain }, Existing::Replace);
        batch.add_route(&plain, Existing::Refuse);
        let outcome = socket.send(&mut batch).unwrap();
        assert_eq!(outcome.failures()[0].errno, Errno::EXIST);
        let main = listed(&mut socket, Family::V4, Some(254));
        assert!(main.contains(&Route { mtu: Some(1300), ..plain }), "{main:?}");

        let mut batch = Batch::new();
        for route in &all {
            batch.delete_route(route);
        }
        socket.send(&mut batch).unwrap().into_result().unwrap();
        let again = socket.send(&mut batch).unwrap();
        assert_eq!(again.failures().len(), all.len());
        again.except(Errno::SRCH).into_result().unwrap();
        assert_eq!(socket.route_to(ip("8.8.8.8")).unwrap(), None);
    });
}

#[test]
fn neighbours_come_and_go() {
    isolated(|| {
        let mut socket = Socket::route().unwrap();
        make_pair(&mut socket, "a", "b");
        let link = find(&mut socket, "a").unwrap().index;
        let mac = Mac::new([2, 0, 0, 0, 0, 9]);
        let mut batch = Batch::new();
        for address in [ip("10.0.0.9"), ip("fd00::9")] {
            batch.set_neighbour(link, address, mac);
        }
        socket.send(&mut batch).unwrap().into_result().unwrap();
        let known = socket.neighbours(link).unwrap();
        for address in [ip("10.0.0.9"), ip("fd00::9")] {
            let expected = Neighbour { link, address, mac: Some(mac), permanent: true };
            assert!(known.contains(&expected), "{known:?}");
        }
        let mut batch = Batch::new();
        batch.delete_neighbour(link, ip("10.0.0.9"));
        socket.send(&mut batch).unwrap().into_result().unwrap();
        let again = socket.send(&mut batch).unwrap();
        again.except(Errno::NOENT).into_result().unwrap();
    });
}

#[test]
fn reaped_links_are_gone() {
    isolated(|| {
        let container = elsewhere();
        let mut socket = Socket::route().unwrap();
        let links = [name("one"), name("two"), name("never-was")];
        for (at, link) in (10..).zip(&links[..2]) {
            let inner = name("eth0");
            let netns = Some(container.as_fd());
            let peer = Peer { name: &inner, index: Some(at), mac: None, netns };
            let inner_name = name(&format!("eth{at}"));
            let mut batch = Batch::new();
            batch.new_veth(&Veth {
                peer: Peer { name: &inner_name, ..peer },
                ..simple(link, &inner)
            });
            socket.send(&mut batch).unwrap().into_result().unwrap();
        }
        reap(&links, Some(Socket::netfilter().unwrap())).unwrap();
        for link in &links {
            assert_eq!(socket.link(At::Name(link)).unwrap(), None);
        }
        let mut inside = container.enter(Socket::route).unwrap().unwrap();
        let left = inside.links(Links::default()).unwrap();
        assert_eq!(left.iter().map(|link| link.name.as_str()).collect::<Vec<_>>(), ["lo"]);
        reap(&links, None).unwrap();
        reap(&[], Some(Socket::netfilter().unwrap())).unwrap();
        reap(&[], None).unwrap();
    });
}

#[test]
fn what_cannot_be_reaped_is_told() {
    isolated(|| {
        let error = reap(&[name("lo")], None).unwrap_err();
        assert!(error.to_string().starts_with("deleting lo: "), "{error}");
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
        assert_eq!(conntrack::flush_udp(&mut netfilter, &ports).unwrap(), 0);

        // Nothing is tracked before a rule asks for it.
        let rules = "add table inet t; \
            add chain inet t c { type filter hook output priority 0; }; \
            add rule inet t c ct state new accept";
        assert!(Command::new("nft").arg(rules).status().unwrap().success());
        for (source, target) in [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "[::1]")] {
            let sender = UdpSocket::bind(source).unwrap();
            for port in [5300, 5301, 5302] {
                let _ = sender.send_to(b"x", format!("{target}:{port}"));
            }
        }
        assert_eq!(conntrack::flush_udp(&mut netfilter, &ports).unwrap(), 4);
        assert_eq!(conntrack::flush_udp(&mut netfilter, &ports).unwrap(), 0);
        let last = BTreeSet::from([5302]);
        assert_eq!(conntrack::flush_udp(&mut netfilter, &last).unwrap(), 2);
    });
}

#[test]
fn a_dump_longer_than_the_buffer_is_whole() {
    isolated(|| {
        let mut socket = Socket::route().unwrap();
        make_pair(&mut socket, "a", "b");
        let index = find(&mut socket, "a").unwrap().index;
        let mut batch = Batch::new();
        for third in 0..8u8 {
            for fourth in 1..=250u8 {
                let address = IpNet::new(IpAddr::from([10, 7, third, fourth]), 32).unwrap();
                batch.add_address(&NewAddress { address, ..address_of(index) });
            }
        }
        socket.send(&mut batch).unwrap().into_result().unwrap();
        let found = socket.addresses(Some(index)).unwrap();
        assert_eq!(found.iter().filter(|held| held.address.addr().is_ipv4()).count(), 2000);
        let again = socket.send(&mut batch);
        // Two thousand refusals do not fit into the socket: that must be told, not waited for.
        match again {
            Ok(outcome) => assert!(outcome.failures().len() <= 2000),
            Err(error) => assert_eq!(error.kind(), Kind::TryAgain),
        }
    });
}

fn address_of(link: u32) -> NewAddress {
    address(link, "10.0.0.1/32")
}
