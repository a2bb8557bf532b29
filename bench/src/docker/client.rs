//! Calls of the plugin protocol as an engine makes them: HTTP/1.1 over a unix socket, and no content
//! type. The daemon answers one on each connection.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::{Error, Kind, Result};
use serde_json::Value;

/// No call takes that long unless it never ends.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Where a plugin listens.
#[derive(Clone, Debug)]
pub(super) enum At {
    /// At a socket.
    Unix(PathBuf),
    /// At a port of this host.
    Tcp(SocketAddr),
}

/// A caller of a plugin.
pub(super) struct Client {
    at: At,
    buffer: Vec<u8>,
}

impl Client {
    /// Of the plugin at this socket.
    pub(super) fn new(socket: &Path) -> Self {
        Self::at(At::Unix(socket.to_owned()))
    }

    /// Of the plugin there.
    pub(super) fn at(at: At) -> Self {
        Self { at, buffer: Vec::with_capacity(4096) }
    }

    /// Calls, and gives the answer's body and how long it took.
    pub(super) fn timed(&mut self, method: &str, body: &str) -> Result<(Value, Duration)> {
        let request = request(method, body);
        let began = Instant::now();
        let (status, from) = self.exchange(&request).map_err(|error| broken(method, error))?;
        let took = began.elapsed();
        let body = self.buffer.get(from..).unwrap_or_default();
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        let reported = [&answer["Err"], &answer["Error"]].into_iter().filter_map(Value::as_str);
        let reported: Vec<_> = reported.filter(|reported| !reported.is_empty()).collect();
        match (status, reported.first()) {
            (200, None) => Ok((answer, took)),
            (_, reported) => {
                let said = reported.copied().map(str::to_owned);
                let said = said.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
                Err(Error::new(Kind::Kernel, format!("{method}: {status}: {said}")))
            }
        }
    }

    /// Calls, and gives the answer.
    pub(super) fn call(&mut self, method: &str, body: &Value) -> Result<Value> {
        self.timed(method, &body.to_string()).map(|(answer, _)| answer)
    }

    /// Sends a request and reads the answer into the buffer; its status, and where its body begins.
    pub(super) fn exchange(&mut self, request: &[u8]) -> std::io::Result<(u16, usize)> {
        match &self.at {
            At::Unix(socket) => {
                let stream = UnixStream::connect(socket)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                self.over(stream, request)
            }
            At::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                self.over(stream, request)
            }
        }
    }

    fn over(
        &mut self,
        mut stream: impl Read + Write,
        request: &[u8],
    ) -> std::io::Result<(u16, usize)> {
        stream.write_all(request)?;
        self.buffer.clear();
        let mut part = [0; 4096];
        loop {
            let count = stream.read(&mut part)?;
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.buffer.extend_from_slice(part.get(..count).unwrap_or_default());
            if let Some(done) = whole(&self.buffer) {
                return Ok(done);
            }
        }
    }
}

/// A request, ready to be sent.
pub(super) fn request(method: &str, body: &str) -> Vec<u8> {
    let head = format!(
        "POST /{method} HTTP/1.1\r\nHost: plugin.moby.localhost\r\n\
         User-Agent: Go-http-client/1.1\r\nContent-Length: {}\r\n\
         Accept: application/vnd.docker.plugins.v1.2+json\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// An answer's status and where its body begins, once all of it is there.
fn whole(answer: &[u8]) -> Option<(u16, usize)> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(answer.get(..end)?).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    (answer.len() >= end + length.unwrap_or(0)).then_some((status, end))
}

/// Calls, and keeps nothing of the answer.
pub(super) fn once(socket: &Path, request: &[u8]) -> Result<()> {
    let (status, _) =
        Client::new(socket).exchange(request).map_err(|error| broken("a call", error))?;
    match status {
        200 => Ok(()),
        _ => Err(Error::new(Kind::Kernel, format!("a call: status {status}"))),
    }
}

fn broken(what: &str, error: std::io::Error) -> Error {
    Error::os(format!("{what} at the plugin's socket"), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_with_its_body() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(whole(answer), Some((200, answer.len() - 2)));
        assert_eq!(whole(&answer[..answer.len() - 1]), None);
        assert_eq!(whole(b"HTTP/1.1 404 Not Found\r\n\r\n"), Some((404, 26)));
    }
}
