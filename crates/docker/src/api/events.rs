//! The events of an engine. An event is mostly a reason to read the lists. But a removed network
//! must not block others until then.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use model::{AliasId, ContainerId};

use super::{decode, http};

/// `filters={"type":{"network":true,"container":true},"event":{…}}`: the beginnings and ends of
/// networks and endpoints, and the names of containers.
const TARGET: &str = "/events?filters=%7B%22type%22%3A%7B%22network%22%3Atrue%2C\
    %22container%22%3Atrue%7D%2C%22event%22%3A%7B%22create%22%3Atrue%2C%22connect%22%3Atrue%2C\
    %22disconnect%22%3Atrue%2C%22destroy%22%3Atrue%2C%22die%22%3Atrue%2C%22rename%22%3Atrue%2C\
    %22start%22%3Atrue%7D%7D";

/// A longer line is none that matters, in bytes. The events of a container have all of its labels.
const LONGEST_LINE: usize = 1 << 20;
/// So much of the memory for a line is kept for the next one, in bytes.
const USUAL_LINE: usize = 16 << 10;

/// A stream of events; it ends with the engine.
#[derive(Debug)]
pub struct Events {
    stream: UnixStream,
    line: Vec<u8>,
    made: Vec<AliasId>,
    removed: Vec<AliasId>,
    named: Vec<Named>,
}

/// A container whose names may be others now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    /// Its id.
    pub container: ContainerId,
    /// Whether it runs for sure: one that is being started keeps the caller waiting.
    pub runs: bool,
}

/// An item of the stream of events.
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
        let (line, made, removed, named) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Ok(Self { stream, line, made, removed, named })
    }

    /// Reads what has come, without waiting for more.
    pub fn drain(&mut self) -> News {
        let mut news = News::None;
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return News::End,
                Ok(read) => {
                    news = News::Some;
                    self.hear(buffer.get(..read).unwrap_or_default());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return news,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return News::End,
            }
        }
    }

    /// The networks that were made, as far as the stream was read, each once.
    pub fn made(&mut self) -> Vec<AliasId> {
        std::mem::take(&mut self.made)
    }

    /// The networks that were removed, as far as the stream was read, each once.
    pub fn removed(&mut self) -> Vec<AliasId> {
        std::mem::take(&mut self.removed)
    }

    /// The containers that have other names by now, as far as it was read, each reported once.
    pub fn named(&mut self) -> Vec<Named> {
        std::mem::take(&mut self.named)
    }

    /// Each event is a line; those between are of the stream's chunks.
    fn hear(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'\n' => {
                    let event = serde_json::from_slice::<decode::Event>(&self.line).ok();
                    self.named.extend(event.as_ref().and_then(decode::Event::named));
                    self.made.extend(event.as_ref().and_then(decode::Event::made_network));
                    self.removed.extend(event.and_then(decode::Event::removed_network));
                    self.line.clear();
                    self.line.shrink_to(USUAL_LINE);
                }
                _ if self.line.len() < LONGEST_LINE => self.line.push(byte),
                _ => {}
            }
        }
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
