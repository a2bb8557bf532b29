//! Networks: CreateNetwork and what belongs to it.

use std::net::IpAddr;

use engine::Engine;
use engine::port::{Cloud, CloudNetwork, SubnetPlan};
use model::{
    Alias, AliasId, Error, Family, Handoff, IfName, LinkKind, Network, NeutronLink, Publisher,
    Result, Runtime,
};

use super::option::{KuryrNetworkOptions, publishes};
use super::{Backstage, Stage};
use crate::driver::network::alias_id;
use libnetwork::{Answer, NetworkId, Skip, SpaceName};
use spec::Texts;

const PREFIX: &[&str] = &["com.docker.network.container_iface_prefix"];

/// GwAllocCheck: only what is cut off from everything else needs no gateway.
pub(super) fn gateway_check(options: &libnetwork::NetworkOptions) -> Result<Answer> {
    KuryrNetworkOptions::of_network(&options.generic)?;
    Ok(Answer::Skip(Skip { ipv4: options.internal, ipv6: options.internal }))
}

/// AllocateNetwork: the nodes get the options as they are.
pub(super) fn allocate(call: &libnetwork::AllocateNetwork) -> Result<Answer> {
    KuryrNetworkOptions::of_network(&call.options)?;
    Ok(Answer::Allocated { options: call.options.clone() })
}

/// CreateNetwork: makes a network of the cloud, or joins one. After a failure nothing is left.
pub(super) fn create<B: Backstage>(
    stage: &Stage<'_, B>,
    call: &libnetwork::CreateNetwork,
) -> Result<Answer> {
    refuse_strange(&call.id)?;
    let id = alias_id(&call.id)?;
    let network = plan(stage, call, &id)?;
    let texts = Texts { flag: "-o", map: &call.options.generic };
    let prefix = texts.parsed(PREFIX)?;
    let publishes = publishes(&texts)?.unwrap_or(stage.settings.publishes);
    let is_known = stage.engine.records.alias(&id)?.is_some();
    let made = stage.cloud.create_network(&network)?;
    let publisher = publisher(publishes && !call.options.internal);
    match enroll(stage, &id, &made, (publisher, prefix)) {
        Err(error) if !is_known => {
            // If this fails, the cloud's reconciler finds what is left.
            let _ = stage.cloud.delete_network(&id, &|| stage.engine.records.intact_attachments());
            Err(error)
        }
        enrolled => {
            enrolled?;
            stage.cloud.settle_network(&id);
            Ok(Answer::Done {})
        }
    }
}

/// Docker's ids have 64 hexadecimal digits, swarm's 25 letters and digits; only those fit into tags.
fn refuse_strange(id: &NetworkId) -> Result<()> {
    let text = id.as_str();
    let is_docker = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_swarm = text.len() == 25 && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match is_docker || is_swarm {
        true => Ok(()),
        false => Err(Error::invalid(format!("NetworkID {text:?} is no id of a Docker network"))),
    }
}

fn publisher(publishes: bool) -> Publisher {
    if publishes { Publisher::Spoke } else { Publisher::None }
}

fn plan<B: Backstage>(
    stage: &Stage<'_, B>,
    call: &libnetwork::CreateNetwork,
    id: &AliasId,
) -> Result<CloudNetwork> {
    let mut given = KuryrNetworkOptions::of_network(&call.options.generic)?;
    // The IPAM driver `null` gives `0.0.0.0/0`, which is none.
    let data = call.ipv4.iter().chain(&call.ipv6).filter(|subnet| subnet.pool.prefix_len() > 0);
    let data: Vec<&libnetwork::Subnet> = data.collect();
    refuse_several(&data)?;
    if data.is_empty() && given.existing.is_none() {
        return Err(Error::invalid(
            "a network of Neutron's needs a subnet: give it --ipam-driver kuryr or --subnet, or \
             name a network that is there (neutron.net.uuid, neutron.net.name)",
        ));
    }
    for subnet in &data {
        given = given.with(stage.pending.of(subnet.pool.trunc(), id)?)?;
    }
    let subnets = data.iter().map(|subnet| {
        let family = Family::of(&subnet.pool);
        // An internal network has no default route.
        let gateway = subnet.gateway.filter(|_| !call.options.internal);
        SubnetPlan {
            net: subnet.pool.trunc(),
            gateway: gateway.map(|gateway| gateway.addr()),
            auxiliary: subnet.aux.values().copied().collect::<Vec<IpAddr>>(),
            subnet: given.subnet(family).cloned(),
            pool: given.pool(family).cloned(),
        }
    });
    Ok(CloudNetwork {
        id: id.clone(),
        subnets: subnets.collect(),
        foreign_addresses: data.iter().any(|subnet| is_foreign(stage, subnet)),
        existing: given.existing.clone(),
        shared: given.shared,
        ports: given.spec,
    })
}

