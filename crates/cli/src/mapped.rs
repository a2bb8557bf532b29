//! Ports that Docker maps by itself: for containers on our networks (`-o ports=docker`), on a bridge of its own,
//! `docker_gwbridge`; and for those on none of ours. The store does not know them.

use std::collections::{BTreeMap, BTreeSet};

use docker::api::{Container, Endpoint};
use model::{
    Alias, AliasId, ContainerId, Kind, NetworkName, OwnerName, PortMap, Publisher, Runtime,
};

use crate::context::CommandContext;

/// The ports that Docker maps.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    by_endpoint: BTreeMap<ContainerId, Target>,
    /// Those of Docker's own networks, where these were asked for.
    pub(super) beside: Vec<Beside>,
    /// Why something may be missing.
    pub(super) notes: Vec<String>,
}

/// A container with ports.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) name: Option<OwnerName>,
    pub(super) ports: Vec<PortMap>,
}

/// A container with ports that Docker maps on a network of its own.
#[derive(Debug)]
pub(super) struct Beside {
    /// What Docker calls the network.
    pub(super) network: Option<NetworkName>,
    pub(super) endpoint: Endpoint,
    pub(super) ports: Vec<PortMap>,
}

/// The networks of ours that Docker knows.
struct KnownNetworks<'a> {
    all: BTreeSet<&'a AliasId>,
    /// Those for which Docker maps the ports.
    mapped: BTreeSet<&'a AliasId>,
}

impl<'a> KnownNetworks<'a> {
    fn of(aliases: &'a [Alias]) -> Self {
        let docker = || aliases.iter().filter(|alias| alias.runtime == Runtime::Docker);
        let is_mapped = |alias: &&Alias| alias.publisher == Publisher::Runtime;
        Self {
            all: docker().map(|alias| &alias.id).collect(),
            mapped: docker().filter(is_mapped).map(|alias| &alias.id).collect(),
        }
    }
}

impl Mapped {
    /// Asks Docker, where there are networks for which it maps.
    pub(super) fn ask(aliases: &[Alias], context: &CommandContext) -> Self {
        let known = KnownNetworks::of(aliases);
        let mut mapped = Self::default();
        if !known.mapped.is_empty() {
            mapped.hear(&known, context);
            mapped.beside.clear();
        }
        mapped
    }

    /// Asks Docker also for the ports of its own networks. A host without Docker has none.
    pub(super) fn ask_all(aliases: &[Alias], context: &CommandContext) -> Self {
        let mut mapped = Self::default();
        mapped.hear(&KnownNetworks::of(aliases), context);
        mapped
    }

    fn hear(&mut self, known: &KnownNetworks<'_>, context: &CommandContext) {
        for answer in (context.running)() {
            match answer {
                Ok(containers) => containers.into_iter().for_each(|it| self.add(it, known)),
                Err(error) if error.kind() == Kind::NotFound && known.all.is_empty() => {}
                Err(error) => {
                    let note = format!("ports that Docker maps by itself are missing: {error}");
                    self.notes.push(note);
                }
            }
        }
    }

    /// A container on several such networks has its ports once.
    fn add(&mut self, container: Container, known: &KnownNetworks<'_>) {
        let Container { mut endpoints, mut networks, ports } = container;
        let is_on = |ids: &BTreeSet<&AliasId>, network: &Option<AliasId>| {
            network.as_ref().is_some_and(|id| ids.contains(id))
        };
        if let Some(at) = endpoints.iter().position(|(id, _)| is_on(&known.mapped, id)) {
            let (_, endpoint) = endpoints.swap_remove(at);
            self.by_endpoint.insert(endpoint.id, Target { name: endpoint.name, ports });
        } else if let Some(at) = endpoints.iter().position(|(id, _)| !is_on(&known.all, id))
            && !ports.is_empty()
        {
            let (id, endpoint) = endpoints.swap_remove(at);
            let network = id.and_then(|id| networks.remove(&id));
            self.beside.push(Beside { network, endpoint, ports });
        }
    }

    /// The ports that lead to an endpoint's container.
    pub(super) fn to(&self, endpoint: &ContainerId) -> Option<&Target> {
        self.by_endpoint.get(endpoint)
    }
}
