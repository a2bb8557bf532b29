//! Properties of an address source.

use crate::{Family, Ipam, Lease, Pool, RemoteIpam};

impl Ipam {
    /// The pools of the store that it leases from.
    pub fn pools(&self) -> &[Pool] {
        match self {
            Ipam::Book { pools } | Ipam::HostLocal { pools, .. } => pools,
            Ipam::None
            | Ipam::Fixed { .. }
            | Ipam::Requested { .. }
            | Ipam::Foreign(_)
            | Ipam::Dhcp(_)
            | Ipam::Remote(_) => &[],
        }
    }

    /// The addresses that it names itself.
    pub fn fixed_addresses(&self) -> &[Lease] {
        match self {
            Ipam::Fixed { leases } | Ipam::Requested { leases } => leases,
            Ipam::None
            | Ipam::Book { .. }
            | Ipam::HostLocal { .. }
            | Ipam::Foreign(_)
            | Ipam::Dhcp(_)
            | Ipam::Remote(_) => &[],
        }
    }

    /// The Docker IPAM plugin, where it is one.
    pub fn remote(&self) -> Option<&RemoteIpam> {
        match self {
            Ipam::Remote(remote) => Some(remote),
            Ipam::None
            | Ipam::Book { .. }
            | Ipam::HostLocal { .. }
            | Ipam::Fixed { .. }
            | Ipam::Requested { .. }
            | Ipam::Foreign(_)
            | Ipam::Dhcp(_) => None,
        }
    }

    /// The families of the addresses that it gives, as far as that is known before it is asked.
    pub fn families(&self) -> Vec<Family> {
        let pools = self.pools().iter().filter_map(|pool| pool.ranges.first());
        let fixed = self.fixed_addresses().iter().map(|lease| Family::of(&lease.address));
        let remote = self.remote().into_iter().flat_map(|remote| &remote.pools);
        let mut families: Vec<Family> = pools
            .map(|range| Family::of(&range.subnet))
            .chain(fixed)
            .chain(remote.map(|pool| pool.family))
            .collect();
        families.sort_unstable();
        families.dedup();
        families
    }

    /// Whether others than the store have a say in its addresses.
    pub fn is_shared(&self) -> bool {
        match self {
            Ipam::HostLocal { .. } | Ipam::Foreign(_) | Ipam::Dhcp(_) | Ipam::Remote(_) => true,
            Ipam::None | Ipam::Book { .. } | Ipam::Fixed { .. } | Ipam::Requested { .. } => false,
        }
    }

    /// Whether it chooses by itself, and may ask over the link for that: there must be one first.
    pub fn asks_over_link(&self) -> bool {
        match self {
            Ipam::Foreign(_) | Ipam::Dhcp(_) => true,
            Ipam::None
            | Ipam::Book { .. }
            | Ipam::HostLocal { .. }
            | Ipam::Fixed { .. }
            | Ipam::Requested { .. }
            | Ipam::Remote(_) => false,
        }
    }
}
