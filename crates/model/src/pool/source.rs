//! Sources of addresses.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Lease, Pool, RemoteIpam};
use crate::{Dhcp, Family, PluginName};

/// The source of a network's addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ipam {
    /// None: a network without addresses.
    None,
    /// The store.
    Book {
        /// An address from each.
        pools: Vec<Pool>,
    },
    /// The store, and beside it the directory in which the reference plugin `host-local` keeps one
    /// file per address, so that either can follow the other.
    HostLocal {
        /// An address from each.
        pools: Vec<Pool>,
        /// The directory of this network, for example `/var/lib/cni/networks/podman`.
        directory: PathBuf,
    },
    /// The configuration names the addresses (the reference plugin `static`).
    Fixed {
        /// Each with its subnet's prefix length and gateway.
        leases: Vec<Lease>,
    },
    /// Another program.
    Foreign(ForeignIpam),
    /// A server on the link's segment.
    Dhcp(Dhcp),
    /// A third-party Docker IPAM plugin.
    Remote(RemoteIpam),
    /// The runtime itself, which requested each of them from us before and releases it by itself
    /// (libnetwork with us as its IPAM driver).
    Requested {
        /// Each with its subnet's prefix length and gateway.
        leases: Vec<Lease>,
    },
}

/// A third-party IPAM plugin, executed as the CNI specification says (CNI 1.1.0 §4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignIpam {
    /// The executable's base name.
    pub plugin: PluginName,
    /// The directories of the executable, in order.
    pub path: Vec<PathBuf>,
    /// Its standard input: the complete network configuration. Spoke does not read it.
    pub config: String,
    /// `CNI_ARGS` as the runtime gave it.
    pub args: String,
    /// Whether the plugin may be called for its own network namespace (`CNI_NETNS_OVERRIDE`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_namespace: bool,
}

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
