//! A tracked connection, by the names of its ends.

mod parties;

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use netlink::conntrack::tracked::{Carried, Tracked, Tuple};

pub use parties::FlowParties;

use crate::address::{Addresses, Party};

/// `IPS_SEEN_REPLY`, `IPS_SRC_NAT`, `IPS_DST_NAT`.
const ANSWERED: u32 = 1 << 1;
const SOURCE_TRANSLATED: u32 = 1 << 4;
const DESTINATION_TRANSLATED: u32 = 1 << 5;

/// A connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// `tcp`, `udp`, or the protocol's number.
    pub protocol: String,
    /// Where it began.
    pub source: FlowEnd,
    /// Where it really goes.
    pub destination: FlowEnd,
    /// The address that the first packet was sent to, where that was translated: a published port.
    pub published: Option<FlowAddress>,
    /// The address that the destination sees, where the source was translated.
    pub masqueraded: Option<FlowAddress>,
    /// TCP's state, or whether it was answered.
    pub state: &'static str,
    /// What the source has sent; `None` where the kernel does not count.
    pub sent: Option<Carried>,
    /// What was answered.
    pub answered: Option<Carried>,
}

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowEnd {
    /// Whose address it is.
    pub party: Party,
    /// The address.
    pub place: FlowAddress,
}

/// An address with a port, where the protocol has ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowAddress {
    /// The address.
    pub address: IpAddr,
    /// The port.
    pub port: Option<u16>,
}

impl fmt::Display for FlowAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.address, port).fmt(f),
            None => self.address.fmt(f),
        }
    }
}

impl Flow {
    /// Of an entry of the kernel's table.
    pub fn of(entry: &Tracked, known: &Addresses) -> Self {
        let end = |place: FlowAddress| FlowEnd { party: known.party(place.address).clone(), place };
        let is = |bit: u32| entry.status & bit != 0;
        let (sent, seen) = (source(&entry.original), destination(&entry.reply));
        let (asked, reached) = (destination(&entry.original), source(&entry.reply));
        Self {
            protocol: protocol(entry.protocol),
            source: end(sent),
            destination: end(if is(DESTINATION_TRANSLATED) { reached } else { asked }),
            published: (is(DESTINATION_TRANSLATED) && asked != reached).then_some(asked),
            masqueraded: (is(SOURCE_TRANSLATED) && sent != seen).then_some(seen),
            state: state(entry),
            sent: entry.carried.map(|[sent, _]| sent),
            answered: entry.carried.map(|[_, answered]| answered),
        }
    }

    /// Whether a container is at one of its ends.
    pub fn is_of_container(&self) -> bool {
        self.ends().any(|end| end.party.is_container())
    }

    /// Whether an address at one of its ends is of no container and not of this host.
    pub fn is_to_outside(&self) -> bool {
        self.ends().any(|end| end.party == Party::Outside)
    }

    /// Whether one of the words names a container or network at one of its ends.
    pub fn is_of(&self, words: &[String]) -> bool {
        let means = |word: &String| {
            self.ends().any(|end| end.party.is_called(word) || end.party.is_on(word))
        };
        words.iter().any(means)
    }

    fn ends(&self) -> impl Iterator<Item = &FlowEnd> {
        [&self.source, &self.destination].into_iter()
    }
}

fn source(tuple: &Tuple) -> FlowAddress {
    FlowAddress { address: tuple.source, port: tuple.source_port }
}

fn destination(tuple: &Tuple) -> FlowAddress {
    FlowAddress { address: tuple.destination, port: tuple.destination_port }
}

/// The name of a protocol by its number (IANA).
pub fn protocol(number: u8) -> String {
    let name = match number {
        1 => "icmp",
        6 => "tcp",
        17 => "udp",
        33 => "dccp",
        47 => "gre",
        50 => "esp",
        58 => "icmp6",
        132 => "sctp",
        136 => "udplite",
        other => return other.to_string(),
    };
    name.to_owned()
}

/// In the kernel's words (`enum tcp_conntrack`).
const TCP: [&str; 10] = [
    "none",
    "syn-sent",
    "syn-recv",
    "established",
    "fin-wait",
    "close-wait",
    "last-ack",
    "time-wait",
    "close",
    "syn-sent",
];

fn state(entry: &Tracked) -> &'static str {
    let named = entry.tcp_state.and_then(|number| TCP.get(usize::from(number)));
    let otherwise = if entry.status & ANSWERED == 0 { "unanswered" } else { "answered" };
    named.copied().filter(|name| *name != "none").unwrap_or(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(from: &str, to: &str) -> Tuple {
        let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
        Tuple {
            source: from.ip(),
            destination: to.ip(),
            source_port: Some(from.port()),
            destination_port: Some(to.port()),
        }
    }

    fn entry(original: Tuple, reply: Tuple, status: u32) -> Tracked {
        let (id, carried) = (None, None);
        Tracked { id, protocol: 6, original, reply, status, tcp_state: Some(3), zone: 0, carried }
    }

    #[test]
    fn a_published_port_is_led_to_its_container() {
        let original = tuple("198.51.100.9:5000", "192.0.2.1:8080");
        let reply = tuple("10.1.0.2:80", "198.51.100.9:5000");
        let flow = Flow::of(&entry(original, reply, 0x2e), &crate::address::tests::known());
        assert_eq!(flow.source.party, Party::Outside);
        assert!(flow.destination.party.is_called("web") && flow.is_of(&["front".to_owned()]));
        assert_eq!(flow.destination.place.to_string(), "10.1.0.2:80");
        assert_eq!(flow.published.unwrap().to_string(), "192.0.2.1:8080");
        assert_eq!((flow.masqueraded, flow.state), (None, "established"));
        assert!(!flow.is_of(&["back".to_owned()]));
    }

    #[test]
    fn a_masqueraded_source_is_the_container() {
        let original = tuple("10.1.0.2:4000", "198.51.100.9:443");
        let reply = tuple("198.51.100.9:443", "192.0.2.1:4000");
        let mut entry = entry(original, reply, 0x1e);
        entry.tcp_state = None;
        entry.protocol = 17;
        let flow = Flow::of(&entry, &crate::address::tests::known());
        assert!(flow.source.party.is_called("web") && flow.is_of_container());
        assert_eq!(flow.masqueraded.unwrap().to_string(), "192.0.2.1:4000");
        assert_eq!((flow.published, flow.state), (None, "answered"));
        assert_eq!(flow.protocol, "udp");
    }

    #[test]
    fn a_connection_ends_with_the_ends_that_it_began_with() {
        use netlink::conntrack::tracked::Change;
        let original = tuple("10.1.0.2:4000", "198.51.100.9:443");
        let entry = entry(original, tuple("198.51.100.9:443", "10.1.0.2:4000"), 0xe);
        let (then, now) = (crate::address::tests::known(), Addresses::default());
        let mut ends = FlowParties::default();
        assert!(ends.flow(Change::Opened, &entry, &then).is_of_container());
        assert!(ends.flow(Change::Closed, &entry, &now).source.party.is_called("web"));
        assert_eq!(ends.flow(Change::Closed, &entry, &now).source.party, Party::Outside);
    }
}
