//! One request to a Docker Engine, over a connection of its own.

use std::io::{self, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use web::{Body, Head, Timed, connect_unix};

/// The longest body that is read, in bytes: thousands of containers with many labels.
const LONGEST: u64 = 64 << 20;

/// An answer whose body is still to be read.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: Body<BufReader<Timed>>,
}

/// Asks for `target`, which holds nothing that would need escaping.
pub(super) fn get(socket: &Path, target: &str, deadline: Instant) -> io::Result<Reply> {
    let (head, from) = send(socket, target, deadline)?;
    Ok(Reply { status: head.status, body: Body::new(from, head.framing, LONGEST) })
}

/// The same for an answer without end: its status, and the connection.
pub(super) fn open(
    socket: &Path,
    target: &str,
    deadline: Instant,
) -> io::Result<(u16, UnixStream)> {
    let (head, from) = send(socket, target, deadline)?;
    Ok((head.status, from.into_inner().into_socket().into()))
}

fn send(socket: &Path, target: &str, deadline: Instant) -> io::Result<(Head, BufReader<Timed>)> {
    let mut stream = Timed::new(connect_unix(socket)?, deadline);
    let request = format!(
        "GET {target} HTTP/1.1\r\nHost: docker\r\nUser-Agent: spoke\r\n\
         Accept: application/json\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut from = BufReader::new(stream);
    let head = Head::read(&mut from)?;
    Ok((head, from))
}
