//! A check of `spoke doctor`: the book has the networks that Docker made with Spoke's driver.

use docker::api::Reach;
use host::hosts;

use crate::check::Check;
use crate::context::CommandContext;

/// How many networks a sentence names.
const NAMED: usize = 5;

/// Docker's networks stay with Docker when the book's files are deleted, and no container comes to them any more.
pub(super) fn check(context: &CommandContext) -> Option<Check> {
    let is_ours = |driver: &str| driver == "spoke" || driver.starts_with("spoke:");
    let mut listed = (context.docker_networks)();
    listed.retain(|it| it.reach == Reach::Local && is_ours(&it.driver));
    if listed.is_empty() {
        return None;
    }
    // Asked after the engines: a network that is made meanwhile is in the book first. A book that cannot be read, or not
    // all of it, is another check's.
    let read = || -> model::Result<_> {
        let engine = (context.engine)()?;
        let is_whole = engine.repair.damaged_durable()?.is_empty();
        Ok(is_whole.then_some((engine.records.aliases()?, engine.records.networks()?)))
    };
    let (aliases, networks) = read().ok().flatten()?;
    let in_book = |id: &model::AliasId| {
        let mut known = aliases.iter().filter(|alias| alias.id == *id);
        known.any(|alias| networks.iter().any(|network| network.name == alias.network))
    };
    // The daemon is about to make those of many hosts, or `spoke host ls` says why it does not.
    let asked = context.store.last().map(|state| hosts::asked(&hosts::place(state)));
    let is_asked =
        |id: &model::AliasId| asked.as_ref().is_some_and(|asked| asked.join(id.as_str()).exists());
    let lost: Vec<String> = listed
        .iter()
        .filter(|it| !in_book(&it.id) && !is_asked(&it.id))
        .map(|it| it.name.as_ref().map_or_else(|| it.id.to_string(), ToString::to_string))
        .collect();
    if lost.is_empty() {
        return None;
    }
    let names = lost.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = match lost.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let what = format!(
        "Docker has networks of driver spoke that the book has not: {names}{more}; no container comes to them"
    );
    Some(Check::fail(
        what,
        "spoke restore BACKUP, or `docker network rm` and `docker network create` of each",
    ))
}
