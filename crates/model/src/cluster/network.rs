//! A network of many hosts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use super::{Engines, Placement, SharedRules, Transport, lenient};
use crate::{Error, IpNet, Mtu, NetworkName, Result, Timestamp, Vni, next_address};

/// A network of many hosts, as it is declared for all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedNetwork {
    /// Its number in VXLAN packets; no other network of the cluster has it.
    pub vni: Vni,
    /// Its addresses: of these each host has blocks. Versions that know only IPv4 subnets do not use one of IPv6.
    pub subnet: IpNet,
    /// The IPv6 addresses of a network whose `subnet` is of IPv4, where it has some. Each block of IPv4 addresses has
    /// a part of these with it.
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
    /// Whether a name keeps its addresses, on whichever host its container is. Programs that do not know of this keep
    /// none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sticky: bool,
    /// Who reaches its containers, and where these may go.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "SharedRules::is_open")]
    pub rules: SharedRules,
    /// When it was declared.
    pub since: Timestamp,
}

impl SharedNetwork {
    /// The shortest prefix of a subnet.
    const WIDEST: u8 = 8;
    /// A block has at least so many addresses, as a power of two: a gateway and at least one container, without the
    /// addresses that no host may have.
    const LEAST_BITS: u8 = 3;
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
        let refused = |why: String| Error::invalid(format!("network {name}: {why}"));
        self.check_subnets().map_err(refused)?;
        let has_v6 = self.nets().any(|net| net.addr().is_ipv6());
        let least = if has_v6 { Self::LEAST_MTU6 } else { Self::LEAST_MTU };
        if self.mtu.bytes() < least {
            return Err(refused(format!("MTU {} is less than {least}", self.mtu)));
        }
        if self.encrypted && self.transport == Transport::Route {
            return Err(refused(
                "packets that are routed as they are cannot be encrypted".to_owned(),
            ));
        }
        self.hosts.check()
    }

    fn check_subnets(&self) -> std::result::Result<(), String> {
        check_subnet(self.subnet)?;
        let (subnet, narrowest) =
            (self.subnet.prefix_len(), self.subnet.max_prefix_len() - Self::LEAST_BITS);
        if self.block <= subnet || self.block > narrowest {
            return Err(format!(
                "a block of {} is a /{} to a /{narrowest}, not a /{}",
                self.subnet,
                subnet + 1,
                self.block
            ));
        }
        if self.block - subnet > Self::MOST_BITS {
            return Err(format!(
                "{} has more than {} blocks of a /{}; choose larger ones",
                self.subnet,
                1 << Self::MOST_BITS,
                self.block
            ));
        }
        let Some(subnet6) = self.subnet6 else { return Ok(()) };
        if self.subnet.addr().is_ipv6() {
            return Err(format!("{} and {subnet6} are both subnets of IPv6", self.subnet));
        }
        if subnet6.prefix_len() > Self::NARROWEST6 {
            return Err(format!("{subnet6} is not between a /8 and a /{}", Self::NARROWEST6));
        }
        check_subnet(subnet6.into())?;
        match 128 - self.block6(&subnet6) < 32 - self.block {
            true => Err(format!("a block of {subnet6} has fewer addresses than a /{}", self.block)),
            false => Ok(()),
        }
    }

    /// Whether only later versions know how to use it.
    pub fn is_unknown(&self) -> bool {
        let is_routed = self.transport == Transport::Route;
        self.transport == Transport::Other
            || self.rules.are_unknown()
            || (is_routed && self.rules.need_vxlan())
    }

    /// Whether versions that know only VXLAN in clear text and subnets of IPv4 would use it wrongly: they must not find
    /// who has claimed its VNI.
    pub fn is_special(&self) -> bool {
        self.encrypted || !self.transport.is_vxlan() || self.subnet.addr().is_ipv6()
    }

    /// Whether they are one network: in which engines it is made, and whether it has names or keeps addresses, may
    /// differ, as a host that had an earlier version has not kept that.
    pub fn is_same(&self, other: &Self) -> bool {
        let apart = |network: &Self| Self {
            engines: Engines::default(),
            names: false,
            sticky: false,
            ..network.clone()
        };
        apart(self) == apart(other)
    }

    /// Whether `net` is one of its blocks.
    pub fn is_block(&self, net: &IpNet) -> bool {
        net.prefix_len() == self.block && *net == net.trunc() && self.subnet.contains(net)
    }

    /// The block in which an address of the network is, or to which its IPv6 addresses belong.
    pub fn block_with(&self, address: IpAddr) -> Option<IpNet> {
        let address = match (address, self.subnet) {
            (IpAddr::V6(address), IpNet::V4(subnet)) => self.first_with(address, subnet)?.into(),
            (address, _) => address,
        };
        let block = IpNet::new(address, self.block).ok()?.trunc();
        self.is_block(&block).then_some(block)
    }

    /// The first IPv4 address of the block to which an IPv6 address belongs.
    fn first_with(&self, address: Ipv6Addr, v4: Ipv4Net) -> Option<Ipv4Addr> {
        let subnet = self.subnet6.filter(|subnet| subnet.contains(&address))?;
        let number = (u128::from(address) - u128::from(subnet.network()))
            .checked_shr(128 - u32::from(self.block6(&subnet)))?;
        let within = u32::try_from(number).ok()?.checked_shl(32 - u32::from(self.block))?;
        Some(Ipv4Addr::from(u32::from(v4.network()).checked_add(within)?))
    }

    /// The prefix length of the IPv6 addresses of a block.
    fn block6(&self, subnet: &Ipv6Net) -> u8 {
        subnet.prefix_len() + self.block.saturating_sub(self.subnet.prefix_len())
    }

    /// The IPv6 addresses that belong to a block of IPv4 addresses.
    pub fn addresses6(&self, block: &IpNet) -> Option<Ipv6Net> {
        let (IpNet::V4(v4), IpNet::V4(block)) = (self.subnet, block) else { return None };
        let subnet = self.subnet6?;
        let length = self.block6(&subnet);
        let within = u32::from(block.network()).checked_sub(u32::from(v4.network()))?;
        let number = u128::from(within.checked_shr(32 - u32::from(self.block))?);
        let first = u128::from(subnet.network()) | number.checked_shl(128 - u32::from(length))?;
        Ipv6Net::new(Ipv6Addr::from(first), length).ok()
    }

    /// A block, and the IPv6 addresses that belong to it.
    pub fn parts(&self, block: &IpNet) -> impl Iterator<Item = IpNet> + use<> {
        std::iter::once(*block).chain(self.addresses6(block).map(IpNet::V6))
    }

    /// The addresses that a host's bridge has for a block: one of each family of the network.
    pub fn gateways(&self, block: &IpNet) -> impl Iterator<Item = IpAddr> + use<> {
        self.parts(block).map(|part| Self::gateway(&part))
    }

    /// Whether an address is one that a host's bridge has, or would have.
    pub fn is_gateway(&self, address: IpAddr) -> bool {
        self.block_with(address)
            .is_some_and(|block| self.gateways(&block).any(|gateway| gateway == address))
    }

    /// Its subnets.
    pub fn nets(&self) -> impl Iterator<Item = IpNet> + use<> {
        std::iter::once(self.subnet).chain(self.subnet6.map(IpNet::V6))
    }

    /// The same, for sentences.
    pub fn subnets(&self) -> String {
        let v6 = self.subnet6.map(|subnet| format!(", {subnet}"));
        format!("{}{}", self.subnet, v6.unwrap_or_default())
    }

    /// Whether an address is in one of its subnets.
    pub fn has(&self, address: IpAddr) -> bool {
        self.nets().any(|net| net.contains(&address))
    }

    /// Whether an address is a subnet's own, or its broadcast address (RFC 4291 §2.6.1).
    pub fn is_edge(&self, address: IpAddr) -> bool {
        self.nets().any(|net| {
            net.network() == address || (address.is_ipv4() && net.broadcast() == address)
        })
    }

    /// The address that a host's bridge has in its block, or of the IPv6 addresses of that: the second, as the first
    /// may be the subnet's own.
    pub fn gateway(block: &IpNet) -> IpAddr {
        let first = block.network();
        next_address(first).unwrap_or(first)
    }
}

