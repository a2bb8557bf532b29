//! Raw HTTP for the kit: also invalid requests.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use remote::address::Address;
use web::{Body, Framing};

/// The longest head and the longest body that are read.
const LONGEST_HEAD: u64 = 64 << 10;
const LONGEST_BODY: u64 = 4 << 20;

/// A connection to a plugin, with `timeout` for both ends.
pub(super) fn connect(plugin: &Address, timeout: Duration) -> io::Result<Connection> {
    let stream = remote::client::open(plugin, Instant::now() + timeout)?;
    Ok(Connection(BufReader::new(Box::new(stream))))
}

/// Both ways of a connection.
trait Duplex: Read + Write + Send {}
impl<T: Read + Write + Send> Duplex for T {}

/// A body of no method in particular: a proxy carries it on as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    /// The status line or request line.
    pub(super) first: String,
    /// The headers, as they were written.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Message {
    /// The value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The status of an answer.
    pub(super) fn status(&self) -> Option<u16> {
        self.first.split(' ').nth(1)?.parse().ok()
    }

    /// The path of a request, without its slash.
    pub(super) fn method(&self) -> &str {
        self.first.split(' ').nth(1).unwrap_or_default().trim_start_matches('/')
    }

    /// Whether the connection is of no more use.
    pub(super) fn ends(&self) -> bool {
        self.header("Connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
            || self.first.contains("HTTP/1.0")
    }
}

/// A connection to a plugin, or of an engine.
pub(super) struct Connection(BufReader<Box<dyn Duplex>>);

impl Connection {
    /// A connection that an engine has opened.
    pub(super) fn accepted(stream: UnixStream) -> Self {
        Self(BufReader::new(Box::new(stream)))
    }

    /// Writes as it is.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(bytes)?;
        self.0.get_mut().flush()
    }

    /// Writes a request or an answer of `first` and `headers`, with its length.
    pub(super) fn send(&mut self, first: &str, headers: &str, body: &[u8]) -> io::Result<()> {
        let head = format!("{first}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        self.write(&[head.as_bytes(), body].concat())
    }

    /// Writes the request of an engine, with the headers that engines write.
    pub(super) fn post(&mut self, path: &str, headers: &str, body: &[u8]) -> io::Result<()> {
        let common = "Host: plugin.moby.localhost\r\nUser-Agent: Go-http-client/1.1\r\n";
        let first = format!("POST /{path} HTTP/1.1");
        self.send(&first, &format!("{common}{headers}"), body)
    }

    /// The next message. Without a length a body ends with the connection where it `answers`, and
    /// is empty where it does not.
    pub(super) fn receive(&mut self, answers: bool) -> io::Result<Message> {
        let mut message = self.head()?;
        let length = message.header("Content-Length").map(str::parse::<u64>).transpose();
        let length = length.map_err(|_| invalid("the Content-Length is no number"))?;
        let is_chunked = message.header("Transfer-Encoding").is_some();
        let framing = match length {
            _ if is_chunked => Framing::Chunked { remaining: None },
            Some(length) if length > LONGEST_BODY => return Err(invalid("the body is too long")),
            Some(length) => Framing::Length(length),
            None if answers => Framing::Connection,
            None => Framing::Length(0),
        };
        let read = Body::new(&mut self.0, framing, LONGEST_BODY).read_to_end(&mut message.body);
        read.map_err(|error| match (error.kind(), framing) {
            (io::ErrorKind::UnexpectedEof, Framing::Length(_)) => {
                invalid("the body is shorter than its Content-Length")
            }
            _ => error,
        })?;
        Ok(message)
    }

    fn head(&mut self) -> io::Result<Message> {
        let mut from = (&mut self.0).take(LONGEST_HEAD);
        let first = line(&mut from)?;
        if !first.contains("HTTP/1.") {
            return Err(invalid(&format!("no HTTP: {first:.60}")));
        }
        let mut message = Message { first, ..Message::default() };
        loop {
            let header = line(&mut from)?;
            if header.is_empty() {
                return Ok(message);
            }
            let (name, value) = header.split_once(':').ok_or_else(|| invalid("no header"))?;
            message.headers.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }
}

fn line(from: &mut impl BufRead) -> io::Result<String> {
    let mut raw = Vec::new();
    from.read_until(b'\n', &mut raw)?;
    if !raw.ends_with(b"\n") {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(String::from_utf8_lossy(&raw).trim_end().to_owned())
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(raw: &str) -> io::Result<Message> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(raw.as_bytes()).unwrap();
        drop(theirs);
        Connection::accepted(ours).receive(true)
    }

    #[test]
    fn reads_every_framing() {
        for raw in [
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}rest",
            "HTTP/1.0 200 OK\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x\r\n}\r\n0\r\n\r\n",
        ] {
            let message = heard(raw).unwrap();
            assert_eq!(
                (message.status(), message.body.as_slice()),
                (Some(200), &b"{}"[..]),
                "{raw}"
            );
        }
    }

    #[test]
    fn refuses_what_is_no_answer() {
        for raw in [
            "",
            "hello\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        ] {
            assert!(heard(raw).is_err(), "{raw:?}");
        }
    }
}
