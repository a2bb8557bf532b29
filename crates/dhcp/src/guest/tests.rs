use proptest::prelude::*;

use super::*;
use crate::packet::{CLIENT, Kind, Message, SERVER, code, terms, unwrap, wrap};

fn guest() -> Guest {
    Guest {
        mac: Mac::new([2, 0, 0, 0, 0, 7]),
        gateway: Mac::new([2, 0, 0, 0, 0, 1]),
        v4: Some(("10.70.1.2/24".parse().unwrap(), Ipv4Addr::new(10, 70, 1, 1))),
        v6: vec!["fd70::2/64".parse().unwrap()],
        routes: vec![("0.0.0.0/0".parse().unwrap(), Ipv4Addr::new(10, 70, 1, 1))],
        leads_v6: true,
        servers: vec!["10.70.1.1".parse().unwrap(), "fd70::1".parse().unwrap()],
        search: vec!["front.spoke".into()],
        name: Some("vm".into()),
        mtu: Some(1400),
    }
}

fn asked(kind: Kind, address: Option<[u8; 4]>) -> Message {
    let mut message = Message::of(guest().mac, 77);
    message.options.insert(code::MESSAGE_TYPE, vec![kind as u8]);
    if let Some(address) = address {
        message.options.insert(code::REQUESTED_ADDRESS, address.to_vec());
    }
    message
}

fn reply(message: &Message) -> Option<Message> {
    let packet = wrap(message.client, Ipv4Addr::BROADCAST, &message.encode());
    let answer = guest().answer(&packet, Some(guest().mac))?;
    let (from, bytes) = unwrap(&answer.packet).unwrap();
    assert_eq!(from, Ipv4Addr::new(10, 70, 1, 1));
    Message::decode(bytes)
}

#[test]
fn a_machine_gets_its_own_address_and_no_other() {
    let offer = reply(&asked(Kind::Discover, Some([10, 70, 1, 9]))).unwrap();
    assert_eq!((offer.kind(), offer.exchange), (Some(Kind::Offer), 77));
    let ack = reply(&asked(Kind::Request, Some([10, 70, 1, 2]))).unwrap();
    assert_eq!(ack.kind(), Some(Kind::Ack));
    let terms = terms(&ack, None).unwrap();
    assert_eq!(terms.address, "10.70.1.2/24".parse().unwrap());
    assert_eq!(terms.mtu, Some(1400));
    assert_eq!(terms.dns, [Ipv4Addr::new(10, 70, 1, 1)]);
    assert_eq!(terms.routers, [Ipv4Addr::new(10, 70, 1, 1)]);
    assert_eq!(terms.search, ["front.spoke"]);
    assert_eq!((terms.lease, terms.renewal), (LEASE, RENEWAL));
    for wanted in [None, Some([10, 70, 1, 3])] {
        let refused = reply(&asked(Kind::Request, wanted)).unwrap();
        assert_eq!((refused.kind(), refused.yours), (Some(Kind::Nak), Ipv4Addr::UNSPECIFIED));
    }
    let renewing = Message { client: Ipv4Addr::new(10, 70, 1, 2), ..asked(Kind::Request, None) };
    assert_eq!(reply(&renewing).unwrap().kind(), Some(Kind::Ack));
}

#[test]
fn others_have_no_answer() {
    let other = Mac::new([2, 0, 0, 0, 0, 8]);
    let question = asked(Kind::Discover, None);
    let packet = wrap(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, &question.encode());
    assert!(guest().answer(&packet, Some(other)).is_none());
    assert!(guest().answer(&packet, None).is_none());
    assert!(reply(&Message { mac: other, ..question.clone() }).is_none());
    assert!(reply(&Message { reply: true, ..question.clone() }).is_none());
    let mut elsewhere = question;
    elsewhere.options.insert(code::SERVER, vec![10, 70, 1, 99]);
    assert!(reply(&elsewhere).is_none());
    assert!(reply(&asked(Kind::Release, None)).is_none());
    assert_eq!((CLIENT, SERVER), (68, 67));
}

#[test]
fn further_routes_come_with_the_default_route() {
    let mut guest = guest();
    guest.routes.push(("10.99.0.0/16".parse().unwrap(), Ipv4Addr::new(10, 70, 1, 254)));
    let packet =
        wrap(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, &asked(Kind::Discover, None).encode());
    let answer = guest.answer(&packet, Some(guest.mac)).unwrap();
    let offer = Message::decode(unwrap(&answer.packet).unwrap().1).unwrap();
    assert_eq!(offer.options[&code::ROUTES], [0, 10, 70, 1, 1, 16, 10, 99, 10, 70, 1, 254]);
}

/// A packet of the machine's to a port of UDP over IPv6.
fn datagram(message: &[u8]) -> Vec<u8> {
    let from = ip6::link_local(guest().mac);
    let all: Ipv6Addr = "ff02::1:2".parse().unwrap();
    let mut packet = ip6::to_client(from, all, message);
    // The other direction has the ports the other way round, and the same sum.
    packet.swap(40, 42);
    packet.swap(41, 43);
    packet
}

fn solicit(kind: u8, more: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, 1, 2, 3, 0, 1, 0, 10, 0, 3, 0, 1];
    message.extend(guest().mac.octets());
    message.extend([0, 3, 0, 12, 9, 9, 9, 9]);
    message.extend([0; 8]);
    message.extend(more);
    message
}

#[test]
fn a_machine_gets_its_ipv6_address() {
    let answer = guest().answer(&datagram(&solicit(1, &[])), Some(guest().mac)).unwrap();
    let message = &answer.packet[48..];
    assert_eq!(message[..4], [2, 1, 2, 3]);
    let own: Ipv6Addr = "fd70::2".parse().unwrap();
    assert!(message.windows(16).any(|it| it == own.octets()));
    // A server that is not this one was chosen, or none was.
    assert!(guest().answer(&datagram(&solicit(3, &[])), Some(guest().mac)).is_none());
    let mut ours = vec![0, 2, 0, 10, 0, 3, 0, 1];
    ours.extend(guest().gateway.octets());
    let answer = guest().answer(&datagram(&solicit(3, &ours)), Some(guest().mac)).unwrap();
    assert_eq!(answer.packet[48], 7);
    let rapid = guest().answer(&datagram(&solicit(1, &[0, 14, 0, 0])), Some(guest().mac)).unwrap();
    assert_eq!(rapid.packet[48], 7);
}

#[test]
fn a_router_is_advertised_where_there_is_one() {
    let answer = guest().advertisement().unwrap();
    assert_eq!(answer.packet[6..8], [58, 255]);
    assert_eq!(answer.packet[40], 134);
    assert_eq!(answer.packet[46..48], [0xff, 0xff]);
    let kept_in = Guest { leads_v6: false, ..guest() };
    assert_eq!(kept_in.advertisement().unwrap().packet[46..48], [0, 0]);
    assert!(Guest { v6: Vec::new(), ..guest() }.advertisement().is_none());
}

proptest! {
    #[test]
    fn nothing_that_comes_does_harm(packet in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = guest().answer(&packet, Some(guest().mac));
        let _ = v6::answer(&guest(), Ipv6Addr::LOCALHOST, &packet);
    }
}
