//! Link-layer and network addresses. IP addresses and prefixes are `std`'s and `ipnet`'s.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::name::by_text;
use crate::{Error, Result};

/// An Ethernet address, written `02:42:ac:11:00:02`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac([u8; 6]);

impl Mac {
    /// The address with these six octets.
    pub const fn new(octets: [u8; 6]) -> Self {
        Self(octets)
    }

    /// A locally administered unicast address from any six octets (IEEE 802-2014 §8.4).
    pub const fn local(mut octets: [u8; 6]) -> Self {
        octets[0] = (octets[0] | 0x02) & 0xfe;
        Self(octets)
    }

    /// Refuses what no interface can have: zero, and what means many interfaces (IEEE 802-2014 section 8.2.2).
    ///
    /// # Errors
    /// [`crate::Kind::Invalid`], with what is wrong.
    pub fn refuse_unusable(self) -> Result<()> {
        let why = match self.0 {
            [0, 0, 0, 0, 0, 0] => "is none",
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff] => "means all interfaces (broadcast)",
            [first, ..] if first & 1 == 1 => "means many interfaces (multicast)",
            _ => return Ok(()),
        };
        Err(Error::invalid(format!(
            "MAC address (--mac-address, \"mac\") {self} {why}: an interface has a unicast address, such as {}",
            Self::local(self.0)
        )))
    }

    /// The six octets.
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid = || Error::invalid(format!("MAC address {text:?} is not six octets"));
        let mut octets = [0; 6];
        let mut parts = text.split([':', '-']);
        for octet in &mut octets {
            let part = parts.next().filter(|part| part.len() == 2).ok_or_else(invalid)?;
            *octet = u8::from_str_radix(part, 16).map_err(|_| invalid())?;
        }
        match parts.next() {
            None => Ok(Self(octets)),
            Some(_) => Err(invalid()),
        }
    }
}

by_text!(Mac);

/// The address that follows; none after the last of its family.
pub fn next_address(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => u32::from(v4).checked_add(1).map(|bits| IpAddr::V4(bits.into())),
        IpAddr::V6(v6) => u128::from(v6).checked_add(1).map(|bits| IpAddr::V6(bits.into())),
    }
}

/// The address before; none before the first of its family.
pub fn previous_address(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => u32::from(v4).checked_sub(1).map(|bits| IpAddr::V4(bits.into())),
        IpAddr::V6(v6) => u128::from(v6).checked_sub(1).map(|bits| IpAddr::V6(bits.into())),
    }
}

/// The first and last address of a subnet that a host may have: not the subnet's own (in IPv6 the
/// anycast address of its routers, RFC 4291 §2.6.1), and not IPv4's broadcast address. Subnets of
/// one or two addresses keep none back (RFC 3021, RFC 6164).
pub fn hosts_of(net: &IpNet) -> (IpAddr, IpAddr) {
    let (first, last) = (net.network(), net.broadcast());
    if net.max_prefix_len() - net.prefix_len() < 2 {
        return (first, last);
    }
    let highest = match last {
        IpAddr::V4(_) => previous_address(last),
        IpAddr::V6(_) => Some(last),
    };
    (next_address(first).unwrap_or(first), highest.unwrap_or(last))
}

/// Whether the two subnets share an address.
pub fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}

/// Which of `nets` overlap: each pair once, as their places, in the order of these. It costs what sorting
/// them does, and the pairs.
pub fn overlapping_pairs(nets: &[IpNet]) -> Vec<(usize, usize)> {
    let mut places: Vec<usize> = (0..nets.len()).collect();
    places.sort_by_key(|place| (nets[*place].network(), nets[*place].prefix_len()));
    let mut pairs = Vec::new();
    // Two subnets overlap only where one contains the other: those that contain the current one.
    let mut around: Vec<usize> = Vec::new();
    for place in places {
        while around.last().is_some_and(|last| !overlap(&nets[*last], &nets[place])) {
            around.pop();
        }
        pairs.extend(around.iter().map(|other| (place.min(*other), place.max(*other))));
        around.push(place);
    }
    pairs.sort_unstable();
    pairs
}

