//! Names of addresses. Those of private subnets mean something on their own networks only, and no server outside is
//! asked about them (RFC 6303, RFC 7793).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::{IpNet, is_public};

use crate::zone::reverse_domain;

/// What a name in the reverse domain of a private subnet is, if no container has that address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrivateReverse {
    /// That of an address which no container has, or of nothing.
    Unused,
    /// Above those of addresses: it is there, and has no records. What is below a name that is not there is not asked
    /// for (RFC 8020).
    Domain,
}

/// The same for these subnets, of which only those that are private count; `None` for every other name.
pub(crate) fn private_reverse(
    subnets: impl Iterator<Item = IpNet>,
    name: &str,
) -> Option<PrivateReverse> {
    let private: Vec<IpNet> = subnets.filter(|net| !is_public(net.network())).collect();
    if let Some(address) = reversed(name) {
        return private.iter().any(|net| net.contains(&address)).then_some(PrivateReverse::Unused);
    }
    let longest = if name.ends_with(".ip6.arpa") { 34 } else { 6 };
    let is_in = |domain: String| {
        name.strip_suffix(&domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let is_private = private.iter().filter_map(reverse_domain).any(is_in);
    is_private.then_some(match name.split('.').count() < longest {
        true => PrivateReverse::Domain,
        false => PrivateReverse::Unused,
    })
}

/// The address that a name of `in-addr.arpa` or `ip6.arpa` means (RFC 1035 §3.5, RFC 3596 §2.5).
pub(crate) fn reversed(name: &str) -> Option<IpAddr> {
    if let Some(digits) = name.strip_suffix(".in-addr.arpa") {
        let mut octets = digits.split('.').rev().map(|part| part.parse::<u8>().ok());
        let mut next = || octets.next().flatten();
        let address = Ipv4Addr::new(next()?, next()?, next()?, next()?);
        return octets.next().is_none().then_some(address.into());
    }
    let digits: Vec<&str> = name.strip_suffix(".ip6.arpa")?.split('.').collect();
    if digits.len() != 32 {
        return None;
    }
    let mut value: u128 = 0;
    for digit in digits.iter().rev() {
        let digit = Some(*digit).filter(|digit| digit.len() == 1)?;
        value = (value << 4) | u128::from(u8::from_str_radix(digit, 16).ok()?);
    }
    Some(Ipv6Addr::from(value).into())
}
