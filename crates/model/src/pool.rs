//! Sources of addresses, and their holders.

mod range;
mod remote;
mod source;
mod space;
mod usable;

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{
    AttachmentId, EngineId, Error, Layer, NetworkName, OwnerName, Result, Runtime, Timestamp,
};

pub use range::Range;
pub use remote::{GivenPool, RemoteIpam, RemotePool};
pub use source::{ForeignIpam, Ipam};
pub use space::{AddressSpace, Space};

/// A pool's name in the store: its network, and its place among the network's pools.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PoolId {
    /// The network that the pool serves.
    pub network: NetworkName,
    /// 0 for the network's first pool.
    pub index: u8,
}

/// In which order a pool's free addresses are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The one after the last that was allocated, so that a freed address rests longest (CNI).
    NextAfterLast,
    /// The lowest that is free (libnetwork).
    LowestFree,
}

/// Ranges of one address family, from which an attachment gets one address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// The pool's name in the store.
    pub id: PoolId,
    /// Where its addresses must be unique.
    pub space: Space,
    /// Never empty, and all of one family.
    pub ranges: Vec<Range>,
    /// In which order its addresses are allocated.
    pub order: Order,
}

/// Which keeps an address, and with what it is released.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tenant {
    /// A record of an attachment; the address goes with it.
    Attachment {
        /// The attachment.
        id: AttachmentId,
        /// The record of that attachment.
        layer: Layer,
    },
    /// A request of its own (libnetwork's RequestAddress). A release of its own frees the address,
    /// independent of the attachment that uses it.
    Request {
        /// Where it was requested.
        subnet: SubnetId,
        /// The attachment that uses it, once that is known.
        user: Option<AttachmentId>,
    },
}

/// The name of a subnet that was allocated, in the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SubnetId {
    /// Where it overlaps no other.
    pub space: Space,
    /// The whole of it.
    pub net: IpNet,
    /// The part of it from which any address is chosen; all of it where none is named.
    pub part: Option<IpNet>,
}

/// A subnet that a runtime requested (libnetwork's RequestPool), before it has a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet {
    /// Its name.
    pub id: SubnetId,
    /// The network that it is for: one that exists already, or one to be made under this name.
    pub network: NetworkName,
    /// The runtime that asked for it.
    pub runtime: Runtime,
    /// When it did so last.
    pub since: Timestamp,
    /// How often it was requested and not released.
    pub references: u32,
    /// In which order its addresses are allocated.
    pub order: Order,
    /// The key by which a container gets the same address again.
    pub sticky: Sticky,
    /// Whether a runtime that is asked has listed a network of it since it was last released. One
    /// that never was may be that of a runtime that is not asked.
    #[serde(default)]
    pub listed: bool,
    /// Which engine of the runtime that was, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lister: Option<EngineId>,
}

/// The key by which a requested address is kept after its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sticky {
    /// It is not kept.
    No,
    /// The hardware address.
    Mac,
    /// The name.
    Name,
}

/// Which address a caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Whichever the pool's order gives.
    Any,
    /// This one or none.
    Exactly(IpAddr),
}

/// An address given to an attachment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Where the address is unique.
    pub space: Space,
    /// The pool that it came from; none where it was fixed by the configuration.
    pub pool: Option<PoolId>,
    /// The address, with the prefix length of its subnet.
    pub address: IpNet,
    /// The gateway of the range that it came from.
    pub gateway: Option<IpAddr>,
}

/// The store's entry for a held address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The lease.
    pub lease: Lease,
    /// The tenant of the address.
    pub tenant: Tenant,
    /// The runtime that asked for it.
    pub runtime: Runtime,
    /// Since when it is held.
    pub since: Timestamp,
    /// The lasting name of its owner, where the runtime gives one.
    pub owner: Option<OwnerName>,
    /// Since when it is in doubt whether the holder still exists. The address is not allocated
    /// meanwhile.
    pub quarantined: Option<Timestamp>,
}

/// An address kept back from [`Want::Any`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Where the address is unique.
    pub space: Space,
    /// The reserved address.
    pub address: IpAddr,
    /// The owner that gets it when it asks for any address. Without one, none gets it.
    pub owner: Option<OwnerName>,
    /// The network in which the owner gets it.
    pub network: Option<NetworkName>,
    /// Whether it is kept because the owner once had it, and not because a user reserved it. Such a
    /// reservation may be dropped where room is needed.
    #[serde(default)]
    pub learned: bool,
    /// Until when it holds: its owner comes back in a moment, or not at all. Without a time it holds until it is
    /// ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl Reservation {
    /// An address that is kept without an owner, until that is ended.
    pub const fn new(space: Space, address: IpAddr) -> Self {
        Self { space, address, owner: None, network: None, learned: false, until: None }
    }
}

