//! `spoke limit`: what a running container may send and receive.

use engine::Engine;
use model::{
    Amendment, Attachment, Bandwidth, Error, Kind, Layer, NetworkName, Phase, Result, Runtime,
};
use serde::Serialize;

use crate::answer::Answer;
use crate::args::LimitArgs;
use crate::commands::traffic::unit::short;
use crate::container::{Called, attachments, shown, waiting};
use crate::context::CommandContext;
use crate::output::table::{Table, clean};
use crate::output::{Output, Shown, in_order, list, render};
use crate::titles::{self, Named, Titles, entitle};

/// The limits of a container's interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct LimitView {
    name: String,
    runtime: String,
    network: String,
    /// What its runtime calls the network.
    title: Option<String>,
    /// Bits per second that it may receive; null: unlimited.
    ingress: Option<u64>,
    /// Bits per second that it may send; null: unlimited.
    egress: Option<u64>,
    /// Bytes that it may send and receive in a period; null: as many as it likes.
    quota: Option<u64>,
    /// `day`, `week` or `month`.
    period: Option<String>,
    /// Bytes of it that are used.
    used: Option<u64>,
    /// Whether `spoke limit` set them.
    added: bool,
    /// `set`, or `waiting` for the container.
    state: &'static str,
}

impl LimitView {
    fn named(&mut self) -> Named<'_> {
        Named { network: &mut self.network, title: &mut self.title, runtime: &self.runtime }
    }
}

pub(crate) fn run(wanted: &LimitArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    match &wanted.container {
        Some(container) if wanted.is_asked() => set(container, wanted, output, context),
        container => ls(container.as_deref(), wanted, output, context),
    }
}

