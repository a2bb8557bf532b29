//! A check of `spoke doctor`: the book has the networks that Docker made with Spoke's driver.

use docker::api::{Network, Reach};
use host::hosts;

use crate::check::{Check, Status};
use crate::context::CommandContext;

/// How many networks a sentence names.
const NAMED: usize = 5;

/// Docker's networks stay with Docker when the book's files are deleted, and no container comes to them any more. The book is
/// read after the engines are asked: a network that is made meanwhile is in the book first.
pub(super) fn check(context: &CommandContext, mut listed: Vec<Network>) -> Option<Check> {
    let own = context.docker_driver.as_deref()?;
    listed.retain(|it| it.reach == Reach::Local && is_instance(&it.driver, own));
    if listed.is_empty() {
        return None;
    }
    // A book that cannot be read, or not all of it, is another check's.
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
    listed.retain(|it| !in_book(&it.id) && !is_asked(&it.id));
    let driver = &listed.first()?.driver;
    let name = |it: &Network| it.name.as_ref().map_or(it.id.to_string(), ToString::to_string);
    let lost: Vec<String> = listed.iter().map(name).collect();
    let names = lost.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = match lost.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let what = format!(
        "Docker has networks of driver {driver} that the book has not: {names}{more}; no container comes to them"
    );
    Some(Check::noted(
        Status::Fail,
        what,
        "spoke restore BACKUP, or `docker network rm` and `docker network create` of each",
    ))
}

/// Whether Docker calls the driver by this name, or by that of a managed plugin of ours: `spoke:latest`, and out of a registry
/// `example/spoke:latest` (docker-plugin-create(1)).
fn is_instance(driver: &str, own: &str) -> bool {
    bare(driver) == bare(own)
}

/// The last part of a plugin's name, without its tag.
fn bare(driver: &str) -> &str {
    let last = driver.rsplit('/').next().unwrap_or(driver);
    last.split(':').next().unwrap_or(last)
}
