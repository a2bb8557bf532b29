//! `spoke neutron`: what this host keeps in Neutron ahead of need.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use host::cloud::PASSED_OVER;
use host::time::{ago, rfc3339};
use model::{Error, ResourceRef, Result, Timestamp};
use neutron::Neutron;
use neutron::stock::StockKind;
use serde::Serialize;

use crate::answer::Answer;
use crate::args::neutron::{NeutronCommand, StockCommand};
use crate::context::CommandContext;
use crate::output::table::Table;
use crate::output::{Output, render};

/// Ports of one kind, as they are shown.
#[derive(Debug, Serialize)]
struct KindView {
    network: String,
    kind: String,
    ready: usize,
    in_use: usize,
    returned: usize,
    wanted: Option<String>,
}

/// How many ports of a network were deleted.
#[derive(Debug, Serialize)]
struct DrainedView {
    network: String,
    deleted: usize,
}

pub(crate) fn run(
    command: &NeutronCommand,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let NeutronCommand::Stock(command) = command;
    let neutron = (context.neutron)()?.ok_or_else(|| {
        Error::unsupported(
            "no cloud is configured: add [neutron] to the configuration of this host",
        )
    })?;
    match command {
        StockCommand::Ls => list(&neutron, output, context),
        StockCommand::Drain { networks } => drain(&neutron, networks, output),
    }
}

fn list(neutron: &Neutron, output: Output, context: &CommandContext) -> Result<Answer> {
    let kinds = neutron.stock()?;
    let views: Vec<KindView> = kinds.iter().map(view).collect();
    let text = render(output, &views, || table(&kinds, context.now).text())?;
    let notes = troubles(neutron, &kinds).into_iter().map(|(what, fix)| format!("{what}; {fix}"));
    Ok(Answer { notes: notes.collect(), ..Answer::text(text) })
}

fn drain(neutron: &Neutron, networks: &[ResourceRef], output: Output) -> Result<Answer> {
    let drained = neutron.drain_stocks(networks)?;
    let view = |(network, deleted): &(model::ResourceId, usize)| DrainedView {
        network: network.to_string(),
        deleted: *deleted,
    };
    let views: Vec<DrainedView> = drained.iter().map(view).collect();
    let text = || {
        let mut table = Table::new(&["NETWORK", "DELETED"]);
        for view in &views {
            table.row([view.network.clone(), view.deleted.to_string()]);
        }
        if views.is_empty() { "nothing found\n".to_owned() } else { table.text() }
    };
    Ok(Answer::text(render(output, &views, text)?))
}

fn view(kind: &StockKind) -> KindView {
    KindView {
        network: kind.network.to_string(),
        kind: kind.kind.clone(),
        ready: kind.ready,
        in_use: kind.in_use,
        returned: kind.returned,
        wanted: kind.wanted.map(|at| rfc3339(timestamp(at))),
    }
}

fn table(kinds: &[StockKind], now: Timestamp) -> Table {
    let mut table = Table::new(&["NETWORK", "KIND", "READY", "IN USE", "RETURNED", "WANTED"]);
    for kind in kinds {
        table.row([
            kind.network.to_string(),
            kind.kind.clone(),
            kind.ready.to_string(),
            kind.in_use.to_string(),
            kind.returned.to_string(),
            kind.wanted.map_or_else(|| "-".to_owned(), |at| ago(timestamp(at), now)),
        ]);
    }
    table
}

fn timestamp(at: SystemTime) -> Timestamp {
    Timestamp(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

/// The problems of the stock, and their remedies.
pub(crate) fn troubles(neutron: &Neutron, kinds: &[StockKind]) -> Vec<(String, String)> {
    let ready = ready(kinds);
    let mut found = Vec::new();
    if ready > 0 && !neutron.keeps_stock() {
        let what =
            format!("{ready} of Neutron's ports were made ahead of need, and no stock is kept");
        found.push((what, DRAIN.to_owned()));
    } else if ready > 0 && !neutron.is_stock_kept() {
        let what = format!("{ready} of Neutron's ports are ready, and no daemon looks after them");
        found.push((what, format!("spoke serve, or {DRAIN}")));
    }
    if neutron.is_stock_passed_over() {
        let fix = "restart dockerd; requires_mac_address in [kuryr] must not be true";
        found.push((PASSED_OVER.to_owned(), fix.to_owned()));
    }
    if neutron.keeps_stock() && neutron.is_stock_of_no_use() {
        let what = "no ports are made ahead of need for containers that are nested by a trunk";
        found.push((what.to_owned(), "remove [neutron.stock] of the configuration".to_owned()));
    }
    found
}

/// The command that empties it.
pub(crate) const DRAIN: &str = "spoke neutron stock drain";

/// How many wait for a container.
pub(crate) fn ready(kinds: &[StockKind]) -> usize {
    kinds.iter().map(|kind| kind.ready).sum()
}

/// The same in a sentence, where a stock is kept.
pub(crate) fn summary(neutron: &Neutron, kinds: &[StockKind]) -> Option<String> {
    let in_use: usize = kinds.iter().map(|kind| kind.in_use).sum();
    let is_shown = neutron.keeps_stock() || !kinds.is_empty();
    is_shown.then(|| format!("{} of Neutron's ports are ready, {in_use} are in use", ready(kinds)))
}

/// Ports of an earlier configuration's stock, below the runtime directory: their cloud is unknown.
pub(crate) fn orphaned(runtime: &Path) -> usize {
    let entries = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
    let kinds = entries(&runtime.join("neutron/stock/ready"));
    kinds.map(|kind| entries(&kind.path()).count()).sum()
}
