//! Networks of many hosts.

use engine::Engine;
use host::hosts::{self, Ask, Reply, SharedNetworkSpec};
use model::{Error, Kind, NetworkName, Placement, Result};

use super::unexpected;
use crate::answer::Answer;
use crate::args::CreateArgs;
use crate::context::CommandContext;
use crate::output::{Output, names};

/// `spoke network create --hosts`.
pub(crate) fn create_network(
    wanted: &CreateArgs,
    hosts: &Placement,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let unknown = wanted.flags.besides(&["mtu", "names", "sticky"], spec::is_rule);
    if let Some(flag) = unknown {
        return Err(Error::unsupported(format!(
            "a network of many hosts does not have --{flag} yet"
        )));
    }
    let (subnet, subnet6) = hosts::one_of_each(&wanted.subnets)?;
    if let Some(subnet) = subnet.filter(|_| !wanted.remote.ipv4) {
        return Err(Error::invalid(format!("--ipv4=false: {subnet} is a subnet of IPv4")));
    }
    let name = wanted.name.clone();
    let rules = wanted.spec()?.shared_rules();
    let ask = SharedNetworkSpec {
        name,
        subnet,
        subnet6,
        ipv6: wanted.remote.ipv6,
        only_v6: !wanted.remote.ipv4,
        block: wanted.many.block,
        mtu: wanted.flags.spec.mtu,
        hosts: hosts.clone(),
        encrypt: wanted.many.encrypt,
        transport: wanted.many.transport.unwrap_or_default(),
        or_join: false,
        engines: wanted.many.engines.iter().copied().collect(),
        names: wanted.flags.spec.names.unwrap_or(false),
        sticky: wanted.flags.spec.sticky.unwrap_or(false),
        rules: rules.clone(),
    };
    let reply = hosts::ask(&context.runtime, &Ask::CreateNetwork(Box::new(ask)))?;
    let Reply::Network { network, missing, failure, mut notes, .. } = reply else {
        return Err(unexpected(&reply));
    };
    if let Some(failure) = failure {
        return Err(Error::conflict(format!(
            "network {} is declared for the cluster, and this host cannot have it: {failure}",
            wanted.name
        )));
    }
    hosts::refuse_without(&wanted.name, &rules, &network)?;
    let late = missing.iter().map(|host| {
        format!("host {host} does not have network {} yet; see `spoke host ls` there", wanted.name)
    });
    notes.extend(late);
    Ok(Answer { notes, ..Answer::text(names(output, &[wanted.name.to_string()])?) })
}

/// Whether the network is one of many hosts.
pub(crate) fn is_shared(name: &NetworkName, context: &CommandContext) -> bool {
    let mut places = context.store.iter().map(|state| hosts::place(state));
    places.any(|place| hosts::networks(&place).join(name.as_str()).exists())
}

/// One host alone does not change what all of them have from the cluster.
pub(crate) fn refuse_shared_rules(name: &NetworkName, context: &CommandContext) -> Result<()> {
    let network = (context.engine)()?.records.network(name)?;
    match is_shared(&network.name, context) {
        true => Err(Error::unsupported(format!(
            "network {name} is one of many hosts: all of them have its rules from the cluster as it was made. Make \
             another one with `spoke network create --hosts --egress`, or give a container rules of its own \
             (`spoke egress set --container`)"
        ))),
        false => Ok(()),
    }
}

/// Removes a network of many hosts; `false` where it is none.
pub(crate) fn remove_network(
    engine: &Engine,
    name: &NetworkName,
    context: &CommandContext,
) -> Result<bool> {
    let mut places = context.store.iter().map(|state| hosts::place(state));
    // A host that does not have the network can end it too, once the hosts that had it are gone.
    let is_shared = places.any(|place| {
        hosts::networks(&place).join(name.as_str()).exists()
            || (hosts::is_member(&place)
                // The caller may mean the one of this host's runtime.
                && !engine.records.is_described(name)
                && engine.records.called(name).is_ok_and(|it| it.is_none()))
    });
    if !is_shared {
        return Ok(false);
    }
    match hosts::ask(&context.runtime, &Ask::RemoveNetwork { name: name.clone() }) {
        Ok(_) => Ok(true),
        // Of the cluster no more: what is left of it here is this host's.
        Err(error) if error.kind() == Kind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
