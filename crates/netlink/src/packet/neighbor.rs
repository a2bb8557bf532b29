//! Unsolicited announcements of an IPv6 address on a link (RFC 4861).

use std::net::Ipv6Addr;

use model::{Mac, Result};

use super::{Kind, PacketSocket};

/// Length of an unsolicited advertisement with its IPv6 header.
pub const LENGTH: usize = HEADER + MESSAGE;
const HEADER: usize = 40;
const MESSAGE: usize = 32;

/// `ff02::1`: every node of the link (RFC 4291 §2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// The hardware address of [`ALL_NODES`] (RFC 2464 §7).
const ALL_NODES_MAC: Mac = Mac::new([0x33, 0x33, 0, 0, 0, 1]);
const ICMPV6: u8 = 58;
/// A packet that a router has forwarded is not from this link (RFC 4861 §7.1.2).
const HOP_LIMIT: u8 = 255;
const ADVERTISEMENT: u8 = 136;
/// Receivers replace their entry.
const OVERRIDE: u8 = 0x20;
const TARGET_LINK_LAYER: u8 = 2;

/// Announces to all hosts on the link that `own` has `address` now (RFC 4861 §7.2.6), so that they
/// replace an earlier holder's entry; the calling thread is in the link's namespace.
///
/// # Errors
/// As [`PacketSocket::open`] and [`PacketSocket::send`].
pub fn announce(link: u32, own: Mac, address: Ipv6Addr) -> Result<()> {
    let socket = PacketSocket::open(link, Kind::Neighbor)?;
    socket.send(ALL_NODES_MAC, &advertisement(own, address))
}

/// The packet, from its network header on.
pub fn advertisement(own: Mac, address: Ipv6Addr) -> [u8; LENGTH] {
    let mut packet = [0; LENGTH];
    packet[0] = 0x60;
    packet[5] = MESSAGE as u8;
    packet[6] = ICMPV6;
    packet[7] = HOP_LIMIT;
    packet[8..24].copy_from_slice(&address.octets());
    packet[24..40].copy_from_slice(&ALL_NODES.octets());
    packet[40] = ADVERTISEMENT;
    packet[44] = OVERRIDE;
    packet[48..64].copy_from_slice(&address.octets());
    // In units of eight bytes.
    packet[64..66].copy_from_slice(&[TARGET_LINK_LAYER, 1]);
    packet[66..72].copy_from_slice(&own.octets());
    let sum = checksum(&packet);
    packet[42..44].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// Over the addresses, the length and the next header (RFC 8200 §8.1), and the message.
fn checksum(packet: &[u8; LENGTH]) -> u16 {
    let words = packet[8..].chunks_exact(2).map(|word| match word {
        [high, low] => u32::from(u16::from_be_bytes([*high, *low])),
        _ => 0,
    });
    let mut sum = words.sum::<u32>() + MESSAGE as u32 + u32::from(ICMPV6);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_checksum_is_right() {
        let own = Mac::new([2, 0, 0, 0, 0, 7]);
        let packet = advertisement(own, "fd00:1::7".parse().unwrap());
        assert_eq!(&packet[..8], [0x60, 0, 0, 0, 0, 32, 58, 255]);
        assert_eq!(&packet[64..], [2, 1, 2, 0, 0, 0, 0, 7]);
        // With its checksum the sum is all ones.
        assert_eq!(checksum(&packet), 0);
    }
}
