//! What this host knows of Neutron's resources: its records, its links and the networks that Docker Engines list.

use std::collections::BTreeSet;
use std::time::Duration;

use config::DockerConfig;
use docker::api::Api;
use engine::Engine;
use engine::port::Prefix;
use model::{LinkKind, Network, NeutronLink, ResourceRef, Result};
use netlink::{Links, Socket};
use neutron::facts::Facts;

/// Why a stock that is kept is of no use to Docker.
pub const PASSED_OVER: &str = "Neutron's ports that are ready cannot be used by Docker: it chooses hardware addresses, as the \
     plugin kuryr required when dockerd started";

/// What the store and the kernel know of Neutron's resources, and `listed` of Docker's networks.
/// `is_asked`: whether this process allocates addresses. Fails where a record is damaged: what no record
/// speaks of may be that one's.
pub fn facts(engine: &Engine, is_asked: bool, listed: Option<Listed>) -> Result<Facts> {
    let links = Socket::route()?.links(Links::default())?;
    let mut facts = Facts::of(&engine.records.intact_attachments()?, &engine.records.aliases()?);
    facts.links = links.into_iter().map(|link| link.name.to_string()).collect();
    facts.is_asked = is_asked;
    facts.listed = listed;
    engine.records.networks()?.iter().filter_map(neutron_link).for_each(|link| facts.declare(link));
    engine.records.refuse_damaged(&[Prefix::Aliases, Prefix::Networks])?;
    Ok(facts)
}

/// The network of Neutron that a network is made of; `None` where it is not Neutron's.
pub fn cloud_of(network: &Network) -> Option<&ResourceRef> {
    neutron_link(network).map(|link| &link.network)
}

fn neutron_link(network: &Network) -> Option<&NeutronLink> {
    match network.wiring.link.as_ref().map(|link| &link.kind) {
        Some(LinkKind::Neutron(link)) => Some(link),
        Some(_) | None => None,
    }
}

/// The ids of networks that Docker Engines list.
pub type Listed = BTreeSet<String>;

/// The networks that the Docker Engines of this host list; none where no engine is asked, or one does
/// not answer in time.
pub fn listed(config: &DockerConfig, timeout: Duration) -> Option<Listed> {
    let mut listed = Listed::new();
    for socket in &config.api {
        let networks = Api::new(socket.clone(), timeout).networks().ok()?;
        listed.extend(networks.into_iter().map(|network| network.id.to_string()));
    }
    (!config.api.is_empty()).then_some(listed)
}
