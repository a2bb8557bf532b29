//! The subnets of a network that is made or joined.

use std::collections::BTreeSet;
use std::net::IpAddr;

use engine::port::{CloudNetwork, SubnetPlan};
use model::{Error, IpNet, ResourceId, ResourceRef, Result};

use super::mark::{PoolMark, make};
use super::network::{Done, Undo};
use crate::Neutron;
use crate::api::{AllocationPool, NetworkResource, NewSubnet, SubnetPool, SubnetResource, Tagged};
use crate::contract::{self, EXISTING_POOL, Mark};
use crate::pool_memory::{Note, PoolSubnet};

/// A network that is being made or joined.
pub(super) struct Joined<'a> {
    pub(super) plan: &'a CloudNetwork,
    pub(super) network: &'a NetworkResource,
    /// The subnets that it had before.
    pub(super) there: &'a [SubnetResource],
}

impl Neutron {
    /// One family's subnet, and the pool that it was requested with.
    pub(super) fn join_subnet(
        &self,
        joined: &Joined<'_>,
        part: &SubnetPlan,
        undo: &mut Undo,
    ) -> Result<(SubnetResource, Option<ResourceId>)> {
        let Joined { plan, network, there } = joined;
        let found = match present(part, network, there)? {
            Some(found) => Some(found),
            None => self.part_of(joined, part),
        };
        let pool = match plan.foreign_addresses {
            true => None,
            false => self.requested(plan, part, found)?,
        };
        let once = self.use_of(&plan.id);
        let kept_for = once.clone();
        let id = pool.as_ref().map(|(id, _)| id.clone());
        let mut tags: Vec<String> = id.iter().map(ResourceId::to_string).collect();
        tags.push(once.clone());
        let subnet = match found {
            Some(subnet) => {
                for tag in tags.into_iter().filter(|tag| !subnet.tags.contains(tag)) {
                    self.tag(Tagged::Subnets, &subnet.id, tag, undo)?;
                }
                subnet.clone()
            }
            None => {
                let subnet = self.new_subnet(joined, part, pool.as_ref(), undo)?;
                self.api().set_tags(Tagged::Subnets, &subnet.id, &tags)?;
                subnet
            }
        };
        let mut kept: BTreeSet<IpAddr> = part.auxiliary.iter().copied().collect();
        if let Some((id, note)) = &pool {
            kept.extend(&note.auxiliary);
            if !note.is_whole(id) {
                let is_joined = found.is_some_and(|subnet| subnet.tags.contains(&once));
                match is_joined {
                    // This call does not undo an earlier one.
                    true => self.api().add_tag(Tagged::Pools, id, &once)?,
                    false => self.tag(Tagged::Pools, id, once, undo)?,
                }
                if subnet.subnetpool_id.as_ref() != Some(id) && note.subnet.is_none() {
                    self.tag(Tagged::Pools, id, subnet.id.to_string(), undo)?;
                }
            }
        }
        for address in kept {
            self.reserve((&network.id, &subnet.id), address, Some(&kept_for))?;
        }
        Ok((subnet, id))
    }

