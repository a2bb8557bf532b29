//! What stands in the headers of a packet. Its sender may be anyone: whatever is too short or makes no
//! sense is absent.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::flow::{FlowAddress, protocol};

/// How a link's packets begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// With an Ethernet header.
    Ethernet,
    /// With the network header.
    Network,
}

/// `ETH_P_*`.
const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;
const TAGS: [u16; 2] = [0x8100, 0x88a8];
/// A packet has no more tags, or extension headers, than this.
const DEEPEST: usize = 8;

/// The number of a protocol (IANA).
pub const TCP: u8 = 6;
/// The same of UDP.
pub const UDP: u8 = 17;
/// The same of ICMP.
pub const ICMP: u8 = 1;
/// The same of ICMPv6.
pub const ICMP6: u8 = 58;
/// Protocols whose first bytes are two ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [TCP, UDP, 33, 132, 136];
/// Extension headers of IPv6 of which the second byte is a length: hop-by-hop, routing, destination.
const EXTENSIONS: [u8; 3] = [0, 43, 60];
const FRAGMENT: u8 = 44;

/// What is known of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// The Ethernet type behind all tags.
    pub ethertype: Option<u16>,
    /// The sender and the receiver, by IP or ARP.
    pub addresses: Option<[IpAddr; 2]>,
    /// The protocol's number, where it is IP.
    pub protocol: Option<u8>,
    /// The ports of the sender and the receiver.
    pub ports: Option<[u16; 2]>,
    /// TCP's flags.
    pub flags: Option<u8>,
}

impl Packet {
    /// Of its first bytes.
    pub fn read(bytes: &[u8], form: Form) -> Self {
        let mut packet = Self::default();
        // A packet that is cut off says as much as is there.
        let _ = match form {
            Form::Ethernet => packet.read_ethernet(bytes),
            Form::Network => match bytes.first().map(|first| first >> 4) {
                Some(4) => packet.read_ipv4(bytes),
                Some(6) => packet.read_ipv6(bytes),
                Some(_) | None => None,
            },
        };
        packet
    }

    /// Whether it is ARP.
    pub fn is_arp(&self) -> bool {
        self.ethertype == Some(ARP)
    }

    fn read_ethernet(&mut self, bytes: &[u8]) -> Option<()> {
        let mut at = 12;
        let mut kind = half(bytes, at)?;
        for _ in 0..DEEPEST {
            if !TAGS.contains(&kind) {
                break;
            }
            at += 4;
            kind = half(bytes, at)?;
        }
        self.ethertype = Some(kind);
        let rest = bytes.get(at + 2..)?;
        match kind {
            IPV4 => self.read_ipv4(rest),
            IPV6 => self.read_ipv6(rest),
            ARP => self.read_arp(rest),
            _ => None,
        }
    }

    /// RFC 826, of IPv4 on Ethernet.
    fn read_arp(&mut self, bytes: &[u8]) -> Option<()> {
        if bytes.get(2..6)? == [8, 0, 6, 4] {
            self.addresses = Some([ipv4(bytes, 14)?, ipv4(bytes, 24)?]);
        }
        Some(())
    }

    /// RFC 791.
    fn read_ipv4(&mut self, bytes: &[u8]) -> Option<()> {
        self.ethertype = Some(IPV4);
        self.addresses = Some([ipv4(bytes, 12)?, ipv4(bytes, 16)?]);
        let number = *bytes.get(9)?;
        self.protocol = Some(number);
        let header = usize::from(bytes.first()? & 0xf) * 4;
        // Only the first fragment has the next header.
        let is_first = half(bytes, 6)? & 0x1fff == 0;
        let rest = bytes.get(header..).filter(|_| is_first && header >= 20)?;
        self.read_transport(number, rest)
    }

    /// RFC 8200.
    fn read_ipv6(&mut self, bytes: &[u8]) -> Option<()> {
        self.ethertype = Some(IPV6);
        self.addresses = Some([ipv6(bytes, 8)?, ipv6(bytes, 24)?]);
        let (mut number, mut rest) = (*bytes.get(6)?, bytes.get(40..)?);
        for _ in 0..DEEPEST {
            self.protocol = Some(number);
            if number == FRAGMENT {
                let is_first = half(rest, 2)? & 0xfff8 == 0;
                (number, rest) = (*rest.first()?, rest.get(8..)?);
                self.protocol = Some(number);
                if !is_first {
                    return Some(());
                }
            } else if EXTENSIONS.contains(&number) {
                let length = (usize::from(*rest.get(1)?) + 1) * 8;
                (number, rest) = (*rest.first()?, rest.get(length..)?);
            } else {
                return self.read_transport(number, rest);
            }
        }
        None
    }

