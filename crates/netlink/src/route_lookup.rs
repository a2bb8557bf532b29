//! Looks up the route of one packet, as the kernel itself would (rtnetlink(7), `RTM_GETROUTE`).

use std::net::IpAddr;

use model::{Family, IpNet, Result};
use rustix::io::Errno;

use crate::Socket;
use crate::address::family;
use crate::wire::{Batch, Message, array};

const NEW: u16 = 24;
const GET: u16 = 26;
/// Length of `struct rtmsg`.
const HEADER: usize = 12;

/// `RTA_*`.
mod rta {
    pub(super) const DST: u16 = 1;
    pub(super) const SRC: u16 = 2;
    pub(super) const IIF: u16 = 3;
    pub(super) const OIF: u16 = 4;
    pub(super) const GATEWAY: u16 = 5;
    pub(super) const PREFSRC: u16 = 7;
    pub(super) const METRICS: u16 = 8;
    pub(super) const METRIC_MTU: u16 = 2;
    pub(super) const MARK: u16 = 16;
    pub(super) const IP_PROTO: u16 = 27;
    pub(super) const SPORT: u16 = 28;
    pub(super) const DPORT: u16 = 29;
}

/// What a packet carries, which routing rules may go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Transport {
    /// Its protocol: the kernel takes TCP, UDP and ICMP of the packet's family (`rtm_getroute_parse_ip_proto`).
    pub protocol: u8,
    /// The port that it comes from, where that is known.
    pub from: Option<u16>,
    /// The port that it goes to, where that is known.
    pub to: Option<u16>,
}

/// A packet to be routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Routed {
    /// Where to.
    pub to: IpAddr,
    /// Where from, if that is decided.
    pub from: Option<IpAddr>,
    /// The link by which it came in; this host's own if `None`.
    pub input: Option<u32>,
    /// Its mark, which routing rules may go by; 0 is none.
    pub mark: u32,
    /// What it carries; not known if `None`.
    pub transport: Option<Transport>,
}

impl Routed {
    /// One of this host's own, of which only that is decided.
    pub fn new(to: IpAddr) -> Self {
        Self { to, from: None, input: None, mark: 0, transport: None }
    }
}

/// The outcome of a lookup: where the packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteLookup {
    /// To this host itself.
    Local,
    /// Out of a link.
    Out {
        /// Its index.
        link: u32,
        /// The next hop, if it is not the destination itself.
        gateway: Option<IpAddr>,
        /// The source address that it gets.
        source: Option<IpAddr>,
        /// The path's MTU, where the route has one.
        mtu: Option<u32>,
    },
    /// To several receivers (broadcast, multicast).
    Many,
    /// Nowhere, with the kernel's reason.
    Nowhere(Errno),
}

impl Socket {
    /// Looks up the route of `packet`. For one that came in the kernel checks its source as it would
    /// (EXDEV: another way leads back, `rp_filter`; EINVAL: no address that may be a source; for
    /// both EHOSTUNREACH where this host does not forward, or the route says so).
    ///
    /// # Errors
    /// As [`Socket::get`]; refusals are in the answer.
    pub fn look_up_route(&mut self, packet: &Routed) -> Result<RouteLookup> {
        let mut batch = Batch::new();
        let net = IpNet::from(packet.to);
        let length = |address: IpAddr| IpNet::from(address).prefix_len();
        let mut head = [0; HEADER];
        head[0] = family(Family::of(&net));
        head[1] = net.prefix_len();
        head[2] = packet.from.map_or(0, length);
        let mut request = batch.request(GET, 0, format!("asking for the route to {}", packet.to));
        request.bytes(&head).address(rta::DST, packet.to);
        if let Some(from) = packet.from {
            request.address(rta::SRC, from);
        }
        if let Some(input) = packet.input {
            request.u32(rta::IIF, input);
        }
        if packet.mark != 0 {
            request.u32(rta::MARK, packet.mark);
        }
        if let Some(transport) = packet.transport {
            request.u8(rta::IP_PROTO, transport.protocol);
            let ports = [(rta::SPORT, transport.from), (rta::DPORT, transport.to)];
            for (kind, port) in ports.into_iter().filter_map(|(kind, port)| Some((kind, port?))) {
                request.attribute(kind, &port.to_be_bytes());
            }
        }
        let mut found = None;
        let outcome = self.exchange(&mut batch, |message| found = found.or(read(message)))?;
        match outcome.failures().first() {
            Some(failure) => Ok(RouteLookup::Nowhere(failure.errno)),
            None => Ok(found.unwrap_or(RouteLookup::Nowhere(Errno::NETUNREACH))),
        }
    }
}

fn read(message: &Message<'_>) -> Option<RouteLookup> {
    (message.kind == NEW).then_some(())?;
    let [kind] = array(message.payload, 7)?;
    let attributes = message.attributes(HEADER);
    let number = |kind| attributes.find_kind(kind).and_then(|attribute| attribute.u32());
    let address = |kind| attributes.find_kind(kind).and_then(|attribute| attribute.address());
    let metrics = attributes.find_kind(rta::METRICS).map(|metrics| metrics.nested());
    let mtu = metrics.and_then(|metrics| metrics.find_kind(rta::METRIC_MTU)?.u32());
    // `RTN_*`.
    Some(match kind {
        2 => RouteLookup::Local,
        3..=5 => RouteLookup::Many,
        6 => RouteLookup::Nowhere(Errno::INVAL),
        7 => RouteLookup::Nowhere(Errno::HOSTUNREACH),
        8 => RouteLookup::Nowhere(Errno::ACCESS),
        _ => RouteLookup::Out {
            link: number(rta::OIF)?,
            gateway: address(rta::GATEWAY),
            source: address(rta::PREFSRC),
            mtu: mtu.filter(|mtu| *mtu > 0),
        },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_own_address_is_local() {
        let mut socket = Socket::route().unwrap();
        let packet = Routed::new("127.0.0.1".parse().unwrap());
        assert_eq!(socket.look_up_route(&packet).unwrap(), RouteLookup::Local);
    }

    proptest! {
        #[test]
        fn any_payload_is_read(payload in proptest::collection::vec(any::<u8>(), 0..256)) {
            let _ = read(&Message { kind: NEW, flags: 0, sequence: 0, payload: &payload });
        }
    }
}
