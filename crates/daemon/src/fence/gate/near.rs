//! What no name outside leads to: this host, and the containers on its bridges.

use std::collections::BTreeSet;
use std::net::IpAddr;

use linux::identity::is_ours_by;
use model::{IpNet, Result};
use netlink::{Links, Socket};

/// This host's addresses, and the subnets of the bridges that lead to containers.
#[derive(Debug)]
pub(super) struct Near {
    addresses: BTreeSet<IpAddr>,
    subnets: BTreeSet<IpNet>,
}

impl Near {
    /// As of now. The bridges are those that Spoke made or has ports on.
    ///
    /// # Errors
    /// Where the kernel cannot be asked.
    pub(super) fn read() -> Result<Self> {
        let mut socket = Socket::route()?;
        let links = socket.links(Links::default())?;
        let ours = links.iter().filter(|link| is_ours_by(link.group));
        let ours: BTreeSet<u32> =
            ours.flat_map(|link| [Some(link.index), link.master]).flatten().collect();
        let held = socket.addresses(None)?;
        let gateways = held.iter().filter(|it| ours.contains(&it.link)).map(|it| it.address);
        Ok(Self {
            subnets: gateways.map(|it| it.trunc()).collect(),
            addresses: held.iter().map(|it| it.address.addr()).collect(),
        })
    }

    /// Whether an address is this host's.
    pub(super) fn is_host(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    /// Whether an address is this host's, or a container's.
    pub(super) fn has(&self, address: IpAddr) -> bool {
        self.is_host(address) || self.subnets.iter().any(|it| it.contains(&address))
    }
}
