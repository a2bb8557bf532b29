//! Networks that a configuration of type `spoke` joins rather than describes.

use model::{Attachment, Error, IfName, Layer, Network, NetworkName, Result};

use crate::call::Call;
use crate::wire::{Command, Node, Object};

/// The name of the only field `"network"`.
const NETWORK: &str = "network";

/// The network that is meant where the configuration describes none: that of `"network"`, by its
/// own name or as Docker calls it; or the one of the configuration's name that
/// `spoke network create` made. `describing` are the fields that would describe one.
pub(super) fn joined(
    call: &Call<'_>,
    root: &Object<'_>,
    describing: impl Fn(&str) -> bool,
) -> Result<Option<Network>> {
    match (root.parse::<NetworkName>(NETWORK)?, described(root, describing)) {
        (Some(name), None) => named(call, &name).map(Some),
        (Some(name), Some(node)) => Err(Error::invalid(
            node.wrong(format!("but \"network\" is \"{name}\", which is joined as it was made"))
                .to_string(),
        )),
        (None, Some(_)) => Ok(None),
        (None, None) => declared(call, call.config.name()),
    }
}

/// The first field that describes a network.
pub(super) fn described<'a>(
    root: &Object<'a>,
    describing: impl Fn(&str) -> bool,
) -> Option<Node<'a>> {
    root.fields().find(|(key, _)| describing(key)).map(|(_, node)| node)
}

/// A container leaves the network that it is on, whatever is called so by now.
pub(super) fn named(call: &Call<'_>, name: &NetworkName) -> Result<Network> {
    if call.environment.chain == name.as_str() {
        return Err(Error::invalid(format!(
            "network {name} is made by this list of plugins, which cannot join it"
        )));
    }
    named_among(call, name, call.subject.as_ref().map(|(_, ifname)| ifname))
}

/// The same of one of several networks, which the container is on by this interface.
pub(super) fn named_among(
    call: &Call<'_>,
    name: &NetworkName,
    ifname: Option<&IfName>,
) -> Result<Network> {
    let engine = call.context.engine;
    match left(call, name, ifname, |on| engine.records.network_of(on).map(Some))? {
        Some(network) => Ok(network),
        None if call.command == Command::Add => engine.networks.joined(name),
        // Ready is what ADD would join.
        None if call.command == Command::Status => engine.records.network_or_described(name),
        None => engine.records.network(name),
    }
}

/// The network of the list's own name.
fn declared(call: &Call<'_>, name: &NetworkName) -> Result<Option<Network>> {
    let engine = call.context.engine;
    let ifname = call.subject.as_ref().map(|(_, ifname)| ifname);
    match left(call, name, ifname, |on| engine.records.declared(on))? {
        Some(network) => Ok(Some(network)),
        None => engine.records.declared_as(name),
    }
}

/// The network that the container is on, where that is, or was, called so.
fn left(
    call: &Call<'_>,
    name: &NetworkName,
    ifname: Option<&IfName>,
    named: impl Fn(&NetworkName) -> Result<Option<Network>>,
) -> Result<Option<Network>> {
    let Some(former) = former(call, ifname)? else { return Ok(None) };
    Ok(named(&former.id.network)?.filter(|network| is_called(network, name, &former)))
}

/// Whether the network that a container is on is, or was, called so. Of names that were too many, and of those that an
/// earlier version did not write down, only the call that attached the container knows.
fn is_called(network: &Network, name: &NetworkName, former: &Attachment) -> bool {
    let is_its_list = former.origin.as_ref().is_some_and(|origin| origin.config == *name);
    network.called() == name || network.order_of(name).is_some() || is_its_list
}

/// What the container has at this interface.
fn former(call: &Call<'_>, ifname: Option<&IfName>) -> Result<Option<Attachment>> {
    match call.command {
        Command::Check | Command::Del => attached_at(call, ifname),
        Command::Add | Command::Gc | Command::Status | Command::Version => Ok(None),
    }
}

fn attached_at(call: &Call<'_>, ifname: Option<&IfName>) -> Result<Option<Attachment>> {
    let (Some((container, _)), Some(ifname)) = (&call.subject, ifname) else { return Ok(None) };
    let mut records = call.context.engine.records.attachments_of(container)?.into_iter();
    Ok(records.find(|record| {
        record.layer == Layer::Link
            && record.alias.is_none()
            && record.id.network.as_str() != call.environment.chain
            && record.id.ifname == *ifname
    }))
}
