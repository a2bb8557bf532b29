//! Which packets are meant: a small part of tcpdump's language (pcap-filter(7)), read in user space.

use std::net::IpAddr;

use model::{Error, IpNet, Result};

use super::packet::{ICMP, ICMP6, Packet, TCP, UDP};

/// A longer filter is refused, in words; and a deeper one.
const LONGEST: usize = 512;
const DEEPEST: usize = 64;
/// The protocols whose ports are meant: TCP, UDP, SCTP.
const WITH_PORTS: [u8; 3] = [TCP, UDP, 132];

/// A condition on a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// All of these, or any.
    Both(Box<Filter>, Box<Filter>),
    /// One of these, or both.
    Either(Box<Filter>, Box<Filter>),
    /// Not this.
    Not(Box<Filter>),
    /// One of these protocols.
    Protocol(&'static [u8]),
    /// ARP.
    Arp,
    /// An IP packet of version 4, or of version 6.
    Ip(bool),
    /// One of these addresses.
    Host(Direction, Vec<IpAddr>),
    /// An address in this network.
    Net(Direction, IpNet),
    /// A port in this range, of TCP, UDP or SCTP.
    Port(Direction, u16, u16),
}

/// Which end of a packet (a direction of pcap-filter(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Any of them.
    Any,
    /// The sender.
    Source,
    /// The receiver.
    Destination,
}

impl Direction {
    fn holds<T: Copy>(self, ends: Option<[T; 2]>, is: impl Fn(T) -> bool) -> bool {
        let Some([source, destination]) = ends else { return false };
        match self {
            Direction::Any => is(source) || is(destination),
            Direction::Source => is(source),
            Direction::Destination => is(destination),
        }
    }
}

impl Filter {
    /// Of a text. `addresses` are those of a container by its name; none where there is no such container.
    ///
    /// # Errors
    /// [`model::Kind::Invalid`] with the word that cannot be understood.
    pub fn read(text: &str, addresses: &dyn Fn(&str) -> Vec<IpAddr>) -> Result<Self> {
        let spaced = text.replace('(', " ( ").replace(')', " ) ").replace('!', " ! ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        if words.len() > LONGEST {
            return Err(Error::invalid(format!("the filter is longer than {LONGEST} words")));
        }
        let mut reader = Reader { words: &words, addresses, depth: 0 };
        let filter = reader.all()?;
        match reader.words.first() {
            None => Ok(filter),
            Some(word) => Err(refused(word, "`and` or `or`")),
        }
    }

    /// Whether the packet is meant.
    pub fn holds(&self, packet: &Packet) -> bool {
        match self {
            Filter::Both(one, other) => one.holds(packet) && other.holds(packet),
            Filter::Either(one, other) => one.holds(packet) || other.holds(packet),
            Filter::Not(filter) => !filter.holds(packet),
            Filter::Protocol(numbers) => packet.protocol.is_some_and(|it| numbers.contains(&it)),
            Filter::Arp => packet.is_arp(),
            Filter::Ip(is_v6) => {
                let of_version = |[from, _]: [IpAddr; 2]| from.is_ipv6() == *is_v6;
                !packet.is_arp() && packet.addresses.is_some_and(of_version)
            }
            Filter::Host(direction, hosts) => {
                direction.holds(packet.addresses, |it| hosts.contains(&it))
            }
            Filter::Net(direction, net) => {
                direction.holds(packet.addresses, |it| net.contains(&it))
            }
            Filter::Port(direction, first, last) => {
                let has_ports = packet.protocol.is_some_and(|it| WITH_PORTS.contains(&it));
                has_ports && direction.holds(packet.ports, |port| (*first..=*last).contains(&port))
            }
        }
    }
}

struct Reader<'a> {
    words: &'a [&'a str],
    addresses: &'a dyn Fn(&str) -> Vec<IpAddr>,
    depth: usize,
}

impl<'a> Reader<'a> {
    /// `and` and `or` bind alike, from the left, as in tcpdump.
    fn all(&mut self) -> Result<Filter> {
        let mut all = self.one()?;
        loop {
            if self.take(&["and", "&&"]) {
                all = Filter::Both(Box::new(all), Box::new(self.one()?));
            } else if self.take(&["or", "||"]) {
                all = Filter::Either(Box::new(all), Box::new(self.one()?));
            } else {
                return Ok(all);
            }
        }
    }

