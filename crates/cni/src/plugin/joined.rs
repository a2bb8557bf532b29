//! Networks that a configuration of type `spoke` joins rather than describes.

use model::{Error, Layer, Network, NetworkName, Result};

use super::Call;
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
    let engine = call.context.engine;
    if call.environment.chain == name.as_str() {
        return Err(Error::invalid(format!(
            "network {name} is made by this list of plugins, which cannot join it"
        )));
    }
    match former(call)? {
        Some(former) => engine.network_of(&former),
        None => engine.network(name),
    }
}

/// The network of the list's own name.
fn declared(call: &Call<'_>, name: &NetworkName) -> Result<Option<Network>> {
    let engine = call.context.engine;
    if let Some(former) = former(call)?
        && let Some(network) = engine.declared(&former)?.filter(|it| is_called(it, name))
    {
        return Ok(Some(network));
    }
    engine.declared(&engine.name_of(name)?)
}

/// Whether a network is, or was, called so.
fn is_called(network: &Network, name: &NetworkName) -> bool {
    network.name == *name || network.called() == name || network.title.is_some()
}

/// The network that the container is on by this interface.
fn former(call: &Call<'_>) -> Result<Option<NetworkName>> {
    match call.command {
        Command::Check | Command::Del => network_of_container(call),
        Command::Add | Command::Gc | Command::Status | Command::Version => Ok(None),
    }
}

fn network_of_container(call: &Call<'_>) -> Result<Option<NetworkName>> {
    let Some((container, ifname)) = &call.subject else { return Ok(None) };
    let mut records = call.context.engine.attachments_of(container)?.into_iter();
    let record = records.find(|record| {
        record.layer == Layer::Link
            && record.alias.is_none()
            && record.id.network.as_str() != call.environment.chain
            && record.id.ifname == *ifname
    });
    Ok(record.map(|record| record.id.network))
}
