//! What the hosts of a cluster share: themselves, networks, blocks of addresses, endpoints.

use std::collections::BTreeSet;
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use crate::{Error, HostName, Mac, Mtu, NetworkName, Result, Timestamp};

/// The number of a VXLAN network, 1 to 2²⁴ − 1 (RFC 7348 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Vni(u32);

impl Vni {
    /// The largest.
    pub const LAST: u32 = (1 << 24) - 1;

    /// The VNI of this number, if there is one.
    pub fn new(number: u32) -> Option<Self> {
        (1..=Self::LAST).contains(&number).then_some(Self(number))
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for Vni {
    type Error = Error;

    fn try_from(number: u32) -> Result<Self> {
        Self::new(number).ok_or_else(|| {
            Error::invalid(format!("VNI {number} is not between 1 and {}", Self::LAST))
        })
    }
}

impl FromStr for Vni {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        text.parse().ok().and_then(Self::new).ok_or_else(|| {
            let last = Self::LAST;
            Error::invalid(format!("VNI {text:?}: it is a number from 1 to {last}"))
        })
    }
}

impl From<Vni> for u32 {
    fn from(vni: Vni) -> u32 {
        vni.0
    }
}

impl fmt::Display for Vni {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A host of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterHost {
    /// Where the other hosts send to (the outer address of VXLAN packets).
    pub address: Ipv4Addr,
    /// Since when it is a member.
    pub since: Timestamp,
}

/// On which hosts a network is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// On every host, also on those that join later.
    All,
    /// On these.
    Hosts(BTreeSet<HostName>),
}

impl Placement {
    /// Whether the network is on this host.
    pub fn has(&self, host: &HostName) -> bool {
        match self {
            Placement::All => true,
            Placement::Hosts(names) => names.contains(host),
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::All => f.write_str("all"),
            Placement::Hosts(names) => {
                let names: Vec<&str> = names.iter().map(HostName::as_str).collect();
                f.write_str(&names.join(","))
            }
        }
    }
}

/// A network of many hosts, as it is declared for all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedNetwork {
    /// Its number in VXLAN packets; no other network of the cluster has it.
    pub vni: Vni,
    /// Its addresses.
    pub subnet: Ipv4Net,
    /// The prefix length of the part of the subnet that each host has for itself.
    pub block: u8,
    /// Of all its devices, on all hosts.
    pub mtu: Mtu,
    /// Where it is.
    pub hosts: Placement,
    /// Whether its packets are encrypted between hosts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encrypted: bool,
    /// When it was declared.
    pub since: Timestamp,
}

impl SharedNetwork {
    /// The shortest prefix of a subnet.
    const WIDEST: u8 = 8;
    /// The longest prefix of a block: a gateway and at least one container, without the addresses that
    /// no host may have.
    const NARROWEST: u8 = 29;
    /// A subnet has at most two to the power of so many blocks.
    const MOST_BITS: u8 = 12;
    /// What IPv4 asks of every link on which packets of a useful size travel (RFC 791 §3.2).
    const LEAST_MTU: u32 = 576;

    /// Fails with `Invalid` where its numbers do not fit together.
    pub fn check(&self, name: &NetworkName) -> Result<()> {
        let subnet = self.subnet.prefix_len();
        let refused = |why: String| Err(Error::invalid(format!("network {name}: {why}")));
        if self.subnet != self.subnet.trunc() {
            return refused(format!("{} is no subnet, but an address in one", self.subnet));
        }
        if subnet < Self::WIDEST {
            return refused(format!("{} is larger than a /{}", self.subnet, Self::WIDEST));
        }
        let first = self.subnet.network();
        if first.octets()[0] == 0
            || first.is_loopback()
            || first.is_link_local()
            || first.octets()[0] >= 224
        {
            return refused(format!("{} has no addresses that hosts give", self.subnet));
        }
        if self.block <= subnet || self.block > Self::NARROWEST {
            return refused(format!(
                "a block of {} is a /{} to a /{}, not a /{}",
                self.subnet,
                subnet + 1,
                Self::NARROWEST,
                self.block
            ));
        }
        if self.block - subnet > Self::MOST_BITS {
            return refused(format!(
                "{} has more than {} blocks of a /{}; choose larger ones",
                self.subnet,
                1 << Self::MOST_BITS,
                self.block
            ));
        }
        match self.mtu.bytes() {
            mtu if mtu < Self::LEAST_MTU => {
                refused(format!("MTU {mtu} is less than {}", Self::LEAST_MTU))
            }
            _ => Ok(()),
        }
    }

