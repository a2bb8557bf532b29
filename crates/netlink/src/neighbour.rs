//! Neighbours: which Ethernet address has an IP address on a link (rtnetlink(7),
//! `linux/neighbour.h`).

mod proxy;

use std::net::IpAddr;

use model::{Family, IpNet, Mac, Result};
use rustix::io::Errno;

use crate::Socket;
use crate::address::family;
use crate::wire::{Batch, CREATE, DUMP, Message, REPLACE, array};

const NEW: u16 = 28;
const DELETE: u16 = 29;
const GET: u16 = 30;

/// Length of `struct ndmsg`.
const HEADER: usize = 12;

const DST: u16 = 1;
const LLADDR: u16 = 2;
/// `NDA_IFINDEX`, which selects in a dump.
const IFINDEX: u16 = 8;

/// `NUD_PERMANENT`.
const PERMANENT: u16 = 0x80;
/// `NUD_FAILED`.
const FAILED: u16 = 0x20;

/// The hardware address for an address on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The link's index.
    pub link: u32,
    /// The IP address.
    pub address: IpAddr,
    /// The Ethernet address; `None` while the kernel searches it.
    pub mac: Option<Mac>,
    /// Whether it was set rather than learnt.
    pub permanent: bool,
    /// Whether no answer came when the kernel asked for it last (`NUD_FAILED`).
    pub failed: bool,
}

impl Batch {
    /// Sets a permanent entry for `address` on `link`; returns the message's index.
    pub fn set_neighbour(&mut self, link: u32, address: IpAddr, mac: Mac) -> usize {
        let about = format!("setting neighbour {address} of link {link} to {mac}");
        let mut request = self.request(NEW, CREATE | REPLACE, about);
        request.bytes(&header(link, Some(address), PERMANENT));
        request.address(DST, address).attribute(LLADDR, &mac.octets());
        self.count() - 1
    }

    /// Deletes the entry of `address` on `link`; returns the message's index. ENOENT if there is
    /// none.
    pub fn delete_neighbour(&mut self, link: u32, address: IpAddr) -> usize {
        let about = format!("deleting neighbour {address} of link {link}");
        let mut request = self.request(DELETE, 0, about);
        request.bytes(&header(link, Some(address), 0)).address(DST, address);
        self.count() - 1
    }
}

impl Socket {
    /// The neighbours of both families on the link with this index.
    ///
    /// # Errors
    /// As [`Socket::dump`].
    pub fn neighbours(&mut self, link: u32) -> Result<Vec<Neighbour>> {
        let mut batch = Batch::new();
        let about = format!("listing the neighbours of link {link}");
        batch.request(GET, DUMP, about).bytes(&header(0, None, 0)).u32(IFINDEX, link);
        let selected = |found: &Neighbour| found.link == link;
        self.dump(&mut batch, &[Errno::NODEV], |message| read(message).filter(selected))
    }
}

fn header(link: u32, address: Option<IpAddr>, state: u16) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[0] = address.map_or(0, |address| family(Family::of(&IpNet::from(address))));
    bytes[4..8].copy_from_slice(&link.to_ne_bytes());
    bytes[8..10].copy_from_slice(&state.to_ne_bytes());
    bytes
}

pub(crate) fn read(message: &Message<'_>) -> Option<Neighbour> {
    let attributes = message.attributes(HEADER);
    let state = u16::from_ne_bytes(array(message.payload, 8)?);
    (message.kind == NEW).then_some(())?;
    Some(Neighbour {
        link: u32::from_ne_bytes(array(message.payload, 4)?),
        address: attributes.find_kind(DST)?.address()?,
        mac: attributes.find_kind(LLADDR).and_then(|attribute| attribute.mac()),
        permanent: state & PERMANENT != 0,
        failed: state & FAILED != 0,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_payload_is_read(payload in proptest::collection::vec(any::<u8>(), 0..256)) {
            let message = Message { kind: NEW, flags: 0, sequence: 0, payload: &payload };
            let _ = read(&message);
        }
    }
}
