//! ProgramExternalConnectivity and its opposite: published ports.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;

use engine::{Engine, OpenPort, Publishing, Siblings};
use model::{Backend, Family, Network, Passage, PortMap, Protocol, Publish, Publisher, Result};

use super::endpoint::{find, identity};
use super::network::alias_of;
use super::template::bridge_of;
use libnetwork::{Answer, EndpointRef, HostPorts, PortBinding};

/// ProgramExternalConnectivity. The ports are those of the sandbox; the last call counts.
pub(super) fn program(
    engine: &Engine<'_>,
    call: &libnetwork::ProgramConnectivity,
    (backend, ephemeral): (Backend, &RangeInclusive<NonZeroU16>),
) -> Result<Answer> {
    let alias = alias_of(engine, &call.at.network)?;
    let id = identity(&alias.network, &call.at)?;
    let network = engine.records.network_of(&alias.network)?;
    if call.ports.bindings.is_empty() {
        engine.attachments.unpublish(&id)?;
        // A third-party plugin gets its gateway role also without ports.
        if network.wiring.is_remote() {
            engine.attachments.set_gateway_of_link(&id, &[Family::V4, Family::V6])?;
        }
        return Ok(Answer::Done {});
    }
    let served = served(&network, call);
    let publish = Publish { served, ..publish(&network, backend)? };
    match alias.publisher {
        Publisher::Spoke if !network.wiring.is_internal() => {
            let (call, usual) = translated(call, alias.publish_on, network.wiring.passage());
            engine.attachments.publish(&id, &publishing(&call, usual, publish, ephemeral))?;
        }
        // No port of the host leads there.
        Publisher::None if !publish.served.is_empty() => {
            let siblings = Siblings::GiveWay;
            engine.attachments.publish(&id, &Publishing { publish, open: Vec::new(), siblings })?;
        }
        Publisher::Spoke | Publisher::Runtime | Publisher::None => {}
    }
    Ok(Answer::Done {})
}

/// The ports that clients reach at the container's own address.
fn served(
    network: &Network,
    call: &libnetwork::ProgramConnectivity,
) -> Vec<(Protocol, NonZeroU16)> {
    if network.wiring.passage().is_unjudged() || network.wiring.is_internal() {
        return Vec::new();
    }
    let is_meant = |binding: &&PortBinding| match (network.wiring.passage(), binding.host) {
        // What is published at an address of the other family is not published in this one.
        (Passage::EverybodyOf(routed), Some(host)) => Family::of(&model::host_net(host)) == *routed,
        (_, _) => true,
    };
    let bindings = call.ports.bindings.iter().filter(is_meant);
    let ports = bindings.map(|binding| (binding.protocol, binding.port));
    ports.collect::<BTreeSet<_>>().into_iter().collect()
}

/// What of a call has ports of the host, and the host's address where none is named: a family that is
/// routed has none.
fn translated<'a>(
    call: &'a libnetwork::ProgramConnectivity,
    usual: Option<IpAddr>,
    passage: &Passage,
) -> (Cow<'a, libnetwork::ProgramConnectivity>, Option<IpAddr>) {
    let Passage::EverybodyOf(routed) = passage else { return (Cow::Borrowed(call), usual) };
    let is_routed = |host: &IpAddr| Family::of(&model::host_net(*host)) == *routed;
    let mut call = call.clone();
    call.ports.bindings.retain(|binding| !binding.host.as_ref().is_some_and(is_routed));
    let usual = usual.filter(|host| !is_routed(host));
    (Cow::Owned(call), Some(usual.unwrap_or(routed.other().unspecified())))
}

/// What of a call is to be published; `usual` is the host's address where none is named.
pub(crate) fn publishing(
    call: &libnetwork::ProgramConnectivity,
    usual: Option<IpAddr>,
    publish: Publish,
    ephemeral: &RangeInclusive<NonZeroU16>,
) -> Publishing {
    let siblings = match call.no_proxy_6to4 {
        true => Siblings::GiveWay,
        false => Siblings::TakeOver,
    };
    let mut publishing = Publishing { publish, open: Vec::new(), siblings };
    for binding in &call.ports.bindings {
        match choice(binding, binding.host.or(usual), ephemeral) {
            Choice::One(map) => publishing.publish.ports.push(map),
            Choice::Any(open) => publishing.open.push(open),
        }
    }
    publishing
}

/// RevokeExternalConnectivity. What is not published is done.
pub(super) fn revoke(engine: &Engine<'_>, at: &EndpointRef) -> Result<Answer> {
    if let Some(id) = find(engine, at)? {
        engine.attachments.unpublish(&id)?;
        if engine.records.network_of(&id.network)?.wiring.is_remote() {
            engine.attachments.set_gateway_of_link(&id, &[])?;
        }
    }
    Ok(Answer::Done {})
}

fn publish(network: &Network, backend: Backend) -> Result<Publish> {
    let reach = network.wiring.publish.as_ref().map(|publish| publish.reach).unwrap_or_default();
    let backend = network.wiring.firewall.as_ref().map_or(backend, |firewall| firewall.backend);
    let behind = bridge_of(network).map(|bridge| bridge.name.clone());
    Ok(Publish { reach, behind, ..Publish::new(backend) })
}

enum Choice {
    One(PortMap),
    Any(OpenPort),
}

/// One port where only one will do.
fn choice(
    binding: &PortBinding,
    host: Option<IpAddr>,
    ephemeral: &RangeInclusive<NonZeroU16>,
) -> Choice {
    let PortBinding { protocol, port: container_port, .. } = *binding;
    match binding.host_ports {
        HostPorts::Range(first, last) if first == last => {
            Choice::One(PortMap { host, host_port: first, container_port, protocol })
        }
        HostPorts::Range(first, last) => {
            Choice::Any(OpenPort { host, among: first..=last, container_port, protocol })
        }
        HostPorts::Ephemeral => {
            Choice::Any(OpenPort { host, among: ephemeral.clone(), container_port, protocol })
        }
    }
}
