//! `spoke gc` in a cloud: resources of this host in Neutron that have no owner any more.

use std::collections::BTreeSet;

use docker::kuryr;
use engine::Engine;
use engine::port::Cloud;
use host::cloud::facts;
use model::{AliasId, Error, Result};
use neutron::Neutron;
use neutron::facts::Facts;
use neutron::reconcile::{Breadth, Fate, Orphan, OrphanKind, Removed};

use crate::args::GcArgs;
use crate::context::CommandContext;
use crate::view::FindingView;

/// The findings, and their remedies. The daemon waits a minute between its two checks; here the
/// second one follows at once, and what is younger than that is left to the daemon.
pub(crate) fn collect(
    gc: &GcArgs,
    engine: &Engine,
    context: &CommandContext,
) -> Result<Vec<FindingView>> {
    let Some(neutron) = (context.neutron)()? else { return Ok(Vec::new()) };
    let mut views = given_up(gc, engine, &neutron)?;
    let facts = || facts(engine, gc.force, (context.listed)());
    let found = find_orphans(&neutron, &facts)?;
    if gc.dry_run || found.is_empty() {
        views.extend(found.iter().map(|orphan| view(orphan, gc, None)));
        return Ok(views);
    }
    let again = find_orphans(&neutron, &facts)?;
    let due: Vec<Orphan> =
        found.iter().filter(|orphan| goes(orphan, gc) && again.contains(orphan)).cloned().collect();
    let removed = neutron.remove_orphans(&due, &facts)?;
    let done = |orphan: &Orphan| {
        let mut of = removed.iter().filter(|(other, _)| other.id == orphan.id);
        of.next().map(|(_, what)| *what)
    };
    views.extend(found.iter().map(|orphan| view(orphan, gc, done(orphan))));
    Ok(views)
}

/// Networks that Docker has removed and that Neutron refused to delete then.
fn given_up(gc: &GcArgs, engine: &Engine, neutron: &Neutron) -> Result<Vec<FindingView>> {
    let view = |id: &AliasId, refusal: Option<&Error>| FindingView {
        kind: OrphanKind::Network.name(),
        subject: id.to_string(),
        why: match refusal {
            None => "Docker has removed it, and Neutron did not let it go then".to_owned(),
            Some(error) => format!("Docker has removed it, and it cannot go yet: {error}"),
        },
        remedy: if refusal.is_some() { "keep" } else { "free" },
        done: refusal.is_none() && !gc.dry_run,
    };
    if gc.dry_run {
        return Ok(neutron.given_up()?.iter().map(|id| view(id, None)).collect());
    }
    let removed = kuryr::remove_given_up(engine, neutron)?;
    Ok(removed.iter().map(|(id, removed)| view(id, removed.as_ref().err())).collect())
}

fn find_orphans(neutron: &Neutron, facts: &dyn Fn() -> Result<Facts>) -> Result<Vec<Orphan>> {
    let mut found = neutron.find_orphans(Breadth::Everything, facts)?.orphans;
    found.extend(neutron.find_wide_orphans(facts)?.orphans);
    let mut seen = BTreeSet::new();
    found.retain(|orphan| seen.insert((orphan.thing, orphan.id.clone())));
    Ok(found)
}

fn goes(orphan: &Orphan, gc: &GcArgs) -> bool {
    match orphan.fate {
        Fate::Delete | Fate::Stock => true,
        Fate::OnlyIfForced | Fate::Wait => gc.force,
    }
}

fn view(orphan: &Orphan, gc: &GcArgs, done: Option<Removed>) -> FindingView {
    let hint = match (orphan.fate, goes(orphan, gc), done) {
        (_, true, Some(Removed::Kept)) => "; it has an owner after all, or is in use",
        (Fate::OnlyIfForced, false, _) => {
            "; a runtime may know it although the book does not: --force removes it"
        }
        (Fate::Wait, false, _) => "; it is too young to decide, `spoke serve` will",
        (Fate::Stock, true, Some(Removed::Restocked)) => "; it is in the stock again",
        _ => "",
    };
    let is_kept = !goes(orphan, gc) || done == Some(Removed::Kept);
    let title = match orphan.title.is_empty() {
        true => orphan.id.to_string(),
        false => format!("{} ({})", orphan.id, orphan.title),
    };
    FindingView {
        kind: orphan.thing.name(),
        subject: title,
        why: format!("{}{hint}", orphan.why),
        remedy: if is_kept { "keep" } else { "free" },
        done: done.is_some() && !is_kept,
    }
}
