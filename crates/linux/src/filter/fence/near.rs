//! Containers of a routed network on other hosts: their packets leave by another interface than the bridge, and stay
//! in the network all the same.

use std::net::IpAddr;

use model::{Attachment, EgressRule, EgressTarget, Family, IfName, IpNet, Protocol, Service};
use netlink::nft::{Between, Tuple};

use super::sets::{OWN_ALLOWED, of};

/// The subnets of the network, where others reach it by routes.
pub(super) fn subnets(attachment: &Attachment) -> Vec<IpNet> {
    let held = attachment.addresses.iter().map(|held| held.address.trunc());
    held.filter(|net| attachment.wiring.is_direct(Family::of(net))).collect()
}

/// The same as rules for the protocols that have ports, so that they do not overlap with those of the container.
pub(super) fn rules(near: &[IpNet]) -> impl Iterator<Item = EgressRule> {
    near.iter().flat_map(|net| {
        [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].map(|protocol| EgressRule {
            target: EgressTarget::Net(*net),
            service: Service { protocol, first: 0, last: u16::MAX },
        })
    })
}

/// The other protocols, of which no rule can be about.
pub(super) fn others(
    (bridge, source): (&IfName, IpAddr),
    near: &[IpNet],
) -> Vec<(&'static str, Between)> {
    let mut named = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].map(Protocol::number);
    named.sort_unstable();
    let firsts = std::iter::once(0).chain(named.map(|number| number.saturating_add(1)));
    let lasts = named.map(|number| number.saturating_sub(1)).into_iter().chain([u8::MAX]);
    let gaps: Vec<(u8, u8)> = firsts.zip(lasts).filter(|(first, last)| first <= last).collect();
    let of_family = near.iter().filter(|net| net.addr().is_ipv4() == source.is_ipv4());
    let ranges = of_family.flat_map(|net| {
        gaps.iter().map(move |(first, last)| {
            let key = |address, protocol, port| {
                let from = Tuple::new().interface(bridge).address(source).address(address);
                from.protocol(protocol).service(port)
            };
            let (first, last) =
                (key(net.network(), *first, 0), key(net.broadcast(), *last, u16::MAX));
            (of(&OWN_ALLOWED, source), Between { first, last })
        })
    });
    ranges.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_is_named_once() {
        let (bridge, source) = ("br0".parse().unwrap(), "10.8.0.2".parse().unwrap());
        let near: Vec<IpNet> = vec!["10.8.0.0/16".parse().unwrap(), "fd00:8::/64".parse().unwrap()];
        let others = others((&bridge, source), &near);
        let protocol = |key: &Tuple| key.bytes()[24];
        let named = others.iter().map(|(_, it)| (protocol(&it.first), protocol(&it.last)));
        assert_eq!(named.collect::<Vec<_>>(), [(0, 5), (7, 16), (18, 131), (133, 255)]);
        assert_eq!(rules(&near).count(), 6);
    }
}
