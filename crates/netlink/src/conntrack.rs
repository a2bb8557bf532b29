//! Connection tracking (`linux/netfilter/nfnetlink_conntrack.h`).

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use model::{Family, Result};
use rustix::io::Errno;
use rustix::thread::{MembarrierCommand, membarrier};

use crate::Socket;
use crate::wire::{Attributes, Batch, DUMP, Message};

pub mod selected;
pub mod tracked;

/// `NFNL_SUBSYS_CTNETLINK`.
const SUBSYSTEM: u16 = 1 << 8;
const NEW: u16 = SUBSYSTEM;
const GET: u16 = SUBSYSTEM | 1;
const DELETE: u16 = SUBSYSTEM | 2;

/// Length of `struct nfgenmsg`.
const HEADER: usize = 4;

const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const STATUS: u16 = 3;
const ID: u16 = 12;
const ZONE: u16 = 18;
const TUPLE_ADDRESSES: u16 = 1;
const TUPLE_PROTOCOL: u16 = 2;
/// `CTA_IP_V4_SRC` and `CTA_IP_V6_SRC`.
const SOURCE: [u16; 2] = [1, 3];
/// `CTA_IP_V4_DST` and `CTA_IP_V6_DST`.
const DESTINATION: [u16; 2] = [2, 4];
const PROTOCOL_NUMBER: u16 = 1;
const SOURCE_PORT: u16 = 2;
const DESTINATION_PORT: u16 = 3;

/// `CTA_FILTER`: which parts of the tuple select in a dump. Before Linux 5.8 nothing does.
const FILTER: u16 = 25;
/// `CTA_FILTER_ORIG_FLAGS`.
const FILTER_ORIGINAL: u16 = 1;
/// The bit of the protocol's number.
const BY_PROTOCOL: u32 = 1 << 3;
/// The bit of the destination port.
const BY_PORT: u32 = 1 << 5;

/// `IPS_DST_NAT`.
const DESTINATION_NAT: u32 = 1 << 5;

const UDP: u8 = 17;
/// So many deletions, of some 100 bytes each, are sent at once.
const AT_ONCE: usize = 200;

/// The identity of one entry of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    family: u8,
    original: Vec<u8>,
    id: Option<u32>,
    zone: Option<u16>,
}

/// A tracked flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Where its first packet was sent to.
    pub to: SocketAddr,
    /// The translated destination of that packet, if it was translated.
    pub led_to: Option<IpAddr>,
}

/// Deletes the tracked UDP flows in the socket's namespace whose first packet went to one of
/// `ports` and that are `meant`, so that their next packet meets the present rules; returns how
/// many there were. The socket is a [`Socket::netfilter`].
///
/// # Errors
/// As [`Socket::dump`] and [`Socket::send`]. A kernel that tracks nothing has nothing to delete.
pub fn flush_udp(
    socket: &mut Socket,
    ports: &BTreeSet<u16>,
    meant: impl Fn(&Flow) -> bool,
) -> Result<usize> {
    flush(socket, UDP, ports, meant)
}

/// The same of the flows of any protocol with ports, by its number in the IP header. The next packet
/// of a connection whose translation is forgotten comes to this host, which knows of none.
///
/// # Errors
/// As [`flush_udp`].
pub fn flush(
    socket: &mut Socket,
    protocol: u8,
    ports: &BTreeSet<u16>,
    meant: impl Fn(&Flow) -> bool,
) -> Result<usize> {
    flush_of(socket, &[Family::V4, Family::V6], (protocol, ports), meant)
}

fn flush_of(
    socket: &mut Socket,
    families: &[Family],
    (protocol, ports): (u8, &BTreeSet<u16>),
    meant: impl Fn(&Flow) -> bool,
) -> Result<usize> {
    if ports.is_empty() {
        return Ok(0);
    }
    let mut entries = Vec::new();
    for family in families {
        let mut batch = Batch::new();
        select(&mut batch, *family, protocol, ports);
        // The kernel has no connection tracking to talk about.
        let absent = [Errno::INVAL];
        entries.extend(socket.dump(&mut batch, &absent, |message| {
            let (flow, entry) = read(message, protocol, ports)?;
            meant(&flow).then_some(entry)
        })?);
    }
    delete(socket, &entries)?;
    Ok(entries.len())
}

