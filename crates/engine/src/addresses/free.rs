//! Which subnets are free.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::{Error, Family, IpNet, Ipv4Net, Ipv6Net, Result, overlap};

use crate::port::Occupied;

/// How many free subnets an error proposes.
const PROPOSED: usize = 3;

/// How large a subnet of our choice is where none is given so.
const SIZE: (u8, u8) = (24, 64);

/// Which subnets are in use, and so which are free.
#[derive(Clone, Debug, Default)]
pub struct Occupancy {
    /// Subnets that a new network may not overlap.
    pub refused: Vec<Occupied>,
    /// Subnets that are not proposed, although a request may name them.
    pub avoided: Vec<IpNet>,
    /// Which unique local IPv6 addresses are this host's (RFC 4193 §3.2, the global id).
    pub site: [u8; 5],
    /// How many free subnets are skipped for others that search at the same time. Processes that
    /// lost a race for the first one do not all try the same next one.
    pub passed_over: usize,
}

impl Occupancy {
    /// Fails with `Conflict` where a part of `net` is in use, and proposes free subnets.
    pub fn refuse_overlap(&self, net: &IpNet) -> Result<()> {
        let Some(other) = self.refused.iter().find(|other| overlap(&other.net, net)) else {
            return Ok(());
        };
        let free = self.free(Family::of(net), Some(net.prefix_len())).take(PROPOSED);
        let free: Vec<String> = free.map(|net| net.to_string()).collect();
        let instead = match free.is_empty() {
            true => String::new(),
            false => format!(", or pick one of: {}", free.join(", ")),
        };
        Err(Error::conflict(format!(
            "subnet {net} overlaps {} ({}); attach to that network{instead}",
            other.net, other.by
        )))
    }

    /// The first free subnet of this size that is not passed over. Fails with `Exhausted` where there is
    /// none, and with `Invalid` where there can be none.
    pub fn choose(&self, family: Family, prefix_len: Option<u8>) -> Result<IpNet> {
        let size = prefix_len.unwrap_or_else(|| usual(family));
        if blocks(family, size, self.site).is_empty() {
            let (from, to) = match family {
                Family::V4 => (8, 32),
                Family::V6 => (48, 128),
            };
            return Err(Error::invalid(format!(
                "no private block holds a /{size}; give the subnet itself, or a prefix length \
                 from {from} to {to}"
            )));
        }
        let free = || self.free(family, prefix_len);
        free().nth(self.passed_over).or_else(|| free().next()).ok_or_else(|| {
            Error::exhausted(format!(
                "no /{size} of the private addresses is free on this host; give the subnet itself"
            ))
        })
    }

    /// Free subnets of this size, those first that others use least.
    pub fn free(&self, family: Family, prefix_len: Option<u8>) -> impl Iterator<Item = IpNet> {
        let size = prefix_len.unwrap_or_else(|| usual(family));
        let taken = self.refused.iter().map(|other| other.net).chain(self.avoided.iter().copied());
        let taken: Vec<IpNet> = taken.collect();
        blocks(family, size, self.site)
            .into_iter()
            .flat_map(move |block| vacancies(block, &taken, size))
            .filter_map(move |vacancy| vacancy.subnets(size).ok())
            .flatten()
    }
}

/// Fails with `Invalid` where no network can have this subnet.
pub fn check_subnet(net: &IpNet) -> Result<()> {
    if *net != net.trunc() {
        return Err(Error::invalid(format!(
            "subnet {net} has host bits set; the subnet is {}",
            net.trunc()
        )));
    }
    match is_for_hosts(net) {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "subnet {net} holds addresses that no host may have: loopback, link-local, \
             multicast or reserved ones"
        ))),
    }
}

/// Without the addresses that RFC 6890 keeps from ordinary hosts.
fn is_for_hosts(net: &IpNet) -> bool {
    const SPECIAL: [(IpAddr, u8); 7] = [
        (IpAddr::V4(Ipv4Addr::new(0, 0, 0, 0)), 8),
        (IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
        (IpAddr::V4(Ipv4Addr::new(169, 254, 0, 0)), 16),
        (IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0)), 3),
        (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 127),
        (IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10),
        (IpAddr::V6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0)), 8),
    ];
    let mut special = SPECIAL.iter().filter_map(|(ip, length)| IpNet::new(*ip, *length).ok());
    !special.any(|special| overlap(&special, net))
}

