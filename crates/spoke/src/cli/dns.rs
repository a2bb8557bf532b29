//! `spoke dns`: what containers are called, and what is answered.

use clap::{Args, Subcommand};
use model::{Error, Network, NetworkName, Result};
use names::{Entry, Table as Names, lookup};
use serde::Serialize;

use super::args::{Listing, Output};
use super::output::{Shown, list};
use super::table::Table;
use super::{Answer, HostContext};

/// What `spoke dns` is asked.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(super) enum DnsCommand {
    /// List the names that containers are found by, of every runtime
    #[command(
        after_help = "Networks made with names (--names, -o names=true) have them. A container is found \
        by NAME and each of ALIASES, alone or before .NETWORK.spoke, by containers that are on that \
        network.\n\nExamples:
  spoke dns ls front
  spoke dns ls --format '{{.Name}} {{join .Addresses \",\"}}'"
    )]
    Ls(DnsLsArgs),
    /// Say what is answered for a name, or an address
    #[command(
        after_help = "Exits with 3 where there is no such name on this host. Other servers are not \
        asked.\n\nExamples:
  spoke dns query web
  spoke dns query web.front.spoke
  spoke dns query --as api web        what container api would be answered
  spoke dns query 10.70.1.2           who that is"
    )]
    Query(DnsQueryArgs),
}

#[derive(Debug, Args)]
pub(super) struct DnsLsArgs {
    /// Only this network
    network: Option<NetworkName>,
    #[command(flatten)]
    listing: Listing,
}

#[derive(Debug, Args)]
pub(super) struct DnsQueryArgs {
    /// The name or address
    name: String,
    /// As this container is answered, which is on some networks only
    #[arg(long = "as", value_name = "CONTAINER")]
    asker: Option<String>,
    #[command(flatten)]
    listing: Listing,
}

/// A container on a network, as it is found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct NameView {
    name: String,
    network: String,
    runtime: String,
    addresses: Vec<String>,
    aliases: Vec<String>,
}

pub(super) fn run(
    command: &DnsCommand,
    output: Output,
    host_context: &HostContext,
) -> Result<Answer> {
    let engine = (host_context.engine)()?;
    let table = table(&engine.networks()?, &engine.attachments()?);
    let (rows, listing) = match command {
        DnsCommand::Ls(wanted) => {
            let mut entries = table.entries();
            entries.retain(|(name, _)| wanted.network.as_ref().is_none_or(|it| it == *name));
            (entries, &wanted.listing)
        }
        DnsCommand::Query(wanted) => (found(&table, wanted)?, &wanted.listing),
    };
    let rows: Vec<NameView> = rows.into_iter().map(|(name, entry)| view(name, entry)).collect();
    let name = |row: &NameView| row.name.clone();
    Ok(Answer::text(list(output, listing, &rows, Shown { name: &name, table: &shown })?))
}

pub(super) fn table(networks: &[Network], attachments: &[model::Attachment]) -> Names {
    let mut table = Names::default();
    for network in networks {
        table.put_network(&network.name, true, Some(network));
    }
    for attachment in attachments {
        table.put_attachment(&attachment.id, attachment.layer, Some(attachment));
    }
    table
}

fn found<'a>(table: &'a Names, wanted: &DnsQueryArgs) -> Result<Vec<(&'a NetworkName, &'a Entry)>> {
    let networks: Vec<&NetworkName> = match &wanted.asker {
        None => table.entries().into_iter().map(|(name, _)| name).collect(),
        Some(asker) => {
            let known = table.asker_named(asker);
            let known = known.ok_or_else(|| {
                let shown = model::text::shown(asker);
                Error::not_found(format!(
                    "container '{shown}' is on no network with names; `spoke dns ls` lists \
                    those that are"
                ))
            })?;
            table.networks_of(&known)
        }
    };
    let mut networks = networks;
    networks.sort();
    networks.dedup();
    let entries = lookup(table, &networks, &wanted.name);
    if entries.is_empty() {
        let shown = model::text::shown(&wanted.name);
        return Err(Error::not_found(format!(
            "nobody is called '{shown}' here; `spoke dns ls` lists who has which names"
        )));
    }
    let mut all = table.entries();
    all.retain(|(_, entry)| entries.contains(entry));
    Ok(all)
}

fn view(network: &NetworkName, entry: &Entry) -> NameView {
    NameView {
        name: entry.name.clone(),
        network: network.to_string(),
        runtime: entry.runtime.to_string(),
        addresses: entry.addresses.iter().map(ToString::to_string).collect(),
        aliases: entry.aliases.clone(),
    }
}

fn shown(rows: &[NameView]) -> Table {
    let mut table = Table::new(&["NAME", "NETWORK", "RUNTIME", "ADDRESS", "ALIASES"]);
    for row in rows {
        let (addresses, aliases) = (row.addresses.join(","), row.aliases.join(","));
        table.row([row.name.clone(), row.network.clone(), row.runtime.clone(), addresses, aliases]);
    }
    table
}
