//! The system calls that `rustix` does not wrap.

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// A boolean option of a netlink socket (netlink(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum SocketOption {
    /// `NETLINK_CAP_ACK`: an error does not repeat the request.
    CapAck = 10,
    /// `NETLINK_EXT_ACK`: an error says what is wrong.
    ExtAck = 11,
    /// `NETLINK_GET_STRICT_CHK`: a dump's header filters, and what the kernel does not know is
    /// refused.
    StrictCheck = 12,
}

/// Switches `option` on.
#[allow(unsafe_code)]
pub(crate) fn enable(socket: impl AsFd, option: SocketOption) -> Result<(), Errno> {
    let on: libc::c_int = 1;
    let length = libc::socklen_t::try_from(size_of_val(&on)).map_err(|_| Errno::INVAL)?;
    // SAFETY: the descriptor is borrowed for the whole call, and the kernel reads `length` bytes
    // of `on`, which is alive and that long.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_NETLINK,
            option as libc::c_int,
            (&raw const on).cast(),
            length,
        )
    };
    if result == 0 { Ok(()) } else { Err(last()) }
}

fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Which kind of namespace `namespace` is: one of `CLONE_NEW*` (ioctl_nsfs(2)).
#[allow(unsafe_code)]
pub(crate) fn namespace_type(namespace: impl AsFd) -> Result<libc::c_int, Errno> {
    // SAFETY: the descriptor is borrowed for the whole call, and NS_GET_NSTYPE takes no argument.
    let kind = unsafe { libc::ioctl(namespace.as_fd().as_raw_fd(), libc::NS_GET_NSTYPE) };
    if kind < 0 { Err(last()) } else { Ok(kind) }
}
