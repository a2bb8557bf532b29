//! A check of `spoke doctor`: Docker has the networks that the book has of it.

use model::{Alias, Network, Runtime};

use crate::check::Check;
use crate::context::CommandContext;

/// An engine may list a network so many seconds after it asked for it.
const MAKING: u64 = 20;

/// Docker removes a network also where the daemon does not answer, and says that all went well: the book keeps it, with its
/// subnet. The daemon frees what its engine has listed before.
pub(super) fn checks(context: &CommandContext, networks: &[Network]) -> Vec<Check> {
    let read = || (context.engine)()?.records.aliases();
    // A book that cannot be read is another check's.
    let Ok(aliases) = read() else { return Vec::new() };
    let of = |network: &Network| -> Vec<&Alias> {
        aliases.iter().filter(|alias| alias.network == network.name).collect()
    };
    let is_made = |alias: &&Alias| context.now.0.saturating_sub(alias.since.0) >= MAKING;
    let dockers = networks.iter().filter(|network| network.runtime == Runtime::Docker);
    let dockers: Vec<_> = dockers
        .map(|network| (network, of(network)))
        .filter(|(_, known)| !known.is_empty() && known.iter().all(is_made))
        .collect();
    if dockers.is_empty() {
        return Vec::new();
    }
    // An engine that does not answer may have any of them.
    let Some(listed) = (context.listed)() else { return Vec::new() };
    let is_gone = |known: &[&Alias]| known.iter().all(|alias| !listed.contains(alias.id.as_str()));
    let gone = dockers.iter().filter(|(_, known)| is_gone(known));
    gone.map(|(network, _)| warned(network)).collect()
}

/// A command of Spoke's has the name in the book: two runtimes may call different networks alike. Without `--force` it sends
/// to Docker.
fn warned(network: &Network) -> Check {
    let what = format!(
        "network {} is in the book, and no Docker Engine that is asked lists it: it was removed while `spoke serve` did not run, or its \
         engine is not in [docker] api",
        network.called()
    );
    Check::warn(what, format!("spoke network rm --force {}", network.name))
}
