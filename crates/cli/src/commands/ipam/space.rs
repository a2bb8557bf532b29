//! Which address space is meant by an address.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{Error, Network, Result, Space};

/// The address spaces of the networks that may allocate the address.
pub(super) fn of_networks(networks: &[Network], address: IpAddr) -> BTreeSet<Space> {
    networks.iter().filter_map(|network| of_network(network, address)).collect()
}

/// That of a network, if it may allocate the address.
pub(super) fn of_network(network: &Network, address: IpAddr) -> Option<Space> {
    let mut pools = network.ipam.pools().iter();
    pools.find(|pool| pool.range_of(address).is_some()).map(|pool| pool.space.clone())
}

/// The one space of these.
///
/// # Errors
/// `Conflict` where there are several: tenants may have the same subnet.
pub(super) fn only(
    address: IpAddr,
    spaces: &BTreeSet<Space>,
    networks: &[Network],
) -> Result<Option<Space>> {
    if spaces.len() < 2 {
        return Ok(spaces.first().cloned());
    }
    let names: Vec<&str> = networks
        .iter()
        .filter(|network| of_network(network, address).is_some_and(|it| spaces.contains(&it)))
        .map(|network| network.name.as_str())
        .collect();
    let spaces: Vec<String> = spaces.iter().map(describe).collect();
    Err(Error::conflict(format!(
        "{address} is in several address spaces ({}): name a network with --network ({})",
        spaces.join(", "),
        names.join(", ")
    )))
}

fn describe(space: &Space) -> String {
    match space {
        Space::Host => "this host's".to_owned(),
        Space::Global => "the cluster's".to_owned(),
        Space::Network(name) => format!("that of network {name}"),
        Space::Named(name) => format!("that of tenant {name}"),
    }
}
