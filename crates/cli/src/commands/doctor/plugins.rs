//! Third-party Docker plugins that networks of Spoke's need.

use model::Network;

use crate::check::Check;
use crate::commands::pending;
use crate::context::CommandContext;

pub(super) fn checks(context: &CommandContext, networks: &[Network]) -> Vec<Check> {
    let mut checks = Vec::new();
    match pending::silent(context, networks) {
        Ok(silent) => checks.extend(silent.into_iter().map(|(name, error)| {
            let what = format!("plugin {name} does not answer, its networks are unusable: {error}");
            Check::fail(what, format!("start plugin {name}, or remove its networks"))
        })),
        Err(error) => checks.push(
            Check::fail(format!("the plugins of this host cannot be asked: {error}"), "")
                .without_fix(),
        ),
    }
    match (context.foreign)().and_then(|foreign| foreign.remote.pending()) {
        Ok(cleanups) if cleanups.is_empty() => {}
        Ok(cleanups) => {
            let what = format!("pending cleanups at Docker plugins: {}", cleanups.len());
            checks.push(Check::warn(what, "spoke gc"));
        }
        Err(error) => checks.push(
            Check::fail(format!("pending cleanups cannot be read: {error}"), "").without_fix(),
        ),
    }
    checks
}
