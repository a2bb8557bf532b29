//! Address resolution on a link (RFC 826), and the probe before an address is used (RFC 5227).

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use model::{Mac, Result};

use super::{EVERYBODY, Kind, PacketSocket, wait_for_carrier};

/// Length of a packet about IPv4 on Ethernet.
pub const LENGTH: usize = 28;
const REQUEST: u16 = 1;
const REPLY: u16 = 2;

/// How long a link that was just set up may take until it carries packets.
const CARRIER: Duration = Duration::from_secs(1);

/// How long and how often is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// How many questions.
    pub probes: u32,
    /// From one to the next, and from the last one to the verdict.
    pub interval: Duration,
}

impl Default for Retries {
    /// RFC 5227 §1.1 asks thrice, one to two seconds apart: for networks of radios. A host of a wired
    /// segment answers within a millisecond.
    fn default() -> Self {
        Self { probes: 3, interval: Duration::from_millis(200) }
    }
}

/// A question or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// Whether it is an answer.
    pub reply: bool,
    /// The sender.
    pub sender: Mac,
    /// Which address the speaker has; unspecified where it has none yet.
    pub sender_ip: Ipv4Addr,
    /// The target; zero in a request.
    pub target: Mac,
    /// Which address it is about.
    pub target_ip: Ipv4Addr,
}

impl Arp {
    /// The probe for `address` (RFC 5227 §2.1.1).
    pub fn probe(own: Mac, address: Ipv4Addr) -> Self {
        let (sender_ip, target) = (Ipv4Addr::UNSPECIFIED, Mac::new([0; 6]));
        Self { reply: false, sender: own, sender_ip, target, target_ip: address }
    }

    /// The news that `own` has `address` (RFC 5227 §2.3).
    pub fn announcement(own: Mac, address: Ipv4Addr) -> Self {
        let target = Mac::new([0; 6]);
        Self { reply: false, sender: own, sender_ip: address, target, target_ip: address }
    }

    /// As bytes.
    pub fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let operation = if self.reply { REPLY } else { REQUEST };
        // Ethernet, IPv4, and the lengths of their addresses.
        bytes[..6].copy_from_slice(&[0, 1, 8, 0, 6, 4]);
        bytes[6..8].copy_from_slice(&operation.to_be_bytes());
        bytes[8..14].copy_from_slice(&self.sender.octets());
        bytes[14..18].copy_from_slice(&self.sender_ip.octets());
        bytes[18..24].copy_from_slice(&self.target.octets());
        bytes[24..].copy_from_slice(&self.target_ip.octets());
        bytes
    }

    /// Reads a packet from its start; `None` if it is none about IPv4 on Ethernet.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LENGTH] = bytes.first_chunk()?;
        if bytes[..6] != [0, 1, 8, 0, 6, 4] {
            return None;
        }
        let reply = match u16::from_be_bytes([bytes[6], bytes[7]]) {
            REQUEST => false,
            REPLY => true,
            _ => return None,
        };
        let mac = |at: usize| bytes[at..].first_chunk().map(|octets| Mac::new(*octets));
        let ip = |at: usize| bytes[at..].first_chunk().map(|octets: &[u8; 4]| (*octets).into());
        Some(Self {
            reply,
            sender: mac(8)?,
            sender_ip: ip(14)?,
            target: mac(18)?,
            target_ip: ip(24)?,
        })
    }

    /// Whether it shows that another host than `own` has `address`, or is about to take it (RFC
    /// 5227 §2.1.1); and which.
    pub fn claims(&self, own: Mac, address: Ipv4Addr) -> Option<Mac> {
        let has = self.sender_ip == address;
        let wants = !self.reply && self.sender_ip.is_unspecified() && self.target_ip == address;
        ((has || wants) && self.sender != own).then_some(self.sender)
    }
}

/// Probes for `address` on the link with index `link`, whose hardware address is `own`; the calling
/// thread is in the link's namespace. Returns the holder, or `None` after no host answered for
/// `timeout`.
///
/// # Errors
/// As [`PacketSocket::open`] and [`PacketSocket::send`].
pub fn probe(link: u32, own: Mac, address: Ipv4Addr, timeout: Retries) -> Result<Option<Mac>> {
    let socket = PacketSocket::open(link, Kind::Arp)?;
    // Without a carrier no host answers; that is found out below.
    wait_for_carrier(link, timeout.interval.max(CARRIER))?;
    for _ in 0..timeout.probes.max(1) {
        socket.send(EVERYBODY, &Arp::probe(own, address).encode())?;
        let deadline = Instant::now() + timeout.interval;
        while socket.wait(deadline)? {
            if let Some(holder) = claimed(&socket, own, address)? {
                return Ok(Some(holder));
            }
        }
    }
    Ok(None)
}

/// The host that claims `address` in the packets that `socket`, of [`Kind::Arp`], has received.
///
/// # Errors
/// As [`PacketSocket::receive`].
pub fn claimed(socket: &PacketSocket, own: Mac, address: Ipv4Addr) -> Result<Option<Mac>> {
    let mut buffer = [0; LENGTH];
    while let Some(received) = socket.receive(&mut buffer)? {
        let packet = Arp::decode(buffer.get(..received.length).unwrap_or_default());
        if let Some(holder) = packet.and_then(|packet| packet.claims(own, address)) {
            return Ok(Some(holder));
        }
    }
    Ok(None)
}

/// Announces to all hosts on the link that `own` has `address` now, so that they replace an earlier
/// holder's entry.
///
/// # Errors
/// As [`probe`].
pub fn announce(link: u32, own: Mac, address: Ipv4Addr) -> Result<()> {
    let socket = PacketSocket::open(link, Kind::Arp)?;
    socket.send(EVERYBODY, &Arp::announcement(own, address).encode())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWN: Mac = Mac::new([2, 0, 0, 0, 0, 1]);
    const OTHER: Mac = Mac::new([2, 0, 0, 0, 0, 2]);
    const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);

    #[test]
    fn a_holder_and_a_rival_claim_and_we_do_not() {
        let answer = Arp {
            reply: true,
            sender: OTHER,
            sender_ip: ADDRESS,
            target: OWN,
            target_ip: Ipv4Addr::UNSPECIFIED,
        };
        assert_eq!(answer.claims(OWN, ADDRESS), Some(OTHER));
        assert_eq!(Arp::announcement(OTHER, ADDRESS).claims(OWN, ADDRESS), Some(OTHER));
        assert_eq!(Arp::probe(OTHER, ADDRESS).claims(OWN, ADDRESS), Some(OTHER));
        assert_eq!(Arp::probe(OWN, ADDRESS).claims(OWN, ADDRESS), None);
        let question = Arp { sender_ip: Ipv4Addr::new(192, 0, 2, 1), ..Arp::probe(OTHER, ADDRESS) };
        assert_eq!(question.claims(OWN, ADDRESS), None, "it only looks for the holder");
    }

    proptest! {
        #[test]
        fn any_packet_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Some(arp) = Arp::decode(&bytes) {
                prop_assert_eq!(&arp.encode()[..], &bytes[..LENGTH]);
            }
        }
    }
}
