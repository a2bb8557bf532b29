//! Packets below IP.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use netlink::packet::arp::{self, Arp, Retries};
use netlink::packet::{EVERYBODY, Kind, PacketSocket, wait_for_carrier};
use netlink::wire::Batch;
use netlink::{At, Change, NewAddress, Socket};

use crate::{find, isolated, make_pair, net};

const HELD: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
const FREE: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 3);
const ONCE: Retries = Retries { probes: 1, interval: Duration::from_millis(50) };
const LONG: Retries = Retries { probes: 2, interval: Duration::from_secs(5) };

/// A pair, both ends here; the kernel answers at `b` for its address.
fn pair(socket: &mut Socket) -> (netlink::Link, netlink::Link) {
    make_pair(socket, "a", "b");
    let (a, b) = (find(socket, "a").unwrap(), find(socket, "b").unwrap());
    let mut batch = Batch::new();
    batch.change_link(At::Index(b.index), &[Change::Up(true)]);
    batch.add_address(&NewAddress::new(b.index, net("10.1.0.2/24")));
    socket.send(&mut batch).unwrap().into_result().unwrap();
    (a, b)
}

#[test]
fn a_held_address_is_known_and_a_free_one_too() {
    isolated(|| {
        let mut socket = Socket::route().unwrap();
        let (a, b) = pair(&mut socket);
        let own = a.mac.unwrap();
        assert_eq!(arp::probe(a.index, own, HELD, LONG).unwrap(), b.mac);
        assert_eq!(arp::probe(a.index, own, FREE, ONCE).unwrap(), None);
        assert!(arp::probe(9999, own, FREE, ONCE).is_err());
    });
}

#[test]
fn only_the_kind_that_was_asked_for_arrives() {
    isolated(|| {
        let mut socket = Socket::route().unwrap();
        let (a, b) = pair(&mut socket);
        let own = a.mac.unwrap();
        assert!(wait_for_carrier(a.index, Duration::from_secs(5)).unwrap());
        let udp = PacketSocket::open(b.index, Kind::Udp(68)).unwrap();
        let all = PacketSocket::open(b.index, Kind::Arp).unwrap();
        let raw = PacketSocket::open(a.index, Kind::Udp(68)).unwrap();
        let datagram = |protocol: u8, port: u8, fragment: u8| {
            let mut bytes = [0; 30];
            (bytes[0], bytes[9], bytes[7], bytes[23]) = (0x45, protocol, fragment, port);
            bytes[3] = 30;
            bytes
        };
        for other in [datagram(6, 68, 0), datagram(17, 67, 0), datagram(17, 68, 1)] {
            raw.send(EVERYBODY, &other).unwrap();
        }
        raw.send(EVERYBODY, &datagram(17, 68, 0)).unwrap();
        arp::announce(a.index, own, FREE).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        assert!(udp.wait(deadline).unwrap() && all.wait(deadline).unwrap());
        let mut buffer = [0; 64];
        let got = udp.receive(&mut buffer).unwrap().unwrap();
        assert_eq!((got.length, got.from), (30, Some(own)));
        assert_eq!(buffer[..30], datagram(17, 68, 0));
        assert_eq!(udp.receive(&mut buffer).unwrap(), None);
        let got = all.receive(&mut buffer).unwrap().unwrap();
        assert_eq!(Arp::decode(&buffer[..got.length]), Some(Arp::announcement(own, FREE)));
    });
}
