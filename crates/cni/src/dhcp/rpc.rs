//! The conversation: HTTP's CONNECT, then requests and responses.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use model::{Error, Result};

use super::gob::{self, Reader, Record, Value, Writer};

/// The path that Go's package chose.
pub(super) const CONNECT: &str = "CONNECT /_goRPC_ HTTP/1.0";
/// The server's answer.
pub(super) const CONNECTED: &str = "HTTP/1.0 200 Connected to Go RPC";
/// The head of an HTTP message is not longer than this.
const HEAD: usize = 8 << 10;

/// One end.
#[derive(Debug)]
pub(super) struct Line {
    stream: UnixStream,
    unread: Vec<u8>,
    reader: Reader,
    writer: Writer,
}

impl Line {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream, unread: Vec::new(), reader: Reader::new(), writer: Writer::default() }
    }

    /// Sends text as it is.
    pub(super) fn say(&mut self, text: &str) -> Result<()> {
        self.stream.write_all(text.as_bytes()).map_err(lost)
    }

    /// The first line of the head of an HTTP message, whose end an empty line is.
    pub(super) fn head(&mut self, deadline: Instant) -> Result<String> {
        loop {
            if let Some((head, after)) = head_of(&self.unread) {
                self.unread.drain(..after);
                return Ok(head);
            }
            if self.unread.len() > HEAD || !self.more(deadline)? {
                return Err(Error::invalid("what answers there speaks no HTTP"));
            }
        }
    }

    /// Sends the messages of one request or response at once.
    pub(super) fn send(&mut self, messages: [(&'static Record, &Value); 2]) -> Result<()> {
        let mut bytes = Vec::new();
        for (record, value) in messages {
            bytes.extend(self.writer.message(record, value));
        }
        self.stream.write_all(&bytes).map_err(lost)
    }

    /// The next value; `None` where the other end has nothing more to say.
    pub(super) fn receive(&mut self, deadline: Instant) -> Result<Option<Value>> {
        loop {
            let taken = match gob::frame(&self.unread)? {
                Some((message, rest)) => {
                    Some((self.reader.message(message)?, self.unread.len() - rest.len()))
                }
                None => None,
            };
            match taken {
                Some((value, used)) => {
                    self.unread.drain(..used);
                    if let Some(value) = value {
                        return Ok(Some(value));
                    }
                }
                None if !self.more(deadline)? => return Ok(None),
                None => {}
            }
        }
    }

    /// Whether there was more.
    fn more(&mut self, deadline: Instant) -> Result<bool> {
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return Err(Error::try_again("the other end of the DHCP daemon's socket is silent"));
        }
        self.stream.set_read_timeout(Some(remaining)).map_err(lost)?;
        let mut buffer = [0; 8 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.unread.extend_from_slice(buffer.get(..count).unwrap_or_default());
                Ok(true)
            }
            Err(cause) if cause.kind() == ErrorKind::Interrupted => Ok(true),
            Err(cause) => Err(lost(cause)),
        }
    }
}

fn head_of(bytes: &[u8]) -> Option<(String, usize)> {
    let text = std::str::from_utf8(bytes.get(..bytes.len().min(HEAD))?);
    let text = text.unwrap_or_else(|error| {
        std::str::from_utf8(bytes.get(..error.valid_up_to()).unwrap_or_default()).unwrap_or("")
    });
    let ends = ["\r\n\r\n", "\n\n"];
    let (at, end) = ends.iter().filter_map(|end| Some((text.find(end)?, end.len()))).min()?;
    let first = text.lines().next().unwrap_or_default();
    Some((first.trim_end().to_owned(), at + end))
}

fn lost(cause: std::io::Error) -> Error {
    Error::try_again("talking over the DHCP daemon's socket").because(cause)
}
