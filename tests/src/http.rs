//! As much of HTTP/1.1 (RFC 9112) over a unix socket as Docker's API and its plugins need: one
//! request a connection, and bodies that are read while they come.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

/// More than any answer takes: Docker gives up a plugin that is not there after 15 s, and deletes
/// with four calls.
const TIMEOUT: Duration = Duration::from_secs(120);

/// An answer with all of its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// 200, 404, …
    pub status: u16,
    /// As it came, without the framing.
    pub body: Vec<u8>,
}

impl Reply {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; null where it is empty or something else.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The JSON of a success.
    ///
    /// # Panics
    /// When the status is not one of success, with what was said.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert!((200..300).contains(&self.status), "{}: {}", self.status, self.text());
        self.json()
    }
}

/// Asks, and reads the whole answer.
///
/// # Errors
/// When no process listens at `socket`, or the connection breaks, or the answer is no HTTP.
pub fn call(socket: &Path, method: &str, target: &str, body: &[u8]) -> io::Result<Reply> {
    let (status, mut stream) = open(socket, method, target, body)?;
    let mut body = Vec::new();
    stream.read_to_end(&mut body)?;
    Ok(Reply { status, body })
}

/// Asks, and leaves it to the caller to read the answer's body.
///
/// # Errors
/// As for [`call`].
pub fn open(socket: &Path, method: &str, target: &str, body: &[u8]) -> io::Result<(u16, Body)> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let kind = if body.starts_with(b"{") { "application/json" } else { "application/x-tar" };
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\
         Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    exchange(stream, &[head.as_bytes(), body].concat())
}

/// Sends `request` over a connection, and leaves it to the caller to read the answer's body.
pub(crate) fn exchange<S: Read + Write>(
    mut stream: S,
    request: &[u8],
) -> io::Result<(u16, Body<BufReader<S>>)> {
    stream.write_all(request)?;
    let mut reader = BufReader::new(stream);
    let status = line(&mut reader)?;
    let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| broken("no status line"))?;
    let (headers, left) = framing(&mut reader, status)?;
    Ok((status, Body { reader, left, headers }))
}

/// A request as a server reads it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// The next request of a connection; none where it has ended.
pub(crate) fn request(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut first = String::new();
    if reader.read_line(&mut first)? == 0 {
        return Ok(None);
    }
    let mut words = first.split_whitespace().map(str::to_owned);
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Err(broken("no request line"));
    };
    let (headers, left) = framing(reader, 204)?;
    let mut body = Vec::new();
    Body { reader, left, headers: Vec::new() }.read_to_end(&mut body)?;
    Ok(Some(Request { method, target, headers, body }))
}

/// A body that is still coming; ends with end of file.
#[derive(Debug)]
pub struct Body<R = BufReader<UnixStream>> {
    reader: R,
    left: Left,
    headers: Vec<(String, String)>,
}

impl<R> Body<R> {
    /// The answer's headers, their names in small letters.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }
}

/// What of a body is still to come.
#[derive(Debug)]
enum Left {
    Bytes(u64),
    /// So much of this chunk, and further chunks.
    Chunks(u64),
    UntilTheEnd,
}

impl<R: BufRead> Read for Body<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Left::Chunks(left @ 0) = &mut self.left {
            let size = line(&mut self.reader)?;
            let size = size.split(';').next().unwrap_or_default();
            *left = u64::from_str_radix(size, 16).map_err(|_| broken("no chunk size"))?;
            if *left == 0 {
                self.left = Left::Bytes(0);
            }
        }
        let (Left::Bytes(left) | Left::Chunks(left)) = &mut self.left else {
            return self.reader.read(buffer);
        };
        let count = self.reader.by_ref().take(*left).read(buffer)?;
        *left -= count as u64;
        if count > 0 && matches!(self.left, Left::Chunks(0)) {
            line(&mut self.reader)?;
        }
        Ok(count)
    }
}

/// Headers, and the body's length by them: for a request as for an answer of `status`.
fn framing(reader: &mut impl BufRead, status: u16) -> io::Result<(Vec<(String, String)>, Left)> {
    let mut left = if status == 204 { Left::Bytes(0) } else { Left::UntilTheEnd };
    let mut headers = Vec::new();
    loop {
        let header = line(reader)?;
        let Some((name, value)) = header.split_once(':') else { return Ok((headers, left)) };
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        match (name.as_str(), value.to_ascii_lowercase().as_str()) {
            ("content-length", length) => {
                left = Left::Bytes(length.parse().map_err(|_| broken("no content length"))?);
            }
            ("transfer-encoding", "chunked") => left = Left::Chunks(0),
            _ => {}
        }
        headers.push((name, value.to_owned()));
    }
}

/// One line without its end; end of file is an error.
fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    match reader.read_line(&mut line)? {
        0 => Err(broken("it ended before its time")),
        _ => Ok(line.trim_end().to_owned()),
    }
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