    /// Whether `net` is one of its blocks.
    pub fn is_block(&self, net: &Ipv4Net) -> bool {
        net.prefix_len() == self.block && *net == net.trunc() && self.subnet.contains(net)
    }

    /// The block in which an address of the subnet is.
    pub fn block_with(&self, address: Ipv4Addr) -> Option<Ipv4Net> {
        let block = Ipv4Net::new(address, self.block).ok()?.trunc();
        self.is_block(&block).then_some(block)
    }

    /// Whether an address is one that a host's bridge has, or would have.
    pub fn is_gateway(&self, address: Ipv4Addr) -> bool {
        self.block_with(address).is_some_and(|block| Self::gateway(&block) == address)
    }

    /// The address that a host's bridge has in its block: the second of the block, as the first may be
    /// the subnet's own.
    pub fn gateway(block: &Ipv4Net) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(block.network()).saturating_add(1))
    }
}

/// An address that a host has, or asks for, apart from its blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressPin {
    /// Which host.
    pub host: HostName,
    /// What has it there, for sentences; at most 200 bytes.
    pub by: String,
    /// Whether the host has it.
    pub state: PinState,
}

/// Whether an address was given to the host that asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PinState {
    /// It is in the block of another host, which has not answered yet.
    Asked,
    /// The host has it.
    Granted,
    /// It is in use on the host of its block: by what, for a sentence; at most 200 bytes.
    Held(String),
}

impl AddressPin {
    /// Longer descriptions are refused, in bytes.
    pub const LONGEST: usize = 200;

    /// Fails with `Invalid` where a description is too long.
    pub fn check(&self) -> Result<()> {
        let held = match &self.state {
            PinState::Held(by) => by.len(),
            PinState::Asked | PinState::Granted => 0,
        };
        match self.by.len().max(held) > Self::LONGEST {
            true => {
                Err(Error::invalid(format!("its holder has more than {} bytes", Self::LONGEST)))
            }
            false => Ok(()),
        }
    }
}

/// An address that is used on a network of many hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SharedEndpoint {
    /// The hardware address that it is reached at.
    pub mac: Mac,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vni_has_24_bits() {
        for text in ["1", "16777215"] {
            assert_eq!(text.parse::<Vni>().unwrap().to_string(), text);
        }
        for text in ["0", "16777216", "-1", "", "x"] {
            assert!(text.parse::<Vni>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_number_that_is_none_is_refused() {
        assert!(Vni::try_from(0).is_err() && Vni::try_from(1 << 24).is_err());
        assert_eq!(u32::from(Vni::try_from(7).unwrap()), 7);
    }

    fn network(subnet: &str, block: u8, mtu: u32) -> SharedNetwork {
        SharedNetwork {
            vni: Vni::new(7).unwrap(),
            subnet: subnet.parse().unwrap(),
            block,
            mtu: Mtu::new(mtu).unwrap(),
            hosts: Placement::All,
            encrypted: false,
            since: Timestamp(1),
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        let name: NetworkName = "front".parse().unwrap();
        assert!(network("10.8.0.0/16", 24, 1450).check(&name).is_ok());
        for (subnet, block, mtu, why) in [
            ("10.8.0.1/16", 24, 1450, "is no subnet"),
            ("10.0.0.0/7", 16, 1450, "larger than a /8"),
            ("10.8.0.0/16", 16, 1450, "is a /17 to a /29, not a /16"),
            ("10.8.0.0/16", 30, 1450, "not a /30"),
            ("10.0.0.0/8", 24, 1450, "more than 4096 blocks"),
            ("10.8.0.0/16", 24, 500, "less than 576"),
        ] {
            let error = network(subnet, block, mtu).check(&name).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert_eq!((Vni::new(0), Vni::new(1 << 24)), (None, None));
    }

    #[test]
    fn a_block_is_a_whole_part_of_the_subnet() {
        let network = network("10.8.0.0/16", 24, 1450);
        let is_block = |net: &str| network.is_block(&net.parse().unwrap());
        assert!(is_block("10.8.0.0/24") && is_block("10.8.255.0/24"));
        for other in ["10.9.0.0/24", "10.8.0.0/25", "10.8.0.1/24", "10.8.0.0/16"] {
            assert!(!is_block(other), "{other}");
        }
        let gateway = SharedNetwork::gateway(&"10.8.3.0/24".parse().unwrap());
        assert_eq!(gateway, Ipv4Addr::new(10, 8, 3, 1));
    }
}
