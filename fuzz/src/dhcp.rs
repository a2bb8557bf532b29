//! What anybody on a link sends to a DHCP client, and any process to its daemon.

use dhcp::packet::{Message, terms, unwrap};

/// A packet, or a message without what carries it.
pub fn dhcp_packet(bytes: &[u8]) {
    let carried = unwrap(bytes).map(|(_, message)| message);
    for message in carried.into_iter().chain([bytes]) {
        let Some(message) = Message::decode(message) else { continue };
        let again = Message::decode(&message.encode()).expect("our own words are a message");
        assert_eq!((again.exchange, again.yours), (message.exchange, message.yours));
        if let Some(terms) = terms(&message, None) {
            assert!(terms.renewal <= terms.rebinding && terms.rebinding <= terms.lease);
        }
    }
}

/// A stream of calls.
pub fn dhcp_call(bytes: &[u8]) {
    cni::dhcp::decode_anything(bytes);
}
