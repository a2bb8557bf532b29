//! `spoke limit`: what a running container may send and receive.

use engine::Engine;
use model::{Amendment, Attachment, Bandwidth, Error, Kind, Layer, Phase, Rate, Result};
use serde::Serialize;

use super::args::{Limit, LimitArgs, Output};
use super::container::{Called, attachments, waiting};
use super::output::{Shown, list, names};
use super::table::Table;
use super::{Answer, HostContext};

/// The limits of a container's interface.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct LimitView {
    name: String,
    runtime: String,
    network: String,
    /// Bits per second that it may receive; null: unlimited.
    ingress: Option<u64>,
    /// Bits per second that it may send; null: unlimited.
    egress: Option<u64>,
    /// Whether `spoke limit` set them.
    added: bool,
    /// `set`, or `waiting` for the container.
    state: &'static str,
}

pub(super) fn run(
    wanted: &LimitArgs,
    output: Output,
    host_context: &HostContext,
) -> Result<Answer> {
    let is_asked = wanted.both.or(wanted.ingress).or(wanted.egress).is_some();
    match &wanted.container {
        Some(container) if is_asked => set(container, wanted, output, host_context),
        container => ls(container.as_deref(), wanted, output, host_context),
    }
}

fn set(
    container: &str,
    wanted: &LimitArgs,
    output: Output,
    host_context: &HostContext,
) -> Result<Answer> {
    let engine = (host_context.engine)()?;
    let called = Called::of(container);
    let given = |one: Option<Limit>| wanted.both.or(one).and_then(|limit| limit.0);
    let limits =
        Bandwidth { ingress: given(wanted.ingress), egress: given(wanted.egress), device: None };
    let mut found = match attachments(&engine, &called, wanted.network.as_ref(), host_context) {
        Err(error) if error.kind() == Kind::NotFound && limits == Bandwidth::default() => {
            return forget(&engine, &called, wanted, error);
        }
        found => found?,
    };
    found.retain(|record| record.layer == Layer::Link);
    if found.is_empty() {
        return Err(Error::unsupported(format!(
            "{}: another plugin made its interface, and limits it",
            model::text::shown(container)
        )));
    }
    found.sort_by(|one, other| one.id.cmp(&other.id));
    let mut lines = Vec::new();
    for attachment in found {
        engine.set_limits(&attachment.id, &limits).map_err(|error| partly(error, &lines))?;
        lines.push(format!(
            "{} on {}: receives {}, sends {}",
            attachment.container_name(),
            attachment.id.network,
            bits(limits.ingress.map(|rate| rate.rate)),
            bits(limits.egress.map(|rate| rate.rate))
        ));
    }
    Ok(Answer::text(names(output, &lines)?))
}

/// Of several interfaces one cannot be limited: says which are by now.
fn partly(error: Error, lines: &[String]) -> Error {
    match lines {
        [] => error,
        lines => {
            let text = format!("{error}; done: {}; --network names one", lines.join("; "));
            Error::new(error.kind(), text)
        }
    }
}

/// Of a container that is not attached only what its name keeps is known.
fn forget(
    engine: &Engine<'_>,
    called: &Called<'_>,
    wanted: &LimitArgs,
    unknown: Error,
) -> Result<Answer> {
    let Some((runtime, name)) = waiting(engine, called)? else { return Err(unknown) };
    match engine.forget_limits((runtime, &name), wanted.network.as_ref())? {
        true => Ok(Answer::default()),
        false => Err(unknown),
    }
}

fn ls(
    container: Option<&str>,
    wanted: &LimitArgs,
    output: Output,
    host_context: &HostContext,
) -> Result<Answer> {
    let engine = (host_context.engine)()?;
    let (mut records, mut kept) = (engine.attachments()?, engine.amendments()?);
    if let Some(container) = container {
        let called = Called::of(container);
        kept.retain(|it| called.is_name(it.runtime, it.name.as_str()));
        match attachments(&engine, &called, None, host_context) {
            Ok(known) => records.retain(|record| known.iter().any(|it| it.id == record.id)),
            Err(error) if error.kind() == Kind::NotFound && !kept.is_empty() => records.clear(),
            // Says which containers there are.
            Err(unknown) => return Err(unknown),
        }
    }
    let mut rows: Vec<LimitView> =
        records.iter().filter_map(|record| of(record, &records, &kept)).collect();
    for amendment in &kept {
        let is_set = |row: &LimitView| is_of(row, amendment);
        if let Some(limits) = amendment.bandwidth.as_ref().filter(|_| !rows.iter().any(is_set)) {
            rows.push(waiting_limits(amendment, limits));
        }
    }
    rows.retain(|row| wanted.network.as_ref().is_none_or(|it| row.network == it.as_str()));
    rows.sort();
    let name = |row: &LimitView| row.name.clone();
    Ok(Answer::text(list(output, &wanted.listing, &rows, Shown { name: &name, table: &table })?))
}

fn is_of(row: &LimitView, amendment: &Amendment) -> bool {
    row.name == amendment.name.as_str()
        && row.runtime == amendment.runtime.to_string()
        && row.network == amendment.network.as_str()
}

fn of(record: &Attachment, records: &[Attachment], kept: &[Amendment]) -> Option<LimitView> {
    let limits = record.wiring.bandwidth.as_ref()?;
    let is_complete = matches!(record.phase, Phase::Attached(_));
    let is_limited = limits.ingress.is_some() || limits.egress.is_some();
    let mut layers = records.iter().filter(|it| it.id == record.id && it.owner.is_some());
    let row = LimitView {
        name: layers.next().unwrap_or(record).container_name(),
        runtime: record.runtime.to_string(),
        network: record.id.network.to_string(),
        ingress: limits.ingress.map(|rate: Rate| rate.rate),
        egress: limits.egress.map(|rate: Rate| rate.rate),
        added: false,
        state: "set",
    };
    let added = kept.iter().any(|it| it.bandwidth.is_some() && is_of(&row, it));
    (is_complete && is_limited).then_some(LimitView { added, ..row })
}

fn waiting_limits(amendment: &Amendment, limits: &Bandwidth) -> LimitView {
    LimitView {
        name: amendment.name.to_string(),
        runtime: amendment.runtime.to_string(),
        network: amendment.network.to_string(),
        ingress: limits.ingress.map(|rate| rate.rate),
        egress: limits.egress.map(|rate| rate.rate),
        added: true,
        state: "waiting",
    }
}

fn bits(rate: Option<u64>) -> String {
    rate.map_or_else(|| "unlimited".to_owned(), |rate| format!("{rate} bit/s"))
}

fn table(rows: &[LimitView]) -> Table {
    let mut table = Table::new(&["NAME", "RUNTIME", "NETWORK", "RECEIVES", "SENDS", "BY", "STATE"]);
    for row in rows {
        table.row([
            row.name.clone(),
            row.runtime.clone(),
            row.network.clone(),
            bits(row.ingress),
            bits(row.egress),
            if row.added { "limit".to_owned() } else { "runtime".to_owned() },
            row.state.to_owned(),
        ]);
    }
    table
}
