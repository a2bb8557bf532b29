//! Ranges of addresses.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Consecutive addresses of one subnet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// Gives the prefix length of every address leased from the range.
    pub subnet: IpNet,
    /// The first address that may be leased.
    pub first: IpAddr,
    /// The last address that may be leased.
    pub last: IpAddr,
    /// The gateway: never leased to a container, and part of the result of leases from the range.
    pub gateway: Option<IpAddr>,
}

impl Range {
    /// A range whose ends lie in `subnet`, in order.
    pub fn new(
        subnet: IpNet,
        first: IpAddr,
        last: IpAddr,
        gateway: Option<IpAddr>,
    ) -> Result<Self> {
        for end in [first, last] {
            if !subnet.contains(&end) {
                return Err(Error::invalid(format!("address {end} is not in network {subnet}")));
            }
        }
        if first > last {
            return Err(Error::invalid(format!("range start {first} is after range end {last}")));
        }
        Ok(Self { subnet, first, last, gateway })
    }

    /// The hosts of `subnet`, only those in `part` where one is given.
    pub fn of_hosts(subnet: IpNet, part: Option<IpNet>, gateway: Option<IpAddr>) -> Result<Self> {
        let (first, last) = crate::hosts_of(&subnet);
        let (first, last) = match part {
            None => (first, last),
            Some(part) if subnet.contains(&part) => {
                (part.network().max(first), part.broadcast().min(last))
            }
            Some(part) => {
                return Err(Error::invalid(format!("IP range {part} is not in subnet {subnet}")));
            }
        };
        Self::new(subnet, first, last, gateway)
    }

    /// The part of the range inside `part`, if there is one.
    pub fn clipped(&self, part: &IpNet) -> Option<Self> {
        let (first, last) = (self.first.max(part.network()), self.last.min(part.broadcast()));
        let is_of_one_family = self.first.is_ipv4() == part.network().is_ipv4();
        (is_of_one_family && first <= last).then(|| Self { first, last, ..self.clone() })
    }

    /// Whether `address` may be leased from this range (its gateway aside).
    pub fn contains(&self, address: IpAddr) -> bool {
        self.first.is_ipv4() == address.is_ipv4() && self.first <= address && address <= self.last
    }

    /// Whether the two ranges share an address.
    pub fn overlaps(&self, other: &Range) -> bool {
        self.contains(other.first) || self.contains(other.last) || other.contains(self.first)
    }

    /// How many addresses the range has, its gateway included; saturates.
    pub fn size(&self) -> u128 {
        (bits(self.last) - bits(self.first)).saturating_add(1)
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}
