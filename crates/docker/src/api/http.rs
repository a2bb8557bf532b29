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
    ask(socket, ("GET", target), None, deadline)
}

/// The same by another method, with a body of JSON or none.
pub(super) fn ask(
    socket: &Path,
    what: (&str, &str),
    body: Option<&[u8]>,
    deadline: Instant,
) -> io::Result<Reply> {
    let (head, from) = send(socket, what, body, deadline)?;
    Ok(Reply { status: head.status, body: Body::new(from, head.framing, LONGEST) })
}

/// The same for an answer without end: its status, and the connection.
pub(super) fn open(
    socket: &Path,
    target: &str,
    deadline: Instant,
) -> io::Result<(u16, UnixStream)> {
    let (head, from) = send(socket, ("GET", target), None, deadline)?;
    Ok((head.status, from.into_inner().into_socket().into()))
}

fn send(
    socket: &Path,
    (method, target): (&str, &str),
    body: Option<&[u8]>,
    deadline: Instant,
) -> io::Result<(Head, BufReader<Timed>)> {
    let mut stream = Timed::new(connect_unix(socket)?, deadline);
    let about_body = body.map(|body| {
        format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len())
    });
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: docker\r\nUser-Agent: spoke\r\n\
         Accept: application/json\r\nConnection: close\r\n{}\r\n",
        about_body.unwrap_or_default()
    );
    stream.write_all(request.as_bytes())?;
    stream.write_all(body.unwrap_or_default())?;
    let mut from = BufReader::new(stream);
    let head = Head::read(&mut from)?;
    Ok((head, from))
}
