//! What happens in an engine. What exactly is of no interest: whoever hears of something looks.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use super::http;

/// `filters={"type":{"network":true,"container":true},"event":{…}}`: the beginnings and ends of
/// networks and endpoints, and the names of containers.
const TARGET: &str = "/events?filters=%7B%22type%22%3A%7B%22network%22%3Atrue%2C\
    %22container%22%3Atrue%7D%2C%22event%22%3A%7B%22create%22%3Atrue%2C%22connect%22%3Atrue%2C\
    %22disconnect%22%3Atrue%2C%22destroy%22%3Atrue%2C%22die%22%3Atrue%2C%22rename%22%3Atrue%7D%7D";

/// A stream of events; it ends with the engine.
#[derive(Debug)]
pub struct Events {
    stream: UnixStream,
}

/// What a stream of events told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Nothing.
    None,
    /// Something happened.
    Some,
    /// The engine is gone.
    End,
}

impl Events {
    pub(super) fn open(socket: &Path, deadline: Instant) -> io::Result<Self> {
        let (status, stream) = http::open(socket, TARGET, deadline)?;
        if status != 200 {
            return Err(io::Error::other(format!("status {status}")));
        }
        stream.set_nonblocking(true)?;
        Ok(Self { stream })
    }

    /// Reads what has come, without waiting for more.
    pub fn drain(&mut self) -> News {
        let mut news = News::None;
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return News::End,
                Ok(_) => news = News::Some,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return news,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return News::End,
            }
        }
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
