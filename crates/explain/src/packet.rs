//! A packet that is followed: what is known about it, and what is not.

use std::net::IpAddr;

use model::{Family, IpNet, Mac};
use netlink::{Link, Transport};

use crate::tri::Tri;

/// What a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    /// An echo request, or the answer to one.
    Echo,
    /// The first packet to a port of TCP, or the answer to it.
    Tcp(u16),
    /// A datagram to a port, or back.
    Udp(u16),
    /// The first packet to a port of SCTP, or the answer to it.
    Sctp(u16),
    /// A neighbour solicitation, or the advertisement that answers it (RFC 4861); of IPv6 only.
    Neighbour,
    /// A question of ARP, or the answer (RFC 826); of IPv4 only.
    Arp,
}

impl Carried {
    /// The port that is called.
    pub fn port(self) -> Option<u16> {
        match self {
            Self::Echo | Self::Neighbour | Self::Arp => None,
            Self::Tcp(port) | Self::Udp(port) | Self::Sctp(port) => Some(port),
        }
    }

    /// What the protocol is called.
    pub fn protocol_name(self) -> &'static str {
        match self {
            Self::Echo | Self::Neighbour => "icmp",
            Self::Arp => "arp",
            Self::Tcp(_) => "tcp",
            Self::Udp(_) => "udp",
            Self::Sctp(_) => "sctp",
        }
    }

    /// The same to another port.
    #[must_use]
    pub fn to_port(self, port: u16) -> Self {
        match self {
            Self::Echo | Self::Neighbour | Self::Arp => self,
            Self::Tcp(_) => Self::Tcp(port),
            Self::Udp(_) => Self::Udp(port),
            Self::Sctp(_) => Self::Sctp(port),
        }
    }

    fn number(self, family: Family) -> u8 {
        match (self, family) {
            (Self::Echo, Family::V4) => 1,
            (Self::Echo, Family::V6) | (Self::Neighbour, _) => 58,
            // It is none of IP's.
            (Self::Arp, _) => 0,
            (Self::Tcp(_), _) => 6,
            (Self::Udp(_), _) => 17,
            (Self::Sctp(_), _) => 132,
        }
    }
}

/// A device that a packet passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its group.
    pub group: u32,
    /// Its driver.
    pub kind: Option<String>,
    /// Its hardware address, where it has one.
    pub mac: Option<Mac>,
}

impl From<&Link> for Device {
    fn from(link: &Link) -> Self {
        Self {
            index: link.index,
            name: link.name.to_string(),
            group: link.group,
            kind: link.kind.clone(),
            mac: link.mac,
        }
    }
}

/// The addresses of a connection as its first packet had them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Original {
    /// Who began.
    pub source: IpAddr,
    /// Who was called.
    pub destination: IpAddr,
    /// At which port.
    pub port: Option<u16>,
}

/// A packet. `None` is what is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its source.
    pub source: IpAddr,
    /// Its destination.
    pub destination: IpAddr,
    /// What it carries.
    pub carried: Carried,
    /// Whether it is the answer to another one.
    pub is_reply: bool,
    /// The first packet of its connection.
    pub original: Original,
    /// Whether the destination of its connection is translated.
    pub is_dnat: bool,
    /// The same of the source.
    pub is_snat: bool,
    /// Whether it is kept out of connection tracking.
    pub(crate) is_untracked: Tri,
    /// The port of the one who asks, where one is supposed.
    pub caller: Option<u16>,
    /// Its mark.
    pub mark: Option<u32>,
    /// The mark of its connection.
    pub connection_mark: u32,
    /// Source and destination of its frame.
    pub macs: Option<(Mac, Mac)>,
    /// Whether a bridge takes it from one port to another: it is to no device of this host.
    pub(crate) is_switched: bool,
    /// The device by which it came in.
    pub input: Option<Device>,
    /// The device by which it goes out.
    pub output: Option<Device>,
}

/// `ETH_P_IP`, `ETH_P_ARP` and `ETH_P_IPV6`.
const IPV4: [u8; 2] = [0x08, 0x00];
const ARP: [u8; 2] = [0x08, 0x06];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// Ethernet, IPv4, and how long their addresses are.
const ARP_OF: [u8; 6] = [0, 1, 8, 0, 6, 4];
/// SYN, and SYN with ACK.
const FIRST: u8 = 0x02;
const ANSWER: u8 = 0x12;

impl Packet {
    /// The first packet of a connection.
    pub fn new(source: IpAddr, destination: IpAddr, carried: Carried) -> Self {
        Self {
            source,
            destination,
            carried,
            is_reply: false,
            original: Original { source, destination, port: carried.port() },
            connection_mark: 0,
            is_dnat: false,
            is_snat: false,
            is_untracked: Tri::No,
            caller: None,
            mark: Some(0),
            macs: None,
            is_switched: false,
            input: None,
            output: None,
        }
    }

    /// Gives an answer that leaves this host the source that was called, where that was translated.
    pub(crate) fn come_from_called(&mut self) {
        if self.is_reply && self.is_dnat {
            self.source = self.original.destination;
            if let Some(port) = self.original.port {
                self.carried = self.carried.to_port(port);
            }
        }
    }

    /// Its family.
    pub fn family(&self) -> Family {
        Family::of(&IpNet::from(self.destination))
    }

    /// The number of what it carries.
    pub fn protocol(&self) -> u8 {
        self.carried.number(self.family())
    }

