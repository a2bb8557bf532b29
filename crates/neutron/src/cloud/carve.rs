//! A free subnet of a pool.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::IpNet;

/// The first subnet of the prefixes with this prefix length that shares no address with one of
/// `taken`. A prefix that is smaller than that is taken as a whole.
pub(super) fn free_subnet(prefixes: &[IpNet], length: u8, taken: &[IpNet]) -> Option<IpNet> {
    prefixes.iter().find_map(|prefix| free_in(prefix, length.max(prefix.prefix_len()), taken))
}

fn free_in(prefix: &IpNet, length: u8, taken: &[IpNet]) -> Option<IpNet> {
    let last = bits(prefix.broadcast());
    let mut at = bits(prefix.network());
    while at <= last {
        let net = IpNet::new(address(at, prefix), length).ok()?.trunc();
        let in_the_way = taken.iter().filter(|other| model::overlap(&net, other));
        match in_the_way.map(|other| bits(other.broadcast())).max() {
            None => return Some(net),
            Some(end) => {
                let after = end.max(bits(net.broadcast())).checked_add(1)?;
                at = align(after, prefix, length)?;
            }
        }
    }
    None
}

/// The first start of a subnet that is not before this.
fn align(at: u128, prefix: &IpNet, length: u8) -> Option<u128> {
    let size = 1_u128.checked_shl(u32::from(prefix.max_prefix_len() - length))?;
    at.checked_add(size - 1).map(|past| past / size * size)
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(four) => u128::from(four.to_bits()),
        IpAddr::V6(six) => six.to_bits(),
    }
}

fn address(bits: u128, like: &IpNet) -> IpAddr {
    match like {
        IpNet::V4(_) => Ipv4Addr::from_bits(u32::try_from(bits).unwrap_or(u32::MAX)).into(),
        IpNet::V6(_) => Ipv6Addr::from_bits(bits).into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nets(all: &[&str]) -> Vec<IpNet> {
        all.iter().map(|net| net.parse().unwrap()).collect()
    }

    fn free(prefixes: &[&str], length: u8, taken: &[&str]) -> Option<String> {
        free_subnet(&nets(prefixes), length, &nets(taken)).map(|net| net.to_string())
    }

    #[test]
    fn finds_the_first_gap() {
        assert_eq!(free(&["10.0.0.0/24"], 24, &[]).unwrap(), "10.0.0.0/24");
        assert_eq!(free(&["10.0.0.0/24"], 8, &[]).unwrap(), "10.0.0.0/24");
        assert_eq!(free(&["10.0.0.0/24"], 24, &["10.0.0.128/25"]), None);
        let taken = ["10.0.0.0/24", "10.0.1.128/26", "10.0.3.0/24"];
        assert_eq!(free(&["10.0.0.0/16"], 24, &taken).unwrap(), "10.0.2.0/24");
        assert_eq!(free(&["10.0.0.0/24", "10.9.0.0/24"], 24, &taken).unwrap(), "10.9.0.0/24");
        assert_eq!(free(&["fd00::/48"], 64, &["fd00::/64"]).unwrap(), "fd00:0:0:1::/64");
        assert_eq!(free(&["0.0.0.0/0"], 1, &["0.0.0.0/1", "128.0.0.0/1"]), None);
        assert_eq!(free(&["::/0"], 64, &["::/0"]), None);
    }

    proptest! {
        #[test]
        fn what_is_found_is_free(starts in prop::collection::vec(any::<u16>(), 0..40), length in 17_u8..30) {
            let prefixes = nets(&["10.0.0.0/16"]);
            let taken: Vec<IpNet> = starts
                .iter()
                .map(|start| IpNet::new(Ipv4Addr::from_bits(0x0a00_0000 | u32::from(*start)).into(), 26).unwrap().trunc())
                .collect();
            if let Some(net) = free_subnet(&prefixes, length, &taken) {
                prop_assert!(prefixes[0].contains(&net));
                prop_assert!(taken.iter().all(|other| !model::overlap(other, &net)));
            }
        }
    }
}
