//! Existing networks of other front ends that containers of Podman join.

use model::{Error, Layer, Network, NetworkName, Result, Runtime};

use crate::context::Context;
use crate::wire::{Exec, NetworkConfig};

/// The network of this name, as it was made. What Podman's file says besides must be the same: where it is not,
/// and a renamed network was called so with those subnets, it is that one, the last of several.
pub(crate) fn network(
    config: &NetworkConfig,
    name: &NetworkName,
    context: &Context<'_>,
) -> Result<Network> {
    let network = context.engine.records.network_or_described(name)?;
    let Err(refusal) = refuse_other_subnets(config, &network) else { return Ok(network) };
    let fits = |former: &Network| refuse_other_subnets(config, former).is_ok();
    context.engine.records.formerly(name)?.into_iter().find(fits).ok_or(refusal)
}

/// Which network a container is on by this interface, whatever is called so by now.
pub(crate) fn joined_before(exec: &Exec, context: &Context<'_>) -> Result<Option<NetworkName>> {
    let mut records = context.engine.records.attachments_of(&exec.container_id)?.into_iter();
    let record = records.find(|record| {
        record.layer == Layer::Link
            && record.runtime == Runtime::Podman
            && record.id.ifname == *exec.ifname()
    });
    Ok(record.map(|record| record.id.network))
}

fn refuse_other_subnets(config: &NetworkConfig, network: &Network) -> Result<()> {
    if network.wiring.chooses_addresses() || network.ipam.remote().is_some() {
        return Ok(());
    }
    let ranges: Vec<_> = network.ipam.pools().iter().flat_map(|pool| &pool.ranges).collect();
    for of in config.subnets() {
        let subnet = of.subnet.trunc();
        let Some(range) = ranges.iter().find(|range| range.subnet == subnet) else {
            let theirs: Vec<String> = ranges.iter().map(|r| r.subnet.to_string()).collect();
            return Err(Error::conflict(format!(
                "network {} exists with the subnets {}, and {subnet} is none of them; leave out \
                 --subnet",
                network.called(),
                theirs.join(", ")
            )));
        };
        if let (Some(gateway), Some(theirs)) = (of.gateway, range.gateway)
            && gateway != theirs
        {
            return Err(Error::conflict(format!(
                "network {} exists with the gateway {theirs}; {gateway} cannot be another one; \
                 leave out --gateway",
                network.called()
            )));
        }
    }
    Ok(())
}
