//! Addresses of links (rtnetlink(7), `linux/if_addr.h`).

use std::net::{IpAddr, Ipv4Addr};

use model::{Family, IpNet, Result};
use rustix::io::Errno;

use crate::Socket;
use crate::wire::{Batch, CREATE, DUMP, EXCLUSIVE, Message, Request, array};

const NEW: u16 = 20;
const DELETE: u16 = 21;
const GET: u16 = 22;

/// Length of `struct ifaddrmsg`.
const HEADER: usize = 8;

const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const BROADCAST: u16 = 4;
const FLAGS: u16 = 8;
/// `IFA_PROTO`, which kernels before 5.18 pass over.
const PROTOCOL: u16 = 11;

/// `IFA_F_NODAD`.
const NO_DAD: u32 = 0x02;
/// `IFA_F_DADFAILED`.
const DAD_FAILED: u32 = 0x08;
/// `IFA_F_TENTATIVE`.
const TENTATIVE: u32 = 0x40;

/// An address for a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewAddress {
    /// The link's index.
    pub link: u32,
    /// With the prefix length of its subnet, whose route the kernel adds.
    pub address: IpNet,
    /// The subnet's IPv4 broadcast address, if the link shall know one.
    pub broadcast: Option<Ipv4Addr>,
    /// Whether IPv6 checks for another host with the address before it is used, which takes a
    /// second. No effect in IPv4.
    pub duplicate_detection: bool,
    /// The program that adds it, for later identification; 0 for none, 1 to 3 are the kernel's own.
    pub protocol: u8,
}

impl NewAddress {
    /// `address` for `link`, with the broadcast address that its prefix implies (none for /31 and
    /// /32, RFC 3021), usable at once.
    pub fn new(link: u32, address: IpNet) -> Self {
        let broadcast = match address {
            IpNet::V4(net) if net.prefix_len() < 31 => Some(net.broadcast()),
            _ => None,
        };
        Self { link, address, broadcast, duplicate_detection: false, protocol: 0 }
    }
}

/// An address that a link has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The link's index.
    pub link: u32,
    /// With the prefix length of its subnet.
    pub address: IpNet,
    /// Where it is valid: `RT_SCOPE_*`, 0 for everywhere, 253 for the link.
    pub scope: u8,
    /// Its IPv4 broadcast address.
    pub broadcast: Option<IpAddr>,
    /// Not yet usable: IPv6 still checks for another host with it.
    pub tentative: bool,
    /// Not usable: another host has it.
    pub duplicate: bool,
    /// The program that added it, where the kernel is new enough (5.18).
    pub protocol: u8,
}

impl Batch {
    /// Adds an address to a link; returns the message's index. EEXIST if the link has it.
    pub fn add_address(&mut self, new: &NewAddress) -> usize {
        let about = format!("adding address {} to link {}", new.address, new.link);
        let mut request = self.request(NEW, CREATE | EXCLUSIVE, about);
        describe(&mut request, new.link, new.address);
        if let Some(broadcast) = new.broadcast {
            request.address(BROADCAST, broadcast.into());
        }
        if new.address.addr().is_ipv6() && !new.duplicate_detection {
            request.u32(FLAGS, NO_DAD);
        }
        if new.protocol != 0 {
            request.u8(PROTOCOL, new.protocol);
        }
        self.count() - 1
    }

    /// Deletes an address from a link; returns the message's index. EADDRNOTAVAIL if the link
    /// lacks it, ENODEV if there is no such link.
    pub fn delete_address(&mut self, link: u32, address: IpNet) -> usize {
        let about = format!("deleting address {address} from link {link}");
        describe(&mut self.request(DELETE, 0, about), link, address);
        self.count() - 1
    }
}

impl Socket {
    /// The addresses of the link with this index, or of every link; none if there is no such
    /// link.
    ///
    /// # Errors
    /// As [`Socket::dump`].
    pub fn addresses(&mut self, link: Option<u32>) -> Result<Vec<Address>> {
        let mut batch = Batch::new();
        let about = link.map_or("listing addresses".to_owned(), |link| {
            format!("listing the addresses of link {link}")
        });
        let head = header(0, 0, link.unwrap_or(0));
        batch.request(GET, DUMP, about).bytes(&head);
        let selected = |found: &Address| link.is_none_or(|link| link == found.link);
        self.dump(&mut batch, &[Errno::NODEV], |message| read(message).filter(selected))
    }
}

fn describe(request: &mut Request<'_>, link: u32, address: IpNet) {
    request.bytes(&header(family(Family::of(&address)), address.prefix_len(), link));
    request.address(LOCAL, address.addr()).address(ADDRESS, address.addr());
}

fn header(family: u8, prefix: u8, link: u32) -> [u8; HEADER] {
    let mut bytes = [family, prefix, 0, 0, 0, 0, 0, 0];
    bytes[4..].copy_from_slice(&link.to_ne_bytes());
    bytes
}

/// `AF_*`.
pub(crate) fn family(family: Family) -> u8 {
    match family {
        Family::V4 => 2,
        Family::V6 => 10,
    }
}

pub(crate) fn read(message: &Message<'_>) -> Option<Address> {
    let [_, prefix, flags, scope] = array(message.payload, 0)?;
    let attributes = message.attributes(HEADER);
    let address = |kind| attributes.find_kind(kind).and_then(|attribute| attribute.address());
    // With a peer, the one is the link's and the other the peer's.
    let own = address(LOCAL).or_else(|| address(ADDRESS))?;
    let flags = attributes.find_kind(FLAGS).and_then(|wide| wide.u32()).unwrap_or(flags.into());
    (message.kind == NEW).then_some(())?;
    Some(Address {
        link: u32::from_ne_bytes(array(message.payload, 4)?),
        address: IpNet::new(own, prefix).ok()?,
        scope,
        broadcast: address(BROADCAST),
        tentative: flags & TENTATIVE != 0,
        duplicate: flags & DAD_FAILED != 0,
        protocol: attributes.find_kind(PROTOCOL).and_then(|by| by.u8()).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn subnets_have_a_broadcast_address() {
        let of = |text: &str| NewAddress::new(1, text.parse().unwrap()).broadcast;
        assert_eq!(of("10.1.0.2/24"), Some([10, 1, 0, 255].into()));
        assert_eq!(of("10.1.0.2/30"), Some([10, 1, 0, 3].into()));
        assert!(of("10.1.0.2/31").is_none() && of("10.1.0.2/32").is_none());
        assert!(of("fd00::2/64").is_none());
    }

    proptest! {
        #[test]
        fn any_payload_is_read(payload in proptest::collection::vec(any::<u8>(), 0..256)) {
            let message = Message { kind: NEW, flags: 0, sequence: 0, payload: &payload };
            let _ = read(&message);
        }
    }
}
