//! Networks: CreateNetwork and what belongs to it.

use std::collections::BTreeMap;

use engine::Engine;
use model::{
    Alias, AliasId, Error, Family, Gateway, Handoff, Network, NetworkName, Publisher, Result,
    Runtime, Space, SubnetId, overlap,
};
use spec::{KindSpec, NetworkSpec};

use super::agree::agree;
use super::block::{Block, blocks};
use super::many;
use super::option;
use super::template::{self, Circumstances, bridge_of, name_after};
use libnetwork::{Answer, NetworkId, Skip};

/// The engine shows the first twelve digits of an id.
const SHORT: usize = 12;

/// GwAllocCheck: no gateway address is needed where no device would have it.
pub(super) fn gateway_check(options: &libnetwork::NetworkOptions) -> Result<Answer> {
    if many::is_asked(options) {
        // Each host has a gateway of its own.
        return Ok(Answer::Skip(Skip { ipv4: true, ipv6: true }));
    }
    let spec = option::read(options)?;
    let [ipv4, ipv6] = [Family::V4, Family::V6].map(|family| !spec.has_gateway(family));
    Ok(Answer::Skip(Skip { ipv4, ipv6 }))
}

/// CreateNetwork: makes a network, or joins the one that its pool was requested for.
pub(super) fn create(
    engine: &Engine<'_>,
    call: &libnetwork::CreateNetwork,
    circumstances: &Circumstances<'_>,
) -> Result<Answer> {
    let mut spec = option::read(&call.options)?;
    spec.network = spec.network.map(|called| engine.records.name_of(&called)).transpose()?;
    let id = alias_id(&call.id)?;
    let mut blocks = blocks(engine, call, spec.address_space.as_ref())?;
    refuse_global(&blocks)?;
    refuse_unknown_to_us(&spec, &blocks)?;
    let name = name(engine, &spec, &blocks, &id)?;
    if engine.addresses.is_of_hosts(&name) {
        // Each host has a gateway of its own: the request for another one was refused, or is of a swarm.
        blocks.iter_mut().filter(|it| it.subnet.is_some()).for_each(|it| it.gateway = None);
    }
    engine.networks.adopt(&name)?;
    let network = match known(engine, &name)? {
        Some(known) => {
            refuse_uninvited(engine, &known, &spec, &blocks, &id)?;
            agree(&known, &spec, &blocks, circumstances)?;
            known
        }
        None => {
            refuse_shared_bridge(engine, &spec, &name)?;
            let network = template::network(&name, &spec, &blocks, circumstances)?;
            refuse_torn_subnet(engine, &network, &blocks)?;
            if let Some(KindSpec::Neutron(_) | KindSpec::Ovs(_)) = &spec.kind {
                engine.attachments.status(&network)?;
            }
            network
        }
    };
    for subnet in blocks.iter().filter_map(|block| block.subnet.as_ref()) {
        if subnet.network != name {
            engine.subnets.relabel_subnet(&subnet.id, &name)?;
        }
    }
    keep_auxiliary(engine, &blocks)?;
    let alias = alias(id, &name, &spec, call, circumstances);
    let is_known = engine.records.alias(&alias.id)?.is_some();
    engine.networks.enroll(&alias, &network)?;
    match reserve_auxiliary(engine, &name, &blocks) {
        Err(error) if !is_known => {
            // If this fails, the reconciler finds what is left.
            let _ = engine.networks.withdraw(&alias.id);
            Err(error)
        }
        reserved => reserved.map(|()| Answer::Done {}),
    }
}

/// Where Docker's own IPAM has the subnet, they were not requested from Spoke.
fn reserve_auxiliary(engine: &Engine<'_>, name: &NetworkName, blocks: &[Block]) -> Result<()> {
    let of_others = blocks.iter().filter(|block| block.subnet.is_none());
    let mut auxiliary = of_others.flat_map(|block| &block.auxiliary);
    auxiliary.try_for_each(|address| engine.subnets.reserve_auxiliary(name, *address))
}

/// On a shared network they were requested like a container's address, because they could not be
/// distinguished until now.
fn keep_auxiliary(engine: &Engine<'_>, blocks: &[Block]) -> Result<()> {
    for block in blocks {
        let Some(subnet) = &block.subnet else { continue };
        let mut auxiliary = block.auxiliary.iter();
        auxiliary.try_for_each(|address| engine.subnets.keep_auxiliary(&subnet.id, *address))?;
    }
    Ok(())
}

