//! `spoke explain`: why one does not reach another.

mod beside;
mod elsewhere;
mod ends;
mod names;
mod probe;
pub(crate) mod show;
mod unattached;

use explain::{Follows, Hop, Netlink, Report, Status, Trip, Verdict, walk};
use host::follow::Follow;
use host::serving::is_served;
use linux::follow::{self, State};
use model::{Kind, Result};
use netlink::Socket;

use crate::answer::{Answer, FOUND};
use crate::args::explain::{ExplainArgs, Port};
use crate::check::is_command;
use crate::context::CommandContext;
use crate::daemon::{is_unit, restart, start};
use crate::mapped::Mapped;
use crate::output::{Output, render};
use crate::titles::Titles;
use ends::{HostRecords, ResolvedEnd};

/// What starts the daemon again, as the walk says it, which knows no service manager.
const RESTART: &str = "systemctl restart spoke";

/// The exit code where a hop cannot be judged.
const UNJUDGED: u8 = 5;

pub(crate) fn run(
    wanted: &ExplainArgs,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let (view, notes) = explained(wanted, context)?;
    let code = match view.report.verdict {
        Verdict::Reaches => 0,
        Verdict::Fails => FOUND,
        Verdict::Unknown => UNJUDGED,
    };
    let text = render(output, &view, || show::text(&view))?;
    Ok(Answer { code, notes, ..Answer::text(text) })
}

/// As the page asks: the same words, and nothing is sent.
pub(crate) fn asked(
    (from, to): (&str, &str),
    port: Option<&str>,
    context: &CommandContext,
) -> Result<(show::View, Vec<String>)> {
    let port = port.map(str::parse).transpose()?;
    let wanted = ExplainArgs { from: from.to_owned(), to: to.to_owned(), port, probe: false };
    explained(&wanted, context)
}

/// What is found, and why something may be missing.
fn explained(wanted: &ExplainArgs, context: &CommandContext) -> Result<(show::View, Vec<String>)> {
    let engine = (context.engine)()?;
    let mut kernel = Netlink::new()?;
    let outlines = engine.records.attachment_outlines()?;
    let aliases = engine.records.aliases()?;
    let mapped = Mapped::ask(&aliases, context);
    let titles = Titles::of(&engine.records.networks()?).with(&aliases);
    let book = HostRecords::new((&engine, &outlines), (&aliases, &titles), &mapped);
    let from = match book.sender(&wanted.from, &mut kernel) {
        Err(error) if error.kind() == Kind::NotFound => {
            let hop = unattached::hop(&wanted.from, context).ok_or(error)?;
            let report = lost(wanted.from.clone(), &wanted.to, vec![hop]);
            return Ok((show::View::new(report, None), mapped.notes));
        }
        found => found?,
    };
    let mut notes = Vec::new();
    let (to, before) = match book.receiver(&wanted.to, Some(&from), &mut kernel)? {
        Some(found) => (found, Vec::new()),
        None => {
            let networks = engine.records.networks()?;
            // Without the daemon those of this host are found all the same.
            let there = crate::commands::dns::elsewhere(context).unwrap_or_else(|error| {
                notes.push(format!("names of other hosts are not known: {error}"));
                Vec::new()
            });
            let records = engine.records.attachments()?;
            let names = names::Names::new((&networks, &aliases), &records, &there);
            match names.find(&wanted.to, &from, &book, &mut kernel) {
                Ok((found, hops)) if !found.is_lost => (found, hops),
                Err(error) if error.kind() != Kind::NotFound => return Err(error),
                other => match unattached::hop(&wanted.to, context) {
                    Some(hop) => names::Names::lost(hop),
                    None => other?,
                },
            }
        }
    };
    let mut report = match to.address {
        None if to.is_lost => lost(from.end.to_string(), &wanted.to, before),
        _ => {
            let trip = trip(&book, (from, to), wanted, &mut kernel)?;
            let trip =
                Trip { follows: follows(context), elsewhere: elsewhere::of(context), ..trip };
            walk(&mut kernel, &trip, before)
        }
    };
    report.hops.iter_mut().for_each(|hop| without_unit(hop, context));
    let probed = match wanted.probe {
        true => Some(probe::probe(&book, wanted, &report, &mut kernel)?),
        false => None,
    };
    notes.extend(mapped.notes);
    Ok((show::View::new(report, probed), notes))
}

/// Where no service manager starts the daemon again, the operator does, or Docker.
fn without_unit(hop: &mut Hop, context: &CommandContext) {
    if hop.fix.as_deref() != Some(RESTART) || is_unit(context) {
        return;
    }
    let remedy = match is_served(&context.runtime) {
        Some(true) => restart(context),
        Some(false) | None => start(context),
    };
    hop.fix = is_command(remedy).then(|| remedy.to_owned());
    if hop.fix.is_none() {
        hop.what.push_str(&format!("; {remedy}"));
    }
}

/// What is asked, with all that the book knows about it.
fn trip(
    book: &HostRecords<'_>,
    (from, to): (ResolvedEnd, ResolvedEnd),
    wanted: &ExplainArgs,
    kernel: &mut Netlink,
) -> Result<Trip> {
    let rivals = book.rivals((&from, &to), kernel);
    let is_container = matches!(to.end, explain::End::Container(_));
    let others = match wanted.port {
        Some(Port(port, _)) if !is_container => book.others(port, kernel)?,
        Some(_) | None => Vec::new(),
    };
    Ok(Trip {
        from: from.end,
        address: to.address,
        to: to.end,
        carried: Port::carried(wanted.port),
        published: book.published(),
        others,
        follows: None,
        elsewhere: Vec::new(),
        rivals,
    })
}

/// The firewall that published ports obey.
fn follows(context: &CommandContext) -> Option<Follows> {
    let state = context.store.last()?;
    let kept = match Follow::new(state, &context.root).kept() {
        Ok(kept) => kept?,
        // Everything is refused until it is chosen again.
        Err(error) => {
            let unknown = Some(error.to_string());
            return Some(Follows { name: "the firewall".to_owned(), unknown });
        }
    };
    let read = Socket::netfilter()
        .and_then(|mut socket| follow::read(kept.follow, &context.root, &mut socket));
    let unknown = match (read.map(|now| now.state), kept.last) {
        // What it did last holds.
        (_, Some(last)) if last.state == State::On => None,
        (Ok(State::On | State::Off), _) => None,
        (Ok(State::Unknown(why)), _) => Some(why),
        (Err(error), _) => Some(error.to_string()),
    };
    Some(Follows { name: kept.follow.to_string(), unknown })
}

/// No container of the book has the name.
fn lost(from: String, to: &str, hops: Vec<Hop>) -> Report {
    let is_unknown = hops.last().is_some_and(|hop| hop.status == Status::Unknown);
    let verdict = if is_unknown { Verdict::Unknown } else { Verdict::Fails };
    Report { from, to: to.to_owned(), called: None, verdict, hops }
}
