//! `spoke ipam`: the address book.

mod release;
mod show;
mod space;

use std::collections::BTreeSet;
use std::net::IpAddr;

use engine::Engine;
use model::{Error, Holder, Network, NetworkName, OwnerName, Result, Space};

use crate::answer::Answer;
use crate::args::IpamCommand;
use crate::commands::findings;
use crate::context::CommandContext;
use crate::output::{Output, names, render};
use crate::reference;
use crate::usage::{self, Taken};

pub(crate) fn run(
    command: &IpamCommand,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    match command {
        IpamCommand::Show { what, no_trunc } => {
            show::show(what.as_deref(), *no_trunc, output, context)
        }
        IpamCommand::Free { network, count } => free(network, *count, output, context),
        IpamCommand::Check { fix } => findings::check(*fix, output, context),
        IpamCommand::Reserve { address, owner, network } => {
            let notes = reserve(*address, owner.as_ref(), network.as_ref(), context)?;
            changed(*address, notes, output)
        }
        IpamCommand::Release { address, network, force } => {
            let notes = release::release(*address, network.as_ref(), *force, context)?;
            changed(*address, notes, output)
        }
    }
}

fn changed(address: IpAddr, notes: Vec<String>, output: Output) -> Result<Answer> {
    Ok(Answer { notes, ..Answer::text(names(output, &[address.to_string()])?) })
}

/// The store, and the files of the reference plugins that it knows nothing of.
pub(crate) fn taken(
    engine: &Engine,
    networks: &[Network],
    context: &CommandContext,
) -> Result<Taken> {
    let holders = engine.records.holders()?;
    let mut files = reference::files(context, networks);
    let held: BTreeSet<IpAddr> = holders.iter().map(|holder| holder.lease.address.addr()).collect();
    files.retain(|file| !held.contains(&file.address));
    Ok(Taken::new(holders, engine.records.reservations()?, files))
}

fn free(
    name: &NetworkName,
    count: usize,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let engine = (context.engine)()?;
    let network = engine.records.network(name)?;
    let taken = taken(&engine, std::slice::from_ref(&network), context)?;
    let free: Vec<String> = network
        .ipam
        .pools()
        .iter()
        .flat_map(|pool| usage::lowest_free(pool, &taken, count))
        .map(|address| address.to_string())
        .collect();
    if free.is_empty() {
        return Err(Error::exhausted(format!(
            "network {name} has no free address; `spoke ipam show {name}` says who holds them"
        )));
    }
    let table = || free.iter().map(|address| format!("{address}\n")).collect();
    Ok(Answer::text(render(output, &free, table)?))
}

fn reserve(
    address: IpAddr,
    owner: Option<&OwnerName>,
    network: Option<&NetworkName>,
    context: &CommandContext,
) -> Result<Vec<String>> {
    let engine = (context.engine)()?;
    let networks = match network {
        Some(name) => vec![engine.records.network(name)?],
        None => engine.records.networks()?,
    };
    space::only(address, &space::of_networks(&networks, address), &networks)?;
    let mut pools = networks.iter().flat_map(|network| network.ipam.pools());
    let pool = pools.find(|pool| pool.range_of(address).is_some());
    if pool.is_none() {
        refuse_elsewhere(address, &networks, &engine)?;
    }
    match (pool, network) {
        (None, Some(name)) => {
            return Err(Error::invalid(format!("{address} is in no range of network {name}")));
        }
        (Some(pool), _) if pool.is_gateway(address) => {
            return Err(Error::invalid(format!(
                "{address} is the gateway of network {} and never allocated",
                pool.id.network
            )));
        }
        _ => {}
    }
    let space = pool.map_or(Space::Host, |pool| pool.space.clone());
    let name = network.and_then(|_| networks.first()).map(|network| network.name.clone());
    let owner = name.zip(owner.cloned());
    engine.addresses.reserve_address(&space, address, owner)?;
    let holder = engine.records.holder(&space, address)?;
    let note = |held: Holder| format!("{address} stays with {} until that goes", held.tenant);
    Ok(holder.map(note).into_iter().collect())
}

/// Refuses an address of a network of many hosts that is in no block of this one: its store says nothing of it to the
/// others, so they would give it away.
fn refuse_elsewhere(address: IpAddr, networks: &[Network], engine: &Engine) -> Result<()> {
    let has = |network: &Network| {
        let pools = network.ipam.pools().iter();
        pools.flat_map(|pool| &pool.ranges).any(|range| range.subnet.contains(&address))
    };
    let of_hosts = |network: &&Network| has(network) && engine.addresses.is_of_hosts(&network.name);
    let Some(Network { name, .. }) = networks.iter().find(of_hosts) else { return Ok(()) };
    Err(Error::invalid(format!(
        "{address} of network {name} is in no block of this host, and a reservation keeps it from this host's \
         containers alone: where `spoke host ls` shows a host whose block has it, reserve it there; otherwise have a \
         container hold it (`spoke network connect --ip {address} {name} NETNS`)"
    )))
}
