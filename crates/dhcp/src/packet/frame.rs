//! IPv4 and UDP around a message, for a client without an address (RFC 791, RFC 768).

use std::net::Ipv4Addr;

/// The port of clients.
pub const CLIENT: u16 = 68;
/// The port of servers.
pub const SERVER: u16 = 67;

const IP: usize = 20;
const UDP: usize = 8;
/// The headers before a message.
pub(super) const HEADERS: usize = IP + UDP;
const PROTOCOL: u8 = 17;

/// A client's message as a packet.
pub fn wrap(from: Ipv4Addr, to: Ipv4Addr, message: &[u8]) -> Vec<u8> {
    wrap_between((from, CLIENT), (to, SERVER), message)
}

/// A datagram as a packet.
pub(crate) fn wrap_between(
    (from, source): (Ipv4Addr, u16),
    (to, destination): (Ipv4Addr, u16),
    message: &[u8],
) -> Vec<u8> {
    let length = |headers: usize| u16::try_from(message.len() + headers).unwrap_or(u16::MAX);
    let mut packet = vec![0x45, 0];
    packet.extend(length(HEADERS).to_be_bytes());
    // No identification, no fragments, the usual hops.
    packet.extend([0, 0, 0, 0, 64, PROTOCOL, 0, 0]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    let check = !fold(sum(&packet));
    packet[10..12].copy_from_slice(&check.to_be_bytes());
    packet.extend(source.to_be_bytes());
    packet.extend(destination.to_be_bytes());
    packet.extend(length(UDP).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend_from_slice(message);
    let check = match !fold(pseudo(from, to, length(UDP)) + sum(&packet[IP..])) {
        0 => u16::MAX,
        check => check,
    };
    packet[IP + 6..HEADERS].copy_from_slice(&check.to_be_bytes());
    packet
}

/// The message in a packet from a server's port to a client's, and whose it is; `None` if it holds
/// none, or is damaged.
pub fn unwrap(packet: &[u8]) -> Option<(Ipv4Addr, &[u8])> {
    unwrap_between(packet, (SERVER, CLIENT))
}

/// The same for these ports, of the sender and of the receiver.
pub(crate) fn unwrap_between(packet: &[u8], wanted: (u16, u16)) -> Option<(Ipv4Addr, &[u8])> {
    let first: &[u8; IP] = packet.first_chunk()?;
    let header = usize::from(first[0] & 0xf) * 4;
    let two = |bytes: &[u8]| bytes.first_chunk().map(|octets| u16::from_be_bytes(*octets));
    let address = |at: usize| first[at..].first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets));
    let total = usize::from(two(&first[2..])?);
    // The link may have padded it.
    let packet = packet.get(..total)?;
    let is_whole = first[0] >> 4 == 4 && header >= IP && first[9] == PROTOCOL;
    let is_fragment = two(&first[6..])? & 0x3fff != 0;
    if !is_whole || is_fragment || fold(sum(packet.get(..header)?)) != u16::MAX {
        return None;
    }
    let (from, to) = (address(12)?, address(16)?);
    let datagram = packet.get(header..)?;
    let length = two(datagram.get(4..)?)?;
    let datagram = datagram.get(..usize::from(length))?;
    let ports = (two(datagram)?, two(datagram.get(2..)?)?);
    let check = two(datagram.get(6..)?)?;
    if ports != wanted || !is_sound(check, from, to, datagram) {
        return None;
    }
    Some((from, datagram.get(UDP..)?))
}

/// Whether a datagram's checksum is right; or there is none; or it is only that of the pseudo header,
/// which the kernel leaves to hardware that a virtual link does not have.
fn is_sound(check: u16, from: Ipv4Addr, to: Ipv4Addr, datagram: &[u8]) -> bool {
    let length = u16::try_from(datagram.len()).unwrap_or(u16::MAX);
    let pseudo = pseudo(from, to, length);
    check == 0 || check == fold(pseudo) || fold(pseudo + sum(datagram)) == u16::MAX
}

fn pseudo(from: Ipv4Addr, to: Ipv4Addr, length: u16) -> u32 {
    sum(&from.octets()) + sum(&to.octets()) + u32::from(PROTOCOL) + u32::from(length)
}

pub(crate) fn sum(bytes: &[u8]) -> u32 {
    let word = |pair: &[u8]| match pair {
        [high, low] => u32::from(*high) << 8 | u32::from(*low),
        [high] => u32::from(*high) << 8,
        _ => 0,
    };
    bytes.chunks(2).map(word).sum()
}

pub(crate) fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    let twice = (once & 0xffff) + (once >> 16);
    u16::try_from(twice).unwrap_or(u16::MAX)
}
