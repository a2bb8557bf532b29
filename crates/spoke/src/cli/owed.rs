//! `spoke gc` with Docker plugins: what they are owed, and whether they answer.

use docker::remote::{Debt, Debtor, Urgency};
use model::{Error, Result};

use super::World;
use super::args::GcArgs;
use super::view::FindingView;

/// Settles what plugins are owed, or only shows it.
pub(super) fn collect(gc: &GcArgs, world: &World) -> Result<Vec<FindingView>> {
    let foreign = (world.foreign)()?;
    if gc.dry_run {
        return Ok(foreign.remote.owed()?.iter().map(|debt| view(debt, false)).collect());
    }
    let settled = foreign.remote.settle(Urgency::Now)?;
    let mut findings: Vec<FindingView> = settled.done.iter().map(|debt| view(debt, true)).collect();
    for debt in &settled.left {
        let is_forgotten = gc.force && debt.is_lost;
        if is_forgotten {
            foreign.remote.forget(&debt.page)?;
        }
        findings.push(view(debt, is_forgotten));
    }
    Ok(findings)
}

fn view(debt: &Debt, done: bool) -> FindingView {
    let driver = debt.driver.as_ref().map_or("?", |driver| driver.as_str());
    let who = who(debt);
    let tried = match (debt.tries, debt.error.as_str()) {
        (0, _) | (_, "") => String::new(),
        (1, error) => format!(", tried once: {error}"),
        (tries, error) => format!(", tried {tries} times: {error}"),
    };
    let hint = match debt.is_lost && !done {
        true => "; the answer was lost, only its plugin knows: --force forgets it here",
        false => "",
    };
    FindingView {
        kind: "owed",
        subject: format!("{} to plugin {driver}", debt.what),
        why: format!("for {who}{tried}{hint}"),
        remedy: if debt.is_lost && !done { "keep" } else { "free" },
        done,
    }
}

/// On whose behalf it is owed.
pub(crate) fn who(debt: &Debt) -> String {
    match &debt.who {
        Debtor::Network(name) => format!("network {name}"),
        Debtor::Attachment(id) => id.to_string(),
        Debtor::Unreadable => format!("nobody knows whom, {} cannot be read", debt.page),
    }
}

/// The plugins that networks of ours need and that do not answer, with why.
pub(super) fn silent(world: &World, networks: &[model::Network]) -> Result<Vec<(String, Error)>> {
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
    let foreign = (world.foreign)()?;
    let asked = names.into_iter().filter_map(|name| {
        let failed = foreign.calls.profile(name).err()?;
        Some((name.to_string(), failed.into()))
    });
    Ok(asked.collect())
}