    /// The subnet of an existing network that is the part which was named: what of the network is meant
    /// is known only now.
    fn part_of<'a>(&self, joined: &Joined<'a>, part: &SubnetPlan) -> Option<&'a SubnetResource> {
        joined.plan.existing.as_ref()?;
        let (_, note) = self.memory.pool_for(&part.net, None)?;
        joined.there.iter().find(|subnet| Some(subnet.cidr) == note.part)
    }

    /// The pool that was requested for the subnet, with its settings.
    fn requested(
        &self,
        plan: &CloudNetwork,
        part: &SubnetPlan,
        found: Option<&SubnetResource>,
    ) -> Result<Option<(ResourceId, Note)>> {
        let once = self.use_of(&plan.id);
        // Then the network was made before, and the answer was lost.
        let is_joined = found.is_some_and(|subnet| subnet.tags.contains(&once));
        let known = self.memory.pool_for(&part.net, found.map(|subnet| &subnet.id));
        if let Some(known) = known.filter(|_| !is_joined) {
            return Ok(Some(known));
        }
        // Or an earlier process of this daemon allocated the pool.
        let name = contract::pool_name(&self.settings.kuryr.pool_prefix, &part.net);
        let pools = self.api().pools(&[("name", name)])?;
        let of_plan = |pool: &&SubnetPool| pool.tags.contains(&once);
        if let Some(pool) = pools.iter().find(of_plan) {
            return Ok(Some((pool.id.clone(), noted(pool, part.net))));
        }
        let host = &self.settings.host;
        let is_ours =
            |pool: &&SubnetPool| Mark::read(&pool.description).is_some_and(|m| m.is_of(host));
        let unused = pools.iter().filter(is_ours).filter(|pool| !is_used(pool));
        let youngest =
            unused.max_by_key(|pool| PoolMark::read(&pool.description).map(|mark| mark.nonce));
        if let Some(pool) = youngest {
            return Ok(Some((pool.id.clone(), noted(pool, part.net))));
        }
        if let Some(which) = &part.pool
            && let Ok(pool) = self.one_pool(which)
            && pool.tags.iter().any(|tag| tag == EXISTING_POOL)
        {
            return Ok(Some((pool.id.clone(), noted(&pool, part.net))));
        }
        match found {
            Some(_) => Ok(None),
            None => Err(Error::not_found(format!(
                "no pool of {} was requested on this host: give the network the same IPAM driver",
                part.net
            ))),
        }
    }

    fn new_subnet(
        &self,
        joined: &Joined<'_>,
        part: &SubnetPlan,
        pool: Option<&(ResourceId, Note)>,
        undo: &mut Undo,
    ) -> Result<SubnetResource> {
        let Joined { plan, network, there } = joined;
        let gateway = part.gateway.filter(|address| !address.is_unspecified());
        let source = self.source_of(part, there, pool)?;
        let part_of = pool.and_then(|(_, note)| note.part);
        let subnet = NewSubnet {
            name: contract::subnet_name(&part.net),
            network_id: network.id.clone(),
            ip_version: if part.net.addr().is_ipv4() { 4 } else { 6 },
            cidr: part.net,
            gateway_ip: gateway,
            subnetpool_id: source.clone(),
            enable_dhcp: self.settings.kuryr.enable_dhcp,
            allocation_pools: part_of
                .map(|of| pools_of(&part.net, &of, gateway))
                .unwrap_or_default(),
            description: self.network_mark(&plan.id),
        };
        let filter = [("network_id", network.id.to_string()), ("cidr", part.net.to_string())];
        let made = make(|| self.api().create_subnet(&subnet), || self.api().subnets(&filter));
        let made = made.inspect_err(|_| {
            if let (Some((_, Note { source: Some(of), .. })), Some(id)) = (pool, source)
                && *of == id
            {
                self.memory.refuse(id, part.net);
            }
        })?;
        undo.0.push(Done::Subnet(made.id.clone()));
        Ok(made)
    }

    /// The pool that the subnet is taken from. Neutron wants those of one network and family to be of
    /// the same one.
    fn source_of(
        &self,
        part: &SubnetPlan,
        there: &[SubnetResource],
        pool: Option<&(ResourceId, Note)>,
    ) -> Result<Option<ResourceId>> {
        let is_v4 = part.net.addr().is_ipv4();
        if let Some(other) = there.iter().find(|other| other.cidr.addr().is_ipv4() == is_v4) {
            return Ok(other.subnetpool_id.clone());
        }
        if let Some(which) = &part.pool {
            return self.one_pool(which).map(|pool| Some(pool.id));
        }
        Ok(pool.map(|(id, note)| note.source.clone().unwrap_or_else(|| id.clone())))
    }

    /// Remembers where the addresses are of a pool of which a network was made.
    pub(super) fn settle_pool(
        &self,
        pool: &ResourceId,
        subnet: SubnetResource,
        all: &[SubnetResource],
    ) {
        let siblings = all.iter().map(|subnet| subnet.id.clone()).collect();
        self.memory.put(pool.clone(), PoolSubnet { subnet, siblings });
        self.memory.settle(pool);
    }
}

