//! `spoke dns`: what containers are called, and what is answered.

mod host;

use ::host::hosts::{self, Ask, Reply};
use engine::Engine;
use model::{Alias, Error, Kind, NamedElsewhere, Network, NetworkName, Result};
use names::{Asker, Entry, Table as Names, lookup};
use serde::Serialize;

use crate::answer::Answer;
use crate::args::dns::{DnsCommand, DnsQueryArgs};
use crate::container::{Called, attachments};
use crate::context::CommandContext;
use crate::output::table::Table;
use crate::output::{Output, Shown, in_order, list};
use crate::titles::{self, Titles};

/// A container on a network, as it is found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct NameView {
    name: String,
    network: String,
    /// What its runtime calls the network, where that differs.
    title: Option<String>,
    runtime: String,
    addresses: Vec<String>,
    aliases: Vec<String>,
    /// Where that is another host.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
}

pub(crate) fn run(
    command: &DnsCommand,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let engine = (context.engine)()?;
    let records = &engine.records;
    let mut table = table(&records.networks()?, &records.aliases()?, &records.attachments()?);
    let mut notes = Vec::new();
    match elsewhere(context) {
        Ok(names) => table.put_elsewhere(&names),
        Err(error) => notes.push(format!("names of other hosts are not shown: {error}")),
    }
    let (rows, listing) = match command {
        DnsCommand::Host => return host::run(output, &table.places(), context),
        DnsCommand::Ls(wanted) => {
            let mut entries = table.entries();
            let network = wanted.network.as_ref().map(|it| engine.records.meant(it)).transpose()?;
            entries.retain(|(name, _)| network.as_ref().is_none_or(|it| it == *name));
            (entries, &wanted.listing)
        }
        DnsCommand::Query(wanted) => {
            let asker = |called: &String| asker(&table, called, (&engine, context));
            let asker = wanted.asker.as_ref().map(asker).transpose()?;
            (found(&table, asker, wanted)?, &wanted.listing)
        }
    };
    let titles = Titles::read(&engine)?;
    let view = |(network, entry): (&NetworkName, &Entry)| {
        let title = titles.title(network.as_str(), Some(&entry.runtime_name()));
        NameView { title, ..view(table.called(network), entry) }
    };
    let mut rows: Vec<NameView> = rows.into_iter().map(view).collect();
    in_order(&mut rows, |row| {
        (row.name.clone(), titles::shown(&row.title, &row.network).clone(), row.runtime.clone())
    });
    let name = |row: &NameView| row.name.clone();
    let text = list(output, listing, &rows, Shown { name: &name, table: &shown })?;
    Ok(Answer { notes, ..Answer::text(text) })
}

/// What containers of other hosts are called, as the daemon has heard it; none where this host is in no cluster.
pub(crate) fn elsewhere(context: &CommandContext) -> Result<Vec<NamedElsewhere>> {
    if !is_in_cluster(context) {
        return Ok(Vec::new());
    }
    match hosts::ask(&context.runtime, &Ask::Names)? {
        Reply::Names(names) => Ok(names),
        _ => Err(Error::bug("unexpected answer of the daemon to a request for names")),
    }
}

/// Whether this host is one of many.
pub(crate) fn is_in_cluster(context: &CommandContext) -> bool {
    let mut places = context.store.iter().map(|state| hosts::place(state));
    places.any(|place| hosts::is_member(&place))
}

pub(crate) fn table(
    networks: &[Network],
    aliases: &[Alias],
    attachments: &[model::Attachment],
) -> Names {
    let mut table = Names::default();
    for alias in aliases {
        table.put_alias(&alias.id, Some(alias));
    }
    for network in networks {
        table.put_network(&network.name, true, Some(network));
    }
    for attachment in attachments {
        table.put_attachment(&attachment.id, attachment.layer, Some(attachment));
    }
    table
}

/// The container that is called so, as other commands know it, at one of its networks with names; or that has the name
/// there.
fn asker<'a>(
    table: &'a Names,
    called: &str,
    (engine, context): (&Engine<'_>, &CommandContext),
) -> Result<Asker<'a>> {
    let attached = match attachments(engine, &Called::of(called), None, context) {
        Err(error) if error.kind() == Kind::NotFound => {
            return table.asker_named(called).ok_or(error);
        }
        attached => attached?,
    };
    let is_it = |asker: &Asker<'_>| {
        let holder = table.holder_of(asker);
        holder.is_some_and(|holder| attached.iter().any(|record| record.id == holder.id))
    };
    let here = table.entries().into_iter().filter(|(_, entry)| entry.host.is_none());
    let askers = here
        .filter_map(|(network, entry)| Some(Asker { network, address: *entry.addresses.first()? }));
    askers.into_iter().find(is_it).ok_or_else(|| {
        let shown = model::text::shown(called);
        Error::not_found(format!(
            "container '{shown}' is on no network with names; `spoke dns ls` lists those that are"
        ))
    })
}

fn found<'a>(
    table: &'a Names,
    asker: Option<Asker<'a>>,
    wanted: &DnsQueryArgs,
) -> Result<Vec<(&'a NetworkName, &'a Entry)>> {
    let networks: Vec<&NetworkName> = match &asker {
        None => table.entries().into_iter().map(|(name, _)| name).collect(),
        Some(asker) => table.networks_of(asker),
    };
    let mut networks = networks;
    networks.sort();
    networks.dedup();
    let entries = lookup(table, &networks, &wanted.name);
    if entries.is_empty() {
        let shown = model::text::shown(&wanted.name);
        return Err(Error::not_found(format!(
            "no container is called '{shown}' here; `spoke dns ls` lists who has which names"
        )));
    }
    let mut all = table.entries();
    all.retain(|(_, entry)| entries.contains(entry));
    Ok(all)
}

fn view(network: NetworkName, entry: &Entry) -> NameView {
    NameView {
        name: entry.name.clone(),
        network: network.to_string(),
        title: None,
        runtime: entry.runtime_name(),
        addresses: entry.addresses.iter().map(ToString::to_string).collect(),
        aliases: entry.aliases.clone(),
        host: entry.host.as_ref().map(ToString::to_string),
    }
}

fn shown(rows: &[NameView]) -> Table {
    let columns = ["NAME", "NETWORK", "RUNTIME", "ADDRESS", "ALIASES", "HOST"];
    // One host alone needs no column.
    let are_many = rows.iter().any(|row| row.host.is_some());
    let count = columns.len() - usize::from(!are_many);
    let mut table = Table::new(columns.get(..count).unwrap_or(&columns));
    for row in rows {
        let (addresses, aliases) = (row.addresses.join(","), row.aliases.join(","));
        let (name, network) = (row.name.clone(), titles::shown(&row.title, &row.network).clone());
        let host = row.host.clone().unwrap_or_default();
        let cells = [name, network, row.runtime.clone(), addresses, aliases, host];
        table.row(cells.into_iter().take(count));
    }
    table
}
