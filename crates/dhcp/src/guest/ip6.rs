//! IPv6 around messages between a machine and its router (RFC 8200, RFC 768, RFC 4443).

use std::net::Ipv6Addr;

use model::Mac;

use crate::packet::{fold, sum};

/// The header, in bytes.
const HEADER: usize = 40;
const UDP: u8 = 17;
const ICMP: u8 = 58;
/// The ports of DHCPv6 (RFC 8415 §7.2).
const CLIENT: u16 = 546;
const SERVER: u16 = 547;
/// A router solicitation.
const SOLICITATION: u8 = 133;

/// A packet of a machine's.
pub(super) struct Received<'p> {
    pub(super) from: Ipv6Addr,
    pub(super) payload: Payload<'p>,
}

pub(super) enum Payload<'p> {
    /// It asks for its router.
    Solicitation,
    /// A message to a server's port.
    Datagram(&'p [u8]),
}

impl<'p> Received<'p> {
    /// `None` where it is nothing of both, or damaged. Headers between are none that these need.
    pub(super) fn read(packet: &'p [u8]) -> Option<Self> {
        let header: &[u8; HEADER] = packet.first_chunk()?;
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let payload = packet.get(HEADER..HEADER + length)?;
        let address = |at: usize| header[at..].first_chunk::<16>().map(|it| Ipv6Addr::from(*it));
        let (from, to) = (address(8)?, address(24)?);
        let payload = match header[6] {
            // A router's link only (RFC 4861 §6.1.1).
            ICMP if header[7] == 255 && payload.first() == Some(&SOLICITATION) => {
                (checksum(from, to, ICMP, payload) == 0).then_some(Payload::Solicitation)?
            }
            UDP => Payload::Datagram(datagram(from, to, payload)?),
            _ => return None,
        };
        Some(Self { from, payload })
    }
}

fn datagram(from: Ipv6Addr, to: Ipv6Addr, payload: &[u8]) -> Option<&[u8]> {
    let head: &[u8; 8] = payload.first_chunk()?;
    let two = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let payload = payload.get(..usize::from(two(4)))?;
    // A machine may leave the sum of all but the addresses to hardware that is not there.
    let is_partial = two(6) == fold(pseudo(from, to, UDP, payload.len()));
    let is_sound = is_partial || checksum(from, to, UDP, payload) == 0;
    (two(2) == SERVER && is_sound).then(|| payload.get(8..))?
}

/// A message from a server's port to a client's.
pub(super) fn to_client(from: Ipv6Addr, to: Ipv6Addr, message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len() + 8).unwrap_or(u16::MAX);
    let mut payload = Vec::new();
    for number in [SERVER, CLIENT, length, 0] {
        payload.extend(number.to_be_bytes());
    }
    payload.extend_from_slice(message);
    let check = match checksum(from, to, UDP, &payload) {
        0 => u16::MAX,
        check => check,
    };
    payload[6..8].copy_from_slice(&check.to_be_bytes());
    packet((from, to), UDP, &payload)
}

/// An ICMP message, whose checksum is not there yet.
pub(super) fn icmp(from: Ipv6Addr, to: Ipv6Addr, mut payload: Vec<u8>) -> Vec<u8> {
    let check = checksum(from, to, ICMP, &payload);
    payload[2..4].copy_from_slice(&check.to_be_bytes());
    packet((from, to), ICMP, &payload)
}

fn packet((from, to): (Ipv6Addr, Ipv6Addr), protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(u16::try_from(payload.len()).unwrap_or(u16::MAX).to_be_bytes());
    packet.extend([protocol, 255]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend_from_slice(payload);
    packet
}

/// Zero over what has its checksum in it already.
fn checksum(from: Ipv6Addr, to: Ipv6Addr, protocol: u8, payload: &[u8]) -> u16 {
    !fold(pseudo(from, to, protocol, payload.len()) + sum(payload))
}

fn pseudo(from: Ipv6Addr, to: Ipv6Addr, protocol: u8, length: usize) -> u32 {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    let length = (length >> 16) + (length & 0xffff);
    sum(&from.octets()) + sum(&to.octets()) + length + u32::from(protocol)
}

/// The address that a link's interface has by its hardware address (RFC 4291, appendix A).
pub(super) fn link_local(mac: Mac) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.octets();
    let interface = [a ^ 2, b, c, 0xff, 0xfe, d, e, f];
    ((0xfe80_u128 << 112) | u128::from(u64::from_be_bytes(interface))).into()
}
