//! One request to a plugin and its answer.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustls::{AlertDescription, ClientConnection, StreamOwned};

use super::address::Address;
use web::{Body, Head, Timed};

use libnetwork::LONGEST_BODY;

/// Interim answers (RFC 9110 §15.2) are passed over, but not for ever.
const MOST_HEADS: usize = 4;

/// A plugin's answer, whatever it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// HTTP's status.
    pub status: u16,
    /// At most [`LONGEST_BODY`] bytes.
    pub body: Vec<u8>,
}

/// No answer.
#[derive(Debug)]
pub(super) struct Lost {
    /// Why; [`io::ErrorKind::TimedOut`] where the deadline was over.
    pub(super) error: io::Error,
    /// The request was sent whole: the plugin may have carried it out.
    pub(super) was_sent: bool,
}

impl Lost {
    /// Whether the plugin did not read the whole request: a unix socket is reset where unread data
    /// remains.
    fn is_unread(&self) -> bool {
        !self.was_sent || self.error.kind() == io::ErrorKind::ConnectionReset
    }
}

/// A connection on which an answer was read to its end, and another request may follow.
#[derive(Debug)]
pub(super) struct Idle(OwnedFd);

impl Idle {
    /// Whether the plugin holds it open, and says nothing unasked.
    fn is_open(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        rustix::net::recv(&self.0, &mut [0; 1], flags).is_err_and(|error| error == Errno::AGAIN)
    }
}

/// What becomes of the connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// It ends.
    Close,
    /// It waits for another request, where it is one of a unix socket and the plugin lets it.
    Keep,
}

/// Sends `body` to the plugin's URL `method` and reads the answer, all before `deadline`. Engines
/// send no content type, and neither do we.
pub(super) fn post(
    (address, idle, after): (&Address, Option<Idle>, After),
    method: &str,
    body: &[u8],
    deadline: Instant,
) -> Result<(Reply, Option<Idle>), Lost> {
    let after = if matches!(address, Address::Unix(_)) { after } else { After::Close };
    let request = written(address, method, body, after);
    let kept =
        |(reply, idle): (Reply, Option<Idle>)| (reply, idle.filter(|_| after == After::Keep));
    if let Some(Idle(socket)) = idle.filter(Idle::is_open) {
        match converse(Stream::Plain(Timed::new(socket, deadline)), &request) {
            // It closed the connection at the same moment.
            Err(lost) if lost.is_unread() => {}
            done => return done.map(kept),
        }
    }
    let opened = Stream::open(address, deadline);
    let stream = opened.map_err(|error| Lost { error, was_sent: false })?;
    converse(stream, &request).map(kept)
}

fn written(address: &Address, method: &str, body: &[u8], after: After) -> Vec<u8> {
    let mut request = format!(
        "POST /{method} HTTP/1.1\r\nHost: {}\r\nUser-Agent: spoke\r\nContent-Length: {}\r\n\
         Accept: application/vnd.docker.plugins.v1.2+json\r\n{}\r\n",
        address.host(),
        body.len(),
        if after == After::Close { "Connection: close\r\n" } else { "" },
    )
    .into_bytes();
    request.extend_from_slice(body);
    request
}

/// One request and its answer, and the connection where another request may follow.
fn converse(mut stream: Stream, request: &[u8]) -> Result<(Reply, Option<Idle>), Lost> {
    let sent = stream.write_all(request).and_then(|()| stream.flush());
    sent.map_err(|error| Lost { error, was_sent: false })?;
    let mut from = BufReader::new(stream);
    // Once an answer has begun, the plugin has taken the request.
    let started = from.fill_buf().map(drop);
    started.map_err(|error| Lost { was_sent: !is_refused(&error), error })?;
    let (reply, is_kept) = receive(&mut from).map_err(|error| Lost { was_sent: true, error })?;
    let is_quiet = is_kept && from.buffer().is_empty();
    Ok(match from.into_inner() {
        Stream::Plain(timed) if is_quiet => (reply, Some(Idle(timed.into_socket()))),
        Stream::Plain(_) | Stream::Tls(_) => (reply, None),
    })
}

/// The answer, and whether another request may follow.
fn receive(from: &mut BufReader<Stream>) -> io::Result<(Reply, bool)> {
    for _ in 0..MOST_HEADS {
        let Head { status, framing, is_kept } = Head::read(from)?;
        if (100..200).contains(&status) {
            continue;
        }
        let mut body = Vec::new();
        Body::new(from, framing, LONGEST_BODY as u64).read_to_end(&mut body)?;
        return Ok((Reply { status, body }, is_kept));
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "there are only interim answers"))
}

/// TLS 1.3 reports only now that the peer refuses the connection. Any other alert may come from a
/// peer that has read the request.
fn is_refused(error: &io::Error) -> bool {
    use AlertDescription as Alert;
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let Some(rustls::Error::AlertReceived(alert)) = inner else { return false };
    matches!(
        alert,
        Alert::HandshakeFailure
            | Alert::NoCertificate
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::CertificateRequired
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::DecryptError
    )
}

/// A connection of the caller's own until `deadline`: for requests that this client would not send.
///
/// # Errors
/// Where no server listens, or TLS cannot begin.
pub fn open(address: &Address, deadline: Instant) -> io::Result<impl Read + Write + Send + use<>> {
    Stream::open(address, deadline)
}

enum Stream {
    Plain(Timed),
    Tls(Box<StreamOwned<ClientConnection, Timed>>),
}

impl Stream {
    fn open(address: &Address, deadline: Instant) -> io::Result<Self> {
        let plain = Timed::new(address.connect(deadline)?, deadline);
        let Address::Tls(_, trust) = address else { return Ok(Stream::Plain(plain)) };
        let connection = trust.begin().map_err(io::Error::other)?;
        Ok(Stream::Tls(Box::new(StreamOwned::new(connection, plain))))
    }
}

impl Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.read(out),
            Stream::Tls(stream) => stream.read(out),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.flush(),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_does_not_want_us_has_not_read_the_request() {
        let reported = |alert| io::Error::other(rustls::Error::AlertReceived(alert));
        for alert in [AlertDescription::CertificateRequired, AlertDescription::UnknownCA] {
            assert!(is_refused(&reported(alert)), "{alert:?}");
        }
        for alert in [AlertDescription::InternalError, AlertDescription::UserCanceled] {
            assert!(!is_refused(&reported(alert)), "{alert:?}");
        }
        assert!(!is_refused(&io::ErrorKind::UnexpectedEof.into()));
    }
}