    fn one(&mut self) -> Result<Filter> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Error::invalid(format!("the filter is deeper than {DEEPEST} levels")));
        }
        let filter = match self.next()? {
            "not" | "!" => Filter::Not(Box::new(self.one()?)),
            "(" => {
                let inner = self.all()?;
                match self.next()? {
                    ")" => inner,
                    word => return Err(refused(word, "`)`")),
                }
            }
            word => self.condition(word)?,
        };
        self.depth -= 1;
        Ok(filter)
    }

    fn condition(&mut self, word: &'a str) -> Result<Filter> {
        match word {
            "tcp" => self.of_protocol(&[TCP]),
            "udp" => self.of_protocol(&[UDP]),
            "icmp" => Ok(of_version(false, &[ICMP])),
            "icmp6" => Ok(of_version(true, &[ICMP6])),
            "arp" => Ok(Filter::Arp),
            "ip" => Ok(Filter::Ip(false)),
            "ip6" => Ok(Filter::Ip(true)),
            _ => self.end(word),
        }
    }

    /// `tcp`, or `tcp port 80` as in tcpdump.
    fn of_protocol(&mut self, numbers: &'static [u8]) -> Result<Filter> {
        let protocol = Filter::Protocol(numbers);
        if !matches!(self.words.first(), Some(&("port" | "portrange" | "src" | "dst"))) {
            return Ok(protocol);
        }
        let word = self.next()?;
        Ok(Filter::Both(Box::new(protocol), Box::new(self.end(word)?)))
    }

    fn end(&mut self, word: &'a str) -> Result<Filter> {
        let (direction, what) = match word {
            "src" => (Direction::Source, self.next()?),
            "dst" => (Direction::Destination, self.next()?),
            word => (Direction::Any, word),
        };
        match what {
            "host" => self.host(direction),
            "net" => {
                let word = self.next()?;
                let net = word.parse().map_err(|_| refused(word, "a network as 10.1.0.0/24"))?;
                Ok(Filter::Net(direction, net))
            }
            "port" => {
                let word = self.next()?;
                let port = port(word)?;
                Ok(Filter::Port(direction, port, port))
            }
            "portrange" => {
                let word = self.next()?;
                let ends = word.split_once('-').ok_or_else(|| refused(word, "ports as 80-90"))?;
                let (one, other) = (port(ends.0)?, port(ends.1)?);
                Ok(Filter::Port(direction, one.min(other), one.max(other)))
            }
            word => Err(refused(
                word,
                "host, net, port, portrange, src, dst, tcp, udp, icmp, icmp6, arp, ip, ip6, not or `(`",
            )),
        }
    }

    /// An address, or a container's name.
    fn host(&mut self, direction: Direction) -> Result<Filter> {
        let word = self.next()?;
        if let Ok(address) = word.parse() {
            return Ok(Filter::Host(direction, vec![address]));
        }
        match (self.addresses)(word) {
            none if none.is_empty() => Err(refused(word, "an address, or a container's name")),
            addresses => Ok(Filter::Host(direction, addresses)),
        }
    }

    fn take(&mut self, words: &[&str]) -> bool {
        let is_next = self.words.first().is_some_and(|word| words.contains(word));
        self.words = self.words.get(usize::from(is_next)..).unwrap_or_default();
        is_next
    }

    fn next(&mut self) -> Result<&'a str> {
        let (first, rest) = self
            .words
            .split_first()
            .ok_or_else(|| Error::invalid("the filter ends where a condition is missing"))?;
        self.words = rest;
        Ok(first)
    }
}

fn of_version(is_v6: bool, numbers: &'static [u8]) -> Filter {
    Filter::Both(Box::new(Filter::Ip(is_v6)), Box::new(Filter::Protocol(numbers)))
}

fn port(word: &str) -> Result<u16> {
    word.parse().map_err(|_| refused(word, "a port from 0 to 65535"))
}

fn refused(word: &str, instead: &str) -> Error {
    let word = model::text::shown(word);
    Error::invalid(format!("the filter has '{word}' where it needs {instead}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::packet::{Form, tests::tagged};
    use super::*;

    fn read(text: &str) -> Result<Filter> {
        let web = |name: &str| {
            let known = (name == "web").then(|| "10.1.0.3".parse().unwrap());
            known.into_iter().collect()
        };
        Filter::read(text, &web)
    }

    #[test]
    fn a_filter_holds_or_not() {
        let packet = Packet::read(&tagged(2), Form::Ethernet);
        for (text, holds) in [
            ("tcp", true),
            ("tcp port 80", true),
            ("udp port 80 or arp", false),
            ("host 10.1.0.2 and port 4000", true),
            ("src host 10.1.0.3", false),
            ("dst host web", true),
            ("not host web", false),
            ("!(udp or icmp) && dst portrange 70-80", true),
            ("net 10.1.0.0/24 and ip and not ip6", true),
            ("src net 10.1.0.3/32 or dst port 81", false),
            ("arp or tcp and src port 80", false),
            ("tcp or udp and port 53", false),
            ("port 53 and udp or tcp", true),
            ("tcp or (udp and port 53)", true),
            ("dst portrange 90-70 and not icmp", true),
            ("icmp6 or not arp", true),
        ] {
            assert_eq!(read(text).unwrap().holds(&packet), holds, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("", "ends"),
            ("tcp udp", "'udp'"),
            ("host nobody", "'nobody'"),
            ("port 65536", "'65536'"),
            ("(tcp", "ends"),
            ("tcp )", "')'"),
            ("net 10.1.0.0", "'10.1.0.0'"),
            ("portrange 80", "80-90"),
            ("not", "ends"),
            ("vlan 7", "'vlan'"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.kind(), model::Kind::Invalid);
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
        assert!(read(&"( ".repeat(100)).unwrap_err().to_string().contains("deeper"));
        assert!(read(&"not ".repeat(100)).unwrap_err().to_string().contains("deeper"));
        assert!(read(&"tcp or ".repeat(300)).unwrap_err().to_string().contains("longer"));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[a-z0-9()! ./-]{0,80}") {
            let _ = read(&text);
        }

        #[test]
        fn any_words_are_read(words in proptest::collection::vec(
            prop_oneof![
                Just("tcp"), Just("not"), Just("("), Just(")"), Just("and"), Just("or"),
                Just("src"), Just("host"), Just("10.1.0.2"), Just("port"), Just("80"),
            ], 0..40))
        {
            if let Ok(filter) = read(&words.join(" ")) {
                let _ = filter.holds(&Packet::default());
            }
        }
    }
}
