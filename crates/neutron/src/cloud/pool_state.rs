//! Which subnet a pool's addresses are of.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{Error, IpNet, ResourceId, Result};

use super::mark::PoolMark;
use crate::Neutron;
use crate::api::{SubnetPool, SubnetResource};
use crate::contract;
use crate::pool_memory::PoolSubnet;

/// The subnets and the use of a pool.
pub(super) struct PoolState {
    /// Its addresses.
    pub(super) net: IpNet,
    /// Where they are; not known before there is a network.
    pub(super) place: Option<Arc<PoolSubnet>>,
    /// Whether a network was made of it.
    pub(super) is_used: bool,
}

impl Neutron {
    /// Where the pool's addresses are.
    ///
    /// # Errors
    /// [`model::Kind::NotFound`] where there is no such pool.
    pub(super) fn pool_state(&self, id: &ResourceId) -> Result<PoolState> {
        if let Some(place) = self.memory.place(id) {
            return Ok(PoolState { net: place.subnet.cidr, place: Some(place), is_used: true });
        }
        if let Some(note) = self.memory.noted(id)
            && note.subnet.is_none()
            && note.source.as_ref() != Some(id)
        {
            return Ok(PoolState { net: note.net, place: None, is_used: false });
        }
        let Some(pool) = self.pool_of(id)? else {
            return Err(Error::not_found(format!("Neutron has no subnet pool {id}")));
        };
        let Some(net) = pool.prefixes.first().copied() else {
            return Err(Error::invalid(format!("Neutron's subnet pool {id} has no addresses")));
        };
        let use_tags: Vec<&String> = pool.tags.iter().filter(|tag| contract::is_use(tag)).collect();
        let is_ours = PoolMark::read(&pool.description).is_some();
        let is_used = match is_ours {
            true => !use_tags.is_empty(),
            false => self.memory.noted(id).is_none(),
        };
        let place = match (is_ours, use_tags.first()) {
            (true, Some(tag)) => self.place_by_use(&pool, tag)?,
            (true, None) => self.place_by_tag(&pool)?,
            (false, _) => self.place_by_kuryr(&pool)?,
        };
        let place = place.map(|place| match is_used {
            true => self.memory.put(id.clone(), place),
            false => Arc::new(place),
        });
        Ok(PoolState { net: place.as_ref().map_or(net, |place| place.subnet.cidr), place, is_used })
    }

    /// Of a pool of which a network was made: that and its subnets bear the same tag.
    fn place_by_use(&self, pool: &SubnetPool, tag: &str) -> Result<Option<PoolSubnet>> {
        let subnets = self.api().subnets(&[("tags", tag.to_owned())])?;
        let siblings = subnets.iter().map(|subnet| subnet.id.clone()).collect();
        Ok(best(subnets, pool).map(|subnet| PoolSubnet { subnet, siblings }))
    }

    /// Of a pool of a subnet that existed before.
    fn place_by_tag(&self, pool: &SubnetPool) -> Result<Option<PoolSubnet>> {
        for id in subnets_of(pool) {
            if let Some(subnet) = self.api().subnets(&[("id", id.to_string())])?.pop() {
                return Ok(Some(alone(subnet)));
            }
        }
        Ok(None)
    }

    /// As kuryr-libnetwork finds it.
    fn place_by_kuryr(&self, pool: &SubnetPool) -> Result<Option<PoolSubnet>> {
        let of_pool = self.api().subnets(&[("subnetpool_id", pool.id.to_string())])?;
        if let Some(subnet) = best(of_pool, pool) {
            return Ok(Some(alone(subnet)));
        }
        let tagged = self.api().subnets(&[("tags", pool.id.to_string())])?;
        match best(tagged, pool) {
            Some(subnet) => Ok(Some(alone(subnet))),
            None => self.place_by_tag(pool),
        }
    }
}

/// The subnets that a pool's tags name.
pub(super) fn subnets_of(pool: &SubnetPool) -> Vec<ResourceId> {
    let ids = pool.tags.iter().filter(|tag| is_id(tag));
    ids.filter_map(|tag| tag.parse().ok()).collect()
}

/// Whether a tag is the id of something.
pub(super) fn is_id(tag: &str) -> bool {
    matches!(tag.parse(), Ok(model::ResourceRef::Id(_)))
}

/// The one that is meant, if there are several.
fn best(mut subnets: Vec<SubnetResource>, pool: &SubnetPool) -> Option<SubnetResource> {
    let named = subnets_of(pool);
    let rank = |subnet: &SubnetResource| {
        let is_named = named.contains(&subnet.id);
        let is_of_pool = subnet.subnetpool_id.as_ref() == Some(&pool.id);
        let is_tagged = subnet.tags.iter().any(|tag| tag == pool.id.as_str());
        let is_same = pool.prefixes.first() == Some(&subnet.cidr);
        (is_same, is_named || is_of_pool || is_tagged)
    };
    subnets.sort_by_key(rank);
    let best = subnets.pop()?;
    let is_alone = subnets.is_empty();
    (rank(&best).0 || is_alone && rank(&best).1).then_some(best)
}

fn alone(subnet: SubnetResource) -> PoolSubnet {
    PoolSubnet { siblings: BTreeSet::from([subnet.id.clone()]), subnet }
}
