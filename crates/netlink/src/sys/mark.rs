//! Marks of sockets (socket(7), `SO_MARK`).

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

use super::last;

/// Marks what a socket sends.
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN.
#[allow(unsafe_code)]
pub fn set_mark(socket: impl AsFd, mark: u32) -> Result<(), Errno> {
    let length = libc::socklen_t::try_from(size_of_val(&mark)).map_err(|_| Errno::INVAL)?;
    // SAFETY: the descriptor is open as long as `socket` lives, and the kernel reads `length` bytes of
    // `mark`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MARK,
            (&raw const mark).cast(),
            length,
        )
    };
    if result == 0 { Ok(()) } else { Err(last()) }
}
