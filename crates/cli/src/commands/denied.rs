//! `spoke denied`: what the fences of networks refused so far, and from now on.

use std::io::Write;

use host::denied::{Denied, path};
use host::exit;
use host::time::rfc3339;
use model::{NetworkName, Result, Timestamp};

use crate::answer::Answer;
use crate::args::denied::DeniedArgs;
use crate::commands::events::{Tail, changed, kept, learned, refuse_unreadable, titles, watch};
use crate::context::CommandContext;
use crate::output::table::Table;
use crate::output::{Output, line, render};
use crate::titles::{Titled, Titles, shown, with_name};

/// What was refused so far.
pub(crate) fn show(
    wanted: &DeniedArgs,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    refuse_unreadable(&path(&context.events))?;
    let titles = Titles::read(&(context.engine)()?)?;
    let network = known(wanted, context)?;
    let all = all(network.as_ref(), context);
    refuse_unknown(network.as_ref(), &all, context)?;
    let all: Vec<_> = all.into_iter().map(|one| Titled::denied(one, &titles)).collect();
    let first = all.len().saturating_sub(wanted.last.unwrap_or(usize::MAX));
    let all = &all[first..];
    Ok(Answer::text(render(output, &all, || table(all).text())?))
}

/// Everything that is kept of a network, or of all.
pub(crate) fn all(network: Option<&NetworkName>, context: &CommandContext) -> Vec<Denied> {
    let mut all: Vec<Denied> = kept(&path(&context.events));
    all.retain(|one| is_of(one, network));
    learned::name_denied(&mut all, context);
    all
}

/// The network by the name that the log has: Docker calls it by another one.
fn known(wanted: &DeniedArgs, context: &CommandContext) -> Result<Option<NetworkName>> {
    let Some(name) = &wanted.network else { return Ok(None) };
    let engine = (context.engine)()?;
    engine.records.meant(name).map(Some)
}

impl Titled<Denied> {
    /// A refusal as it is shown: scripts get the network's name, people what its runtime calls it.
    pub(crate) fn denied(mut denied: Denied, titles: &Titles) -> Self {
        let title = titles.title(&denied.network, denied.runtime.as_deref());
        titles.put(&mut denied.network);
        Self { of: denied, title }
    }

    /// What people call the network.
    pub(crate) fn network(&self) -> &str {
        shown(&self.title, &self.of.network)
    }

    /// Why, as people read it.
    pub(crate) fn why(&self) -> String {
        let Denied { why, network, .. } = &self.of;
        self.title.as_ref().map_or_else(|| why.clone(), |title| with_name(why, network, title))
    }
}

/// A network that is gone by now may be in the log.
fn refuse_unknown(
    network: Option<&NetworkName>,
    logged: &[Denied],
    context: &CommandContext,
) -> Result<()> {
    match network.filter(|_| logged.is_empty()) {
        Some(name) => (context.engine)()?.records.network(name).map(drop),
        None => Ok(()),
    }
}

fn is_of(denied: &Denied, network: Option<&NetworkName>) -> bool {
    network.is_none_or(|network| network.as_str() == denied.network)
}

/// What was refused so far, and then what is, for ever.
pub(crate) fn follow(
    wanted: &DeniedArgs,
    output: Output,
    context: &CommandContext,
    out: &mut dyn Write,
) -> Result<Answer> {
    let path = path(&context.events);
    refuse_unreadable(&path)?;
    // First: what is refused while the book is read, which may take a second, is none of the past.
    let watch = watch(&path)?;
    let mut tail = Tail::open(&path).ok();
    let mut news: Vec<Denied> = tail.as_mut().map(Tail::rest).unwrap_or_default();
    let network = known(wanted, context)?;
    news.retain(|one| is_of(one, network.as_ref()));
    refuse_unknown(network.as_ref(), &news, context)?;
    let first = news.len().saturating_sub(wanted.last.unwrap_or(0));
    news.drain(..first);
    loop {
        news.retain(|one| is_of(one, network.as_ref()));
        learned::name_denied(&mut news, context);
        let titles = if news.is_empty() { Titles::default() } else { titles(context) };
        for one in news {
            if !write(output, &Titled::denied(one, &titles), out)? {
                // A reader that has seen enough is no failure.
                return Ok(Answer::default());
            }
        }
        news = changed(&watch, &path, &mut tail)?;
    }
}

fn write(output: Output, denied: &Titled<Denied>, out: &mut dyn Write) -> Result<bool> {
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
    exit::write(out, &text)
}

fn table(all: &[Titled<Denied>]) -> Table {
    let mut table = Table::new(&["TIME", "NETWORK", "CONTAINER", "TO", "WHAT", "WHY"]);
    for denied in all {
        table.row(cells(denied));
    }
    table
}

fn cells(view: &Titled<Denied>) -> [String; 6] {
    let denied = &view.of;
    [
        rfc3339(Timestamp(denied.time)),
        view.network().to_owned(),
        denied.who(),
        denied.target(),
        denied.act.shown().to_owned(),
        view.why(),
    ]
}
