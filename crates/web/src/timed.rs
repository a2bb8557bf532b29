//! Sockets with a deadline.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

/// A connection that ends at a point in time, however slowly the other end reads and writes.
#[derive(Debug)]
pub struct Timed {
    socket: OwnedFd,
    deadline: Instant,
}

impl Timed {
    /// Over a socket that blocks.
    pub fn new(socket: OwnedFd, deadline: Instant) -> Self {
        Self { socket, deadline }
    }

    /// The socket, which keeps its last time limits.
    pub fn into_socket(self) -> OwnedFd {
        self.socket
    }

    /// Lets the next operation wait no longer than until the deadline.
    fn limit(&self, of: Timeout) -> io::Result<()> {
        // The kernel counts microseconds, and takes none for no limit.
        let remaining = self.deadline.saturating_duration_since(Instant::now());
        if remaining < Duration::from_micros(1) {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(set_socket_timeout(&self.socket, of, Some(remaining))?)
    }
}

/// Never waits: a process that hangs lets its queue fill up, and a blocking connect would stay in
/// it for ever.
pub fn connect_unix(socket: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&fd, &SocketAddrUnix::new(socket)?)?;
    rustix::io::ioctl_fionbio(&fd, false)?;
    Ok(fd)
}

fn timed_out(error: rustix::io::Errno) -> io::Error {
    match io::Error::from(error) {
        error if error.kind() == ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
        error => error,
    }
}

impl Read for Timed {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.limit(Timeout::Recv)?;
        let (read, _) =
            rustix::net::recv(&self.socket, out, RecvFlags::empty()).map_err(timed_out)?;
        Ok(read)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.limit(Timeout::Send)?;
        rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