/// Why a subnet is none of a network of many hosts.
fn check_subnet(subnet: IpNet) -> std::result::Result<(), String> {
    if subnet != subnet.trunc() {
        return Err(format!("{subnet} is no subnet, but an address in one"));
    }
    if subnet.prefix_len() < SharedNetwork::WIDEST {
        return Err(format!("{subnet} is larger than a /{}", SharedNetwork::WIDEST));
    }
    let is_unusable = match subnet.network() {
        IpAddr::V4(first) => {
            first.octets()[0] == 0
                || first.is_loopback()
                || first.is_link_local()
                || first.octets()[0] >= 224
        }
        IpAddr::V6(first) => {
            first.is_unspecified()
                || first.is_loopback()
                || first.is_multicast()
                || first.is_unicast_link_local()
                || first.to_ipv4_mapped().is_some()
        }
    };
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
            sticky: false,
            rules: SharedRules::OPEN,
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
        let block = |text: &str| text.parse::<IpNet>().unwrap();
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
        assert_eq!(gateway, IpAddr::from([10, 8, 3, 1]));
    }

    #[test]
    fn a_network_of_ipv6_alone_has_blocks_of_ipv6() {
        let mut network = network("fd00:8::/64", 72, 1430);
        let name: NetworkName = "front".parse().unwrap();
        assert!(network.check(&name).is_ok() && network.is_special());
        let block: IpNet = "fd00:8:0:0:300::/72".parse().unwrap();
        assert_eq!(network.block_with("fd00:8::3ff:0:0:9".parse().unwrap()), Some(block));
        for other in ["10.8.0.1", "fd00:9::1"] {
            assert_eq!(network.block_with(other.parse().unwrap()), None, "{other}");
        }
        let gateway: IpAddr = "fd00:8::300:0:0:1".parse().unwrap();
        assert_eq!(network.gateways(&block).collect::<Vec<_>>(), [gateway]);
        assert!(network.is_gateway(gateway) && network.has(gateway) && !network.is_edge(gateway));
        assert!(network.is_edge("fd00:8::".parse().unwrap()));
        assert!(!network.is_edge("fd00:8::ffff:ffff:ffff:ffff".parse().unwrap()));
        for (subnet, block, mtu, why) in [
            ("fd00:8::1/64", 72, 1430, "is no subnet"),
            ("fd00:8::/64", 64, 1430, "is a /65 to a /125, not a /64"),
            ("fd00:8::/64", 77, 1430, "more than 4096 blocks"),
            ("fe80::/64", 72, 1430, "no addresses"),
            ("fd00:8::/64", 72, 1279, "less than 1280"),
        ] {
            let error = self::network(subnet, block, mtu).check(&name).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        network.subnet6 = Some("fd00:9::/64".parse().unwrap());
        let error = network.check(&name).unwrap_err().to_string();
        assert!(error.contains("both subnets of IPv6"), "{error}");
    }
}