/// The first address of a subnet after its network address: the gateway where none is named.
pub fn first_host(net: &IpNet) -> Option<IpAddr> {
    next_address(net.network())
}

/// The prefix that holds only `address`: /32 or /128.
pub fn host_net(address: IpAddr) -> IpNet {
    IpNet::from(address)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_that_no_interface_can_have() {
        for (given, what) in [
            ("00:00:00:00:00:00", Some("is none")),
            ("ff:ff:ff:ff:ff:ff", Some("broadcast")),
            ("01:00:5e:00:00:01", Some("multicast")),
            ("33:33:00:00:00:01", Some("multicast")),
            ("02:42:ac:11:00:02", None),
            ("00:16:3e:00:00:01", None),
        ] {
            let error = given.parse::<Mac>().unwrap().refuse_unusable().err();
            let error = error.map(|error| error.to_string());
            let is_said = |what: &str| {
                error.as_ref().is_some_and(|it| it.contains(what) && it.contains(given))
            };
            assert!(what.map_or(error.is_none(), is_said), "{given}: {error:?}");
        }
    }

    #[test]
    fn parses_and_prints() {
        let mac: Mac = "02:42:AC-11:00:02".parse().unwrap();
        assert_eq!(mac.to_string(), "02:42:ac:11:00:02");
        for bad in ["", "02:42", "02:42:ac:11:00:02:03", "2:42:ac:11:00:02", "zz:42:ac:11:00:02"] {
            assert_eq!(bad.parse::<Mac>().unwrap_err().kind(), crate::Kind::Invalid, "{bad:?}");
        }
    }

    #[test]
    fn the_first_host_follows_the_network() {
        let first = |net: &str| first_host(&net.parse().unwrap()).map(|host| host.to_string());
        assert_eq!(first("10.1.2.3/24").as_deref(), Some("10.1.2.1"));
        assert_eq!(first("fd00::7/64").as_deref(), Some("fd00::1"));
        assert_eq!(first("255.255.255.255/32"), None);
    }

    #[test]
    fn hosts_of_a_subnet() {
        let hosts = |net: &str| {
            let (first, last) = hosts_of(&net.parse().unwrap());
            format!("{first}-{last}")
        };
        assert_eq!(hosts("10.0.0.0/24"), "10.0.0.1-10.0.0.254");
        assert_eq!(hosts("fd00::/126"), "fd00::1-fd00::3");
        assert_eq!(hosts("255.255.255.252/30"), "255.255.255.253-255.255.255.254");
        assert_eq!(hosts("10.0.0.2/31"), "10.0.0.2-10.0.0.3");
        assert_eq!(hosts("10.0.0.2/32"), "10.0.0.2-10.0.0.2");
        assert_eq!(hosts("fd00::4/127"), "fd00::4-fd00::5");
    }

    #[test]
    fn local_addresses_are_unicast() {
        assert_eq!(Mac::local([0xff; 6]).octets()[0] & 0x03, 0x02);
    }

    proptest! {
        #[test]
        fn pairs_are_those_of_all_that_are_compared(
            nets in prop::collection::vec((any::<bool>(), 0u8..8, 0u8..=8), 0..30),
        ) {
            let nets: Vec<IpNet> = nets
                .iter()
                .map(|(is_v4, last, length)| match is_v4 {
                    true => IpNet::new(IpAddr::from([10, 0, 0, *last]), 24 + length).unwrap(),
                    false => IpNet::new(IpAddr::from([u16::from(*last); 8]), 120 + length).unwrap(),
                })
                .collect();
            let all = (0..nets.len()).flat_map(|one| (one + 1..nets.len()).map(move |it| (one, it)));
            let overlapping = all.filter(|(one, other)| overlap(&nets[*one], &nets[*other]));
            prop_assert_eq!(overlapping_pairs(&nets), overlapping.collect::<Vec<_>>());
        }
    }
}
