//! Packets that a rule of nftables reports (`linux/netfilter/nfnetlink_log.h`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use model::Result;
use rustix::net::netlink::NETFILTER;

use crate::monitor::{Readable, Stop, readable};
use crate::socket::Socket;
use crate::wire::{Batch, Message};

/// `NFNL_SUBSYS_ULOG`.
const SUBSYSTEM: u16 = 4 << 8;
const PACKET: u16 = SUBSYSTEM;
const CONFIG: u16 = SUBSYSTEM | 1;
/// Length of `struct nfgenmsg`.
const HEADER: usize = 4;
/// `NFULA_CFG_CMD` with `NFULNL_CFG_CMD_BIND`, and `NFULA_CFG_MODE` with `NFULNL_COPY_PACKET`.
const COMMAND: u16 = 1;
const BIND: u8 = 1;
const MODE: u16 = 2;
const COPY_PACKET: u8 = 2;
/// `NFULA_IFINDEX_INDEV`, `NFULA_IFINDEX_PHYSINDEV`, `NFULA_PAYLOAD`, `NFULA_PREFIX`.
const INPUT: u16 = 4;
const BRIDGE_PORT: u16 = 6;
const PAYLOAD: u16 = 9;
const PREFIX: u16 = 10;
/// How much of a packet is copied, in bytes.
const LENGTH: u32 = 128;

/// A packet, as far as its headers tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// What the rule says.
    pub prefix: String,
    /// The index of the interface that it came in through.
    pub input: u32,
    /// The index of the port of a bridge that it came in through. Of what a bridge reports the input is the bridge
    /// itself then; kernels without `br_netfilter` name the port as the input.
    pub bridge_port: Option<u32>,
    /// Its source.
    pub source: IpAddr,
    /// Its destination.
    pub destination: IpAddr,
    /// The number of its transport protocol.
    pub protocol: u8,
    /// Its destination port, where it has one.
    pub port: Option<u16>,
}

/// What comes in one group of the network namespace. One process has a group at a time.
#[derive(Debug)]
pub struct PacketLog(Socket);

impl PacketLog {
    /// Listens to a group.
    ///
    /// # Errors
    /// Where another process has the group, or the kernel does not have it.
    pub fn open(group: u16) -> Result<Self> {
        let mut socket = Socket::notified(Some(NETFILTER), 0)?;
        let about = format!("listening to packets of log group {group}");
        let mut batch = Batch::new();
        let mut request = batch.request(CONFIG, 0, about.clone());
        request.bytes(&of_group(group)).u8(COMMAND, BIND);
        socket.send(&mut batch)?.into_result()?;
        let mut batch = Batch::new();
        let mut mode = LENGTH.to_be_bytes().to_vec();
        mode.extend([COPY_PACKET, 0]);
        let mut request = batch.request(CONFIG, 0, about);
        request.bytes(&of_group(group)).attribute(MODE, &mode);
        socket.send(&mut batch)?.into_result()?;
        Ok(Self(socket))
    }

    /// The next packets; none when `limit` is over or `stop` was called. Packets that came faster than
    /// they were read are lost.
    ///
    /// # Errors
    /// Where the kernel reports nothing any more.
    pub fn wait(&mut self, stop: &Stop, limit: Duration) -> Result<Vec<Logged>> {
        if !matches!(readable(&self.0, stop, Instant::now() + limit)?, Readable::Socket) {
            return Ok(Vec::new());
        }
        let mut all = Vec::new();
        match self.0.notifications() {
            Ok(Some(messages)) => all.extend(messages.filter_map(|message| read(&message))),
            Ok(None) => {}
            Err(error) if error.kind() == model::Kind::TryAgain => {}
            Err(error) => return Err(error),
        }
        Ok(all)
    }
}

/// `struct nfgenmsg`.
fn of_group(group: u16) -> [u8; HEADER] {
    let [high, low] = group.to_be_bytes();
    [0, 0, high, low]
}

pub(crate) fn read(message: &Message<'_>) -> Option<Logged> {
    (message.kind == PACKET).then_some(())?;
    let attributes = message.attributes(HEADER);
    let prefix = attributes.find_kind(PREFIX).and_then(|prefix| prefix.text().map(str::to_owned));
    let input = attributes.find_kind(INPUT).and_then(|input| input.be32()).unwrap_or(0);
    let bridge_port = attributes.find_kind(BRIDGE_PORT).and_then(|port| port.be32());
    let payload = attributes.find_kind(PAYLOAD)?.value;
    let (source, destination, protocol, rest) = headers(payload)?;
    let has_ports = matches!(protocol, 6 | 17 | 33 | 132 | 136);
    let port = rest.get(2..4).filter(|_| has_ports);
    let port = port.and_then(|port| Some(u16::from_be_bytes(port.try_into().ok()?)));
    let prefix = prefix.unwrap_or_default();
    Some(Logged { prefix, input, bridge_port, source, destination, protocol, port })
}

/// Source, destination, protocol and what is behind the header (RFC 791, RFC 8200). Extension headers are
/// not looked into: their number is the protocol.
fn headers(packet: &[u8]) -> Option<(IpAddr, IpAddr, u8, &[u8])> {
    match packet.first()? >> 4 {
        4 => {
            let length = usize::from(packet.first()? & 15) * 4;
            let address = |at: usize| {
                let octets: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
                Some(IpAddr::V4(Ipv4Addr::from(octets)))
            };
            let rest = packet.get(length.max(20)..).unwrap_or_default();
            Some((address(12)?, address(16)?, *packet.get(9)?, rest))
        }
        6 => {
            let address = |at: usize| {
                let octets: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
                Some(IpAddr::V6(Ipv6Addr::from(octets)))
            };
            let rest = packet.get(40..).unwrap_or_default();
            Some((address(8)?, address(24)?, *packet.get(6)?, rest))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Messages;

    #[test]
    fn a_packet_says_where_it_was_going() {
        let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 2, 1, 1, 1, 1];
        packet.extend([0x12, 0x34, 1, 187]);
        let mut batch = Batch::new();
        let mut request = batch.request(PACKET, 0, "test");
        request.bytes(&[2, 0, 0, 0]).be32(INPUT, 7).be32(BRIDGE_PORT, 9).text(PREFIX, "denied");
        request.attribute(PAYLOAD, &packet);
        let bytes = batch.seal(0).to_vec();
        let logged = read(&Messages::new(&bytes).next().unwrap()).unwrap();
        assert_eq!((logged.prefix.as_str(), logged.input), ("denied", 7));
        assert_eq!(logged.bridge_port, Some(9));
        assert_eq!(logged.destination, IpAddr::from([1, 1, 1, 1]));
        assert_eq!((logged.protocol, logged.port), (6, Some(443)));
    }

    proptest! {
        #[test]
        fn any_message_is_survived(payload in proptest::collection::vec(any::<u8>(), 0..256)) {
            let message = Message { kind: PACKET, flags: 0, sequence: 0, payload: &payload };
            let _ = (read(&message), headers(&payload));
        }
    }
}