impl Pool {
    /// Its ranges as the reference plugins write them: the first and the last address of each.
    pub fn shown(&self) -> String {
        let shown = self.ranges.iter().map(|range| format!("{}-{}", range.first, range.last));
        shown.collect::<Vec<_>>().join(",")
    }

    /// The range in which `address` lies.
    pub fn range_of(&self, address: IpAddr) -> Option<&Range> {
        self.ranges.iter().find(|range| range.contains(address))
    }

    /// Whether the pool never leases `address` because it is the gateway of one of its ranges.
    pub fn is_gateway(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.gateway == Some(address))
    }

    /// How many addresses can be leased at once.
    pub fn capacity(&self) -> u128 {
        let whole: u128 = self.ranges.iter().fold(0, |sum, r| sum.saturating_add(r.size()));
        let gateways = self.ranges.iter().filter(|r| r.gateway.is_some_and(|g| r.contains(g)));
        whole.saturating_sub(gateways.count() as u128)
    }

    /// The attachment's interface address when it leases `address`.
    pub fn lease(&self, address: IpAddr) -> Result<Lease> {
        let Some(range) = self.range_of(address) else {
            let ranges: Vec<String> =
                self.ranges.iter().map(|r| format!("{}-{}", r.first, r.last)).collect();
            return Err(Error::invalid(format!(
                "address {address} is not in the range {} of network {}",
                ranges.join(","),
                self.id.network
            )));
        };
        let address = IpNet::new(address, range.subnet.prefix_len())
            .map_err(|cause| Error::bug(format!("subnet {}", range.subnet)).because(cause))?;
        Ok(Lease {
            space: self.space.clone(),
            pool: Some(self.id.clone()),
            address,
            gateway: range.gateway,
        })
    }
}

impl Holder {
    /// The attachment that has the address, if one does.
    pub fn attachment(&self) -> Option<&AttachmentId> {
        match &self.tenant {
            Tenant::Attachment { id, .. } => Some(id),
            Tenant::Request { user, .. } => user.as_ref(),
        }
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tenant::Attachment { id, .. } => id.fmt(f),
            Tenant::Request { user: Some(id), .. } => id.fmt(f),
            Tenant::Request { subnet, user: None } => write!(f, "a request from subnet {subnet}"),
        }
    }
}

impl fmt::Display for SubnetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.part {
            Some(part) => write!(f, "{} ({part})", self.net),
            None => self.net.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pool(ranges: &[(&str, &str, &str)]) -> Pool {
        let range = |(subnet, first, last): &(&str, &str, &str)| {
            Range::new(subnet.parse().unwrap(), first.parse().unwrap(), last.parse().unwrap(), None)
        };
        Pool {
            id: PoolId { network: "n".parse().unwrap(), index: 0 },
            space: Space::Host,
            ranges: ranges.iter().map(|r| range(r).unwrap()).collect(),
            order: Order::NextAfterLast,
        }
    }

    #[test]
    fn the_ranges_count_together() {
        let pool = pool(&[
            ("10.0.0.0/24", "10.0.0.1", "10.0.0.2"),
            ("10.1.0.0/24", "10.1.0.9", "10.1.0.9"),
        ]);
        assert_eq!(pool.capacity(), 3);
    }

    #[test]
    fn refuses_ranges_that_lie_outside() {
        let subnet: IpNet = "10.0.0.0/24".parse().unwrap();
        let (inside, outside) = ("10.0.0.9".parse().unwrap(), "10.0.1.1".parse().unwrap());
        assert_eq!(
            Range::new(subnet, inside, outside, None).unwrap_err().kind(),
            crate::Kind::Invalid
        );
        assert_eq!(
            Range::new(subnet, "10.0.0.10".parse().unwrap(), inside, None).unwrap_err().kind(),
            crate::Kind::Invalid
        );
    }

    proptest! {
        #[test]
        fn every_address_counts_once(size in 1u32..300, start in 0u32..200) {
            let first = std::net::Ipv4Addr::from(0x0a00_0000 + start);
            let last = std::net::Ipv4Addr::from(0x0a00_0000 + start + size - 1);
            let pool = pool(&[("10.0.0.0/16", &first.to_string(), &last.to_string())]);
            prop_assert_eq!(pool.capacity(), u128::from(size));
        }
    }
}
