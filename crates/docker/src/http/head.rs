//! One request over a connection of its own.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::body::{Body, Framing};

/// Status line and headers, in bytes.
const LONGEST_HEAD: u64 = 16 << 10;
const MOST_HEADERS: usize = 64;

/// A connection whose reading ends at a point in time, however slowly the other end writes.
#[derive(Debug)]
pub(super) struct Timed {
    stream: UnixStream,
    deadline: Instant,
}

/// An answer whose body is still to be read.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Body<BufReader<Timed>>,
}

/// Asks for `target`, which holds nothing that would need escaping.
pub(super) fn get(socket: &Path, target: &str, deadline: Instant) -> io::Result<Reply> {
    let (head, from) = send(socket, target, deadline)?;
    Ok(Reply { status: head.status, body: Body::new(from, head.framing) })
}

/// The same for an answer without end: its status, and the connection.
pub(super) fn open(
    socket: &Path,
    target: &str,
    deadline: Instant,
) -> io::Result<(u16, UnixStream)> {
    let (head, from) = send(socket, target, deadline)?;
    Ok((head.status, from.into_inner().stream))
}

fn send(socket: &Path, target: &str, deadline: Instant) -> io::Result<(Head, BufReader<Timed>)> {
    let mut stream = connect(socket)?;
    stream.set_write_timeout(Some(left(deadline)?))?;
    let request = format!(
        "GET {target} HTTP/1.1\r\nHost: docker\r\nUser-Agent: spoke\r\n\
         Accept: application/json\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut from = BufReader::new(Timed { stream, deadline });
    let head = Head::read(&mut from)?;
    Ok((head, from))
}

/// Never waits: an engine that hangs lets its queue fill up, and a blocking connect would stay in
/// it for ever.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&fd, &SocketAddrUnix::new(socket)?)?;
    let stream = UnixStream::from(fd);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

impl Read for Timed {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.deadline)?))?;
        self.stream.read(out).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => error,
        })
    }
}

/// What an answer begins with.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    framing: Framing,
}

impl Head {
    fn read(from: &mut impl BufRead) -> io::Result<Self> {
        let mut raw = Vec::new();
        let mut limited = from.take(LONGEST_HEAD);
        loop {
            let read = limited.read_until(b'\n', &mut raw)?;
            if read == 0 {
                return Err(match limited.limit() {
                    0 => invalid("the answer's head is too long"),
                    _ => io::ErrorKind::UnexpectedEof.into(),
                });
            }
            if raw.ends_with(b"\r\n\r\n") || raw.ends_with(b"\n\n") {
                return Self::parse(&raw);
            }
        }
    }

    fn parse(raw: &[u8]) -> io::Result<Self> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut answer = httparse::Response::new(&mut headers);
        let parsed = answer.parse(raw).map_err(|error| invalid(&error.to_string()))?;
        let status = answer.code.filter(|_| parsed.is_complete());
        let status = status.ok_or_else(|| invalid("the answer's head is not complete"))?;
        Ok(Self { status, framing: framing(answer.headers)? })
    }
}

/// RFC 9112 §6.3: chunks count more than a length.
fn framing(headers: &[httparse::Header<'_>]) -> io::Result<Framing> {
    let value = |name: &str| {
        let header = headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        header.map(|header| header.value.trim_ascii())
    };
    match (value("transfer-encoding"), value("content-length")) {
        (Some(coding), _) if coding.eq_ignore_ascii_case(b"chunked") => {
            Ok(Framing::Chunked { left: None })
        }
        (Some(_), _) => Err(invalid("the answer's transfer encoding is not chunked")),
        (None, Some(length)) => {
            let length = std::str::from_utf8(length).ok().and_then(|text| text.parse().ok());
            length.map(Framing::Length).ok_or_else(|| invalid("the answer has no valid length"))
        }
        (None, None) => Ok(Framing::Connection),
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(raw: &str) -> io::Result<Head> {
        Head::read(&mut raw.as_bytes())
    }

    #[test]
    fn tells_where_the_body_ends() {
        let framings = [
            ("Content-Length: 12\r\n", Framing::Length(12)),
            (
                "transfer-encoding: Chunked\r\ncontent-length: 3\r\n",
                Framing::Chunked { left: None },
            ),
            ("", Framing::Connection),
        ];
        for (headers, framing) in framings {
            let head = head(&format!("HTTP/1.1 200 OK\r\n{headers}\r\nbody")).unwrap();
            assert_eq!(head, Head { status: 200, framing });
        }
        assert_eq!(head("HTTP/1.0 404 Not Found\r\n\r\n").unwrap().status, 404);
    }

    #[test]
    fn refuses_what_is_no_answer() {
        let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(20_000));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(100));
        for bad in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "garbage\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n",
            &long,
            &many,
        ] {
            assert!(head(bad).is_err(), "{bad:.40}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(raw in ".{0,200}") {
            let _ = head(&raw);
            let _ = head(&format!("HTTP/1.1 200 OK\r\n{raw}\r\n\r\n"));
        }
    }
}
