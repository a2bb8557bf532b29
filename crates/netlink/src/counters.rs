//! The counters of links (`linux/if_link.h`, `RTM_GETSTATS`).

use model::Result;

use crate::wire::{Batch, DUMP, Message, array};
use crate::{Errno, Socket};

const NEW: u16 = 92;
const GET: u16 = 94;

/// Length of `struct if_stats_msg`.
const HEADER: usize = 12;
/// Where the link's index is in it, and what is asked for.
const INDEX: usize = 4;
const MASK: usize = 8;

/// `IFLA_STATS_LINK_64`, and its bit.
const LINK: u16 = 1;
const BY_LINK: u32 = 1 << (LINK - 1);

/// What a link has received and sent since it was made, as the kernel counts it in 64 bits
/// (`struct rtnl_link_stats64`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// In the direction towards this link's namespace.
    pub receive: Count,
    /// In the other direction.
    pub transmit: Count,
}

/// One direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Bytes, of the packets from their Ethernet header on.
    pub bytes: u64,
    /// Packets; one that is segmented later is one.
    pub packets: u64,
    /// Packets that were dropped at this link.
    pub drops: u64,
}

impl Counters {
    /// As the other end of a pair has it: what one end sends, the other one receives.
    pub fn of_peer(self) -> Self {
        Self { receive: self.transmit, transmit: self.receive }
    }
}

impl Socket {
    /// The counters of every link, each with the link's index, in one dump.
    ///
    /// # Errors
    /// As [`Socket::dump`].
    pub fn counters(&mut self) -> Result<Vec<(u32, Counters)>> {
        let mut batch = Batch::new();
        batch.request(GET, DUMP, "listing the counters of links").bytes(&header(0));
        self.dump(&mut batch, &[], read)
    }

    /// The counters of the link with this index; `None` if there is no such link.
    ///
    /// # Errors
    /// As [`Socket::get`].
    pub fn counters_of(&mut self, link: u32) -> Result<Option<Counters>> {
        let mut batch = Batch::new();
        let about = format!("reading the counters of link {link}");
        batch.request(GET, 0, about).bytes(&header(link));
        let found = self.get(&mut batch, &[Errno::NODEV], read)?;
        Ok(found.map(|(_, counters)| counters))
    }
}

fn header(link: u32) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[INDEX..MASK].copy_from_slice(&link.to_ne_bytes());
    bytes[MASK..].copy_from_slice(&BY_LINK.to_ne_bytes());
    bytes
}

pub(crate) fn read(message: &Message<'_>) -> Option<(u32, Counters)> {
    if message.kind != NEW {
        return None;
    }
    let index = u32::from_ne_bytes(array(message.payload, INDEX)?);
    let numbers = message.attributes(HEADER).find_kind(LINK)?.value;
    let number = |place: usize| array(numbers, place * 8).map(u64::from_ne_bytes);
    let receive = Count { packets: number(0)?, bytes: number(2)?, drops: number(6)? };
    let transmit = Count { packets: number(1)?, bytes: number(3)?, drops: number(7)? };
    Some((index, Counters { receive, transmit }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_loopback_device_receives_what_it_sends() {
        let mut socket = Socket::route().unwrap();
        let all = socket.counters().unwrap();
        let (_, loopback) = all.iter().find(|(index, _)| *index == 1).unwrap();
        assert_eq!(loopback.receive.bytes, loopback.transmit.bytes);
        assert!(socket.counters_of(1).unwrap().is_some());
        assert_eq!(socket.counters_of(0x7fff_fff0).unwrap(), None);
    }

    proptest! {
        #[test]
        fn any_payload_is_read(payload in proptest::collection::vec(any::<u8>(), 0..256)) {
            let _ = read(&Message { kind: NEW, flags: 0, sequence: 0, payload: &payload });
        }
    }
}
