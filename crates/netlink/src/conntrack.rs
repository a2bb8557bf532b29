//! Connection tracking (`linux/netfilter/nfnetlink_conntrack.h`).

use std::collections::BTreeSet;

use model::{Family, Result};
use rustix::io::Errno;

use crate::Socket;
use crate::wire::{Attributes, Batch, DUMP, Message};

/// `NFNL_SUBSYS_CTNETLINK`.
const SUBSYSTEM: u16 = 1 << 8;
const NEW: u16 = SUBSYSTEM;
const GET: u16 = SUBSYSTEM | 1;
const DELETE: u16 = SUBSYSTEM | 2;

/// Length of `struct nfgenmsg`.
const HEADER: usize = 4;

const ORIGINAL: u16 = 1;
const ID: u16 = 12;
const ZONE: u16 = 18;
const TUPLE_PROTOCOL: u16 = 2;
const PROTOCOL_NUMBER: u16 = 1;
const DESTINATION_PORT: u16 = 3;

/// `CTA_FILTER`: which parts of the tuple select in a dump. Before Linux 5.8 nothing does.
const FILTER: u16 = 25;
/// `CTA_FILTER_ORIG_FLAGS`.
const FILTER_ORIGINAL: u16 = 1;
/// The bit of the protocol's number.
const BY_PROTOCOL: u32 = 1 << 3;
/// The bit of the destination port.
const BY_PORT: u32 = 1 << 5;

const UDP: u8 = 17;
/// So many deletions, of some 100 bytes each, are sent at once.
const AT_ONCE: usize = 200;

/// What names one entry of the table to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    family: u8,
    original: Vec<u8>,
    id: Option<u32>,
    zone: Option<u16>,
}

/// Forgets every tracked UDP flow in the socket's namespace whose first packet went to one of
/// `ports`, so that its next packet meets the rules of now; returns how many there were. The
/// socket is a [`Socket::netfilter`].
///
/// # Errors
/// As [`Socket::dump`] and [`Socket::send`]. A kernel that tracks nothing has nothing to forget.
pub fn flush_udp(socket: &mut Socket, ports: &BTreeSet<u16>) -> Result<usize> {
    if ports.is_empty() {
        return Ok(0);
    }
    let mut entries = Vec::new();
    for family in [Family::V4, Family::V6] {
        let mut batch = Batch::new();
        select(&mut batch, family, ports);
        // The kernel has no connection tracking to talk about.
        let absent = [Errno::INVAL];
        entries.extend(socket.dump(&mut batch, &absent, |message| read(message, ports))?);
    }
    for some in entries.chunks(AT_ONCE) {
        let mut batch = Batch::new();
        for entry in some {
            forget(&mut batch, entry);
        }
        // It may have ended by itself since.
        socket.send(&mut batch)?.except(Errno::NOENT).into_result()?;
    }
    Ok(entries.len())
}

/// Asks for UDP only, and for one port only if there is only one: a host tracks hundreds of
/// thousands of flows.
fn select(batch: &mut Batch, family: Family, ports: &BTreeSet<u16>) {
    let only = ports.first().filter(|_| ports.len() == 1);
    let mut request = batch.request(GET, DUMP, "listing tracked connections");
    request.bytes(&[crate::address::family(family), 0, 0, 0]).nest(ORIGINAL, |tuple| {
        tuple.nest(TUPLE_PROTOCOL, |protocol| {
            protocol.u8(PROTOCOL_NUMBER, UDP);
            if let Some(port) = only {
                protocol.be16(DESTINATION_PORT, *port);
            }
        });
    });
    let flags = BY_PROTOCOL | only.map_or(0, |_| BY_PORT);
    request.nest(FILTER, |filter| {
        filter.u32(FILTER_ORIGINAL, flags);
    });
}

fn forget(batch: &mut Batch, entry: &Entry) {
    let mut request = batch.request(DELETE, 0, "forgetting a tracked UDP flow");
    request.bytes(&[entry.family, 0, 0, 0]);
    request.nest(ORIGINAL, |tuple| {
        tuple.bytes(&entry.original);
    });
    if let Some(id) = entry.id {
        request.be32(ID, id);
    }
    if let Some(zone) = entry.zone {
        request.be16(ZONE, zone);
    }
}

pub(crate) fn read(message: &Message<'_>, ports: &BTreeSet<u16>) -> Option<Entry> {
    let attributes = message.attributes(HEADER);
    let original = attributes.find_kind(ORIGINAL)?;
    let port = udp_port(&original.nested()).filter(|port| ports.contains(port));
    (message.kind == NEW && port.is_some()).then_some(())?;
    Some(Entry {
        family: *message.payload.first()?,
        original: original.value.to_vec(),
        id: attributes.find_kind(ID).and_then(|attribute| attribute.be32()),
        zone: attributes.find_kind(ZONE).and_then(|attribute| attribute.be16()),
    })
}

/// The destination port of a tuple, if it is of UDP.
fn udp_port(tuple: &Attributes<'_>) -> Option<u16> {
    let protocol = tuple.find_kind(TUPLE_PROTOCOL)?.nested();
    let number = protocol.find_kind(PROTOCOL_NUMBER)?.u8()?;
    (number == UDP).then(|| protocol.find_kind(DESTINATION_PORT)?.be16()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Messages;

    fn tracked(protocol: u8, port: u16) -> Vec<u8> {
        let mut batch = Batch::new();
        batch.request(NEW, 0, "test").bytes(&[2, 0, 0, 0]).nest(ORIGINAL, |tuple| {
            tuple.nest(TUPLE_PROTOCOL, |inner| {
                inner.u8(PROTOCOL_NUMBER, protocol).be16(DESTINATION_PORT, port);
            });
        });
        batch.seal(1).to_vec()
    }

    #[test]
    fn only_udp_to_these_ports_is_forgotten() {
        let ports = BTreeSet::from([53, 8080]);
        let found = |protocol, port| {
            let bytes = tracked(protocol, port);
            let message = Messages::new(&bytes).next().unwrap();
            read(&message, &ports).is_some()
        };
        assert!(found(17, 53) && found(17, 8080));
        assert!(!found(17, 54) && !found(6, 53));
    }

    proptest! {
        #[test]
        fn any_payload_is_read(payload in proptest::collection::vec(any::<u8>(), 0..256)) {
            let message = Message { kind: NEW, flags: 0, sequence: 0, payload: &payload };
            let _ = read(&message, &BTreeSet::from([1]));
        }
    }
}
