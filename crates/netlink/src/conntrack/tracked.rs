//! Tracked connections with all that is known of them: a list, and their beginnings and ends as they
//! come.

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use model::{Kind, Result};
use rustix::io::Errno;
use rustix::net::netlink::NETFILTER;

use super::{
    DELETE, DESTINATION, DESTINATION_PORT, GET, HEADER, ID, NEW, ORIGINAL, PROTOCOL_NUMBER, REPLY,
    SOURCE, SOURCE_PORT, STATUS, TUPLE_PROTOCOL, ZONE, address,
};
use crate::Socket;
use crate::packet::readable;
use crate::wire::{Attributes, Batch, DUMP, Message};

const PROTOCOL_INFO: u16 = 4;
const COUNTERS_ORIGINAL: u16 = 9;
const COUNTERS_REPLY: u16 = 10;
/// `CTA_PROTOINFO_TCP`, and in it `CTA_PROTOINFO_TCP_STATE`.
const TCP: u16 = 1;
const TCP_STATE: u16 = 1;
const PACKETS: u16 = 1;
const BYTES: u16 = 2;

/// The bits of `NFNLGRP_CONNTRACK_NEW` and `NFNLGRP_CONNTRACK_DESTROY`.
const BEGINNINGS_AND_ENDS: u32 = 1 | 1 << 2;
/// So many events are passed on at once.
const AT_ONCE: usize = 4096;

/// The addresses of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tuple {
    /// The sender.
    pub source: IpAddr,
    /// The receiver.
    pub destination: IpAddr,
    /// The sender's port; `None` for protocols without ports.
    pub source_port: Option<u16>,
    /// The receiver's port.
    pub destination_port: Option<u16>,
}

/// What one direction has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Packets.
    pub packets: u64,
    /// Bytes, from the network header on.
    pub bytes: u64,
}

/// A tracked connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracked {
    /// The kernel's number of it, which another one may have later.
    pub id: Option<u32>,
    /// The number of the protocol (IANA).
    pub protocol: u8,
    /// As its first packet was sent.
    pub original: Tuple,
    /// As it is answered: with the translated addresses.
    pub reply: Tuple,
    /// `IPS_*`.
    pub status: u32,
    /// The number of TCP's state (`enum tcp_conntrack`).
    pub tcp_state: Option<u8>,
    /// The zone; 0 by default.
    pub zone: u16,
    /// Of the original direction and of the answers; `None` where the kernel does not count
    /// (`net.netfilter.nf_conntrack_acct`).
    pub carried: Option<[Carried; 2]>,
}

/// A list that is no longer than was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The first ones.
    pub entries: Vec<Tracked>,
    /// How many more there were.
    pub omitted: u64,
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its first packet was let through.
    Opened,
    /// The kernel has forgotten it.
    Closed,
}

/// What a wait for events brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// These, in the kernel's order; none where the time is over.
    Changes(Vec<(Change, Tracked)>),
    /// More came than could be kept.
    Lost,
}

/// The tracked connections of all families in the socket's namespace of which `is_meant`, `most` of them
/// at most. The socket is a [`Socket::netfilter`]. Without connection tracking there are none.
///
/// # Errors
/// As [`Socket::dump`]; [`Kind::Denied`] without CAP_NET_ADMIN.
pub fn list(
    socket: &mut Socket,
    most: usize,
    is_meant: impl Fn(&Tracked) -> bool,
) -> Result<Listed> {
    let mut batch = Batch::new();
    batch.request(GET, DUMP, "listing tracked connections").bytes(&[0; HEADER]);
    let (mut kept, mut omitted, mut asked) = (0, 0, None);
    let entries = socket.dump(&mut batch, &[Errno::INVAL], |message| {
        // A question that is repeated has another number, and its answers are all there are.
        if asked.replace(message.sequence) != Some(message.sequence) {
            (kept, omitted) = (0, 0);
        }
        let entry = read(message).filter(|entry| is_meant(entry))?;
        if kept == most {
            omitted += 1;
            return None;
        }
        kept += 1;
        Some(entry)
    })?;
    Ok(Listed { entries, omitted })
}

/// Reports the beginnings and ends of connections in one network namespace.
#[derive(Debug)]
pub struct Follower {
    socket: Socket,
}

impl Follower {
    /// From now on, in the calling thread's namespace.
    ///
    /// # Errors
    /// Where the kernel tracks no connections, or the process may not listen (CAP_NET_ADMIN).
    pub fn new() -> Result<Self> {
        let socket = Socket::notified(Some(NETFILTER), BEGINNINGS_AND_ENDS)?;
        Ok(Self { socket })
    }

    /// Waits for at most `limit` until a connection begins or ends.
    ///
    /// # Errors
    /// [`Kind::Kernel`] where the kernel sends no events any more.
    pub fn wait(&mut self, limit: Duration) -> Result<News> {
        if !readable(self.socket.as_fd(), Instant::now() + limit)? {
            return Ok(News::Changes(Vec::new()));
        }
        let mut changes = Vec::new();
        while changes.len() < AT_ONCE {
            match self.socket.notifications() {
                Ok(Some(messages)) => changes.extend(messages.filter_map(|it| read_change(&it))),
                Ok(None) => break,
                Err(error) if error.kind() == Kind::TryAgain => return Ok(News::Lost),
                Err(error) => return Err(error),
            }
        }
        Ok(News::Changes(changes))
    }
}

