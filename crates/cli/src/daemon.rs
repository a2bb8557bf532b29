//! Whether `spoke serve` runs, where it should: for lists, and for `spoke doctor`.

use std::path::Path;

use host::serving::is_served;
use host::web;
use model::Runtime;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::args::dns::DnsCommand;
use crate::args::egress::EgressCommand;
use crate::args::{Command, EndpointCommand, IpamCommand, NetworkCommand, PortCommand};
use crate::context::CommandContext;

/// What is said of a daemon that is not there, everywhere.
pub(super) const NOT_RUNNING: &str = "`spoke serve` does not run";

/// What an operator starts where no service manager does.
const SERVE: &str = "spoke serve";

/// The same where systemd runs and has no unit of the daemon's: Docker may manage it.
const SERVE_OR_PLUGIN: &str = "start `spoke serve`, or enable its plugin";

/// Where systemd finds units (systemd.unit(5)).
const UNITS: [&str; 5] = [
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];

/// What starts the daemon of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Starter {
    /// systemd, by the daemon's unit.
    Unit,
    /// There is no unit of it.
    OperatorOrDocker,
    /// There is no systemd.
    Operator,
}

/// Whether systemd is the service manager of this host: sd_booted(3).
pub(super) fn has_systemd(context: &CommandContext) -> bool {
    context.root.join("run/systemd/system").is_dir()
}

fn starter(context: &CommandContext) -> Starter {
    let has = |path: &str| context.root.join(path).exists();
    let has_unit = || UNITS.iter().any(|directory| has(&format!("{directory}/spoke.service")));
    match has_systemd(context) {
        true if has_unit() => Starter::Unit,
        true => Starter::OperatorOrDocker,
        false => Starter::Operator,
    }
}

/// Whether the service manager of this host starts the daemon.
pub(super) fn is_unit(context: &CommandContext) -> bool {
    starter(context) == Starter::Unit
}

/// What starts it, on a host without systemd too.
pub(super) fn start(context: &CommandContext) -> &'static str {
    match starter(context) {
        Starter::Unit => "systemctl start spoke",
        Starter::OperatorOrDocker => SERVE_OR_PLUGIN,
        Starter::Operator => SERVE,
    }
}

/// What starts it again.
pub(super) fn restart(context: &CommandContext) -> &'static str {
    match starter(context) {
        Starter::Unit => "systemctl restart spoke",
        Starter::OperatorOrDocker => {
            "end `spoke serve`, and start it again, or disable its plugin, and enable it again"
        }
        Starter::Operator => "end `spoke serve`, and start it again",
    }
}

/// What starts it now, and with each boot.
pub(super) fn enable(context: &CommandContext) -> &'static str {
    match starter(context) {
        Starter::Unit => "systemctl enable --now spoke",
        Starter::OperatorOrDocker | Starter::Operator => start(context),
    }
}

/// What is said of the daemon beside what a command lists, where it is expected and does not run.
pub(super) fn note(command: &Command, context: &CommandContext) -> Option<String> {
    let is_away = || is_served(&context.runtime) == Some(false) && is_expected(context);
    let what = "what is listed may be out of date, and nothing of it is repaired";
    (lists(command) && is_away()).then(|| format!("{NOT_RUNNING}: {what}; {}", start(context)))
}

/// Whether a command lists what the daemon keeps up to date, and ends.
fn lists(command: &Command) -> bool {
    match command {
        Command::Ps(_) | Command::Ports(_) => true,
        Command::Port(command) => matches!(command, PortCommand::Ls(_)),
        Command::Network(command) => matches!(command, NetworkCommand::Ls(_)),
        Command::Endpoint(command) => matches!(command, EndpointCommand::Ls(_)),
        Command::Dns(command) => matches!(command, DnsCommand::Ls(_)),
        Command::Egress(command) => matches!(command, EgressCommand::Show(_)),
        Command::Ipam(command) => matches!(command, IpamCommand::Show { .. }),
        Command::Events(wanted) => !wanted.follow,
        Command::Denied(wanted) => !wanted.follow,
        _ => false,
    }
}

/// Whether this host has a daemon: CNI, Podman and commands need none. One that was killed leaves its sockets, a service
/// manager keeps Docker's, and networks of Docker's are nothing without it.
fn is_expected(context: &CommandContext) -> bool {
    let sockets = [context.socket.clone(), web::socket(&context.runtime)];
    let networks = || (context.engine)()?.records.networks();
    sockets.iter().any(|socket| socket.symlink_metadata().is_ok())
        // A book that cannot be read is an error of what lists it.
        || networks().is_ok_and(|all| all.iter().any(|it| it.runtime == Runtime::Docker))
}

/// Why Docker's calls are not answered, and what mends that. Where the socket is elsewhere, a daemon that Docker manages may
/// answer.
pub(super) fn unanswered(context: &CommandContext) -> Option<(&'static str, &'static str)> {
    match connect(&context.socket).err()? {
        Errno::CONNREFUSED => Some((NOT_RUNNING, start(context))),
        Errno::AGAIN => Some(("`spoke serve` does not answer", restart(context))),
        _ if is_served(&context.runtime) == Some(false) => Some((NOT_RUNNING, start(context))),
        _ => None,
    }
}

/// Without waiting: one that is stopped takes no more calls once so many wait (`EAGAIN`).
fn connect(socket: &Path) -> rustix::io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&fd, &SocketAddrUnix::new(socket)?)
}
