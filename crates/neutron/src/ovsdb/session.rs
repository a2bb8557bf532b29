//! Calls and answers (JSON-RPC 1.0, RFC 7047 §4).

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use model::{Error, Kind, Result};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde_json::{Value, json};

use super::Remote;
use super::frame::Frames;

/// How long the database may take for one answer, besides the wait in a request: longer than any
/// such wait.
pub(super) const TIMEOUT: Duration = Duration::from_secs(15);

/// How many messages of others may come before an answer.
const OTHERS: usize = 1000;

/// A connection.
pub(super) struct Session {
    remote: String,
    stream: Stream,
    frames: Frames,
    calls: u64,
    timeout: Duration,
}

/// A call that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call(u64);

/// Why the database refused a transaction: then nothing of it was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    error: String,
    details: String,
}

impl Refusal {
    /// Whether what was waited for did not come to be.
    pub(super) fn is_timeout(&self) -> bool {
        self.error == "timed out"
    }

    pub(super) fn into_error(self, doing: &str) -> Error {
        let Refusal { error, details } = self;
        Error::new(Kind::Kernel, format!("{doing}: Open vSwitch's database: {error}: {details}"))
    }
}

impl Session {
    /// Each answer may take as long as `timeout`.
    pub(super) fn open(remote: &Remote, timeout: Duration) -> Result<Self> {
        let stream = match remote {
            Remote::Unix(path) => unix(path, timeout).map(Stream::Unix),
            Remote::Tcp { host, port } => tcp(host, *port, timeout).map(Stream::Tcp),
        };
        let remote = remote.to_string();
        let stream = stream.map_err(|error| unreachable(&remote, error))?;
        Ok(Self { remote, stream, frames: Frames::default(), calls: 0, timeout })
    }

    /// Carries out operations, all or none; what each of them gave.
    pub(super) fn transact(&mut self, operations: &[Value]) -> Result<Result<Vec<Value>, Refusal>> {
        let call = self.send(operations)?;
        self.receive(call)
    }

    /// Sends a transaction without waiting for its answer.
    pub(super) fn send(&mut self, operations: &[Value]) -> Result<Call> {
        self.calls += 1;
        let mut params = vec![json!("Open_vSwitch")];
        params.extend_from_slice(operations);
        self.write(&json!({ "method": "transact", "params": params, "id": self.calls }))?;
        Ok(Call(self.calls))
    }

    /// The answer to a call; calls are answered in their order.
    pub(super) fn receive(&mut self, call: Call) -> Result<Result<Vec<Value>, Refusal>> {
        let deadline = Instant::now() + self.timeout;
        for _ in 0..OTHERS {
            let message = self.message(deadline)?;
            match message.get("method").and_then(Value::as_str) {
                Some("echo") => {
                    let (params, id) = (message.get("params"), message.get("id"));
                    self.write(&json!({ "result": params, "error": null, "id": id }))?;
                }
                Some(_) => {}
                None if message.get("id").and_then(Value::as_u64) == Some(call.0) => {
                    return answer(message).map_err(|error| error.context(&self.remote));
                }
                None => {}
            }
        }
        Err(Error::try_again(format!("{}: the database talks of other things", self.remote)))
    }

    fn message(&mut self, deadline: Instant) -> Result<Value> {
        let mut buffer = [0; 16 << 10];
        loop {
            if let Some(message) =
                self.frames.next().map_err(|error| error.context(&self.remote))?
            {
                return Ok(message);
            }
            let remaining = deadline.saturating_duration_since(Instant::now());
            let read =
                self.stream.set_timeout(remaining).and_then(|()| self.stream.read(&mut buffer));
            match read {
                Ok(0) => {
                    return Err(unreachable(&self.remote, io::ErrorKind::UnexpectedEof.into()));
                }
                Ok(length) => self.frames.push(buffer.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unreachable(&self.remote, error)),
            }
        }
    }

    fn write(&mut self, message: &Value) -> Result<()> {
        let bytes = message.to_string().into_bytes();
        let timed = self.stream.set_timeout(self.timeout);
        let written = timed.and_then(|()| self.stream.write_all(&bytes));
        written.map_err(|error| unreachable(&self.remote, error))
    }
}

/// The database's answer. The error of a refused transaction is in the result of the operation that
/// failed, or in an additional one at the end.
fn answer(mut message: Value) -> Result<Result<Vec<Value>, Refusal>> {
    let text = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    if let Some(error) = message.get("error").filter(|error| !error.is_null()) {
        return Ok(Err(match error.as_str() {
            Some(error) => Refusal { error: error.to_owned(), details: String::new() },
            None => Refusal { error: text(error, "error"), details: text(error, "details") },
        }));
    }
    let Some(Value::Array(results)) = message.get_mut("result").map(Value::take) else {
        return Err(Error::invalid("an answer has no result".to_owned()));
    };
    match results.iter().find(|result| result.get("error").is_some_and(|it| !it.is_null())) {
        Some(failed) => {
            Ok(Err(Refusal { error: text(failed, "error"), details: text(failed, "details") }))
        }
        None => Ok(Ok(results)),
    }
}

/// How many rows of containers' ports an answer has, in whichever result.
pub(super) fn decode_anything(message: Value) -> usize {
    let Ok(Ok(results)) = answer(message) else { return 0 };
    let rows = (0..results.len()).flat_map(|index| super::value::rows(&results, index));
    rows.filter(|row| super::plugged(row).is_some()).count()
}

fn unreachable(remote: &str, error: io::Error) -> Error {
    let what = format!(
        "Open vSwitch's database at {remote} does not answer (is ovsdb-server running, and is that \
         its address?)"
    );
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::os(what, error),
        _ => Error::try_again(what).because(error),
    }
}

/// Sets its timeout before it connects: a server that accepts no connection must not block the
/// caller.
fn unix(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
    rustix::net::connect(&socket, &address)?;
    Ok(socket.into())
}

fn tcp(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut failed = io::ErrorKind::NotFound.into();
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn set_timeout(&self, remaining: Duration) -> io::Result<()> {
        if remaining.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match self {
            Stream::Unix(stream) => stream
                .set_read_timeout(Some(remaining))
                .and(stream.set_write_timeout(Some(remaining))),
            Stream::Tcp(stream) => stream
                .set_read_timeout(Some(remaining))
                .and(stream.set_write_timeout(Some(remaining))),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tcp(stream) => stream.read(buffer),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.write_all(bytes),
            Stream::Tcp(stream) => stream.write_all(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_found_wherever_they_stand() {
        let ok = json!({ "id": 1, "error": null, "result": [{ "rows": [] }, {}] });
        assert_eq!(answer(ok).unwrap().unwrap().len(), 2);
        let inside = json!({ "id": 1, "error": null, "result": [
            {}, { "error": "timed out", "details": "wait" }, null] });
        assert!(answer(inside).unwrap().unwrap_err().is_timeout());
        let whole = json!({ "id": 1, "error": { "error": "unknown database" }, "result": null });
        assert_eq!(answer(whole).unwrap().unwrap_err().error, "unknown database");
        let word = json!({ "id": 1, "error": "canceled" });
        assert_eq!(answer(word).unwrap().unwrap_err().error, "canceled");
        for bad in [json!({ "id": 1 }), json!({ "id": 1, "result": 7 })] {
            assert_eq!(answer(bad).unwrap_err().kind(), model::Kind::Invalid);
        }
    }
}
