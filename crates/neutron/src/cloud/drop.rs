//! DeleteNetwork and ReleasePool, in either order: a subnet goes with the last that uses it, and its
//! pool with both the subnet and the last request.

use std::collections::BTreeSet;

use engine::port::Records;
use model::{AliasId, Error, ResourceId, Result};

use super::given_up::GivenUp;
use super::live::Live;
use super::mark::{AUXILIARY_NAME, PoolMark, PortPurpose, RELEASED, use_of_auxiliary};
use super::network::existing_tag;
use super::pool_state::{is_id, subnets_of};
use crate::Neutron;
use crate::api::{NetworkResource, PortResource, SubnetPool, SubnetResource, Tagged, gone_is_done};
use crate::contract::{self, EXISTING_POOL, Mark};
use crate::stock_key::KeyDigest;

/// How often a network is read again that changes while it is deleted.
const ATTEMPTS: usize = 5;

impl Neutron {
    /// Gives a network up.
    pub(super) fn give_network_up(&self, id: &AliasId, records: &Records<'_>) -> Result<()> {
        let outcome = self.try_give_network_up(id, records);
        match &outcome {
            Ok(()) => {
                self.unfinished().settle(id);
                self.given_up().settle(id);
            }
            Err(error) => {
                // A network in use may still be the runtime's.
                if error.status() != Some(409) {
                    self.given_up().add(id);
                }
                self.leave_behind();
            }
        }
        outcome
    }

    fn try_give_network_up(&self, id: &AliasId, records: &Records<'_>) -> Result<()> {
        let live = Live::read(records)?;
        let networks = self.networks_of(id)?;
        for network in &networks {
            self.refuse_used(id, network, &live)?;
        }
        networks.into_iter().try_for_each(|of| self.leave_network(id, of, &live))
    }

    pub(crate) fn given_up(&self) -> GivenUp {
        GivenUp::at(&self.directory)
    }

    /// Neutron deletes no subnet with another user's port; by then another one may be deleted.
    fn refuse_used(&self, id: &AliasId, network: &NetworkResource, live: &Live) -> Result<()> {
        if !(is_last(id, network) && is_made(id, network)) {
            return Ok(());
        }
        let ports = self.api().ports(&[("network_id", network.id.to_string())])?;
        // Those of Neutron's own services are its to remove, or to refuse.
        let is_foreign = |port: &&PortResource| {
            let is_services = port.device_owner.starts_with("network:");
            !is_services && !self.goes_with_subnet(port, live) && !self.is_ready(port, live)
        };
        match ports.iter().find(is_foreign) {
            None => Ok(()),
            Some(port) => Err(Error::conflict(format!(
                "Neutron's network {} ({}) has port {} of another user (device_owner {:?}, device_id \
                 {:?}, host {:?}): delete that first",
                network.name,
                network.id,
                port.id,
                port.device_owner,
                port.device_id,
                port.host().unwrap_or_default()
            ))
            .with_status(409)),
        }
    }

    /// Whether it is of the stock of this host, which is emptied first.
    fn is_ready(&self, port: &PortResource, live: &Live) -> bool {
        self.is_of_stock(port) && !self.stock_files().is_lent(&port.id) && !live.has(port)
    }

    /// Whether a port is deleted with its subnet: it was requested with an address or only keeps
    /// one, and no attachment has it. Its user is gone, or the deletion would never end.
    fn goes_with_subnet(&self, port: &PortResource, live: &Live) -> bool {
        match Mark::read(&port.description) {
            Some(mark) => {
                let is_of_stock = KeyDigest::of_mark(&mark).is_some();
                let is_lent = is_of_stock && self.stock_files().is_lent(&port.id);
                let is_requested = PortPurpose::of(&mark).is_some() || is_lent;
                mark.is_of(&self.settings.host) && is_requested && !live.has(port)
            }
            None => contract::is_kuryrs(port) && port.host().is_none() && !live.has(port),
        }
    }

    fn leave_network(&self, id: &AliasId, mut network: NetworkResource, live: &Live) -> Result<()> {
        let once = self.use_of(id);
        for _ in 0..ATTEMPTS {
            let goes = is_last(id, &network) && is_made(id, &network);
            let subnets = self.api().subnets(&[("network_id", network.id.to_string())])?;
            for subnet in &subnets {
                self.leave_subnet(subnet, (&once, goes), live)?;
            }
            // Others that use it have ports made again when they want one.
            self.drain_stock(&network.id)?;
            if !goes {
                return self.untag_network(id, &network);
            }
            let filter = [("id", network.id.to_string())];
            let Some(now) = self.api().networks(&filter)?.pop() else { return Ok(()) };
            network = now;
            if !is_last(id, &network) {
                continue;
            }
            let (of, revision) = (&network.id, network.revision_number);
            match self.api().delete_unchanged(Tagged::Networks, of, revision) {
                Err(error) if error.status() == Some(412) => {}
                done => return done,
            }
        }
        self.api().delete_network(&network.id)
    }

