//! Why one does not reach another, as `spoke explain` finds it; and what egress rules refused, as `spoke denied`
//! lists it.

use std::collections::BTreeSet;

use host::denied::Denied;
use host::time::rfc3339;
use host::views::Filled;
use model::{NetworkName, Result, Timestamp};
use page::shown::{Explained, Explanation, Hop, ListPart, Refusal, Refusals};
use page::{Asked, Content};

use crate::commands::denied;
use crate::commands::explain::{asked, show};
use crate::commands::ps::shortened;
use crate::context::CommandContext;
use crate::titles::{Titled, Titles, meant};

/// No more names are offered: a browser shows them in one list.
const CHOICES: usize = 1000;
/// A part of the list has so many refusals.
const MOST: usize = 100;

pub(super) fn explained(asked: &Asked, context: &CommandContext) -> Result<Filled> {
    let is_asked = !asked.from.is_empty() && !asked.to.is_empty();
    let (answer, notes) = match is_asked.then(|| answer(asked, context)) {
        None => (None, Vec::new()),
        Some(Ok((found, notes))) => (Some(Ok(found)), notes),
        // The form stays, so that a word can be mended.
        Some(Err(error)) => (Some(Err(error.to_string())), Vec::new()),
    };
    let choices = choices(context)?;
    Ok((Content::Explained(Explained { asked: asked.clone(), choices, answer }), notes))
}

fn answer(question: &Asked, context: &CommandContext) -> Result<(Explanation, Vec<String>)> {
    let port = Some(question.port.as_str()).filter(|port| !port.is_empty());
    let (view, notes) = asked((&question.from, &question.to), port, context)?;
    let hops = view.report.hops.into_iter().map(hop).collect();
    Ok((Explanation { summary: view.summary, hops }, notes))
}

fn hop(hop: explain::Hop) -> Hop {
    let back = if hop.back { " of the answer" } else { "" };
    Hop {
        status: show::word(hop.status).to_owned(),
        name: format!("{}{back}", hop.hop),
        what: hop.what,
        by: hop.by.map(|by| by.to_string()),
        fix: hop.fix,
    }
}

fn choices(context: &CommandContext) -> Result<Vec<String>> {
    let mut records = (context.engine)()?.records.attachments()?;
    records.sort_by(|one, other| one.id.cmp(&other.id));
    // Not each layer has the container's name, and the daemon learns Docker's a moment later: until then an id is short.
    // Podman's names say the runtime already.
    let name = |layers: &[model::Attachment]| {
        let named = layers.iter().find(|it| it.owner.is_some()).or(layers.first());
        let Some(record) = named else { return String::new() };
        let runtime = record.runtime.to_string();
        let name = shortened(&record.container_name(), false);
        match name.strip_prefix(&runtime).is_some_and(|rest| rest.starts_with('/')) {
            true => name,
            false => format!("{runtime}/{name}"),
        }
    };
    let names: BTreeSet<String> =
        records.chunk_by(|one, other| one.id == other.id).map(name).collect();
    let fixed = ["outside", "host"].map(str::to_owned);
    Ok(fixed.into_iter().chain(names.into_iter().take(CHOICES)).collect())
}

pub(super) fn refusals(
    network: Option<&str>,
    number: usize,
    context: &CommandContext,
) -> Result<Content> {
    let engine = (context.engine)()?;
    let named: Option<NetworkName> = network.map(str::parse).transpose()?;
    let named = named.map(|called| meant(&engine, &called)).transpose()?;
    let titles = Titles::read(&engine)?;
    let all = denied::all(named.as_ref(), context).into_iter().rev();
    let found: Vec<Refusal> = all.map(|denied| refusal(Titled::denied(denied, &titles))).collect();
    let count = found.len();
    let (refusals, part) = ListPart::of(found, number, MOST);
    let network = network.map(str::to_owned);
    Ok(Content::Refusals(Refusals { network, refusals, part, found: count }))
}

fn refusal(view: Titled<Denied>) -> Refusal {
    let why = view.why();
    let Titled { of: denied, title } = view;
    let runtime = denied.runtime.clone().filter(|_| denied.container.is_some());
    Refusal {
        time: rfc3339(Timestamp(denied.time)),
        who: denied.container.clone().unwrap_or_else(|| denied.source.to_string()),
        runtime,
        to: denied.target(),
        what: denied.act.shown().to_owned(),
        why,
        network: denied.network,
        title,
    }
}