/// A tracked flow, as far as it says who sends where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Who sent its first packet.
    pub source: IpAddr,
    /// Where that packet went to in the end, whatever it was sent to.
    pub destination: IpAddr,
    /// The port there; 0 where the protocol has none.
    pub port: u16,
    /// The number of its protocol.
    pub protocol: u8,
}

/// Deletes the tracked flows in the socket's namespace that are `meant`: what belongs to them is a new flow,
/// which meets the present rules. Returns how many there were. The socket is a [`Socket::netfilter`].
///
/// # Errors
/// As [`flush_udp`].
pub fn end(socket: &mut Socket, meant: impl Fn(&Outgoing) -> bool) -> Result<usize> {
    let entries = outgoing(socket, |flow, entry| meant(&flow).then_some(entry))?;
    delete(socket, &entries)?;
    Ok(entries.len())
}

/// Waits until the packets that are being handled now have been: by the rules and the tracked flows that each has met.
/// The kernel handles a packet without a pause in which it would forget what it holds of these (RCU), and says when all
/// that it does so has ended (membarrier(2)). That takes some milliseconds. A kernel with processors that are never
/// interrupted (`nohz_full`) does not say it: there nothing is waited for.
pub fn let_pass() {
    let _ = membarrier(MembarrierCommand::Global);
}

/// What `of` makes of the tracked flows in the socket's namespace. The socket is a [`Socket::netfilter`].
///
/// # Errors
/// As [`flush_udp`].
pub fn list<T>(socket: &mut Socket, of: impl Fn(Outgoing) -> Option<T>) -> Result<Vec<T>> {
    outgoing(socket, |flow, _| of(flow))
}

fn outgoing<T>(socket: &mut Socket, of: impl Fn(Outgoing, Entry) -> Option<T>) -> Result<Vec<T>> {
    let mut batch = Batch::new();
    let mut request = batch.request(GET, DUMP, "listing tracked connections");
    // Both families in one pass: it costs what the table is long, not what is in it.
    request.bytes(&[0; HEADER]);
    // The kernel has no connection tracking to talk about.
    socket.dump(&mut batch, &[Errno::INVAL], |message| {
        let (flow, entry) = read_outgoing(message)?;
        of(flow, entry)
    })
}

fn delete(socket: &mut Socket, entries: &[Entry]) -> Result<()> {
    for some in entries.chunks(AT_ONCE) {
        let mut batch = Batch::new();
        for entry in some {
            forget(&mut batch, entry);
        }
        // It may have ended by itself since.
        socket.send(&mut batch)?.except(Errno::NOENT).into_result()?;
    }
    Ok(())
}

pub(crate) fn read_outgoing(message: &Message<'_>) -> Option<(Outgoing, Entry)> {
    (message.kind == NEW).then_some(())?;
    let attributes = message.attributes(HEADER);
    let original = attributes.find_kind(ORIGINAL)?;
    let reply = attributes.find_kind(REPLY)?.nested();
    let answering = reply.find_kind(TUPLE_PROTOCOL)?.nested();
    let port = answering.find_kind(SOURCE_PORT).and_then(|port| port.be16()).unwrap_or(0);
    let flow = Outgoing {
        source: address(&original.nested(), SOURCE)?,
        destination: address(&reply, SOURCE)?,
        port,
        protocol: answering.find_kind(PROTOCOL_NUMBER)?.u8()?,
    };
    Some((flow, entry(message, &attributes, &original)?))
}

fn entry(
    message: &Message<'_>,
    attributes: &Attributes<'_>,
    original: &crate::wire::Attribute<'_>,
) -> Option<Entry> {
    Some(Entry {
        family: *message.payload.first()?,
        original: original.value.to_vec(),
        id: attributes.find_kind(ID).and_then(|attribute| attribute.be32()),
        zone: attributes.find_kind(ZONE).and_then(|attribute| attribute.be16()),
    })
}