fn usual(family: Family) -> u8 {
    match family {
        Family::V4 => SIZE.0,
        Family::V6 => SIZE.1,
    }
}

/// The part of `blocks` that is searched first: its 2048 subnets of the usual size are where hosts without
/// many networks have all that they chose.
pub const CHOSEN_FIRST: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 200, 0, 0), 13);

/// Where subnets of this size are taken from, in this order. Of the private IPv4 addresses (RFC
/// 1918) the middle of 10.0.0.0/8 is what other programs choose least; its lower half and
/// 192.168.0.0/16 are what people do.
fn blocks(family: Family, size: u8, site: [u8; 5]) -> Vec<IpNet> {
    let v4 =
        |a: u8, b: u8, size: u8| Ipv4Net::new(Ipv4Addr::new(a, b, 0, 0), size).ok().map(IpNet::V4);
    match (family, size) {
        (Family::V4, 16..) => {
            let tens = (200..=255).chain(128..200).map(|b| (10, b));
            let later = (16..32).map(|b| (172, b)).chain((0..128).map(|b| (10, b)));
            let all = tens.chain(later).chain([(192, 168)]);
            all.filter_map(|(a, b)| v4(a, b, 16)).collect()
        }
        (Family::V4, 12..) => {
            let all = [(10, 128, 9), (172, 16, 12), (10, 0, 9)];
            all.into_iter().filter_map(|(a, b, size)| v4(a, b, size)).collect()
        }
        (Family::V4, 9..) => {
            [(10, 128), (10, 0)].into_iter().filter_map(|(a, b)| v4(a, b, 9)).collect()
        }
        (Family::V4, 8) => v4(10, 0, 8).into_iter().collect(),
        (Family::V6, 48..) => {
            let [a, b, c, d, e] = site.map(u16::from);
            let prefix = Ipv6Addr::new(0xfd00 | a, b << 8 | c, d << 8 | e, 0, 0, 0, 0, 0);
            let block = Ipv6Net::new(prefix, 48);
            block.ok().map(IpNet::V6).into_iter().collect()
        }
        (Family::V4 | Family::V6, _) => Vec::new(),
    }
}

