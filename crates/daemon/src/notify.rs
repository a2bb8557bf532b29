//! Telling the service manager how far we are (sd_notify(3)).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends `state`, for example `READY=1`, to a service manager that asked for it. A failure is
/// ignored: the manager does not listen any more.
pub(crate) fn notify(state: &str) {
    if let Some(socket) = manager() {
        let _ = socket.send(state.as_bytes());
    }
}

/// A socket that is connected to a service manager that asked for notifications.
pub(crate) fn manager() -> Option<UnixDatagram> {
    let path = std::env::var_os("NOTIFY_SOCKET")?;
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.connect_addr(&address.ok()?).ok()?;
    Some(socket)
}
