//! A check of `spoke doctor`: Docker has the networks that the book has of it.

use host::cloud::Listed;
use host::serving::is_served;
use model::{Alias, Attachment, Network, Runtime};

use crate::check::{Check, Status};
use crate::context::CommandContext;
use crate::daemon::start;

/// An engine may list a network so many seconds after it asked for it.
const MAKING: u64 = 20;

/// Whether an engine that has the network lists it by now.
pub(crate) fn is_made(alias: &Alias, context: &CommandContext) -> bool {
    context.now.0.saturating_sub(alias.since.0) >= MAKING
}

/// Docker removes a network also where the daemon does not answer, and says that all went well: the book keeps it, with its
/// subnet. The daemon frees what its engine has listed before.
pub(super) fn checks(
    context: &CommandContext,
    (networks, attachments): (&[Network], &[Attachment]),
    listed: Option<&Listed>,
) -> Vec<Check> {
    // An engine that does not answer may have any of them.
    let Some(listed) = listed else { return Vec::new() };
    let read = || (context.engine)()?.records.aliases();
    // A book that cannot be read is another check's.
    let Ok(aliases) = read() else { return Vec::new() };
    let of = |network: &Network| -> Vec<&Alias> {
        aliases.iter().filter(|alias| alias.network == network.name).collect()
    };
    let dockers = networks.iter().filter(|network| network.runtime == Runtime::Docker);
    let dockers: Vec<_> = dockers
        .map(|network| (network, of(network)))
        .filter(|(_, known)| !known.is_empty() && known.iter().all(|it| is_made(it, context)))
        .collect();
    let is_gone = |known: &[&Alias]| known.iter().all(|alias| !listed.contains(alias.id.as_str()));
    let is_used = |network: &Network| attachments.iter().any(|it| it.id.network == network.name);
    let gone = dockers.iter().filter(|(_, known)| is_gone(known));
    gone.map(|(network, _)| warned(network, is_used(network), context)).collect()
}

/// A command of Spoke's has the name in the book: two runtimes may call different networks alike. Without `--force` it sends
/// to Docker, and with it it detaches containers: those of an engine that is not asked, or of another runtime.
fn warned(network: &Network, is_used: bool, context: &CommandContext) -> Check {
    let what = format!(
        "network {} is in the book, and no Docker Engine that is asked lists it: it was removed while `spoke serve` did not run, or its \
         engine is not in [docker] api, or was started with an empty data directory",
        network.called()
    );
    let fix = match (is_used, is_served(&context.runtime)) {
        (false, _) => {
            let note =
                format!("if no engine has it any more: spoke network rm --force {}", network.name);
            return Check::noted(Status::Warn, what, note);
        }
        (true, Some(false)) => format!(
            "{}  # it frees what Docker removed, and keeps what containers use; name an engine that has it in [docker] api",
            start(context)
        ),
        (true, _) => "name the engine that has it in [docker] api: containers are on it".to_owned(),
    };
    Check::warn(what, fix)
}
