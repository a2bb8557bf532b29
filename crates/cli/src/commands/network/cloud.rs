//! Networks of Neutron's: what was made for them there goes with them.

use docker::kuryr;
use engine::Engine;
use host::cloud::{cloud_of, facts};
use model::{AliasId, Network, NetworkName, Result};

use crate::context::CommandContext;

/// Removes a network that a Docker Engine had made; `false` where it is none, or an engine may
/// still have it and the user does not force it.
pub(super) fn remove(
    engine: &Engine,
    name: &NetworkName,
    force: bool,
    context: &CommandContext,
) -> Result<bool> {
    let Ok(network) = engine.records.network(name) else { return Ok(false) };
    let ids: Vec<AliasId> =
        engine.records.aliases()?.into_iter().filter(of(&network)).map(id).collect();
    if cloud_of(&network).is_none() || ids.is_empty() {
        return Ok(false);
    }
    let is_listed =
        |listed: &host::cloud::Listed| ids.iter().any(|id| listed.contains(id.as_str()));
    let is_gone = || (context.listed)().is_some_and(|listed| !is_listed(&listed));
    let Some(neutron) = (context.neutron)()?.filter(|_| force || is_gone()) else {
        return Ok(false);
    };
    if force {
        for member in
            engine.records.attachments()?.into_iter().filter(|of| of.id.network == network.name)
        {
            engine.links.remove(&member.id)?;
        }
    }
    ids.iter().try_for_each(|id| kuryr::remove_network(engine, &*neutron, id)).map(|()| true)
}

fn of(network: &Network) -> impl Fn(&model::Alias) -> bool {
    let name = network.name.clone();
    move |alias| alias.network == name
}

fn id(alias: model::Alias) -> AliasId {
    alias.id
}

/// Empties the stock of the removed network, where no other network here uses it.
pub(super) fn drain(engine: &Engine, removed: &Network, context: &CommandContext) -> Result<()> {
    let Some(which) = cloud_of(removed) else { return Ok(()) };
    let Some(neutron) = (context.neutron)()? else { return Ok(()) };
    neutron.drain_unused(which, &facts(engine, false, None)?).map(drop)
}