    /// The port that is called; an answer calls none.
    pub fn destination_port(&self) -> Option<u16> {
        if self.is_reply { None } else { self.carried.port() }
    }

    /// The port in its header that it goes to.
    pub fn to_port(&self) -> Option<u16> {
        if self.is_reply { self.caller } else { self.carried.port() }
    }

    /// The port in its header that it comes from.
    pub fn from_port(&self) -> Option<u16> {
        if self.is_reply { self.carried.port() } else { self.caller }
    }

    /// What routing rules may go by. The kernel does not say where it routes other protocols.
    pub fn transport(&self) -> Option<Transport> {
        let protocol = self.protocol();
        match self.carried {
            Carried::Sctp(_) | Carried::Neighbour | Carried::Arp => None,
            Carried::Echo => Some(Transport { protocol, from: None, to: None }),
            Carried::Tcp(_) | Carried::Udp(_) => {
                Some(Transport { protocol, from: self.from_port(), to: self.to_port() })
            }
        }
    }

    /// The type of its frame.
    pub fn ether_type(&self) -> [u8; 2] {
        match (self.carried, self.family()) {
            (Carried::Arp, _) => ARP,
            (_, Family::V4) => IPV4,
            (_, Family::V6) => IPV6,
        }
    }

    /// Its Ethernet header.
    pub fn link_header(&self) -> Vec<Option<u8>> {
        // What comes in by an interface was sent to its address.
        let input = self.input.as_ref().and_then(|input| input.mac);
        let input = input.filter(|_| self.carried != Carried::Arp);
        let (source, destination) = match (self.macs, input) {
            (Some((source, destination)), _) => (Some(source), destination),
            (None, Some(destination)) => (None, destination),
            (None, None) => return Vec::new(),
        };
        let source = source.map_or([None; 6], |source| source.octets().map(Some));
        let kind = self.ether_type().map(Some);
        [&destination.octets().map(Some)[..], &source, &kind].concat()
    }

    /// Its network header, without options.
    pub fn network_header(&self) -> Vec<Option<u8>> {
        let octets = |address: IpAddr| match address {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        let known = |bytes: &[u8]| bytes.iter().copied().map(Some).collect::<Vec<_>>();
        if self.carried == Carried::Arp {
            // The hardware address that is asked for is not known to who asks.
            let macs = self.macs.map(|(from, to)| (from.octets(), to.octets()));
            let mac = |mac: Option<[u8; 6]>| mac.map_or(vec![None; 6], |mac| known(&mac));
            let target = macs.map(|(_, to)| if self.is_reply { to } else { [0; 6] });
            return [
                known(&ARP_OF),
                known(&[0, if self.is_reply { 2 } else { 1 }]),
                mac(macs.map(|(from, _)| from)),
                known(&octets(self.source)),
                mac(target),
                known(&octets(self.destination)),
            ]
            .concat();
        }
        let first = match self.family() {
            // Version and length, service; length and identification are not known; not to be
            // fragmented; hops and checksum are not known.
            Family::V4 => [
                known(&[0x45, 0]),
                vec![None; 4],
                known(&[0x40, 0]),
                vec![None],
                known(&[self.protocol()]),
                vec![None; 2],
            ]
            .concat(),
            Family::V6 => {
                [known(&[0x60, 0]), vec![None; 4], known(&[self.protocol()]), vec![None]].concat()
            }
        };
        [first, known(&octets(self.source)), known(&octets(self.destination))].concat()
    }

    /// The beginning of its transport header. The checksum of ICMP, where TCP has the port that is called, may
    /// be any, as the port of the one who asks.
    pub fn transport_header(&self) -> Vec<Option<u8>> {
        let port = |port: Option<u16>| match port {
            Some(port) => port.to_be_bytes().map(Some).to_vec(),
            None => vec![None; 2],
        };
        let ports = [port(self.from_port()), port(self.to_port())].concat();
        match self.carried {
            Carried::Echo => {
                let kind = match (self.family(), self.is_reply) {
                    (Family::V4, false) => 8,
                    (Family::V4, true) => 0,
                    (Family::V6, false) => 128,
                    (Family::V6, true) => 129,
                };
                [vec![Some(kind), Some(0)], port(self.caller), vec![None; 4]].concat()
            }
            Carried::Neighbour => {
                let kind = if self.is_reply { 136 } else { 135 };
                [vec![Some(kind), Some(0)], port(self.caller), vec![None; 4]].concat()
            }
            Carried::Tcp(_) => {
                let flags = if self.is_reply { ANSWER } else { FIRST };
                [ports, vec![None; 9], vec![Some(flags)], vec![None; 6]].concat()
            }
            Carried::Udp(_) | Carried::Sctp(_) => [ports, vec![None; 4]].concat(),
            Carried::Arp => Vec::new(),
        }
    }

    /// Its place in its connection: 8 new, 2 established, 64 untracked (`NF_CT_STATE_*`).
    pub fn state(&self) -> Option<u32> {
        match (self.is_untracked, self.is_reply) {
            (Tri::Unknown, _) => None,
            (Tri::Yes, _) => Some(64),
            (Tri::No, true) => Some(2),
            (Tri::No, false) => Some(8),
        }
    }

    /// `IPS_*` of its connection.
    pub fn status(&self) -> u32 {
        let bit = |is: bool, bit: u32| if is { bit } else { 0 };
        bit(self.is_reply, 2) | bit(self.is_snat, 16) | bit(self.is_dnat, 32)
    }
}
