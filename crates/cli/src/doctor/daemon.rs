//! A check of `spoke doctor`: Docker's calls are answered.

use std::path::Path;

use model::{Network, Runtime};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::check::Check;
use crate::context::HostContext;

/// What a daemon that was killed leaves behind: Docker tries again for up to a minute with each command that concerns one of its
/// networks, and holds the container meanwhile. A socket that is not there may be that of a plugin which Docker manages.
pub(super) fn check(host_context: &HostContext, networks: &[Network]) -> Option<Check> {
    let mut dockers = networks.iter().filter(|network| network.runtime == Runtime::Docker);
    let network = dockers.next()?.called();
    let (why, fix) = match connect(&host_context.socket).err()? {
        Errno::CONNREFUSED => ("does not run", "systemctl start spoke"),
        Errno::AGAIN => ("does not answer", "systemctl restart spoke"),
        _ => return None,
    };
    let rest = match dockers.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let what = format!(
        "`spoke serve` {why}: containers of Docker's neither come to network {network}{rest} nor leave it, and `docker \
         stop`, `rm` and `network connect` wait for it"
    );
    Some(Check::fail(what, fix))
}

/// Without waiting: one that is stopped takes no more calls once so many wait (`EAGAIN`).
fn connect(socket: &Path) -> rustix::io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&fd, &SocketAddrUnix::new(socket)?)
}