    /// One subnet of a network that is given up. What kuryr-libnetwork made bears no tags of use.
    fn leave_subnet(
        &self,
        subnet: &SubnetResource,
        (once, goes): (&str, bool),
        live: &Live,
    ) -> Result<()> {
        let was_used = subnet.tags.iter().any(|tag| tag == once);
        let others = uses(&subnet.tags).any(|tag| tag != once);
        let is_ours = Mark::read(&subnet.description).is_some();
        let is_made = is_ours || subnet.name.starts_with(contract::SUBNET);
        if is_made && (was_used || goes) && !others {
            return self.drop_subnet(subnet, live);
        }
        if !was_used {
            return Ok(());
        }
        self.free_auxiliaries(&subnet.id, once)?;
        self.api().remove_tag(Tagged::Subnets, &subnet.id, once)
    }

    /// Deletes the ports that keep addresses of a subnet back, which stays, for this use of it.
    fn free_auxiliaries(&self, subnet: &ResourceId, once: &str) -> Result<()> {
        let of_subnet = ("fixed_ips", format!("subnet_id={subnet}"));
        let filter = [of_subnet, ("name", AUXILIARY_NAME.to_owned())];
        let is_ours = |port: &&PortResource| {
            let mark = Mark::read(&port.description).filter(|of| of.is_of(&self.settings.host));
            mark.and_then(|mark| use_of_auxiliary(&self.settings.host, &mark)).as_deref()
                == Some(once)
        };
        let ports = self.api().ports(&filter)?;
        ports.iter().filter(is_ours).try_for_each(|port| self.api().delete_port(&port.id))
    }

    /// Deletes a subnet, and the pool that was only waiting for it.
    fn drop_subnet(&self, subnet: &SubnetResource, live: &Live) -> Result<()> {
        self.drop_ports(&subnet.id, live)?;
        self.drain_stock(&subnet.network_id)?;
        self.api().delete_subnet(&subnet.id)?;
        let tagged = subnet.tags.iter().filter(|tag| is_id(tag)).filter_map(|tag| tag.parse().ok());
        let pools: BTreeSet<ResourceId> =
            subnet.subnetpool_id.iter().cloned().chain(tagged).collect();
        for id in pools {
            self.memory.misplace(&id);
            if let Some(pool) = self.pool_of(&id)?
                && PoolMark::read(&pool.description).is_some()
                && pool.tags.iter().any(|tag| tag == RELEASED)
            {
                // Either way is fine: a pool in use stays.
                let _ = self.delete_idle_pool(&id)?;
            }
        }
        Ok(())
    }

    /// Deletes the ports of a subnet that go with it; none where an attachment has one, as then the
    /// subnet stays.
    pub(crate) fn drop_ports(&self, subnet: &ResourceId, live: &Live) -> Result<()> {
        let ports = self.api().ports(&[("fixed_ips", format!("subnet_id={subnet}"))])?;
        if let Some(port) = ports.iter().find(|port| live.has(port)) {
            return Err(Error::conflict(format!(
                "port {} of subnet {subnet} is that of an endpoint",
                port.id
            ))
            .with_status(409));
        }
        for port in ports.iter().filter(|port| self.goes_with_subnet(port, live)) {
            self.abandon(&port.id)?;
            self.stock_files().drop_lent(&port.id)?;
            self.allocated.remove(&port.id);
        }
        Ok(())
    }

    fn untag_network(&self, id: &AliasId, network: &NetworkResource) -> Result<()> {
        let existing = [existing_tag(id)].into_iter();
        // Those by which it is found go last.
        for tag in existing.chain(contract::id_tags(id.as_str()).into_iter().rev()) {
            if network.tags.contains(&tag) {
                self.api().remove_tag(Tagged::Networks, &network.id, &tag)?;
            }
        }
        Ok(())
    }

    /// Takes one use of a pool back.
    pub(super) fn take_pool_back(&self, id: &ResourceId, records: &Records<'_>) -> Result<()> {
        // An engine does not ask again.
        self.try_take_pool_back(id, records).inspect_err(|_| self.leave_behind())
    }

    fn try_take_pool_back(&self, id: &ResourceId, records: &Records<'_>) -> Result<()> {
        self.memory.settle(id);
        self.memory.misplace(id);
        let Some(pool) = self.pool_of(id)? else { return Ok(()) };
        if PoolMark::read(&pool.description).is_some() {
            return self.drop_pool(&pool, &Live::read(records)?);
        }
        if pool.tags.iter().any(|tag| tag == EXISTING_POOL) {
            return self.leave_pool(&pool);
        }
        let prefix = &self.settings.kuryr.pool_prefix;
        let name = pool.prefixes.first().map(|net| contract::pool_name(prefix, net));
        match name.as_ref() == Some(&pool.name) {
            true => self.drop_kuryrs_pool(&pool, &Live::read(records)?),
            // It has another owner.
            false => Ok(()),
        }
    }

