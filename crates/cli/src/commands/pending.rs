//! `spoke gc` with Docker plugins: pending cleanups, and plugins that do not answer.

use host::views::cleanup_object;
use model::{Error, Result};
use remote::{DeadEnd, PendingCleanup, Urgency};

use crate::args::GcArgs;
use crate::context::CommandContext;
use crate::view::FindingView;

/// Carries out pending cleanups, or only shows them.
pub(crate) fn collect(gc: &GcArgs, context: &CommandContext) -> Result<Vec<FindingView>> {
    let foreign = (context.foreign)()?;
    if gc.dry_run {
        let is_written_off = |cleanup: &PendingCleanup| gc.force && cleanup.dead_end.is_some();
        let pending = foreign.remote.pending()?;
        let views = pending.iter().map(|cleanup| match is_written_off(cleanup) {
            true => FindingView { done: false, ..written_off(cleanup, "to be left") },
            false => view(cleanup, false),
        });
        return Ok(views.collect());
    }
    let settled = foreign.remote.retry(Urgency::Now)?;
    let written_off = if gc.force { foreign.remote.write_off()? } else { Vec::new() };
    let is_written_off = |cleanup: &&PendingCleanup| {
        written_off
            .iter()
            .any(|off| (&off.log_file, &off.what) == (&cleanup.log_file, &cleanup.what))
    };
    let forgotten = written_off.iter().map(|cleanup| self::written_off(cleanup, "left"));
    let done = settled.done.iter().chain(&settled.moot).map(|cleanup| view(cleanup, true));
    let remaining = settled.remaining.iter().filter(|cleanup| !is_written_off(cleanup));
    let remaining = remaining.map(|cleanup| view(cleanup, false));
    Ok(done.chain(forgotten).chain(remaining).collect())
}

/// A cleanup that ended without a call: what its plugin holds stays there.
fn written_off(cleanup: &PendingCleanup, remaining: &str) -> FindingView {
    let shown = view(cleanup, true);
    let plugin = cleanup.driver.as_ref().map_or("a plugin", |driver| driver.as_str());
    let why = format!("{}; {remaining} in the hands of {plugin}: {}", shown.why, cleanup.held);
    FindingView { remedy: "forget", why, ..shown }
}

fn view(cleanup: &PendingCleanup, done: bool) -> FindingView {
    let driver = cleanup.driver.as_ref().map_or("?", |driver| driver.as_str());
    let who = cleanup_object(cleanup);
    let tried = match (cleanup.tries, cleanup.error.as_str()) {
        (0, _) | (_, "") => String::new(),
        (1, error) => format!(", tried once: {error}"),
        (tries, error) => format!(", tried {tries} times: {error}"),
    };
    let hint = match cleanup.dead_end.filter(|_| !done) {
        Some(DeadEnd::Lost) => {
            "; the answer was lost, only its plugin knows: --force forgets it here"
        }
        Some(DeadEnd::Refused) => "; its plugin will not have it: --force forgets it here",
        Some(DeadEnd::Uninstalled) => "; the plugin is gone for good? --force forgets it here",
        Some(DeadEnd::Unreadable) => "; --force removes the log file",
        None => "",
    };
    let is_kept = matches!(cleanup.dead_end, Some(DeadEnd::Lost | DeadEnd::Unreadable)) && !done;
    FindingView {
        kind: "pending-cleanup",
        subject: format!("{} to plugin {driver}", cleanup.what),
        why: format!("for {who}{tried}{hint}"),
        remedy: if is_kept { "keep" } else { "retry" },
        done,
    }
}

/// The plugins that networks of Spoke's need and that do not answer, with the reason.
pub(crate) fn silent(
    context: &CommandContext,
    networks: &[model::Network],
) -> Result<Vec<(String, Error)>> {
    let mut names: Vec<_> = networks
        .iter()
        .filter(|network| network.stage != model::Stage::Template)
        .flat_map(crate::draft::plugins_of)
        .collect();
    names.sort();
    names.dedup();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let foreign = (context.foreign)()?;
    let asked = names.into_iter().filter_map(|name| {
        let failed = foreign.calls.profile(name).err()?;
        Some((name.to_string(), failed.into()))
    });
    Ok(asked.collect())
}
