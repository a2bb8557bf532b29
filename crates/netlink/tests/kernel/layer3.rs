//! Addresses, routes and neighbours.

use std::net::IpAddr;

use model::{Family, IpNet, Kind, Mac};
use netlink::wire::Batch;
use netlink::{At, Change, Errno, Existing, Neighbour, NewAddress, Route, Routes, Socket};

use crate::{find, ip, isolated, make_pair, net};

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
fn addresses_come_and_go() {
    isolated(|| {
        let mut socket = Socket::route().unwrap();
        make_pair(&mut socket, "a", "b");
        let index = find(&mut socket, "a").unwrap().index;
        let with = NewAddress {
            broadcast: Some([10, 1, 0, 255].into()),
            ..NewAddress::new(index, net("10.1.0.2/24"))
        };
        let mut batch = Batch::new();
        batch.add_address(&with);
        batch.add_address(&NewAddress::new(index, net("fd00::2/64")));
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
        batch.add_address(&NewAddress::new(index, net("10.1.0.2/24")));
        batch.add_address(&NewAddress::new(index, net("fd00::2/64")));
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
            let expected =
                Neighbour { link, address, mac: Some(mac), permanent: true, failed: false };
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
fn a_dump_longer_than_the_buffer_is_whole() {
    isolated(|| {
        let mut socket = Socket::route().unwrap();
        make_pair(&mut socket, "a", "b");
        let index = find(&mut socket, "a").unwrap().index;
        let mut batch = Batch::new();
        for third in 0..8u8 {
            for fourth in 1..=250u8 {
                let address = IpNet::new(IpAddr::from([10, 7, third, fourth]), 32).unwrap();
                batch.add_address(&NewAddress::new(index, address));
            }
        }
        socket.send(&mut batch).unwrap().into_result().unwrap();
        let found = socket.addresses(Some(index)).unwrap();
        assert_eq!(found.iter().filter(|held| held.address.addr().is_ipv4()).count(), 2000);
        let again = socket.send(&mut batch);
        // Two thousand refusals do not fit into the socket: that must be reported, not waited for.
        match again {
            Ok(outcome) => assert!(outcome.failures().len() <= 2000),
            Err(error) => assert_eq!(error.kind(), Kind::TryAgain),
        }
    });
}
