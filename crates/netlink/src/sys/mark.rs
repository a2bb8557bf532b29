//! Marks of sockets (socket(7), `SO_MARK`).

use std::os::fd::AsFd;

use rustix::io::Errno;

/// Marks what a socket sends.
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN.
pub fn set_mark(socket: impl AsFd, mark: u32) -> Result<(), Errno> {
    super::set_option(socket, (libc::SOL_SOCKET, libc::SO_MARK), mark)
}
