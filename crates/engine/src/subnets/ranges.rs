//! The ranges with the addresses of a subnet: in the pools of the network that it is for, or in a pool of its
//! own until that is made.

use std::net::IpAddr;

use model::{Error, IpNet, Lease, Network, Pool, PoolId, Range, Result, Stage, Subnet, hosts_of};

use crate::Subnets;
use crate::port::Key;
use crate::subnets::allocation::name_of;

/// Where to search for an address of a subnet.
pub(super) struct SubnetRanges {
    pub(super) subnet: Subnet,
    /// The pool of its addresses.
    pub(super) pool: Pool,
    /// The ranges of the pool that belong to the subnet.
    pub(super) own: Vec<Range>,
    /// The other ranges of the pool: what is taken once the subnet is full.
    pub(super) siblings: Vec<Range>,
    /// The network, once it is made.
    pub(super) network: Option<Box<Network>>,
}

impl Subnets<'_> {
    pub(super) fn ranges_of(&self, subnet: Subnet) -> Result<SubnetRanges> {
        let read = self.records.network_under(&Key::Network(subnet.network.clone()))?;
        let network = read.map(|read| read.value);
        let pools = network.as_ref().map_or(&[][..], |network| network.ipam.pools());
        let is_its = |pool: &&Pool| {
            pool.space == subnet.id.space && pool.ranges.iter().any(|range| is_of(range, &subnet))
        };
        let pool = match pools.iter().find(is_its) {
            Some(pool) => pool.clone(),
            None => provisional(&subnet)?,
        };
        let (own, siblings): (Vec<Range>, Vec<Range>) =
            pool.ranges.iter().cloned().partition(|range| is_of(range, &subnet));
        let own = match &subnet.id.part {
            Some(part) => own.iter().filter_map(|range| range.clipped(part)).collect(),
            None => own,
        };
        Ok(SubnetRanges { subnet, pool, own, siblings, network })
    }
}

impl SubnetRanges {
    /// The lease of the address, wherever in the subnet or the pool it is.
    pub(super) fn lease(&self, address: IpAddr) -> Result<Lease> {
        let net = self.subnet.id.net;
        let range = self.pool.range_of(address);
        let (subnet, gateway) = match range {
            Some(range) => (range.subnet, range.gateway),
            None => (net, self.own.first().and_then(|range| range.gateway)),
        };
        let address = IpNet::new(address, subnet.prefix_len())
            .map_err(|cause| Error::bug(format!("subnet {subnet}")).because(cause))?;
        let pool = PoolId { network: self.subnet.network.clone(), ..self.pool.id.clone() };
        Ok(Lease { space: self.subnet.id.space.clone(), pool: Some(pool), address, gateway })
    }

    /// Whether its network takes containers.
    pub(super) fn is_open(&self) -> bool {
        self.network.as_ref().is_some_and(|network| network.stage == Stage::Made)
    }

    /// Whether the address is in no range of a network that exists.
    pub(super) fn is_beyond(&self, address: IpAddr) -> bool {
        self.network.is_some() && self.pool.range_of(address).is_none()
    }

    /// Fails with `Invalid` where the address is no host of the subnet.
    pub(super) fn check_inside(&self, address: IpAddr) -> Result<()> {
        let net = self.subnet.id.net;
        let (first, last) = hosts_of(&net);
        if net.contains(&address) && first <= address && address <= last {
            return Ok(());
        }
        Err(Error::invalid(match net.contains(&address) {
            true => {
                format!("address {address} stands for the whole of subnet {net}, no host has it")
            }
            false => format!("address {address} is not in subnet {net}"),
        }))
    }

    /// The gateway that the network has in this subnet.
    pub(super) fn gateway(&self) -> Option<IpAddr> {
        self.own.iter().find_map(|range| range.gateway)
    }

    /// The pool's name before its network exists.
    pub(super) fn provisional_id(&self) -> Result<PoolId> {
        Ok(provisional(&self.subnet)?.id)
    }

    pub(super) fn full(&self) -> Error {
        let name = &self.subnet.network;
        Error::exhausted(format!(
            "no address is free in network {name}: all {} of {} are taken; \
             `spoke ipam show {name}` lists the holders",
            self.pool.capacity(),
            self.pool
                .ranges
                .iter()
                .map(|range| format!("{}-{}", range.first, range.last))
                .collect::<Vec<_>>()
                .join(" and ")
        ))
    }
}

fn is_of(range: &Range, subnet: &Subnet) -> bool {
    range.subnet.trunc() == subnet.id.net
}

/// The pool of a subnet whose network is not made yet, or never will be by us. Its cursor has a
/// name of its own: a network of several subnets begins as several pools.
fn provisional(subnet: &Subnet) -> Result<Pool> {
    let (net, part) = (subnet.id.net, subnet.id.part);
    Ok(Pool {
        id: PoolId { network: name_of(&subnet.id, subnet.runtime)?, index: 0 },
        space: subnet.id.space.clone(),
        ranges: vec![Range::of_hosts(net, part, None)?],
        order: subnet.order,
    })
}
