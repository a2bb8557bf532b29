//! A snapshot of what all engines list.

use std::collections::{BTreeMap, BTreeSet};

use model::{AliasId, EngineId, IpNet, Result, SubnetId};

use super::peer::Peer;
use super::store_view::DockerRecords;
use crate::api::{Endpoint, Network, Reach, Subnet};

/// What all engines together list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) networks: BTreeMap<AliasId, Sighting>,
    /// The engines that were asked.
    pub(super) engines: BTreeSet<EngineId>,
}

/// A network that an engine listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sighting {
    pub(super) network: Network,
    /// The endpoints of its running containers; `None` where they are unknown: with swarm, or if
    /// the network was removed in between.
    pub(super) endpoints: Option<Vec<Endpoint>>,
    /// Which engine, where it says that.
    pub(super) engine: Option<EngineId>,
}

impl Snapshot {
    /// Asks an engine; an error if it does not answer completely.
    pub(super) fn add_all(&mut self, peer: &Peer, held: &DockerRecords) -> Result<()> {
        let (engine, id) = (&peer.api, &peer.id);
        self.engines.extend(id.clone());
        for network in engine.networks()? {
            let endpoints = match network.reach == Reach::Local && concerns(&network, held) {
                true => engine.endpoints(&network.id)?,
                false => None,
            };
            self.add(Sighting { network, endpoints, engine: id.clone() });
        }
        Ok(())
    }

    /// Two engines with the same network: the owner of its endpoints is unknown.
    pub(super) fn add(&mut self, mut sighting: Sighting) {
        if self.networks.contains_key(&sighting.network.id) {
            sighting.endpoints = None;
        }
        self.networks.insert(sighting.network.id.clone(), sighting);
    }

    /// The networks that were made of this subnet.
    pub(super) fn users(&self, id: &SubnetId) -> impl Iterator<Item = &Sighting> {
        self.networks.values().filter(|sighting| uses(&sighting.network, id))
    }
}

/// Whether the store has records about this network. Its driver does not matter: bridges of
/// Docker's can have addresses of Spoke's.
fn concerns(network: &Network, held: &DockerRecords) -> bool {
    held.networks.iter().any(|known| known.id == network.id)
        || held.subnets.iter().any(|subnet| uses(network, &subnet.id))
}

/// An engine does not say of which tenant's space a subnet is: any that is the same counts.
fn uses(network: &Network, id: &SubnetId) -> bool {
    let is_part = |part: Option<IpNet>| id.part.is_none() || part.is_none() || part == id.part;
    let is_it = |subnet: &Subnet| subnet.net == id.net && is_part(subnet.part);
    let is_ours = id.space.has_networks();
    is_ours && network.reach != Reach::Template && network.subnets.iter().any(is_it)
}
