//! A check of `spoke doctor`: Docker's calls are answered.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;

use model::{Network, Runtime};

use crate::check::Check;
use crate::context::HostContext;

/// What a daemon that was killed leaves behind: Docker tries again for up to a minute with each command that concerns one of its
/// networks, and holds the container meanwhile. A socket that is not there may be that of a plugin which Docker manages.
pub(super) fn check(host_context: &HostContext, networks: &[Network]) -> Option<Check> {
    let mut dockers = networks.iter().filter(|network| network.runtime == Runtime::Docker);
    let network = dockers.next()?.called();
    let cause = UnixStream::connect(&host_context.socket).err()?;
    if cause.kind() != ErrorKind::ConnectionRefused {
        return None;
    }
    let rest = match dockers.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let what = format!(
        "`spoke serve` does not run: containers of Docker's neither come to network {network}{rest} nor leave it, and `docker \
         stop`, `rm` and `network connect` wait for it"
    );
    Some(Check::fail(what, "systemctl start spoke"))
}