    /// A pool of Spoke's, with the subnet that was made for it.
    fn drop_pool(&self, pool: &SubnetPool, live: &Live) -> Result<()> {
        let own: BTreeSet<&String> = uses(&pool.tags).collect();
        let mut subnets = self.api().subnets(&[("tags", pool.id.to_string())])?;
        for id in subnets_of(pool) {
            if subnets.iter().all(|subnet| subnet.id != id) {
                subnets.extend(self.api().subnets(&[("id", id.to_string())])?);
            }
        }
        for subnet in &subnets {
            let others = uses(&subnet.tags).any(|tag| !own.contains(tag));
            let is_ours = Mark::read(&subnet.description).is_some();
            let is_made_for_it = is_ours && !own.is_empty() && !others;
            let is_gone = is_made_for_it && self.is_dropped(subnet, live)?;
            if !is_gone && subnet.subnetpool_id.as_ref() != Some(&pool.id) {
                let tag = pool.id.as_str();
                self.api().remove_tag(Tagged::Subnets, &subnet.id, tag)?;
            }
        }
        match self.delete_idle_pool(&pool.id)? {
            true => Ok(()),
            // It goes with the subnet.
            false => gone_is_done(self.api().add_tag(Tagged::Pools, &pool.id, RELEASED)),
        }
    }

    /// Deletes the subnet, unless another user's port is in it.
    fn is_dropped(&self, subnet: &SubnetResource, live: &Live) -> Result<bool> {
        match self.drop_subnet(subnet, live) {
            Err(error) if error.status() == Some(409) => Ok(false),
            done => done.map(|()| true),
        }
    }

    /// Whether the pool is gone: one of which there is a subnet stays.
    fn delete_idle_pool(&self, id: &ResourceId) -> Result<bool> {
        match self.api().delete_pool(id, None) {
            // "Subnet pool has existing allocations" is a 400.
            Err(error) if matches!(error.status(), Some(400 | 409)) => Ok(false),
            done => done.map(|()| true),
        }
    }

    /// One use less of an operator's pool.
    fn leave_pool(&self, pool: &SubnetPool) -> Result<()> {
        let host = &self.settings.host;
        let own = pool.tags.iter().find(|tag| contract::is_use_of(tag, host));
        if let Some(own) = own {
            self.api().remove_tag(Tagged::Pools, &pool.id, own)?;
        }
        let is_used = uses(&pool.tags).any(|tag| Some(tag) != own);
        match is_used {
            true => Ok(()),
            false => self.api().remove_tag(Tagged::Pools, &pool.id, EXISTING_POOL),
        }
    }

    /// A pool of kuryr-libnetwork's. Its tags do not name its users, but those of the networks do.
    fn drop_kuryrs_pool(&self, pool: &SubnetPool, live: &Live) -> Result<()> {
        let mut subnets = self.api().subnets(&[("subnetpool_id", pool.id.to_string())])?;
        let tagged = self.api().subnets(&[("tags", pool.id.to_string())])?;
        subnets
            .extend(tagged.into_iter().filter(|one| one.subnetpool_id.as_ref() != Some(&pool.id)));
        for subnet in &subnets {
            let filter = [("id", subnet.network_id.to_string())];
            let network = self.api().networks(&filter)?.pop();
            let users = network.map(|network| users(&network)).unwrap_or_default();
            if users > 1 || uses(&subnet.tags).next().is_some() {
                return Ok(());
            }
        }
        for subnet in &subnets {
            let is_of_pool = subnet.subnetpool_id.as_ref() == Some(&pool.id);
            let is_made = is_of_pool && subnet.name.starts_with(contract::SUBNET);
            if !(is_made && self.is_dropped(subnet, live)?) {
                self.api().remove_tag(Tagged::Subnets, &subnet.id, pool.id.as_str())?;
            }
        }
        self.delete_idle_pool(&pool.id).map(drop)
    }
}

/// The tags of those who use something.
fn uses(tags: &[String]) -> impl Iterator<Item = &String> {
    tags.iter().filter(|tag| contract::is_use(tag))
}

/// Of how many of the runtimes' networks it is.
fn users(network: &NetworkResource) -> usize {
    network.tags.iter().filter(|tag| is_user(tag)).count()
}

/// Whether a tag has the first half of an id.
fn is_user(tag: &str) -> bool {
    contract::id_of_tags([tag]).is_some_and(|id| !id.is_empty())
}

/// Whether no other network of a runtime's is made of it.
fn is_last(id: &AliasId, network: &NetworkResource) -> bool {
    let own = contract::id_tags(id.as_str());
    network.tags.iter().all(|tag| !is_user(tag) || own.contains(tag))
}

/// Whether it was made for a runtime's network, and was not there before.
fn is_made(id: &AliasId, network: &NetworkResource) -> bool {
    let is_joined = network.tags.contains(&existing_tag(id));
    let is_kuryrs = network.name == contract::network_name(id.as_str());
    Mark::read(&network.description).is_some() || is_kuryrs && !is_joined
}
