//! What no name outside leads to: this host, and the containers of its networks.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ::names::Place;
use linux::identity::{GROUP, VLAN_GATEWAY};
use model::{IpNet, Result};
use netlink::{Links, Socket};

/// This host's addresses, and the subnets of the networks that it routes.
#[derive(Debug)]
pub(super) struct Near {
    addresses: BTreeSet<IpAddr>,
    subnets: BTreeSet<IpNet>,
}

impl Near {
    /// As of now. The networks are those whose bridges Spoke made or has ports on, and those where names are asked.
    ///
    /// # Errors
    /// Where the kernel cannot be asked.
    pub(super) fn read(places: &[Place]) -> Result<Self> {
        let mut socket = Socket::route()?;
        let links = socket.links(Links::default())?;
        let ours = links.iter().filter(|link| [GROUP, VLAN_GATEWAY].contains(&link.group));
        let ours: BTreeSet<u32> =
            ours.flat_map(|link| [Some(link.index), link.master]).flatten().collect();
        let held = socket.addresses(None)?;
        let gateways = held.iter().filter(|it| ours.contains(&it.link)).map(|it| it.address);
        let subnets = gateways.chain(places.iter().map(|place| place.gateway));
        Ok(Self {
            subnets: subnets.map(|it| it.trunc()).collect(),
            addresses: held.iter().map(|it| it.address.addr()).collect(),
        })
    }

    /// Whether an address is this host's, or a container's.
    pub(super) fn has(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address) || self.subnets.iter().any(|it| it.contains(&address))
    }
}
