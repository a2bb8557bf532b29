//! A check of `spoke doctor`: Docker's calls are answered.

use model::{Network, Runtime};

use crate::check::Check;
use crate::context::CommandContext;
use crate::daemon::unanswered;

/// What a daemon that was killed leaves behind: Docker tries again for up to a minute with each command that concerns one of its
/// networks, and holds the container meanwhile.
pub(super) fn check(context: &CommandContext, networks: &[Network]) -> Option<Check> {
    let mut dockers = networks.iter().filter(|network| network.runtime == Runtime::Docker);
    let network = dockers.next()?.called();
    let (why, fix) = unanswered(context)?;
    let rest = match dockers.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let what = format!(
        "{why}: containers of Docker's neither come to network {network}{rest} nor leave it, and `docker stop`, `rm` and \
         `network connect` wait for it"
    );
    Some(Check::fail(what, fix))
}
