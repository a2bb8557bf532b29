//! What keeps a file open past the end of the process (io_uring(7)).

use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use rustix::io::Errno;

use super::last;

/// `IORING_REGISTER_FILES`.
const REGISTER_FILES: libc::c_long = 2;
/// `struct io_uring_params`, in words: all zero asks for the default.
const PARAMS: usize = 30;
/// No request is ever made.
const ENTRIES: libc::c_long = 1;

/// Has the kernel hold the file until after this process has ended, and close it then by a thread of its own: the files
/// of a ring are let go once the ring is, which no process waits for. It needs Linux 5.1.
///
/// # Errors
/// Where the host, or what confines this process, allows no rings.
#[allow(unsafe_code)]
pub(crate) fn hold_past_end(file: impl AsFd) -> Result<(), Errno> {
    let mut params = [0_u32; PARAMS];
    // SAFETY: the kernel reads and writes one `struct io_uring_params`, which has the length of `params`, alive and not shared.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, ENTRIES, params.as_mut_ptr()) };
    let ring = RawFd::try_from(ring).ok().filter(|ring| *ring >= 0).ok_or_else(last)?;
    // SAFETY: the kernel has just made this descriptor, and nothing else owns it.
    let ring = unsafe { OwnedFd::from_raw_fd(ring) };
    let files: [RawFd; 1] = [file.as_fd().as_raw_fd()];
    // SAFETY: both descriptors are open for the whole call, and the kernel reads one number from `files`.
    let registered = unsafe {
        libc::syscall(
            libc::SYS_io_uring_register,
            ring.as_raw_fd(),
            REGISTER_FILES,
            files.as_ptr(),
            1 as libc::c_long,
        )
    };
    if registered != 0 {
        return Err(last());
    }
    // It ends with the process.
    let _ = ring.into_raw_fd();
    Ok(())
}
