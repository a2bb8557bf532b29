//! RequestPool.

use engine::port::{CloudPool, PoolSpec};
use model::{Error, Family, IpNet, ResourceId, ResourceRef, Result};

use super::carve::free_subnet;
use super::mark::{make, pool_mark, random};
use crate::Neutron;
use crate::api::{Filter, NewPool, SubnetPool, SubnetResource, Tagged};
use crate::contract::{self, EXISTING_POOL};
use crate::pool_memory::Note;

impl Neutron {
    /// Allocates a pool: a new one, but where an operator's is wanted as a whole.
    pub(super) fn hand_out_pool(&self, spec: &PoolSpec) -> Result<CloudPool> {
        let subnet = spec.subnet.as_ref().map(|which| self.one_subnet(which)).transpose()?;
        let named = spec.pool.as_ref().map(|which| self.one_pool(which)).transpose()?;
        let there = self.there(spec, subnet.as_ref(), named.as_ref())?;
        let spec = &part_that_is_there(spec, &there);
        if let (Some(pool), None) = (&named, &subnet)
            && let Some(whole) = whole_of(pool, spec)
        {
            return self.share_pool(pool, whole, spec.part);
        }
        let mut note = self.plan_pool(spec, subnet.as_ref(), named.as_ref())?;
        note.part = spec.part.filter(|part| *part != note.net);
        if let Some(part) = note.part.filter(|part| !note.net.contains(part)) {
            return Err(Error::invalid(format!("IP range {part} is not in subnet {}", note.net)));
        }
        let pool = self.make_pool(spec, &note)?;
        if let Some(subnet) = &note.subnet
            && let Err(error) = self.api().add_tag(Tagged::Pools, &pool.id, subnet.as_str())
        {
            // No other process knows it yet.
            let _ = self.api().delete_pool(&pool.id, None);
            return Err(error);
        }
        let net = note.net;
        self.memory.note(pool.id.clone(), note);
        Ok(CloudPool { id: pool.id, net })
    }

    /// The prefixes of what exists already and may be meant: of a subnet, a pool, or all subnets of
    /// a network. Only where a part is named is there a choice.
    fn there(
        &self,
        spec: &PoolSpec,
        subnet: Option<&SubnetResource>,
        named: Option<&SubnetPool>,
    ) -> Result<Vec<ExistingAddresses>> {
        match (subnet, named, &spec.network) {
            (Some(subnet), _, _) => Ok(vec![ExistingAddresses::Subnet(subnet.cidr)]),
            (None, Some(pool), _) => {
                Ok(pool.prefixes.iter().copied().map(ExistingAddresses::Pool).collect())
            }
            (None, None, Some(which)) if spec.part.is_some() => {
                let network = self.one_network(which)?;
                let subnets = self.api().subnets(&[("network_id", network.id.to_string())])?;
                Ok(subnets
                    .into_iter()
                    .map(|subnet| ExistingAddresses::Subnet(subnet.cidr))
                    .collect())
            }
            (None, None, _) => Ok(Vec::new()),
        }
    }

    /// Where the addresses are to be.
    fn plan_pool(
        &self,
        spec: &PoolSpec,
        subnet: Option<&SubnetResource>,
        named: Option<&SubnetPool>,
    ) -> Result<Note> {
        match (subnet, spec.net) {
            (Some(subnet), Some(net)) if subnet.cidr != net => Err(Error::invalid(format!(
                "Neutron's subnet {} ({}) is {}, and {net} is asked for",
                subnet.id, subnet.name, subnet.cidr
            ))),
            (Some(subnet), _) => {
                Ok(Note { subnet: Some(subnet.id.clone()), ..Note::new(subnet.cidr) })
            }
            (None, Some(net)) => {
                let source = named.map(|pool| has_room_for(pool, net)).transpose()?;
                Ok(Note { source, ..Note::new(net) })
            }
            (None, None) => {
                let default = match named {
                    Some(_) => None,
                    None => Some(self.default_pool(spec.family)?),
                };
                self.carve(named.or(default.as_ref()))
            }
        }
    }

    /// Chooses a subnet of the operator's pool.
    fn carve(&self, pool: Option<&SubnetPool>) -> Result<Note> {
        let Some(pool) = pool else { return Err(Error::bug("no pool to carve a subnet of")) };
        let filter = [("subnetpool_id", pool.id.to_string())];
        let used = self.api().subnets(&filter)?;
        let used: Vec<IpNet> = used.into_iter().map(|subnet| subnet.cidr).collect();
        let free = || {
            let taken = [used.as_slice(), &self.memory.taken_from(&pool.id)].concat();
            free_subnet(&pool.prefixes, pool.default_prefixlen, &taken)
        };
        let net = free().or_else(|| {
            self.memory.forgive(&pool.id);
            free()
        });
        let net = net.ok_or_else(|| {
            Error::exhausted(format!(
                "Neutron's subnet pool {} ({}) has no free /{} left: say --subnet, or add to the pool",
                pool.name, pool.id, pool.default_prefixlen
            ))
        })?;
        Ok(Note { source: Some(pool.id.clone()), ..Note::new(net) })
    }

    fn default_pool(&self, family: Family) -> Result<SubnetPool> {
        let [four, six] = &self.settings.kuryr.default_pools;
        let name = match family {
            Family::V4 => four,
            Family::V6 => six,
        };
        self.one_pool(&ResourceRef::Name(name.parse()?)).map_err(|error| {
            error.context("no subnet was named, and the default pool cannot be used")
        })
    }

