//! `spoke network`: networks are made, listed and removed.

mod cloud;
pub(crate) mod connect;
mod rm;
mod set;

use std::slice;

use ::host::facts::HostFacts;
use engine::Engine;
use model::{Alias, Kind, Network, Result};

use crate::answer::Answer;
use crate::args::{CreateArgs, Driver, Filter, InspectArgs, LsArgs, NetworkCommand, no_value};
use crate::commands::host;
use crate::context::CommandContext;
use crate::output::table::Table;
use crate::output::{Output, Shown, in_order, json, list, names, render, templated};
use crate::titles::shown;
use crate::view::{NetworkView, READY};
use crate::{claims, draft};

/// What `network ls` calls drivers, besides Docker plugins.
const DRIVERS: [&str; 12] = [
    "bridge",
    "ptp",
    "macvlan",
    "ipvlan",
    "vlan",
    "host-device",
    "dummy",
    "tap",
    "cni",
    "neutron",
    "ovs",
    "none",
];

/// How often a subnet is chosen again that another process took meanwhile.
const RACES: u32 = 100;

pub(crate) fn run(
    command: &NetworkCommand,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    match command {
        NetworkCommand::Ls(wanted) => ls(wanted, output, context),
        NetworkCommand::Inspect(wanted) => inspect(wanted, output, context),
        NetworkCommand::Create(wanted) => create(wanted, output, context),
        NetworkCommand::Connect(wanted) => connect::connect(wanted, output, context),
        NetworkCommand::Disconnect(wanted) => connect::disconnect(wanted, output, context),
        NetworkCommand::Set(wanted) => set::set(wanted, output, context),
        NetworkCommand::Rename(wanted) => set::rename(wanted, output, context),
        NetworkCommand::Rm(wanted) => rm::rm(wanted, output, context),
    }
}

fn ls(wanted: &LsArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    let engine = (context.engine)()?;
    let (attachments, aliases) =
        (engine.records.attachments()?, by_network(engine.records.aliases()?));
    let views = engine.records.networks_and_described()?;
    let views = views.iter().map(|network| NetworkView::of(network, &attachments, &aliases));
    let views: Vec<NetworkView> = views.collect();
    let notes = unknown_drivers(&wanted.filters, &views);
    let holds = |view: &NetworkView| wanted.filters.iter().all(|filter| passes(filter, view));
    let mut rows: Vec<NetworkView> = views.into_iter().filter(holds).collect();
    in_order(&mut rows, |row| (shown(&row.title, &row.name).clone(), row.runtime.clone()));
    let shown = Shown { name: &|row: &NetworkView| row.name.clone(), table: &table };
    Ok(Answer { notes, ..Answer::text(list(output, &wanted.listing, &rows, shown)?) })
}

pub(crate) fn by_network(mut aliases: Vec<Alias>) -> Vec<Alias> {
    aliases.sort_by(|one, other| one.network.cmp(&other.network));
    aliases
}

/// A note about each driver that is not known. That is no error: a Docker plugin's name is known only as long as a
/// network is of it.
fn unknown_drivers(filters: &[Filter], views: &[NetworkView]) -> Vec<String> {
    let mut drivers: Vec<String> = DRIVERS.map(str::to_owned).to_vec();
    for view in views {
        if !drivers.contains(&view.driver) {
            drivers.push(view.driver.clone());
        }
    }
    let wanted = filters.iter().filter_map(|filter| match filter {
        Filter::Driver(driver) => Some(driver),
        Filter::Name(_) | Filter::Runtime(_) | Filter::Label(_) => None,
    });
    let unknown = wanted.filter(|driver| !drivers.contains(driver));
    unknown.map(|driver| no_value("driver", driver, &drivers)).collect()
}

fn passes(filter: &Filter, view: &NetworkView) -> bool {
    match filter {
        Filter::Name(part) => [Some(&view.name), view.title.as_ref()]
            .into_iter()
            .flatten()
            .any(|it| it.contains(part)),
        Filter::Driver(driver) => view.driver == *driver,
        Filter::Runtime(runtime) => view.runtime == runtime.to_string(),
        Filter::Label(label) => label.holds(&view.labels),
    }
}

fn table(rows: &[NetworkView]) -> Table {
    let mut heads = vec!["NAME", "DRIVER", "RUNTIME", "SUBNETS", "DEVICE", "ATTACHED"];
    let has_ways = rows.iter().any(|row| row.via.is_some());
    heads.extend(has_ways.then_some("VIA"));
    // Most networks are ready all the time.
    let has_states = rows.iter().any(|row| row.state != READY);
    heads.extend(has_states.then_some("STATE"));
    let mut table = Table::new(&heads);
    for row in rows {
        let subnets: Vec<&str> = row.subnets.iter().map(|subnet| subnet.subnet.as_str()).collect();
        let via = row.via.as_ref().map_or("-".to_owned(), crate::via::ViaView::short);
        let cells = [
            shown(&row.title, &row.name).clone(),
            row.driver.clone(),
            row.runtime.clone(),
            match row.ipam.as_str() {
                by @ ("dhcp" | "neutron") => by.to_owned(),
                _ => subnets.join(","),
            },
            row.device(),
            row.attached.to_string(),
        ];
        let state = has_states.then(|| row.state.to_owned());
        table.row(cells.into_iter().chain(has_ways.then_some(via)).chain(state));
    }
    table
}