impl Note {
    /// Whether the operator's pool was requested as a whole.
    fn is_whole(&self, pool: &ResourceId) -> bool {
        self.source.as_ref() == Some(pool)
    }
}

/// The settings that an earlier process noted for a pool, as far as the pool has them.
fn noted(pool: &SubnetPool, net: IpNet) -> Note {
    let mark = PoolMark::read(&pool.description);
    let source = match mark {
        Some(mark) => mark.source,
        None => Some(pool.id.clone()),
    };
    let subnet = super::pool_state::subnets_of(pool).pop();
    Note { source, subnet, ..Note::new(net) }
}

fn is_used(pool: &SubnetPool) -> bool {
    pool.tags.iter().any(|tag| contract::is_use(tag))
}

/// The subnet, if it exists already.
fn present<'a>(
    part: &SubnetPlan,
    network: &NetworkResource,
    there: &'a [SubnetResource],
) -> Result<Option<&'a SubnetResource>> {
    let Some(which) = &part.subnet else {
        return Ok(there.iter().find(|subnet| subnet.cidr == part.net));
    };
    let is_it = |subnet: &&SubnetResource| match which {
        ResourceRef::Id(id) => subnet.id == *id,
        ResourceRef::Name(name) => subnet.name == name.as_str(),
    };
    match there.iter().find(is_it) {
        Some(subnet) if subnet.cidr == part.net => Ok(Some(subnet)),
        Some(subnet) => Err(Error::invalid(format!(
            "Neutron's subnet {which} is {}, and {} is asked for",
            subnet.cidr, part.net
        ))),
        None => Err(Error::invalid(format!(
            "Neutron's network {} ({}) has no subnet {which}",
            network.name, network.id
        ))),
    }
}

/// The parts of `part` for any address, without the gateway.
fn pools_of(net: &IpNet, part: &IpNet, gateway: Option<IpAddr>) -> Vec<AllocationPool> {
    let (first, last) = model::hosts_of(net);
    let start = part.network().max(first);
    let end = part.broadcast().min(last);
    let gateway = gateway.unwrap_or(first);
    let whole = AllocationPool { start, end };
    if gateway < start || end < gateway {
        return vec![whole];
    }
    let before = model::previous_address(gateway).filter(|before| *before >= start);
    let after = model::next_address(gateway).filter(|after| *after <= end);
    let before = before.map(|end| AllocationPool { start, end });
    before.into_iter().chain(after.map(|start| AllocationPool { start, end })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(part: &str, gateway: Option<&str>) -> Vec<String> {
        let gateway = gateway.map(|gateway| gateway.parse().unwrap());
        let pools = pools_of(&"10.0.0.0/16".parse().unwrap(), &part.parse().unwrap(), gateway);
        pools.iter().map(|pool| format!("{}-{}", pool.start, pool.end)).collect()
    }

    #[test]
    fn the_gateway_is_in_no_part() {
        assert_eq!(reported("10.0.1.0/24", Some("10.0.0.1")), ["10.0.1.0-10.0.1.255"]);
        assert_eq!(reported("10.0.1.0/24", Some("10.0.1.0")), ["10.0.1.1-10.0.1.255"]);
        let around = ["10.0.1.0-10.0.1.8", "10.0.1.10-10.0.1.255"];
        assert_eq!(reported("10.0.1.0/24", Some("10.0.1.9")), around);
        assert_eq!(reported("10.0.0.0/24", None), ["10.0.0.2-10.0.0.255"]);
    }
}
