//! `spoke denied`: what the fences of networks refused so far, and from now on.

use std::io::Write;

use clap::Args;
use model::{NetworkName, Result, Timestamp};

use super::args::Output;
use super::events::{Tail, changed, kept, watch};
use super::output::{line, render};
use super::table::Table;
use super::time::rfc3339;
use super::titles::Titles;
use super::{Answer, HostContext};
use crate::denied::{Denied, path};
use crate::standard;

#[derive(Debug, Args)]
pub(super) struct DeniedArgs {
    /// Only of this network
    network: Option<NetworkName>,
    /// Continue with what is refused from now on
    #[arg(short, long)]
    pub(super) follow: bool,
    /// Only so many of the past; with --follow none unless given
    #[arg(short = 'n', long, value_name = "NUMBER")]
    last: Option<usize>,
}

/// What was refused so far.
pub(super) fn show(
    wanted: &DeniedArgs,
    output: Output,
    host_context: &HostContext,
) -> Result<Answer> {
    let titles = Titles::of(&(host_context.engine)()?.records.networks()?);
    let network = known(wanted, host_context)?;
    let mut all = all(network.as_ref(), host_context);
    refuse_unknown(network.as_ref(), &all, host_context)?;
    all.iter_mut().for_each(|one| titles.put(&mut one.network));
    let first = all.len().saturating_sub(wanted.last.unwrap_or(usize::MAX));
    let all = &all[first..];
    Ok(Answer::text(render(output, &all, || table(all).text())?))
}

/// Everything that is kept of a network, or of all.
pub(super) fn all(network: Option<&NetworkName>, host_context: &HostContext) -> Vec<Denied> {
    let mut all: Vec<Denied> = kept(&path(&host_context.events));
    all.retain(|one| is_of(one, network));
    all
}

/// The network by the name that the log has: Docker calls it by another one.
fn known(wanted: &DeniedArgs, host_context: &HostContext) -> Result<Option<NetworkName>> {
    let Some(name) = &wanted.network else { return Ok(None) };
    let engine = (host_context.engine)()?;
    engine.records.meant(name).map(Some)
}

/// A network that is gone by now may be in the log.
fn refuse_unknown(
    network: Option<&NetworkName>,
    logged: &[Denied],
    host_context: &HostContext,
) -> Result<()> {
    match network.filter(|_| logged.is_empty()) {
        Some(name) => (host_context.engine)()?.records.network(name).map(drop),
        None => Ok(()),
    }
}

fn is_of(denied: &Denied, network: Option<&NetworkName>) -> bool {
    network.is_none_or(|network| network.as_str() == denied.network)
}

/// What was refused so far, and then what is, for ever.
pub(super) fn follow(
    wanted: &DeniedArgs,
    output: Output,
    host_context: &HostContext,
    out: &mut dyn Write,
) -> Result<Answer> {
    let network = known(wanted, host_context)?;
    let titles = Titles::of(&(host_context.engine)()?.records.networks()?);
    let path = path(&host_context.events);
    let watch = watch(&path)?;
    let mut tail = Tail::open(&path).ok();
    let mut news: Vec<Denied> = tail.as_mut().map(Tail::rest).unwrap_or_default();
    news.retain(|one| is_of(one, network.as_ref()));
    refuse_unknown(network.as_ref(), &news, host_context)?;
    let first = news.len().saturating_sub(wanted.last.unwrap_or(0));
    news.drain(..first);
    loop {
        news.retain(|one| is_of(one, network.as_ref()));
        for one in &mut news {
            titles.put(&mut one.network);
            if !write(output, one, out)? {
                // A reader that has seen enough is no failure.
                return Ok(Answer::default());
            }
        }
        news = changed(&watch, &path, &mut tail)?;
    }
}

fn write(output: Output, denied: &Denied, out: &mut dyn Write) -> Result<bool> {
    let text = match output {
        Output::Table => {
            let mut table = Table::headless();
            table.row(cells(denied));
            table.text()
        }
        Output::Json => line(denied)? + "\n",
        Output::Yaml | Output::Frr | Output::Bird => {
            format!("---\n{}", render(output, denied, String::new)?)
        }
    };
    standard::write(out, &text)
}

fn table(all: &[Denied]) -> Table {
    let mut table = Table::new(&["TIME", "NETWORK", "CONTAINER", "TO", "WHAT", "WHY"]);
    for denied in all {
        table.row(cells(denied));
    }
    table
}

fn cells(denied: &Denied) -> [String; 6] {
    [
        rfc3339(Timestamp(denied.time)),
        denied.network.clone(),
        denied.who(),
        denied.target(),
        denied.act.shown().to_owned(),
        denied.why.clone(),
    ]
}