    fn make_pool(&self, spec: &PoolSpec, note: &Note) -> Result<SubnetPool> {
        let is_source = note.source.is_none() && note.subnet.is_none();
        let scope = spec.address_scope.as_ref().filter(|_| is_source);
        let scope = scope.map(|which| self.address_scope(which)).transpose()?;
        let description = pool_mark(&self.settings.host, note.source.as_ref()).to_string();
        let pool = NewPool {
            name: contract::pool_name(&self.settings.kuryr.pool_prefix, &note.net),
            prefixes: vec![note.net],
            default_prefixlen: note.net.prefix_len(),
            min_prefixlen: is_wide(&note.net).then(|| note.net.prefix_len()),
            shared: spec.shared.filter(|_| is_source),
            address_scope_id: scope,
            description: description.clone(),
        };
        let post = || self.api().create_pool(&pool);
        make(post, || self.api().pools(&[("description", description.clone())]))
    }

    fn address_scope(&self, which: &ResourceRef) -> Result<ResourceId> {
        let list = |filter: Filter<'_>| self.api().ids("address-scopes", "address_scopes", filter);
        only(self.own_first(which, list)?, "address scope", which)
    }

    /// Lets one more network use the operator's pool.
    fn share_pool(&self, pool: &SubnetPool, net: IpNet, part: Option<IpNet>) -> Result<CloudPool> {
        if let Some(part) = part.filter(|part| !net.contains(part)) {
            return Err(Error::invalid(format!("IP range {part} is not in subnet {net}")));
        }
        let once = contract::use_tag(&self.settings.host, random());
        self.api().add_tag(Tagged::Pools, &pool.id, &once)?;
        self.api().add_tag(Tagged::Pools, &pool.id, EXISTING_POOL)?;
        let part = part.filter(|part| *part != net);
        let source = Some(pool.id.clone());
        self.memory.note(pool.id.clone(), Note { part, source, ..Note::new(net) });
        Ok(CloudPool { id: pool.id.clone(), net })
    }

    fn one_subnet(&self, which: &ResourceRef) -> Result<SubnetResource> {
        only(self.own_first(which, |filter| self.api().subnets(filter))?, "subnet", which)
    }

    pub(super) fn one_pool(&self, which: &ResourceRef) -> Result<SubnetPool> {
        only(self.own_first(which, |filter| self.api().pools(filter))?, "subnet pool", which)
    }

    /// The pool of this id.
    pub(super) fn pool_of(&self, id: &ResourceId) -> Result<Option<SubnetPool>> {
        Ok(self.api().pools(&[("id", id.to_string())])?.pop())
    }
}

/// The only one that answers to this.
pub(super) fn only<T>(mut found: Vec<T>, what: &str, which: &ResourceRef) -> Result<T> {
    match (found.pop(), found.len()) {
        (Some(one), 0) => Ok(one),
        (None, _) => Err(Error::not_found(format!("Neutron knows no {what} {which}"))),
        (Some(_), more) => Err(Error::conflict(format!(
            "{} of Neutron's resources are a {what} {which}: name it by its id",
            more + 1
        ))),
    }
}

/// Addresses of something that exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExistingAddresses {
    /// All of a subnet's.
    Subnet(IpNet),
    /// Those from which a pool gives subnets.
    Pool(IpNet),
}

impl ExistingAddresses {
    /// Whether a subnet with these addresses is meant by it, or can be made of it.
    fn has(self, net: IpNet) -> bool {
        match self {
            ExistingAddresses::Subnet(there) => there == net,
            ExistingAddresses::Pool(prefix) => prefix.contains(&net),
        }
    }
}

/// An existing subnet may be just the part, and then it is the requested one.
fn part_that_is_there(spec: &PoolSpec, there: &[ExistingAddresses]) -> PoolSpec {
    let is_there = |net: IpNet| there.iter().any(|of| of.has(net));
    let part = spec.part.filter(|part| !spec.net.is_some_and(is_there) && is_there(*part));
    match part {
        Some(part) => PoolSpec { net: Some(part), part: None, ..spec.clone() },
        None => spec.clone(),
    }
}

/// The pool's addresses, where all of its first prefix is wanted.
fn whole_of(pool: &SubnetPool, spec: &PoolSpec) -> Option<IpNet> {
    let first = *pool.prefixes.first()?;
    let is_undivided = pool.prefixes.len() == 1 && pool.default_prefixlen <= first.prefix_len();
    match spec.net {
        Some(net) => (net == first).then_some(first),
        None => is_undivided.then_some(first),
    }
}

fn has_room_for(pool: &SubnetPool, net: IpNet) -> Result<ResourceId> {
    if pool.prefixes.iter().any(|prefix| prefix.contains(&net)) {
        return Ok(pool.id.clone());
    }
    let prefixes: Vec<String> = pool.prefixes.iter().map(IpNet::to_string).collect();
    Err(Error::invalid(format!(
        "{net} is not in Neutron's subnet pool {} ({}), which has {}",
        pool.name,
        pool.id,
        prefixes.join(", ")
    )))
}

/// Whether Neutron takes a subnet for larger than any, unless a prefix length is given.
fn is_wide(net: &IpNet) -> bool {
    match net {
        IpNet::V4(net) => net.prefix_len() < 8,
        IpNet::V6(net) => net.prefix_len() < 64,
    }
}
