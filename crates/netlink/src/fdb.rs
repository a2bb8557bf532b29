//! Forwarding entries of VXLAN devices and of the bridge ports that they are (bridge(8),
//! `linux/neighbour.h`).

use std::net::IpAddr;

use model::{Mac, Result};

use crate::Socket;
use crate::wire::{Batch, CREATE, DUMP, Message, REPLACE, array};

const NEW: u16 = 28;
const DELETE: u16 = 29;
const GET: u16 = 30;
/// `AF_BRIDGE`.
const BRIDGE: u8 = 7;
/// Length of `struct ndmsg`.
const HEADER: usize = 12;
/// `NDA_DST`, `NDA_LLADDR`, `NDA_IFINDEX`, `NDA_MASTER`.
const DST: u16 = 1;
const LLADDR: u16 = 2;
const IFINDEX: u16 = 8;
const MASTER: u16 = 9;
/// `NTF_SELF` and `NTF_MASTER`: the device's own table, and its bridge's.
const SELF: u8 = 2;
const OF_MASTER: u8 = 4;
/// `NUD_NOARP | NUD_REACHABLE`: kept until it is deleted.
const STATIC: u16 = 0x42;
/// `NUD_NOARP` and `NUD_PERMANENT`: a bridge's permanent entries are the addresses of its own devices.
const NOARP: u16 = 0x40;
const PERMANENT: u16 = 0x80;

/// A static entry, as the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Entry {
    /// The VXLAN device sends what is for the address to this host, through this link only where one is named.
    Tunnel(Mac, IpAddr, Option<u32>),
    /// The bridge sends what is for the address to this port.
    Port(Mac),
}

impl Batch {
    /// Has the VXLAN device with this index, and the bridge that it is a port of, send what is for
    /// `mac` to the host at `to`, through the link `via` only where one is given; returns the message's index.
    /// EADDRNOTAVAIL where that is not there.
    pub fn set_forwarding(
        &mut self,
        link: u32,
        mac: Mac,
        (to, via): (IpAddr, Option<u32>),
    ) -> usize {
        let about = format!("sending what is for {mac} on link {link} to {to}");
        let mut request = self.request(NEW, CREATE | REPLACE, about);
        request.bytes(&header(link, STATIC, SELF | OF_MASTER));
        request.attribute(LLADDR, &mac.octets()).address(DST, to);
        if let Some(via) = via {
            request.u32(IFINDEX, via);
        }
        self.count() - 1
    }

    /// Forgets where the device with this index sends what is for `mac`; returns the message's index.
    /// ENOENT if it does not know.
    pub fn delete_tunnel_entry(&mut self, link: u32, mac: Mac) -> usize {
        self.delete_entry(link, mac, SELF)
    }

    /// Forgets that `mac` is behind the bridge port with this index; returns the message's index. ENOENT
    /// if it is not known.
    pub fn delete_port_entry(&mut self, link: u32, mac: Mac) -> usize {
        self.delete_entry(link, mac, OF_MASTER)
    }

    fn delete_entry(&mut self, link: u32, mac: Mac, whose: u8) -> usize {
        let about = format!("forgetting where {mac} is on link {link}");
        let mut request = self.request(DELETE, 0, about);
        request.bytes(&header(link, 0, whose)).attribute(LLADDR, &mac.octets());
        self.count() - 1
    }
}

impl Socket {
    /// The static forwarding entries that lead through the link with this index.
    ///
    /// # Errors
    /// As [`Socket::dump`].
    pub fn forwarding(&mut self, link: u32) -> Result<Vec<Entry>> {
        let mut batch = Batch::new();
        let about = format!("listing the forwarding entries of link {link}");
        batch.request(GET, DUMP, about).bytes(&header(link, 0, 0));
        self.dump(&mut batch, &[], |message| {
            read(message).filter(|(of, _)| *of == link).map(|(_, entry)| entry)
        })
    }
}

fn header(link: u32, state: u16, flags: u8) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[0] = BRIDGE;
    bytes[4..8].copy_from_slice(&link.to_ne_bytes());
    bytes[8..10].copy_from_slice(&state.to_ne_bytes());
    bytes[10] = flags;
    bytes
}

fn read(message: &Message<'_>) -> Option<(u32, Entry)> {
    (message.kind == NEW).then_some(())?;
    let attributes = message.attributes(HEADER);
    let link = u32::from_ne_bytes(array(message.payload, 4)?);
    let state = u16::from_ne_bytes(array(message.payload, 8)?);
    let mac = attributes.find_kind(LLADDR)?.mac()?;
    if attributes.find_kind(MASTER).is_some() {
        let is_static = state & NOARP != 0 && state & PERMANENT == 0;
        return is_static.then_some((link, Entry::Port(mac)));
    }
    let to = attributes.find_kind(DST)?.address()?;
    let via = attributes.find_kind(IFINDEX).and_then(|it| it.u32());
    Some((link, Entry::Tunnel(mac, to, via)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_payload_is_read(payload in proptest::collection::vec(any::<u8>(), 0..256)) {
            let _ = read(&Message { kind: NEW, flags: 0, sequence: 0, payload: &payload });
        }
    }
}
