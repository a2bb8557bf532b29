//! CreateNetwork.

use engine::port::CloudNetwork;
use model::{AliasId, Error, Network, ResourceId, ResourceRef, Result};

use super::live::Live;
use super::mark::{make, network_use};
use super::pool::only;
use super::subnet::Joined;
use super::unfinished::Unfinished;
use crate::Neutron;
use crate::api::{NetworkResource, NewNetwork, SubnetResource, Tagged};
use crate::contract::{self, Mark};

/// The finished steps, which are undone last first if a later one fails.
#[derive(Debug, Default)]
pub(super) struct Undo(pub(super) Vec<Done>);

/// One step of making a network.
#[derive(Debug)]
pub(super) enum Done {
    /// A network was made.
    Network(ResourceId),
    /// A subnet was made.
    Subnet(ResourceId),
    /// Something got a tag.
    Tag(Tagged, ResourceId, String),
}

impl Neutron {
    /// Makes a network, or joins one, and returns the template of its attachments.
    pub(super) fn make_network(&self, plan: &CloudNetwork) -> Result<Network> {
        self.unfinished().begin(&plan.id)?;
        self.given_up().settle(&plan.id);
        let mut undo = Undo::default();
        self.build(plan, &mut undo).inspect_err(|error| {
            // A refused request made nothing.
            let is_refused = error.status().is_some_and(|status| status < 500);
            match self.undo(undo) && is_refused {
                true => self.unfinished().settle(&plan.id),
                false => {
                    self.unfinished().fail(&plan.id);
                    self.leave_behind();
                }
            }
        })
    }

    fn build(&self, plan: &CloudNetwork, undo: &mut Undo) -> Result<Network> {
        let (network, is_new) = self.join_network(plan, undo)?;
        let there = match is_new {
            true => Vec::new(),
            false => self.api().subnets(&[("network_id", network.id.to_string())])?,
        };
        let mut pools = Vec::new();
        let mut subnets: Vec<SubnetResource> = Vec::new();
        let joined = Joined { plan, network: &network, there: &there };
        for part in &plan.subnets {
            let (subnet, pool) = self.join_subnet(&joined, part, undo)?;
            pools.extend(pool.map(|pool| (pool, subnet.clone())));
            subnets.push(subnet);
        }
        for (pool, subnet) in pools {
            self.settle_pool(&pool, subnet, &subnets);
        }
        self.template(&plan.id, &network, &subnets, plan.ports.clone())
    }

    /// The network, and whether it has no subnets because it was made now.
    fn join_network(
        &self,
        plan: &CloudNetwork,
        undo: &mut Undo,
    ) -> Result<(NetworkResource, bool)> {
        let (network, is_new) = match (&plan.existing, self.networks_of(&plan.id)?.pop()) {
            (None, Some(network)) => (network, false),
            (None, None) => (self.new_network(plan, undo)?, true),
            (Some(which), _) => {
                let network = self.one_network(which)?;
                if let Some(shared) = plan.shared.filter(|shared| *shared != network.shared) {
                    return Err(disagree(which, &network, shared));
                }
                (network, false)
            }
        };
        let mut tags = contract::id_tags(plan.id.as_str());
        if plan.existing.is_some() {
            tags.push(existing_tag(&plan.id));
        }
        if is_new {
            self.api().set_tags(Tagged::Networks, &network.id, &tags)?;
            return Ok((network, true));
        }
        for tag in tags.into_iter().filter(|tag| !network.tags.contains(tag)) {
            self.tag(Tagged::Networks, &network.id, tag, undo)?;
        }
        Ok((network, false))
    }

    fn new_network(&self, plan: &CloudNetwork, undo: &mut Undo) -> Result<NetworkResource> {
        let mark = self.network_mark(&plan.id);
        let network = NewNetwork {
            name: contract::network_name(plan.id.as_str()),
            admin_state_up: true,
            shared: plan.shared,
            description: mark.clone(),
        };
        let made = make(
            || self.api().create_network(&network),
            || self.api().networks(&[("description", mark.clone())]),
        )?;
        undo.0.push(Done::Network(made.id.clone()));
        Ok(made)
    }

    /// The network that is meant.
    pub(super) fn one_network(&self, which: &ResourceRef) -> Result<NetworkResource> {
        only(self.own_first(which, |filter| self.api().networks(filter))?, "network", which)
    }

    /// The networks that were made for the id, or joined under it.
    pub(super) fn networks_of(&self, id: &AliasId) -> Result<Vec<NetworkResource>> {
        let tags = contract::id_tags(id.as_str());
        let tagged = self.api().networks(&[("tags", tags.join(","))])?;
        match tagged.is_empty() {
            // Its maker may have died before it added tags.
            true => self.api().networks(&[("description", self.network_mark(id))]),
            false => Ok(tagged),
        }
    }

    pub(super) fn network_mark(&self, id: &AliasId) -> String {
        Mark::new(&self.settings.host, id.as_str()).to_string()
    }

    pub(super) fn use_of(&self, id: &AliasId) -> String {
        network_use(&self.settings.host, id)
    }

    /// Adds a tag, and takes it away again if what follows fails.
    pub(super) fn tag(
        &self,
        what: Tagged,
        id: &ResourceId,
        tag: String,
        undo: &mut Undo,
    ) -> Result<()> {
        self.api().add_tag(what, id, &tag)?;
        undo.0.push(Done::Tag(what, id.clone(), tag));
        Ok(())
    }

    /// Networks that are being made, and whose runtime does not have the answer.
    pub(crate) fn unfinished(&self) -> Unfinished {
        Unfinished::at(&self.directory)
    }

    /// Whether all of it is undone. What is not is found by its mark or tag.
    fn undo(&self, undo: Undo) -> bool {
        let mut is_undone = true;
        for done in undo.0.into_iter().rev() {
            let undone = match &done {
                Done::Network(id) => self.api().delete_network(id),
                Done::Subnet(id) => {
                    // It has no attachment: it was made a moment ago.
                    let live = Live::default();
                    self.drop_ports(id, &live).and_then(|()| self.api().delete_subnet(id))
                }
                Done::Tag(what, id, tag) => self.api().remove_tag(*what, id, tag),
            };
            is_undone &= undone.is_ok();
        }
        is_undone
    }
}

/// The tag of a network that existed before.
pub(super) fn existing_tag(id: &AliasId) -> String {
    let id = id.as_str();
    format!("{}{}", contract::EXISTING_NETWORK, id.get(..12).unwrap_or(id))
}

fn disagree(which: &ResourceRef, network: &NetworkResource, shared: bool) -> Error {
    let reported = |shared: bool| if shared { "shared" } else { "not shared" };
    Error::conflict(format!(
        "Neutron's network {which} ({}) is {}, and {} is asked for",
        network.id,
        reported(network.shared),
        reported(shared)
    ))
}
