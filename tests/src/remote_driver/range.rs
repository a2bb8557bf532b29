//! Ranges of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network in CIDR notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) base: IpAddr,
    pub(super) length: u8,
}

impl Range {
    /// Reads `10.0.0.0/24`; what is right of the length is cleared.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("invalid CIDR address: {text}");
        let (address, length) = text.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let length: u8 = length.parse().map_err(|_| wrong())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        if length > width {
            return Err(wrong());
        }
        let below = width - length;
        let number = to_number(address).checked_shr(below.into()).unwrap_or(0);
        let base = from_number(number.checked_shl(below.into()).unwrap_or(0), address.is_ipv4());
        Ok(Self { base, length })
    }

    pub(super) fn is_v6(self) -> bool {
        self.base.is_ipv6()
    }

    /// Whether its first and last address are no host's.
    pub(super) fn is_wide(self) -> bool {
        let width = if self.base.is_ipv4() { 32 } else { 128 };
        width - self.length > 1
    }

    pub(super) fn contains(self, address: IpAddr) -> bool {
        let same = Self::parse(&format!("{address}/{}", self.length));
        address.is_ipv4() == self.base.is_ipv4() && same.is_ok_and(|range| range.base == self.base)
    }

    /// The addresses from the lowest on; not so many of a large one that it takes time.
    pub(super) fn addresses(self) -> impl Iterator<Item = IpAddr> {
        let width = if self.base.is_ipv4() { 32 } else { 128 };
        let count = 1_u128.checked_shl((width - self.length).into()).unwrap_or(u128::MAX);
        let (first, is_v4) = (to_number(self.base), self.base.is_ipv4());
        (0..count.min(4096)).map(move |n| from_number(first + n, is_v4))
    }

    /// The first and the last one.
    pub(super) fn ends(self) -> (IpAddr, IpAddr) {
        let width = if self.base.is_ipv4() { 32 } else { 128 };
        let count = 1_u128.checked_shl((width - self.length).into()).unwrap_or(0);
        let last = to_number(self.base).wrapping_add(count).wrapping_sub(1);
        (self.base, from_number(last, self.base.is_ipv4()))
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.length)
    }
}

fn to_number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

fn from_number(number: u128, is_v4: bool) -> IpAddr {
    match is_v4 {
        true => Ipv4Addr::from(number as u32).into(),
        false => Ipv6Addr::from(number).into(),
    }
}
