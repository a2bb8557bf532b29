//! A network of many hosts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use super::{Engines, Placement, Transport, Vni, lenient};
use crate::{Error, IpNet, Mtu, NetworkName, Result, Timestamp};

/// A network of many hosts, as it is declared for all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedNetwork {
    /// Its number in VXLAN packets; no other network of the cluster has it.
    pub vni: Vni,
    /// Its addresses.
    pub subnet: Ipv4Net,
    /// Its IPv6 addresses, where it has some. Each block of IPv4 addresses has one of these with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet6: Option<Ipv6Net>,
    /// The prefix length of the part of the subnet that each host has for itself.
    pub block: u8,
    /// Of all its devices, on all hosts.
    pub mtu: Mtu,
    /// Where it is.
    #[serde(deserialize_with = "lenient")]
    pub hosts: Placement,
    /// Whether its packets are encrypted between hosts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub encrypted: bool,
    /// How its packets go from host to host.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Transport::is_vxlan")]
    pub transport: Transport,
    /// In which engines of its hosts it is made. Programs that do not know of this make it in none.
    #[serde(default, rename = "in", skip_serializing_if = "Engines::is_empty")]
    pub engines: Engines,
    /// Whether each host answers queries for the names of its containers, on all hosts. Programs that do not know of
    /// this make it without.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub names: bool,
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
    /// The same of IPv6 (RFC 8200 §5).
    const LEAST_MTU6: u32 = 1280;
    /// The longest prefix of an IPv6 subnet: it is divided as the IPv4 one is.
    const NARROWEST6: u8 = 104;

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
        let least = if self.subnet6.is_some() { Self::LEAST_MTU6 } else { Self::LEAST_MTU };
        if self.mtu.bytes() < least {
            return refused(format!("MTU {} is less than {least}", self.mtu));
        }
        if self.encrypted && self.transport == Transport::Route {
            return refused("packets that are routed as they are cannot be encrypted".to_owned());
        }
        self.hosts.check()?;
        match self.subnet6 {
            Some(subnet) if 128 - self.block6(&subnet) < 32 - self.block => {
                refused(format!("a block of {subnet} has fewer addresses than a /{}", self.block))
            }
            Some(subnet) => check6(&subnet).or_else(refused),
            None => Ok(()),
        }
    }

    /// Whether versions that know only VXLAN in clear text would use it wrongly: they must not find who has claimed its
    /// VNI.
    pub fn is_special(&self) -> bool {
        self.encrypted || !self.transport.is_vxlan()
    }

    /// Whether they are one network: in which engines it is made, and whether it has names, may differ, as a host
    /// that had an earlier version has not kept that.
    pub fn is_same(&self, other: &Self) -> bool {
        let apart =
            |network: &Self| Self { engines: Engines::default(), names: false, ..network.clone() };
        apart(self) == apart(other)
    }

    /// Whether `net` is one of its blocks.
    pub fn is_block(&self, net: &Ipv4Net) -> bool {
        net.prefix_len() == self.block && *net == net.trunc() && self.subnet.contains(net)
    }

    /// The block in which an address of the network is, or to which its IPv6 addresses belong.
    pub fn block_with(&self, address: IpAddr) -> Option<Ipv4Net> {
        let address = match address {
            IpAddr::V4(address) => address,
            IpAddr::V6(address) => {
                let subnet = self.subnet6.filter(|subnet| subnet.contains(&address))?;
                let number = (u128::from(address) - u128::from(subnet.network()))
                    .checked_shr(128 - u32::from(self.block6(&subnet)))?;
                let within = u32::try_from(number).ok()?.checked_shl(32 - u32::from(self.block))?;
                Ipv4Addr::from(u32::from(self.subnet.network()).checked_add(within)?)
            }
        };
        let block = Ipv4Net::new(address, self.block).ok()?.trunc();
        self.is_block(&block).then_some(block)
    }

    /// The prefix length of the IPv6 addresses of a block.
    fn block6(&self, subnet: &Ipv6Net) -> u8 {
        subnet.prefix_len() + self.block.saturating_sub(self.subnet.prefix_len())
    }

    /// The IPv6 addresses that belong to a block.
    pub fn addresses6(&self, block: &Ipv4Net) -> Option<Ipv6Net> {
        let subnet = self.subnet6?;
        let length = self.block6(&subnet);
        let within = u32::from(block.network()).checked_sub(u32::from(self.subnet.network()))?;
        let number = u128::from(within.checked_shr(32 - u32::from(self.block))?);
        let first = u128::from(subnet.network()) | number.checked_shl(128 - u32::from(length))?;
        Ipv6Net::new(Ipv6Addr::from(first), length).ok()
    }

    /// The addresses that a host's bridge has for a block: one of each family of the network.
    pub fn gateways(&self, block: &Ipv4Net) -> impl Iterator<Item = IpAddr> {
        let v6 = self.addresses6(block).map(|net| IpAddr::V6(Self::gateway6(&net)));
        std::iter::once(IpAddr::V4(Self::gateway(block))).chain(v6)
    }

    /// Whether an address is one that a host's bridge has, or would have.
    pub fn is_gateway(&self, address: IpAddr) -> bool {
        self.block_with(address)
            .is_some_and(|block| self.gateways(&block).any(|gateway| gateway == address))
    }

    /// Its subnets.
    pub fn nets(&self) -> impl Iterator<Item = IpNet> {
        std::iter::once(IpNet::V4(self.subnet)).chain(self.subnet6.map(IpNet::V6))
    }

    /// The same, for sentences.
    pub fn subnets(&self) -> String {
        let v6 = self.subnet6.map(|subnet| format!(", {subnet}"));
        format!("{}{}", self.subnet, v6.unwrap_or_default())
    }

    /// Whether an address is in one of its subnets.
    pub fn has(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.subnet.contains(&address),
            IpAddr::V6(address) => self.subnet6.is_some_and(|subnet| subnet.contains(&address)),
        }
    }

    /// Whether an address is a subnet's own, or its broadcast address (RFC 4291 §2.6.1).
    pub fn is_edge(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => {
                address == self.subnet.network() || address == self.subnet.broadcast()
            }
            IpAddr::V6(address) => self.subnet6.is_some_and(|subnet| subnet.network() == address),
        }
    }

    /// The IPv6 address that a host's bridge has, of those of its block.
    pub fn gateway6(net: &Ipv6Net) -> Ipv6Addr {
        Ipv6Addr::from(u128::from(net.network()) | 1)
    }

    /// The address that a host's bridge has in its block: the second of the block, as the first may be
    /// the subnet's own.
    pub fn gateway(block: &Ipv4Net) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(block.network()).saturating_add(1))
    }
}