/// DeleteNetwork. One that is not known is gone.
pub(super) fn delete(engine: &Engine<'_>, id: &NetworkId) -> Result<Answer> {
    let id = alias_id(id)?;
    engine.networks.withdraw(&id).inspect_err(|_| {
        // Engines drop a network after any answer: then the reconciler removes it.
        let _ = engine.networks.set_known(&id);
    })?;
    Ok(Answer::Done {})
}

/// AllocateNetwork: hosts share nothing of a network, so the options are only checked before the
/// nodes get them.
pub(super) fn allocate(call: &libnetwork::AllocateNetwork) -> Result<Answer> {
    let options = libnetwork::NetworkOptions {
        generic: call.options.clone(),
        ipv4: Some(!call.ipv4.is_empty()),
        ipv6: !call.ipv6.is_empty(),
        internal: false,
    };
    option::read(&options)?;
    let options: BTreeMap<String, String> = call.options.clone();
    Ok(Answer::Allocated { options })
}

/// A network's id in the store.
pub(crate) fn alias_id(id: &NetworkId) -> Result<AliasId> {
    id.as_str().parse()
}

/// Whether what is done on the network waits for third parties.
pub(super) fn asks_others(engine: &Engine<'_>, id: &NetworkId) -> Result<bool> {
    let Some(alias) = engine.records.alias(&alias_id(id)?)? else { return Ok(false) };
    Ok(engine.records.named(&alias.network)?.is_some_and(|network| network.asks_others()))
}

/// The same of the network that has the subnet.
pub(super) fn of_subnet_asks_others(engine: &Engine<'_>, id: &SubnetId) -> Result<bool> {
    let Some(subnet) = engine.records.subnet(id)? else { return Ok(false) };
    Ok(engine.records.named(&subnet.network)?.is_some_and(|network| network.asks_others()))
}

/// The record of a network's id.
pub(super) fn alias_of(engine: &Engine<'_>, id: &NetworkId) -> Result<Alias> {
    engine.records.alias(&alias_id(id)?)?.ok_or_else(|| {
        Error::not_found(format!(
            "no network {}; `spoke network rm --force` removed it, or it was made while Spoke's state \
             was another one: remove it in Docker and create it again",
            short(id.as_str())
        ))
    })
}

fn alias(
    id: AliasId,
    name: &NetworkName,
    spec: &NetworkSpec,
    call: &libnetwork::CreateNetwork,
    circumstances: &Circumstances<'_>,
) -> Alias {
    Alias {
        id,
        network: name.clone(),
        runtime: Runtime::Docker,
        since: circumstances.now,
        title: None,
        publisher: spec.publisher.unwrap_or(Publisher::Spoke),
        handoff: handoff(spec, call),
        publish_on: spec.publish_on,
        lister: None,
        prefix: spec.prefix.clone(),
    }
}

/// Docker's own networks do not see in a sandbox which names Spoke's interfaces have, and fail
/// there on the next: so Docker completes the interface unless an option says otherwise. Only
/// engines from 28 on say whether there is IPv4, and only they have a sandbox when they join.
fn handoff(spec: &NetworkSpec, call: &libnetwork::CreateNetwork) -> Handoff {
    match call.options.ipv4 {
        Some(_) => spec.handoff.unwrap_or(Handoff::Caller),
        None => Handoff::Caller,
    }
}

/// The name in `-o network=` or `--ipam-opt network=`, or else the name after the subnet.
fn name(
    engine: &Engine<'_>,
    spec: &NetworkSpec,
    blocks: &[Block],
    id: &AliasId,
) -> Result<NetworkName> {
    let subnet = blocks.iter().find_map(|block| block.subnet.as_ref());
    match (&spec.network, subnet, blocks.first()) {
        (Some(name), Some(subnet), _) if subnet.network != *name => {
            let minted = SubnetId { part: None, ..subnet.id.clone() };
            let minted = engine::subnet_name(&minted, Runtime::Docker)?;
            let is_named = !subnet.network.as_str().starts_with(minted.as_str())
                || known(engine, &subnet.network)?.is_some();
            match is_named {
                true => Err(Error::invalid(format!(
                    "-o network={name}, but the subnet {} belongs to network {}; leave out -o \
                     network, or say the same with --ipam-opt",
                    subnet.id, subnet.network
                ))),
                false => Ok(name.clone()),
            }
        }
        (Some(name), _, _) => Ok(name.clone()),
        (None, Some(subnet), _) => Ok(subnet.network.clone()),
        (None, None, Some(block)) => name_after(block.net),
        (None, None, None) => format!("docker-{}", short(id.as_str())).parse(),
    }
}

