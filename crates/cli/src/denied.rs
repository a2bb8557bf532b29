//! `spoke denied`: what the fences of networks refused so far, and from now on.

use std::collections::BTreeMap;
use std::io::Write;

use host::denied::{Denied, path};
use host::standard;
use host::time::rfc3339;
use model::{NetworkName, Result, Runtime, Timestamp};

use super::events::{Tail, changed, kept, learned, watch};
use super::table::Table;
use super::titles::Titles;
use crate::answer::Answer;
use crate::args::denied::DeniedArgs;
use crate::context::HostContext;
use crate::output::{Output, line, render};

/// What was refused so far.
pub(super) fn show(
    wanted: &DeniedArgs,
    output: Output,
    host_context: &HostContext,
) -> Result<Answer> {
    let called = Called::of(output, host_context)?;
    let network = known(wanted, host_context)?;
    let mut all = all(network.as_ref(), host_context);
    refuse_unknown(network.as_ref(), &all, host_context)?;
    all.iter_mut().for_each(|one| called.put(one));
    let first = all.len().saturating_sub(wanted.last.unwrap_or(usize::MAX));
    let all = &all[first..];
    Ok(Answer::text(render(output, &all, || table(all).text())?))
}

/// Everything that is kept of a network, or of all.
pub(super) fn all(network: Option<&NetworkName>, host_context: &HostContext) -> Vec<Denied> {
    let mut all: Vec<Denied> = kept(&path(&host_context.events));
    all.retain(|one| is_of(one, network));
    learned::name_denied(&mut all, host_context);
    all
}

/// The network by the name that the log has: Docker calls it by another one.
fn known(wanted: &DeniedArgs, host_context: &HostContext) -> Result<Option<NetworkName>> {
    let Some(name) = &wanted.network else { return Ok(None) };
    let engine = (host_context.engine)()?;
    engine.records.meant(name).map(Some)
}

/// What networks are called: people read the name that Docker's user gave, as in `spoke ps`. Scripts get that of the
/// book.
struct Called {
    titles: Titles,
    by_docker: BTreeMap<String, String>,
}

impl Called {
    fn of(output: Output, host_context: &HostContext) -> Result<Self> {
        let engine = (host_context.engine)()?;
        let titles = Titles::of(&engine.records.networks()?);
        let mut by_docker: BTreeMap<String, String> = BTreeMap::new();
        if output == Output::Table {
            for alias in engine.records.aliases()? {
                if let (Some(title), Runtime::Docker) = (&alias.title, alias.runtime) {
                    by_docker.entry(alias.network.to_string()).or_insert_with(|| title.to_string());
                }
            }
        }
        Ok(Self { titles, by_docker })
    }

    fn put(&self, denied: &mut Denied) {
        let is_docker_s = denied.runtime.as_deref().is_none_or(|it| it == "docker");
        match self.by_docker.get(&denied.network).filter(|_| is_docker_s) {
            Some(title) => {
                denied.why = with_name(&denied.why, &denied.network, title);
                denied.network.clone_from(title);
            }
            None => self.titles.put(&mut denied.network),
        }
    }
}

/// A sentence with another name for a network, which is a word of it.
fn with_name(text: &str, network: &str, title: &str) -> String {
    let word = |word: &str| match word.strip_prefix(network) {
        Some(end @ ("" | ",")) => format!("{title}{end}"),
        Some(_) | None => word.to_owned(),
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
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
    let path = path(&host_context.events);
    // First: what is refused while the book is read, which may take a second, is none of the past.
    let watch = watch(&path)?;
    let mut tail = Tail::open(&path).ok();
    let mut news: Vec<Denied> = tail.as_mut().map(Tail::rest).unwrap_or_default();
    let network = known(wanted, host_context)?;
    let called = Called::of(output, host_context)?;
    news.retain(|one| is_of(one, network.as_ref()));
    refuse_unknown(network.as_ref(), &news, host_context)?;
    let first = news.len().saturating_sub(wanted.last.unwrap_or(0));
    news.drain(..first);
    loop {
        news.retain(|one| is_of(one, network.as_ref()));
        learned::name_denied(&mut news, host_context);
        for one in &mut news {
            called.put(one);
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