/// Why an IPv6 subnet is none of a network of many hosts.
fn check6(subnet: &Ipv6Net) -> std::result::Result<(), String> {
    let first = subnet.network();
    if *subnet != subnet.trunc() {
        return Err(format!("{subnet} is no subnet, but an address in one"));
    }
    let (length, narrowest) = (subnet.prefix_len(), SharedNetwork::NARROWEST6);
    if !(8..=narrowest).contains(&length) {
        return Err(format!("{subnet} is not between a /8 and a /{narrowest}"));
    }
    let is_unusable = first.is_unspecified()
        || first.is_loopback()
        || first.is_multicast()
        || first.is_unicast_link_local()
        || first.to_ipv4_mapped().is_some();
    match is_unusable {
        true => Err(format!("{subnet} has no addresses that hosts give")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(subnet: &str, block: u8, mtu: u32) -> SharedNetwork {
        SharedNetwork {
            vni: Vni::new(7).unwrap(),
            subnet: subnet.parse().unwrap(),
            subnet6: None,
            block,
            mtu: Mtu::new(mtu).unwrap(),
            hosts: Placement::All,
            encrypted: false,
            transport: Transport::Vxlan,
            engines: Engines::default(),
            names: false,
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
    fn each_block_has_ipv6_addresses_of_its_own() {
        let mut network = network("10.8.0.0/16", 24, 1450);
        network.subnet6 = Some("fd00:8::/64".parse().unwrap());
        assert!(network.check(&"front".parse().unwrap()).is_ok());
        let block = |text: &str| text.parse::<Ipv4Net>().unwrap();
        for (v4, v6, gateway) in [
            ("10.8.0.0/24", "fd00:8::/72", "fd00:8::1"),
            ("10.8.3.0/24", "fd00:8::300:0:0:0/72", "fd00:8::300:0:0:1"),
            ("10.8.255.0/24", "fd00:8:0:0:ff00::/72", "fd00:8:0:0:ff00::1"),
        ] {
            let net = network.addresses6(&block(v4)).unwrap();
            assert_eq!(net.to_string(), v6.parse::<Ipv6Net>().unwrap().to_string());
            assert_eq!(network.block_with(net.broadcast().into()), Some(block(v4)));
            let gateway: IpAddr = gateway.parse().unwrap();
            assert!(network.is_gateway(gateway) && network.has(gateway), "{gateway}");
            assert!(network.gateways(&block(v4)).any(|it| it == gateway));
        }
        assert_eq!(network.block_with("fd00:9::1".parse().unwrap()), None);
        assert!(network.is_edge("fd00:8::".parse().unwrap()));
        for (bad, why) in [
            ("fd00:8::1/64", "is no subnet"),
            ("fd00:8::/112", "is not between"),
            ("ff02::/64", "no addresses"),
            ("fe80::/64", "no addresses"),
        ] {
            network.subnet6 = Some(bad.parse().unwrap());
            let error = network.check(&"front".parse().unwrap()).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
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