/// The largest free parts of `block`, ascending; none smaller than `size`.
fn vacancies(block: IpNet, taken: &[IpNet], size: u8) -> Vec<IpNet> {
    let inside: Vec<IpNet> = taken.iter().filter(|net| overlap(net, &block)).copied().collect();
    if inside.is_empty() {
        return vec![block];
    }
    if block.prefix_len() >= size || inside.iter().any(|net| net.contains(&block)) {
        return Vec::new();
    }
    let halves = block.subnets(block.prefix_len() + 1).into_iter().flatten();
    halves.flat_map(|half| vacancies(half, &inside, size)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn occupied(nets: &[&str]) -> Occupancy {
        let refused = nets
            .iter()
            .map(|net| Occupied { net: net.parse().unwrap(), by: format!("network of {net}") })
            .collect();
        Occupancy { refused, avoided: Vec::new(), site: *b"spoke", passed_over: 0 }
    }

    fn first(nets: &[&str], family: Family, size: Option<u8>) -> String {
        occupied(nets).choose(family, size).map_or_else(|e| e.to_string(), |net| net.to_string())
    }

    #[test]
    fn the_first_free_one_is_chosen() {
        use Family::{V4, V6};
        for (taken, family, size, expected) in [
            (&[][..], V4, None, "10.200.0.0/24"),
            (&["10.200.0.0/24", "10.200.1.128/25"], V4, None, "10.200.2.0/24"),
            (&["10.200.0.0/16"], V4, None, "10.201.0.0/24"),
            (&["10.128.0.0/9"], V4, None, "172.16.0.0/24"),
            (
                &["0.0.0.0/0"],
                V4,
                None,
                "no /24 of the private addresses is free on this host; give the subnet itself",
            ),
            (&[], V4, Some(16), "10.200.0.0/16"),
            (&["10.200.0.1/32"], V4, Some(16), "10.201.0.0/16"),
            (&["10.200.0.1/32"], V4, Some(32), "10.200.0.0/32"),
            (&["10.200.0.0/31"], V4, Some(31), "10.200.0.2/31"),
            (&[], V4, Some(14), "10.128.0.0/14"),
            (&["10.128.0.0/10"], V4, Some(9), "10.0.0.0/9"),
            (&[], V4, Some(8), "10.0.0.0/8"),
            (&[], V6, None, "fd73:706f:6b65::/64"),
            (&["fd73:706f:6b65::/63"], V6, None, "fd73:706f:6b65:2::/64"),
            (&["fd73:706f:6b65::/64"], V6, Some(128), "fd73:706f:6b65:1::/128"),
            (&["10.0.0.0/8"], V6, Some(48), "fd73:706f:6b65::/48"),
        ] {
            assert_eq!(first(taken, family, size), expected, "{taken:?} {size:?}");
        }
        for (family, size) in [(V4, 7), (V4, 0), (V6, 47), (V6, 0)] {
            assert!(first(&[], family, Some(size)).contains("no private block holds"), "{size}");
        }
    }

    #[test]
    fn there_are_more_than_256() {
        let all: Vec<IpNet> = occupied(&[]).free(Family::V4, None).take(70_000).collect();
        assert_eq!(all.len(), 273 * 256);
        assert_eq!(all[256].to_string(), "10.201.0.0/24");
        assert_eq!(occupied(&[]).free(Family::V6, None).count(), 65_536);
    }

    #[test]
    fn a_refusal_names_the_holder_and_proposes() {
        let taken = occupied(&["10.1.0.0/16", "10.200.1.0/24"]);
        let error = taken.refuse_overlap(&"10.1.2.0/24".parse().unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "subnet 10.1.2.0/24 overlaps 10.1.0.0/16 (network of 10.1.0.0/16); attach to that \
             network, or pick one of: 10.200.0.0/24, 10.200.2.0/24, 10.200.3.0/24"
        );
        let error = taken.refuse_overlap(&"0.0.0.0/1".parse().unwrap()).unwrap_err();
        assert!(error.to_string().ends_with("attach to that network"), "{error}");
        taken.refuse_overlap(&"10.2.0.0/16".parse().unwrap()).unwrap();
    }

    #[test]
    fn no_network_can_have_these() {
        for (net, why) in [
            ("10.1.2.3/24", "the subnet is 10.1.2.0/24"),
            ("fd00::1/64", "the subnet is fd00::/64"),
            ("127.0.0.0/8", "no host may have"),
            ("0.0.0.0/0", "no host may have"),
            ("fe80::/64", "no host may have"),
            ("240.0.0.0/8", "no host may have"),
        ] {
            let error = check_subnet(&net.parse().unwrap()).unwrap_err();
            assert!(error.kind() == model::Kind::Invalid && error.to_string().contains(why));
        }
        check_subnet(&"192.168.0.2/31".parse().unwrap()).unwrap();
    }

    proptest! {
        #[test]
        fn what_is_free_overlaps_nothing(
            taken in prop::collection::vec((any::<u16>(), 17u8..=30), 0..40),
            size in 17u8..=30,
        ) {
            let nets: Vec<String> = taken
                .iter()
                .map(|(low, length)| {
                    let [c, d] = low.to_be_bytes();
                    let net: IpNet = format!("10.200.{c}.{d}/{length}").parse().unwrap();
                    net.trunc().to_string()
                })
                .collect();
            let nets: Vec<&str> = nets.iter().map(String::as_str).collect();
            let taken = occupied(&nets);
            let block: IpNet = "10.200.0.0/16".parse().unwrap();
            let is_free = |net: &IpNet| taken.refused.iter().all(|other| !overlap(&other.net, net));
            let expected: Vec<IpNet> = block.subnets(size).unwrap().filter(is_free).collect();
            let free = taken.free(Family::V4, Some(size)).take_while(|net| block.contains(net));
            prop_assert_eq!(free.collect::<Vec<_>>(), expected);
        }
    }
}