    fn read_transport(&mut self, number: u8, bytes: &[u8]) -> Option<()> {
        if WITH_PORTS.contains(&number) {
            self.ports = Some([half(bytes, 0)?, half(bytes, 2)?]);
        }
        if number == TCP {
            self.flags = Some(*bytes.get(13)?);
        }
        Some(())
    }
}

/// A line for people, without names: `10.1.0.2:4000 > 10.1.0.3:80 tcp S`.
impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some([from, to]) = self.addresses {
            let port = |at: usize| self.ports.map(|ports| ports[at]);
            let (from, to) = (
                FlowAddress { address: from, port: port(0) },
                FlowAddress { address: to, port: port(1) },
            );
            write!(f, "{from} > {to} ")?;
        }
        match (self.protocol, self.ethertype) {
            (Some(number), _) => f.write_str(&protocol(number))?,
            (None, Some(ARP)) => f.write_str("arp")?,
            (None, Some(kind)) => write!(f, "ethertype {kind:#06x}")?,
            (None, None) => f.write_str("cut off")?,
        }
        if let Some(flags) = self.flags {
            let letters = "FSRP.U".chars().enumerate();
            let set: String =
                letters.filter(|(bit, _)| flags >> bit & 1 == 1).map(|it| it.1).collect();
            write!(f, " {}", if set.is_empty() { "none" } else { &set })?;
        }
        Ok(())
    }
}

fn bytes<const N: usize>(from: &[u8], at: usize) -> Option<[u8; N]> {
    from.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn half(from: &[u8], at: usize) -> Option<u16> {
    bytes(from, at).map(u16::from_be_bytes)
}

fn ipv4(from: &[u8], at: usize) -> Option<IpAddr> {
    bytes::<4>(from, at).map(|octets| Ipv4Addr::from(octets).into())
}

fn ipv6(from: &[u8], at: usize) -> Option<IpAddr> {
    bytes::<16>(from, at).map(|octets| Ipv6Addr::from(octets).into())
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An IPv4 packet of TCP from 10.1.0.2:4000 to 10.1.0.3:80, with a tag.
    pub(crate) fn tagged(flags: u8) -> Vec<u8> {
        let mut packet = vec![2; 12];
        packet.extend([0x81, 0, 0, 20, 0x08, 0]);
        packet.extend([0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, TCP, 0, 0, 10, 1, 0, 2, 10, 1, 0, 3]);
        packet.extend([0x0f, 0xa0, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
        packet
    }

    #[test]
    fn headers_are_read_behind_tags() {
        let shown = |bytes: &[u8]| Packet::read(bytes, Form::Ethernet).to_string();
        assert_eq!(shown(&tagged(0x12)), "10.1.0.2:4000 > 10.1.0.3:80 tcp S.");
        assert_eq!(shown(&tagged(0)), "10.1.0.2:4000 > 10.1.0.3:80 tcp none");
        assert_eq!(shown(&tagged(2)[..40]), "10.1.0.2 > 10.1.0.3 tcp");
        assert_eq!(shown(&tagged(2)[..13]), "cut off");
        let untagged = Packet::read(&tagged(2)[18..], Form::Network);
        assert_eq!(untagged, Packet::read(&tagged(2), Form::Ethernet));
    }

    #[test]
    fn a_later_fragment_has_no_ports() {
        let mut later = tagged(2);
        later[18 + 7] = 9;
        let packet = Packet::read(&later, Form::Ethernet);
        assert_eq!((packet.ports, packet.protocol), (None, Some(TCP)));
    }

    #[test]
    fn ports_stand_behind_extension_headers() {
        let mut packet = vec![0x60, 0, 0, 0, 0, 24, 0, 64];
        packet.extend([0xfd; 32]);
        packet.extend([FRAGMENT, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend([UDP, 0, 0, 1, 0, 0, 0, 7]);
        packet.extend([0, 53, 0, 54, 0, 8, 0, 0]);
        let read = Packet::read(&packet, Form::Network);
        assert_eq!((read.protocol, read.ports), (Some(UDP), Some([53, 54])));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(
            bytes in proptest::collection::vec(any::<u8>(), 0..128),
            kind in prop_oneof![Just(IPV4), Just(IPV6), Just(ARP), Just(0x8100)],
        ) {
            let packet = [&[0; 12], &kind.to_be_bytes()[..], &bytes].concat();
            let _ = Packet::read(&packet, Form::Ethernet).to_string();
            let _ = Packet::read(&bytes, Form::Network).to_string();
        }
    }
}
