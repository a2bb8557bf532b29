//! Ports that Docker maps by itself for containers on our networks (`-o ports=docker`). The store
//! does not know them: Docker makes them on a bridge of its own, `docker_gwbridge`.

use std::collections::{BTreeMap, BTreeSet};

use model::{Alias, AliasId, ContainerId, OwnerName, PortMap, Publisher, Runtime};

use super::HostContext;

/// The ports that Docker maps.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    by_endpoint: BTreeMap<ContainerId, Target>,
    /// Why something may be missing.
    pub(super) notes: Vec<String>,
}

/// A container with ports.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) name: Option<OwnerName>,
    pub(super) ports: Vec<PortMap>,
}

impl Mapped {
    /// Asks Docker, where there are networks for which it maps.
    pub(super) fn ask(aliases: &[Alias], host_context: &HostContext) -> Self {
        let is_theirs = |alias: &&Alias| {
            alias.runtime == Runtime::Docker && alias.publisher == Publisher::Runtime
        };
        let theirs: BTreeSet<&AliasId> =
            aliases.iter().filter(is_theirs).map(|alias| &alias.id).collect();
        let mut mapped = Self::default();
        if theirs.is_empty() {
            return mapped;
        }
        for answer in (host_context.running)() {
            match answer {
                Ok(containers) => mapped.add(containers, &theirs),
                Err(error) => {
                    let note = format!("ports that Docker maps by itself are missing: {error}");
                    mapped.notes.push(note);
                }
            }
        }
        mapped
    }

    /// A container on several such networks has its ports once.
    fn add(&mut self, containers: Vec<docker::api::Container>, theirs: &BTreeSet<&AliasId>) {
        for container in containers {
            let mut endpoints = container.endpoints.into_iter();
            let on_theirs = endpoints
                .find(|(network, _)| network.as_ref().is_some_and(|id| theirs.contains(id)));
            if let Some((_, endpoint)) = on_theirs {
                let target = Target { name: endpoint.name, ports: container.ports };
                self.by_endpoint.insert(endpoint.id, target);
            }
        }
    }

    /// The ports that lead to an endpoint's container.
    pub(super) fn to(&self, endpoint: &ContainerId) -> Option<&Target> {
        self.by_endpoint.get(endpoint)
    }
}