fn set(
    container: &str,
    wanted: &LimitArgs,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let engine = (context.engine)()?;
    let called = Called::of(container);
    let lifts = wanted.applied_to(None) == Bandwidth::default();
    let mut found = match attachments(&engine, &called, wanted.network.as_ref(), context) {
        Err(error) if error.kind() == Kind::NotFound && lifts => {
            return forget(&engine, &called, (wanted, output), error);
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
    let (mut lines, mut rows, titles) = (Vec::new(), Vec::new(), Titles::read(&engine)?);
    for attachment in &found {
        let limits = wanted.applied_to(attachment.wiring.bandwidth.as_ref());
        engine
            .attachments
            .set_limits(&attachment.id, &limits)
            .map_err(|error| partly(error, &lines))?;
        let quota = limits.quota.map_or_else(String::new, |quota| format!(", {quota} in all"));
        lines.push(format!(
            "{} on {}: receives {}, sends {}{quota}",
            attachment.container_name(),
            titles.shown(attachment),
            bits(limits.ingress.map(|rate| rate.rate)),
            bits(limits.egress.map(|rate| rate.rate))
        ));
        let place = (attachment.runtime, &attachment.id.network);
        rows.push(LimitView { added: true, ..view(attachment.container_name(), place, &limits) });
    }
    let notes = measure(&engine, &found, &mut rows);
    rows.iter_mut().for_each(|row| titles.complete(row.named()));
    let text = || lines.iter().map(|line| clean(line) + "\n").collect();
    Ok(Answer { notes, ..Answer::text(render(output, &rows, text)?) })
}

/// Puts in each row what is used of its quota, by the record that has it by now. All are limited before: what cannot be read
/// is said, and takes nothing back.
fn measure(engine: &Engine<'_>, limited: &[Attachment], rows: &mut [LimitView]) -> Vec<String> {
    let used = |attachment: &Attachment| match engine.records.attachment(&attachment.id)? {
        Some(record) => engine.links.used_of(&record),
        // The container has ended since.
        None => Ok(None),
    };
    let mut notes = Vec::new();
    for (attachment, row) in limited.iter().zip(rows).filter(|(_, row)| row.quota.is_some()) {
        match used(attachment) {
            Ok(used) => row.used = used,
            Err(error) => notes.push(format!(
                "it is not known how much of the quota of {} is used: {error}",
                row.name
            )),
        }
    }
    notes
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
    (wanted, output): (&LimitArgs, Output),
    unknown: Error,
) -> Result<Answer> {
    let Some((runtime, name)) = waiting(engine, called)? else { return Err(unknown) };
    let network = wanted.network.as_ref().map(|name| engine.records.meant(name)).transpose()?;
    let (owner, part) = ((runtime, &name), wanted.lifted());
    match engine.attachments.forget_amendment(owner, network.as_ref(), part)? {
        // None of a container that is here.
        true => Ok(Answer::text(render(output, &Vec::<LimitView>::new(), String::new)?)),
        false => Err(unknown),
    }
}

fn ls(
    container: Option<&str>,
    wanted: &LimitArgs,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let engine = (context.engine)()?;
    let (records, kept) = shown(&engine, container, context)?;
    let mut rows = Vec::new();
    for record in &records {
        let used = engine.links.used_of(record)?;
        rows.extend(of(record, &records, &kept).map(|row| LimitView { used, ..row }));
    }
    for amendment in &kept {
        let is_set = |row: &LimitView| is_of(row, amendment);
        if let Some(limits) = amendment.bandwidth.as_ref().filter(|_| !rows.iter().any(is_set)) {
            let used = engine.links.used_of_name(amendment)?;
            rows.push(LimitView { used, ..waiting_limits(amendment, limits) });
        }
    }
    entitle(&engine, wanted.network.as_ref(), &mut rows, LimitView::named)?;
    in_order(&mut rows, |row| {
        let network = titles::shown(&row.title, &row.network).clone();
        (row.name.clone(), row.runtime.clone(), network)
    });
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
    let mut layers = records.iter().filter(|it| it.id == record.id && it.owner.is_some());
    let name = layers.next().unwrap_or(record).container_name();
    let row = view(name, (record.runtime, &record.id.network), limits);
    let added = kept.iter().any(|it| it.bandwidth.is_some() && is_of(&row, it));
    (is_complete && limits.is_any()).then_some(LimitView { added, ..row })
}

fn waiting_limits(amendment: &Amendment, limits: &Bandwidth) -> LimitView {
    let row = view(amendment.name.to_string(), (amendment.runtime, &amendment.network), limits);
    LimitView { added: true, state: "waiting", ..row }
}

fn view(
    name: String,
    (runtime, network): (Runtime, &NetworkName),
    limits: &Bandwidth,
) -> LimitView {
    LimitView {
        name,
        runtime: runtime.to_string(),
        network: network.to_string(),
        title: None,
        ingress: limits.ingress.map(|rate| rate.rate),
        egress: limits.egress.map(|rate| rate.rate),
        quota: limits.quota.map(|quota| quota.bytes),
        period: limits.quota.map(|quota| quota.period.to_string()),
        used: None,
        added: false,
        state: "set",
    }
}

fn bits(rate: Option<u64>) -> String {
    rate.map_or_else(|| "unlimited".to_owned(), |rate| format!("{rate} bit/s"))
}

fn quota(row: &LimitView) -> String {
    match (row.quota, &row.period) {
        (Some(bytes), Some(period)) => format!("{}/{period}", short(bytes)),
        (_, _) => "-".to_owned(),
    }
}

fn table(rows: &[LimitView]) -> Table {
    let mut table = Table::new(&[
        "NAME", "RUNTIME", "NETWORK", "RECEIVES", "SENDS", "USED", "QUOTA", "BY", "STATE",
    ]);
    for row in rows {
        table.row([
            row.name.clone(),
            row.runtime.clone(),
            titles::shown(&row.title, &row.network).clone(),
            bits(row.ingress),
            bits(row.egress),
            row.used.map_or_else(|| "-".to_owned(), short),
            quota(row),
            if row.added { "limit".to_owned() } else { "runtime".to_owned() },
            row.state.to_owned(),
        ]);
    }
    table
}
