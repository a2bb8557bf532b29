//! The way out of a network: the device, gateway or container by which its packets leave this host, and by
//! no other.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::by_text;
use crate::{Error, Family, IfName, Result, Runtime, text};

/// How a container is written, before its runtime and name.
const CONTAINER: &str = "container:";
/// Of a container's name, in bytes.
const LONGEST: usize = 128;

/// The mark of flows that came in by the host's own ways, and what the number of every network's table has in
/// the same bits. Those that Kubernetes and Tailscale read in a mark are never set in this way.
pub const WAY_MARK: u32 = 0x0053_0000;

/// The number of the routing table of a network with a way out, by its bridge, and the mark of what this host
/// sends for it. It follows from the name, so that nothing has to be remembered to be removed. Two million
/// lie between 0x00530001 and 0x7f533fff: bits 14 and 15 are not set, because Kubernetes reads them in a mark.
pub fn way_table(bridge: &IfName) -> u32 {
    // FNV-1a.
    let hash = bridge.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let [a, b, c, d, ..] = (hash ^ (hash >> 32)).to_le_bytes();
    let high = u32::from((a ^ d) & 0x7f) << 24;
    let low = u32::from(u16::from_le_bytes([b, c]) & 0x3fff);
    // The mark of answers is no network's.
    if high | low == 0 { WAY_MARK | 1 } else { high | WAY_MARK | low }
}

/// By what the packets of a network leave this host. While it is not there, nothing leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Via {
    /// A device of this host: a tunnel, or an uplink with a gateway of its own.
    Device(IfName),
    /// Routers on a segment that this host is connected to, at most one of each family.
    Gateways(Gateways),
    /// A container of a runtime, which forwards. It is on another network of Spoke's.
    Container(Runtime, String),
}

/// A router of one family, or of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gateways {
    first: IpAddr,
    second: Option<IpAddr>,
}

impl Gateways {
    /// The router of a family.
    pub fn of(&self, family: Family) -> Option<IpAddr> {
        let is_of = |it: &IpAddr| Family::of(&crate::host_net(*it)) == family;
        Some(self.first).filter(is_of).or(self.second.filter(is_of))
    }
}

impl Via {
    /// What a way is, for a message.
    pub const FORM: &str = "a device (wg0), a gateway's address (192.168.1.2, or one of each family between \
                            commas), or a container (container:docker/gluetun)";
}

impl FromStr for Via {
    type Err = Error;

    fn from_str(given: &str) -> Result<Self> {
        let refused = |why: &str| {
            let shown = text::shown(given);
            Err(Error::invalid(format!("'{shown}' {why}: a way out is {}", Self::FORM)))
        };
        if let Some(named) = given.strip_prefix(CONTAINER) {
            let Some((runtime, name)) = named.split_once('/') else {
                return refused("names no runtime");
            };
            let runtimes = [Runtime::Docker, Runtime::Podman, Runtime::Cni, Runtime::Spoke];
            let Some(runtime) = runtimes.into_iter().find(|it| it.to_string() == runtime) else {
                return refused("is of no runtime that Spoke knows (docker, podman, cni, spoke)");
            };
            let is_allowed = |it: u8| it.is_ascii_alphanumeric() || b"_.-".contains(&it);
            let is_name = (1..=LONGEST).contains(&name.len()) && name.bytes().all(is_allowed);
            return match is_name {
                true => Ok(Via::Container(runtime, name.to_owned())),
                false => refused("has no name of letters, digits, '_', '.' and '-'"),
            };
        }
        let addresses: Option<Vec<IpAddr>> =
            given.split(',').take(3).map(|it| it.trim().parse().ok()).collect();
        match addresses.as_deref() {
            Some(all) if !all.iter().all(is_router) => refused("is no router's address"),
            Some([first]) => Ok(Via::Gateways(Gateways { first: *first, second: None })),
            Some([first, second]) if first.is_ipv4() != second.is_ipv4() => {
                Ok(Via::Gateways(Gateways { first: *first, second: Some(*second) }))
            }
            Some(_) => refused("has more than one address of a family"),
            None => match given.parse() {
                // The kernel lets a device have a comma in its name; here it stands between addresses.
                Ok(name) if given != "lo" && !given.contains(',') => Ok(Via::Device(name)),
                Ok(_) | Err(_) => refused("is none"),
            },
        }
    }
}

/// A link-local address does not say on which segment it is.
fn is_router(address: &IpAddr) -> bool {
    let is_special = address.is_unspecified() || address.is_loopback() || address.is_multicast();
    let is_local = match address {
        IpAddr::V4(v4) => v4.is_broadcast() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.to_ipv4_mapped().is_some(),
    };
    !is_special && !is_local
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Via::Device(name) => write!(f, "{name}"),
            Via::Gateways(Gateways { first, second: None }) => write!(f, "{first}"),
            Via::Gateways(Gateways { first, second: Some(second) }) => {
                write!(f, "{first},{second}")
            }
            Via::Container(runtime, name) => write!(f, "{CONTAINER}{runtime}/{name}"),
        }
    }
}

by_text!(Via);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn networks_have_numbers_of_their_own() {
        let name = |number: u32| format!("spoke{number:08x}").parse().unwrap();
        let numbers: BTreeSet<u32> = (0..200).map(|it| way_table(&name(it * 7919))).collect();
        assert_eq!(numbers.len(), 200);
    }

    #[test]
    fn ways_are_read_and_written() {
        for text in [
            "wg0",
            "192.168.1.2",
            "fd00::2",
            "192.168.1.2,fd00::2",
            "container:docker/gluetun",
            "container:podman/vpn.eu-1",
        ] {
            assert_eq!(text.parse::<Via>().unwrap().to_string(), text);
        }
        let both: Via = "fd00::2,192.168.1.2".parse().unwrap();
        let Via::Gateways(gateways) = both else { panic!("{both}") };
        assert_eq!(gateways.of(Family::V4), Some("192.168.1.2".parse().unwrap()));
        assert_eq!(gateways.of(Family::V6), Some("fd00::2".parse().unwrap()));
    }

    #[test]
    fn what_leads_nowhere_is_refused() {
        for text in [
            "",
            "lo",
            "127.0.0.1",
            "0.0.0.0",
            "169.254.1.1",
            "fe80::1",
            "224.0.0.1",
            "192.168.1.2,192.168.1.3",
            "192.168.1.2,fd00::2,fd00::3",
            "192.168.1.2,",
            "container:gluetun",
            "container:docker/",
            "container:docker/a b",
            "container:lxc/a",
            "a-name-that-is-too-long",
        ] {
            assert!(text.parse::<Via>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn numbers_keep_out_of_the_bits_that_others_read(name in "[a-z][a-z0-9-]{0,14}") {
            let table = way_table(&name.parse().unwrap());
            prop_assert_eq!(table & 0x80ff_c000, WAY_MARK);
            prop_assert_ne!(table, WAY_MARK);
        }

        #[test]
        fn any_text_is_survived(text in ".{0,64}") {
            if let Ok(via) = text.parse::<Via>() {
                prop_assert_eq!(via.to_string().parse::<Via>().unwrap(), via);
            }
        }
    }
}