/// A port has one address of a family.
fn refuse_several(data: &[&libnetwork::Subnet]) -> Result<()> {
    let of = |family| data.iter().filter(|subnet| Family::of(&subnet.pool) == family).count();
    match of(Family::V4) > 1 || of(Family::V6) > 1 {
        false => Ok(()),
        true => Err(Error::unsupported(
            "a network of Neutron's has one subnet of each address family here; leave the others \
             out, or make a network of each",
        )),
    }
}

/// Whether another IPAM driver allocates the addresses.
fn is_foreign<B: Backstage>(stage: &Stage<'_, B>, subnet: &libnetwork::Subnet) -> bool {
    let spaces = &stage.settings.spaces;
    let is_ours = |space: &SpaceName| *space == spaces.local || *space == spaces.global;
    !subnet.space.as_ref().is_none_or(is_ours) && !stage.pending.has(subnet.pool.trunc())
}

/// DeleteNetwork, before or after its pools are released. An unknown network is gone; one with an
/// endpoint in a sandbox stays as it is. The store deletes it last, so that what it has is retried.
pub(super) fn delete<B: Backstage>(stage: &Stage<'_, B>, id: &NetworkId) -> Result<Answer> {
    let id = alias_id(id)?;
    let deleted = remove(stage.engine, stage.cloud, &id);
    if deleted.is_err() {
        // Engines drop a network after any answer. The store notes that this one had it, so that
        // the reconciler removes it once it is on no engine's list.
        let _ = stage.engine.networks.set_known(&id);
    }
    deleted.map(|()| Answer::Done {})
}

/// Removes a runtime's network: its endpoints, what was made for it in the cloud, and its records.
/// An unknown network is gone.
///
/// # Errors
/// [`model::Kind::Conflict`] where an endpoint is in a sandbox, or a port of it has another owner;
/// the cloud's refusal.
pub fn remove(engine: &Engine<'_>, cloud: &dyn Cloud, id: &AliasId) -> Result<()> {
    engine.networks.refuse_joined(id)?;
    let members = engine.records.attachments()?;
    let members = members.into_iter().filter(|member| member.alias.as_ref() == Some(id));
    for member in members {
        engine.links.remove(&member.id)?;
    }
    // Where a record is damaged the cloud refuses, and notes what it still has.
    cloud.delete_network(id, &|| engine.records.intact_attachments())?;
    engine.networks.withdraw(id)
}

/// Removes the networks that engines have removed and that the cloud did not delete; returns the
/// result for each.
///
/// # Errors
/// Where the list of them cannot be read.
pub fn remove_given_up(
    engine: &Engine<'_>,
    cloud: &dyn Cloud,
) -> Result<Vec<(AliasId, Result<()>)>> {
    let remove = |id: AliasId| {
        let removed = remove(engine, cloud, &id);
        (id, removed)
    };
    Ok(cloud.given_up()?.into_iter().map(remove).collect())
}

/// The network of an id, by the store or else by the cloud.
pub(super) fn alias_of<B: Backstage>(stage: &Stage<'_, B>, id: &NetworkId) -> Result<Alias> {
    let id = alias_id(id)?;
    if let Some(alias) = stage.engine.records.alias(&id)? {
        return Ok(alias);
    }
    let Some(found) = stage.cloud.network(&id)? else {
        return Err(Error::not_found(format!(
            "no network of Neutron's has the tags of Docker's network {id}: remove it in Docker \
             and create it again"
        )));
    };
    enroll(stage, &id, &found, (publisher(stage.settings.publishes), None))
}

fn enroll<B: Backstage>(
    stage: &Stage<'_, B>,
    id: &AliasId,
    network: &Network,
    (publisher, prefix): (Publisher, Option<IfName>),
) -> Result<Alias> {
    let alias = Alias {
        id: id.clone(),
        network: network.name.clone(),
        runtime: Runtime::Docker,
        since: stage.backstage.now(),
        title: None,
        publisher,
        handoff: Handoff::Caller,
        publish_on: None,
        lister: None,
        prefix,
    };
    stage.engine.networks.enroll(&alias, network)?;
    Ok(alias)
}

/// A network's link.
///
/// # Errors
/// Where it is none of Neutron's.
pub(super) fn link_of(network: &Network) -> Result<&NeutronLink> {
    match network.wiring.link.as_ref().map(|link| &link.kind) {
        Some(LinkKind::Neutron(link)) => Ok(link),
        Some(_) | None => Err(Error::invalid(format!(
            "network {} is none of Neutron's; it is not the plugin kuryr's to serve",
            network.name
        ))),
    }
}
