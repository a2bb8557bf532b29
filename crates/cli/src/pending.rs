//! `spoke gc` with Docker plugins: pending cleanups, and plugins that do not answer.

use host::views::debtor;
use model::{Error, Result};
use remote::{DeadEnd, PendingCleanup, Urgency};

use super::args::GcArgs;
use super::view::FindingView;
use crate::context::HostContext;

/// Carries out pending cleanups, or only shows them.
pub(super) fn collect(gc: &GcArgs, host_context: &HostContext) -> Result<Vec<FindingView>> {
    let foreign = (host_context.foreign)()?;
    if gc.dry_run {
        let is_written_off = |debt: &PendingCleanup| gc.force && debt.dead_end.is_some();
        let pending = foreign.remote.pending()?;
        let views = pending.iter().map(|debt| match is_written_off(debt) {
            true => FindingView { done: false, ..written_off(debt, "to be left") },
            false => view(debt, false),
        });
        return Ok(views.collect());
    }
    let settled = foreign.remote.retry(Urgency::Now)?;
    let written_off = if gc.force { foreign.remote.write_off()? } else { Vec::new() };
    let is_written_off = |debt: &&PendingCleanup| {
        written_off.iter().any(|off| (&off.log_file, &off.what) == (&debt.log_file, &debt.what))
    };
    let forgotten = written_off.iter().map(|debt| self::written_off(debt, "left"));
    let done = settled.done.iter().chain(&settled.moot).map(|debt| view(debt, true));
    let remaining = settled.remaining.iter().filter(|debt| !is_written_off(debt));
    let remaining = remaining.map(|debt| view(debt, false));
    Ok(done.chain(forgotten).chain(remaining).collect())
}

/// A cleanup that ended without a call: what its plugin holds stays there.
fn written_off(debt: &PendingCleanup, remaining: &str) -> FindingView {
    let shown = view(debt, true);
    let plugin = debt.driver.as_ref().map_or("a plugin", |driver| driver.as_str());
    let why = format!("{}; {remaining} in the hands of {plugin}: {}", shown.why, debt.held);
    FindingView { remedy: "forget", why, ..shown }
}

fn view(debt: &PendingCleanup, done: bool) -> FindingView {
    let driver = debt.driver.as_ref().map_or("?", |driver| driver.as_str());
    let who = debtor(debt);
    let tried = match (debt.tries, debt.error.as_str()) {
        (0, _) | (_, "") => String::new(),
        (1, error) => format!(", tried once: {error}"),
        (tries, error) => format!(", tried {tries} times: {error}"),
    };
    let hint = match debt.dead_end.filter(|_| !done) {
        Some(DeadEnd::Lost) => {
            "; the answer was lost, only its plugin knows: --force forgets it here"
        }
        Some(DeadEnd::Refused) => "; its plugin will not have it: --force forgets it here",
        Some(DeadEnd::Uninstalled) => "; the plugin is gone for good? --force forgets it here",
        Some(DeadEnd::Unreadable) => "; --force removes the log file",
        None => "",
    };
    let is_kept = matches!(debt.dead_end, Some(DeadEnd::Lost | DeadEnd::Unreadable)) && !done;
    FindingView {
        kind: "pending-cleanup",
        subject: format!("{} to plugin {driver}", debt.what),
        why: format!("for {who}{tried}{hint}"),
        remedy: if is_kept { "keep" } else { "retry" },
        done,
    }
}

/// The plugins that networks of Spoke's need and that do not answer, with the reason.
pub(super) fn silent(
    host_context: &HostContext,
    networks: &[model::Network],
) -> Result<Vec<(String, Error)>> {
    let mut names: Vec<_> = networks
        .iter()
        .filter(|network| network.stage != model::Stage::Template)
        .flat_map(super::draft::plugins_of)
        .collect();
    names.sort();
    names.dedup();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let foreign = (host_context.foreign)()?;
    let asked = names.into_iter().filter_map(|name| {
        let failed = foreign.calls.profile(name).err()?;
        Some((name.to_string(), failed.into()))
    });
    Ok(asked.collect())
}