fn inspect(wanted: &InspectArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    let engine = (context.engine)()?;
    let (attachments, aliases) =
        (engine.records.attachments()?, by_network(engine.records.aliases()?));
    let mut views = Vec::new();
    for name in &wanted.names {
        views.push(NetworkView::of(
            &engine.records.network_or_described(name)?,
            &attachments,
            &aliases,
        ));
    }
    let text = match &wanted.format {
        Some(format) if format != "json" => templated(format, &views)?,
        Some(_) => json(&views)?,
        None if output == Output::Table => json(&views)?,
        None => render(output, &views, String::new)?,
    };
    Ok(Answer::text(text))
}

fn create(wanted: &CreateArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    if let Some(hosts) = &wanted.many.hosts {
        return host::create_network(wanted, hosts, output, context);
    }
    let engine = (context.engine)()?;
    let facts = (context.facts)()?;
    let called = &wanted.name;
    let named = CreateArgs { name: engine.records.name_for(called)?, ..wanted.clone() };
    let title = (named.name != *called).then(|| called.clone());
    let wanted = &named;
    let mut tries = 0;
    loop {
        let known = near(wanted, &engine)?;
        let network = draft::network(wanted, context, &known, &facts, spread(tries))?;
        let network = Network { title: title.clone(), ..network };
        engine.records.refuse_described(&network)?;
        if wanted.driver == Driver::Neutron {
            // The user learns now of a missing name, and not with the first container.
            engine.attachments.status(&network)?;
        }
        match engine.networks.create(&network) {
            Err(error) if error.kind() == Kind::Conflict && tries < RACES => {
                let is_chosen = wanted.subnets.is_empty() && network.ipam.remote().is_none();
                if !is_chosen {
                    return Err(error);
                }
                tries += 1;
            }
            Err(error) => return Err(error),
            Ok(()) => {
                let text = names(output, &[network.called().to_string()])?;
                let mut notes = hidden(&network, &facts);
                notes.extend(warnings(&network, context));
                // Where that cannot be read the network is made all the same, and the daemon reports it.
                let unanswered = linux::masquerade::unanswered(slice::from_ref(&network));
                notes.extend(unanswered.into_iter().flatten().map(|it| it.what));
                return Ok(Answer { notes, ..Answer::text(text) });
            }
        }
    }
}

/// The networks that the wanted one must not be mixed up with; all others matter by their subnets only.
fn near(wanted: &CreateArgs, engine: &Engine<'_>) -> Result<Vec<Network>> {
    let names: Vec<_> = [&wanted.name].into_iter().chain(&wanted.remote.config_from).collect();
    let bridge =
        wanted.flags.spec.bridge.clone().map_or_else(|| model::bridge_name(&wanted.name), Ok)?;
    engine.records.namesakes(&names, Some(&bridge))
}

/// How far from the first free subnet the next one is chosen after so many lost races: concurrent
/// processes choose different ones.
fn spread(tries: u32) -> usize {
    const WIDEST: u32 = 7;
    std::process::id() as usize % (1 << tries.min(WIDEST))
}

/// Warnings about the Docker plugins that the network needs.
fn warnings(network: &Network, context: &CommandContext) -> Vec<String> {
    let mut names: Vec<_> = draft::plugins_of(network).into_iter().collect();
    names.sort();
    names.dedup();
    if names.is_empty() {
        return Vec::new();
    }
    let Ok(foreign) = (context.foreign)() else { return Vec::new() };
    names.iter().flat_map(|name| foreign.calls.warnings(name)).collect()
}

/// Routes of this host that the network's subnets take the place of.
fn hidden(network: &Network, facts: &HostFacts) -> Vec<String> {
    // On a parent's segment the subnet is that segment's own; a tenant's is not this host's.
    let is_of_parent = network.wiring.link.as_ref().is_some_and(|it| it.kind.parent().is_some());
    if is_of_parent || network.wiring.address_space.is_some() {
        return Vec::new();
    }
    let device = claims::device(network);
    let ranges = network.ipam.pools().iter().flat_map(|pool| &pool.ranges);
    let notes = ranges.flat_map(|range| {
        let hidden = claims::hidden_routes(&range.subnet, device.as_deref(), facts);
        hidden.into_iter().map(|route| {
            format!(
                "subnet {} hides the route to {} through {}",
                range.subnet, route.dst, route.device
            )
        })
    });
    notes.collect()
}
