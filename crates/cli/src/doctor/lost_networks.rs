//! A check of `spoke doctor`: the book has the networks that Docker made with Spoke's driver.

use docker::api::Reach;
use model::Network;

use crate::check::Check;
use crate::context::CommandContext;

/// How many networks a sentence names.
const NAMED: usize = 5;

/// Docker's networks stay with Docker when the book's files are deleted, and no container comes to them any more.
pub(super) fn check(context: &CommandContext, networks: &[Network]) -> Option<Check> {
    let read = || (context.engine)()?.records.aliases();
    // A book that cannot be read is another check's.
    let aliases = read().ok()?;
    let in_book = |id: &model::AliasId| {
        let mut known = aliases.iter().filter(|alias| alias.id == *id);
        known.any(|alias| networks.iter().any(|network| network.name == alias.network))
    };
    let listed = (context.docker_networks)();
    let is_ours = |driver: &str| driver == "spoke" || driver.starts_with("spoke:");
    let lost: Vec<String> = listed
        .iter()
        .filter(|it| it.reach == Reach::Local && is_ours(&it.driver) && !in_book(&it.id))
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
