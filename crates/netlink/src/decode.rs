//! Decodes netlink messages.

use std::collections::BTreeSet;

use crate::outcome::Failure;
use crate::wire::{Attribute, Attributes, Batch, Message, Messages};
use crate::{
    address, bridge_vlan, conntrack, counters, link, monitor, neighbour, nft, route, rule, traffic,
    vrf,
};

/// Deeper than anything the kernel nests.
const DEEPEST: usize = 8;

/// Reads `bytes` as a datagram in every way that this crate can, and counts what it made sense
/// of: the entry of a fuzz target, which asks only that this returns.
pub fn decode_anything(bytes: &[u8]) -> usize {
    let mut batch = Batch::new();
    batch.request(0, 0, "anything");
    Messages::new(bytes)
        .map(|message| 1 + objects(&message, &batch) + attributes(message.attributes(0), 0))
        .sum()
}

fn objects(message: &Message<'_>, batch: &Batch) -> usize {
    let ports = BTreeSet::from([0, 53, 8080]);
    let read = [
        link::read(message).is_some(),
        address::read(message).is_some(),
        route::read(message).is_some(),
        neighbour::read(message).is_some(),
        conntrack::read(message, 17, &ports).is_some(),
        conntrack::tracked::read_change(message).is_some(),
        counters::read(message).is_some(),
        monitor::read(message).is_some(),
        nft::read_news(message).is_some(),
        rule::read(message).is_some(),
        rule::read_unmarked(message).is_some(),
        rule::read_way(message).is_some(),
        traffic::read_discipline(message).is_some(),
        traffic::read_redirection(message).is_some(),
        traffic::read_sources(message).is_some(),
        vrf::read(message).is_some(),
        !bridge_vlan::read(message).is_empty(),
        Failure::read(message, batch, 0).is_some_and(|failure| !failure.to_string().is_empty()),
    ];
    read.into_iter().filter(|read| *read).count() + nft::read_anything(message)
}

fn attributes(found: Attributes<'_>, depth: usize) -> usize {
    found.map(|attribute| values(attribute) + deeper(attribute, depth)).sum()
}

fn values(attribute: Attribute<'_>) -> usize {
    let read = [
        attribute.u8().is_some(),
        attribute.u16() == attribute.be16(),
        attribute.u32() == attribute.be32(),
        attribute.i32().is_some(),
        attribute.be64().is_some(),
        attribute.text().is_some(),
        attribute.address().is_some(),
        attribute.mac().is_some(),
    ];
    read.into_iter().filter(|read| *read).count()
}

fn deeper(attribute: Attribute<'_>, depth: usize) -> usize {
    if depth < DEEPEST { attributes(attribute.nested(), depth + 1) } else { 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
            let _ = decode_anything(&bytes);
        }

        #[test]
        fn any_object_is_read(
            kind in prop_oneof![Just(2u16), Just(16), Just(20), Just(24), Just(28), Just(256)],
            flags in any::<u16>(),
            header in prop_oneof![Just(4usize), Just(8), Just(12), Just(16)],
            values in proptest::collection::vec(
                (0u16..60, proptest::collection::vec(any::<u8>(), 0..40)), 0..12),
        ) {
            let mut batch = Batch::new();
            let mut request = batch.request(kind, flags, "test");
            request.bytes(&vec![0; header]);
            for (kind, value) in &values {
                request.attribute(*kind, value);
            }
            prop_assert!(decode_anything(batch.seal(0)) >= 1);
        }
    }
}
