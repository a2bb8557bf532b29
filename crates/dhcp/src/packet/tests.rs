use proptest::prelude::*;

use super::*;

const MAC: Mac = Mac::new([2, 0, 0, 0, 0, 1]);

fn ack(options: &[(u8, &[u8])]) -> Message {
    let mut message = Message::of(MAC, 7);
    message.reply = true;
    message.yours = Ipv4Addr::new(192, 0, 2, 7);
    message.options.insert(code::MESSAGE_TYPE, vec![Kind::Ack as u8]);
    message.options.insert(code::SERVER, vec![192, 0, 2, 1]);
    message.options.extend(options.iter().map(|(code, value)| (*code, value.to_vec())));
    message
}

#[test]
fn a_server_that_says_little_gives_what_it_must() {
    let given = terms(&ack(&[]), None).unwrap();
    assert_eq!(given.address.to_string(), "192.0.2.7/24");
    assert_eq!((given.lease, given.renewal, given.rebinding), (3600, 1800, 3150));
    assert!(given.routes.is_empty() && given.dns.is_empty() && given.mtu.is_none());
    assert_eq!(terms(&Message { yours: Ipv4Addr::UNSPECIFIED, ..ack(&[]) }, None), None);
    assert_eq!(terms(&ack(&[(code::SUBNET_MASK, &[255, 0, 255, 0])]), None), None);
}

#[test]
fn times_that_make_no_sense_are_the_usual_ones() {
    let given =
        terms(&ack(&[(51, &[0, 0, 0, 80]), (58, &[0, 0, 0, 90]), (59, &[0, 0, 9, 0])]), None);
    let given = given.unwrap();
    assert_eq!((given.lease, given.renewal, given.rebinding), (80, 40, 70));
    let given = terms(&ack(&[(51, &[255; 4])]), None).unwrap();
    assert_eq!(given.lease, u32::MAX);
}

#[test]
fn classless_routes_stand_for_all_others() {
    let routers: (u8, &[u8]) = (code::ROUTERS, &[192, 0, 2, 1, 192, 0, 2, 2]);
    let fixed: (u8, &[u8]) = (code::STATIC_ROUTES, &[10, 9, 8, 7, 192, 0, 2, 3]);
    let show = |message: &Message| {
        let routes = terms(message, None).unwrap().routes;
        routes.iter().map(|(to, via)| format!("{to} {via}")).collect::<Vec<_>>()
    };
    assert_eq!(show(&ack(&[routers, fixed])), ["10.0.0.0/8 192.0.2.3", "0.0.0.0/0 192.0.2.1"]);
    let classless: &[u8] = &[0, 192, 0, 2, 4, 22, 10, 1, 4, 0, 0, 0, 0];
    for code in [code::ROUTES, code::MICROSOFT_ROUTES] {
        let message = ack(&[routers, fixed, (code, classless)]);
        assert_eq!(show(&message), ["0.0.0.0/0 192.0.2.4", "10.1.4.0/22 0.0.0.0"]);
    }
    for broken in [&[33, 1, 2, 3, 4, 5, 0, 0, 0, 0][..], &[24, 10, 1], &[8, 10, 1, 2, 3]] {
        let message = ack(&[routers, (code::ROUTES, broken)]);
        assert_eq!(show(&message), ["0.0.0.0/0 192.0.2.1"]);
    }
}

#[test]
fn domains_to_search_are_compressed() {
    let bytes = b"\x03eng\x05apple\x03com\0\x09marketing\xc0\x04";
    let given = terms(&ack(&[(code::SEARCH, bytes), (code::DOMAIN, b"a b")]), None).unwrap();
    assert_eq!(given.search, ["eng.apple.com", "marketing.apple.com"]);
    assert_eq!(given.domain, None);
    let endless = ack(&[(code::SEARCH, b"\x01a\xc0\x00")]);
    assert!(terms(&endless, None).unwrap().search.is_empty());
}

#[test]
fn options_flow_over_and_are_joined() {
    let mut bytes = ack(&[]).encode();
    bytes.truncate(OPTIONS);
    bytes.extend([code::OVERLOAD, 1, 3, 6, 2, 8, 8, END]);
    bytes[FILE.start..FILE.start + 5].copy_from_slice(&[6, 2, 4, 4, END]);
    bytes[SNAME.start..SNAME.start + 4].copy_from_slice(&[PAD, 12, 1, b'h']);
    let message = Message::decode(&bytes).unwrap();
    assert_eq!(message.options, [(6, vec![8, 8, 4, 4]), (12, vec![b'h'])].into());
}

#[test]
fn a_checksum_is_right_or_left_to_hardware() {
    let (server, client) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 7));
    let turned = |mut packet: Vec<u8>| {
        packet[20..24].copy_from_slice(&[0, 67, 0, 68]);
        packet
    };
    let packet = turned(wrap(server, client, b"hello"));
    assert_eq!(unwrap(&packet), Some((server, &b"hello"[..])));
    let padded = [packet.clone(), vec![0; 9]].concat();
    assert_eq!(unwrap(&padded).unwrap().1, b"hello");
    for at in [0, 2, 9, 12, 20, 26, 29] {
        let mut damaged = packet.clone();
        damaged[at] ^= 0x55;
        assert_eq!(unwrap(&damaged), None, "at {at}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        exchange: u32, seconds: u16, broadcast: bool, client: [u8; 4], mac: [u8; 6],
        options in proptest::collection::btree_map(
            (1u8..255).prop_filter("structure", |code| *code != 52),
            proptest::collection::vec(any::<u8>(), 0..300), 0..4),
    ) {
        let message = Message {
            seconds, broadcast, client: client.into(), options,
            ..Message::of(Mac::new(mac), exchange)
        };
        prop_assert_eq!(Message::decode(&message.encode()), Some(message));
    }

    #[test]
    fn any_packet_is_survived(
        packet in proptest::collection::vec(any::<u8>(), 0..400),
        options in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let _ = unwrap(&packet);
        let bytes = [&ack(&[]).encode()[..OPTIONS], &options].concat();
        if let Some(message) = Message::decode(&bytes) {
            let _ = terms(&message, None);
        }
        let _ = Message::decode(&packet);
    }

    #[test]
    fn any_option_is_survived(code: u8, value in proptest::collection::vec(any::<u8>(), 0..80)) {
        if let Some(terms) = terms(&ack(&[(code, &value)]), None) {
            prop_assert!(terms.renewal <= terms.rebinding && terms.rebinding <= terms.lease);
            prop_assert!(terms.lease > 0);
        }
    }
}