fn short(id: &str) -> &str {
    id.get(..SHORT).unwrap_or(id)
}

fn known(engine: &Engine<'_>, name: &NetworkName) -> Result<Option<Network>> {
    engine.records.named(name)
}

/// In the space of a cluster subnets are only agreed on.
fn refuse_global(blocks: &[Block]) -> Result<()> {
    let global = |block: &&Block| {
        block.subnet.as_ref().is_some_and(|subnet| subnet.id.space == Space::Global)
    };
    match blocks.iter().find(global) {
        None => Ok(()),
        Some(block) => Err(Error::invalid(format!(
            "subnet {} is of the address space of a cluster; a network needs one of this host",
            block.net
        ))),
    }
}

/// Docker's own IPAM has one address space for all networks of this host.
fn refuse_unknown_to_us(spec: &NetworkSpec, blocks: &[Block]) -> Result<()> {
    match &spec.address_space {
        Some(space) if blocks.iter().any(|block| block.subnet.is_none()) => {
            Err(Error::invalid(format!(
                "-o address_space={space} needs Spoke's IPAM driver: --ipam-driver spoke --ipam-opt \
                 address_space={space}"
            )))
        }
        _ => Ok(()),
    }
}

/// Two networks with the same subnet are one only on request, or if Spoke allocated the subnet in
/// parts.
fn refuse_uninvited(
    engine: &Engine<'_>,
    known: &Network,
    spec: &NetworkSpec,
    blocks: &[Block],
    id: &AliasId,
) -> Result<()> {
    if spec.network.is_some() || blocks.iter().any(|block| block.subnet.is_some()) {
        return Ok(());
    }
    let aliases = engine.records.aliases()?;
    match aliases.iter().find(|alias| alias.network == known.name && alias.id != *id) {
        None => Ok(()),
        Some(other) => Err(Error::conflict(format!(
            "subnet {} is that of network {} ({} {}); -o network={} joins it",
            blocks.first().map(|block| block.net.to_string()).unwrap_or_default(),
            known.name,
            other.runtime,
            short(other.id.as_str()),
            known.name
        ))),
    }
}

/// A bridge goes with its network, so no two have one.
fn refuse_shared_bridge(engine: &Engine<'_>, spec: &NetworkSpec, name: &NetworkName) -> Result<()> {
    let Some(bridge) = &spec.bridge else { return Ok(()) };
    match engine.records.on_bridge(bridge, name)? {
        None => Ok(()),
        Some(other) => Err(Error::conflict(format!(
            "-o bridge={bridge}: network {} has this bridge; --ipam-opt network={} joins it",
            other.name, other.name
        ))),
    }
}

/// Parts of a subnet can be allocated apart, but of two bridges that both have an address in it
/// this host would reach only one.
fn refuse_torn_subnet(engine: &Engine<'_>, new: &Network, blocks: &[Block]) -> Result<()> {
    if bridge_of(new).is_none_or(|bridge| bridge.gateway == Gateway::None) {
        return Ok(());
    }
    let nets: Vec<_> = blocks.iter().map(|block| block.net).collect();
    for other in
        engine.records.declared_over(&nets)?.into_iter().filter(|other| other.name != new.name)
    {
        if bridge_of(&other).is_none_or(|of| of.gateway == Gateway::None) {
            continue;
        }
        let pools = other.ipam.pools().iter().filter(|pool| pool.space == Space::Host);
        let mut ranges = pools.flat_map(|pool| &pool.ranges);
        let torn = ranges.find_map(|range| blocks.iter().find(|b| overlap(&b.net, &range.subnet)));
        if let Some(block) = torn {
            return Err(Error::conflict(format!(
                "subnet {} is that of network {} ({}), and two bridges of this host cannot share \
                 it; --ipam-opt network={} without --ip-range joins that network",
                block.net, other.name, other.runtime, other.name
            )));
        }
    }
    Ok(())
}