pub(crate) fn read_change(message: &Message<'_>) -> Option<(Change, Tracked)> {
    let change = match message.kind {
        NEW => Change::Opened,
        DELETE => Change::Closed,
        _ => return None,
    };
    Some((change, read_entry(message)?))
}

fn read(message: &Message<'_>) -> Option<Tracked> {
    (message.kind == NEW).then(|| read_entry(message)).flatten()
}

fn read_entry(message: &Message<'_>) -> Option<Tracked> {
    let all = message.attributes(HEADER);
    let original = all.find_kind(ORIGINAL)?.nested();
    let protocol = original.find_kind(TUPLE_PROTOCOL)?.nested();
    let counted = |kind| all.find_kind(kind).and_then(|it| read_carried(&it.nested()));
    Some(Tracked {
        id: all.find_kind(ID).and_then(|id| id.be32()),
        protocol: protocol.find_kind(PROTOCOL_NUMBER)?.u8()?,
        original: read_tuple(&original)?,
        reply: read_tuple(&all.find_kind(REPLY)?.nested())?,
        status: all.find_kind(STATUS).and_then(|status| status.be32()).unwrap_or(0),
        tcp_state: all
            .find_kind(PROTOCOL_INFO)
            .and_then(|info| info.nested().find_kind(TCP)?.nested().find_kind(TCP_STATE)?.u8()),
        zone: all.find_kind(ZONE).and_then(|zone| zone.be16()).unwrap_or(0),
        carried: counted(COUNTERS_ORIGINAL).zip(counted(COUNTERS_REPLY)).map(<[Carried; 2]>::from),
    })
}

fn read_tuple(tuple: &Attributes<'_>) -> Option<Tuple> {
    let protocol = tuple.find_kind(TUPLE_PROTOCOL)?.nested();
    let port = |kind| protocol.find_kind(kind).and_then(|port| port.be16());
    Some(Tuple {
        source: address(tuple, SOURCE)?,
        destination: address(tuple, DESTINATION)?,
        source_port: port(SOURCE_PORT),
        destination_port: port(DESTINATION_PORT),
    })
}

fn read_carried(counters: &Attributes<'_>) -> Option<Carried> {
    let number = |kind| counters.find_kind(kind).and_then(|number| number.be64());
    Some(Carried { packets: number(PACKETS)?, bytes: number(BYTES)? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::TUPLE_ADDRESSES;
    use super::*;
    use crate::wire::{Messages, Request};

    fn tuple(request: &mut Request<'_>, kind: u16, ends: [[u8; 4]; 2], ports: [u16; 2]) {
        request.nest(kind, |tuple| {
            tuple.nest(TUPLE_ADDRESSES, |inner| {
                inner.attribute(1, &ends[0]).attribute(2, &ends[1]);
            });
            tuple.nest(TUPLE_PROTOCOL, |inner| {
                inner.u8(PROTOCOL_NUMBER, 6).be16(SOURCE_PORT, ports[0]);
                inner.be16(DESTINATION_PORT, ports[1]);
            });
        });
    }

    #[test]
    fn an_entry_is_read_in_full() {
        let (client, host, guest) = ([192, 0, 2, 9], [192, 0, 2, 1], [10, 1, 0, 2]);
        let mut batch = Batch::new();
        let mut request = batch.request(DELETE, 0, "test");
        request.bytes(&[2, 0, 0, 0]);
        tuple(&mut request, ORIGINAL, [client, host], [5000, 8080]);
        tuple(&mut request, REPLY, [guest, client], [80, 5000]);
        request.be32(STATUS, 0x26).be32(ID, 7).nest(PROTOCOL_INFO, |info| {
            info.nest(TCP, |tcp| {
                tcp.u8(TCP_STATE, 3);
            });
        });
        for (kind, bytes) in [(COUNTERS_ORIGINAL, 100u64), (COUNTERS_REPLY, 900)] {
            request.nest(kind, |inner| {
                inner.attribute(PACKETS, &2u64.to_be_bytes());
                inner.attribute(BYTES, &bytes.to_be_bytes());
            });
        }
        let bytes = batch.seal(1).to_vec();
        let message = Messages::new(&bytes).next().unwrap();
        let (change, entry) = read_change(&message).unwrap();
        assert_eq!((change, entry.id, entry.tcp_state), (Change::Closed, Some(7), Some(3)));
        assert_eq!(entry.reply.source, IpAddr::from(guest));
        assert_eq!(entry.original.destination_port, Some(8080));
        assert_eq!(entry.carried.unwrap()[1], Carried { packets: 2, bytes: 900 });
        assert!(read(&message).is_none());
    }

    proptest! {
        #[test]
        fn any_payload_is_read(payload in proptest::collection::vec(any::<u8>(), 0..256)) {
            let _ = read_change(&Message { kind: NEW, flags: 0, sequence: 0, payload: &payload });
        }
    }
}