/// Asks for one protocol only, and for one port only if there is only one: a host tracks hundreds of
/// thousands of flows.
fn select(batch: &mut Batch, family: Family, number: u8, ports: &BTreeSet<u16>) {
    let only = ports.first().filter(|_| ports.len() == 1);
    let mut request = batch.request(GET, DUMP, "listing tracked connections");
    request.bytes(&[crate::address::family(family), 0, 0, 0]).nest(ORIGINAL, |tuple| {
        tuple.nest(TUPLE_PROTOCOL, |protocol| {
            protocol.u8(PROTOCOL_NUMBER, number);
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
    let mut request = batch.request(DELETE, 0, "forgetting a tracked flow");
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

pub(crate) fn read(
    message: &Message<'_>,
    protocol: u8,
    ports: &BTreeSet<u16>,
) -> Option<(Flow, Entry)> {
    (message.kind == NEW).then_some(())?;
    let attributes = message.attributes(HEADER);
    let original = attributes.find_kind(ORIGINAL)?;
    let port = port_of(&original.nested(), protocol).filter(|port| ports.contains(port))?;
    let status = attributes.find_kind(STATUS).and_then(|status| status.be32()).unwrap_or(0);
    let answering = || address(&attributes.find_kind(REPLY)?.nested(), SOURCE);
    let flow = Flow {
        to: SocketAddr::new(address(&original.nested(), DESTINATION)?, port),
        led_to: (status & DESTINATION_NAT != 0).then(answering).flatten(),
    };
    Some((flow, entry(message, &attributes, &original)?))
}

/// The destination port of a tuple, if it is of this protocol.
fn port_of(tuple: &Attributes<'_>, wanted: u8) -> Option<u16> {
    let protocol = tuple.find_kind(TUPLE_PROTOCOL)?.nested();
    let number = protocol.find_kind(PROTOCOL_NUMBER)?.u8()?;
    (number == wanted).then(|| protocol.find_kind(DESTINATION_PORT)?.be16()).flatten()
}

/// One of a tuple's addresses, which has another number in each family.
fn address(tuple: &Attributes<'_>, [v4, v6]: [u16; 2]) -> Option<IpAddr> {
    let addresses = tuple.find_kind(TUPLE_ADDRESSES)?.nested();
    if let Some(attribute) = addresses.find_kind(v4) {
        return Some(IpAddr::from(<[u8; 4]>::try_from(attribute.value).ok()?));
    }
    Some(IpAddr::from(<[u8; 16]>::try_from(addresses.find_kind(v6)?.value).ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Messages;

    fn tracked(protocol: u8, port: u16, status: u32) -> Vec<u8> {
        let mut batch = Batch::new();
        let mut request = batch.request(NEW, 0, "test");
        request.bytes(&[2, 0, 0, 0]).nest(ORIGINAL, |tuple| {
            tuple.nest(TUPLE_ADDRESSES, |inner| {
                inner.attribute(1, &[192, 0, 2, 9]).attribute(2, &[192, 0, 2, 1]);
            });
            tuple.nest(TUPLE_PROTOCOL, |inner| {
                inner.u8(PROTOCOL_NUMBER, protocol).be16(DESTINATION_PORT, port);
            });
        });
        request.nest(REPLY, |tuple| {
            tuple.nest(TUPLE_ADDRESSES, |inner| {
                inner.attribute(1, &[10, 1, 0, 2]).attribute(2, &[192, 0, 2, 9]);
            });
        });
        request.be32(STATUS, status);
        batch.seal(1).to_vec()
    }

    fn flow(protocol: u8, port: u16, status: u32) -> Option<Flow> {
        let bytes = tracked(protocol, port, status);
        let message = Messages::new(&bytes).next().unwrap();
        read(&message, UDP, &BTreeSet::from([53, 8080])).map(|(flow, _)| flow)
    }

    #[test]
    fn only_udp_to_these_ports_is_seen() {
        assert!(flow(17, 53, 0).is_some() && flow(17, 8080, 0).is_some());
        assert!(flow(17, 54, 0).is_none() && flow(6, 53, 0).is_none());
    }

    #[test]
    fn a_flow_says_where_it_was_led() {
        let to = "192.0.2.1:53".parse().unwrap();
        assert_eq!(flow(17, 53, 0), Some(Flow { to, led_to: None }));
        let led_to = Some([10, 1, 0, 2].into());
        assert_eq!(flow(17, 53, 0x20 | 8), Some(Flow { to, led_to }));
    }

    proptest! {
        #[test]
        fn any_payload_is_read(payload in proptest::collection::vec(any::<u8>(), 0..256)) {
            let message = Message { kind: NEW, flags: 0, sequence: 0, payload: &payload };
            let _ = (read(&message, UDP, &BTreeSet::from([1])), read_outgoing(&message));
        }
    }
}
