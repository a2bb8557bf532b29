//! One request over a connection of its own.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::Instant;

use rustls::{AlertDescription, ClientConnection, StreamOwned};

use super::address::Address;
use crate::http::{Body, Head, Timed};
use crate::wire::LONGEST_BODY;

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
pub struct Lost {
    /// Why; [`io::ErrorKind::TimedOut`] where the deadline was over.
    pub error: io::Error,
    /// The request was sent whole: whoever got it may have carried it out.
    pub was_sent: bool,
}

/// Sends `body` to the plugin's URL `method` and reads the answer, all before `deadline`. Engines
/// send no content type, and neither do we.
pub fn post(
    address: &Address,
    method: &str,
    body: &[u8],
    deadline: Instant,
) -> Result<Reply, Lost> {
    let unsent = |error| Lost { error, was_sent: false };
    let mut stream = Stream::open(address, deadline).map_err(unsent)?;
    let mut request = format!(
        "POST /{method} HTTP/1.1\r\nHost: {}\r\nUser-Agent: spoke\r\nContent-Length: {}\r\n\
         Accept: application/vnd.docker.plugins.v1.2+json\r\nConnection: close\r\n\r\n",
        address.host(),
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    stream.write_all(&request).and_then(|()| stream.flush()).map_err(unsent)?;
    let mut from = BufReader::new(stream);
    // Once an answer has begun, somebody has taken the request.
    let begun = from.fill_buf().map(drop);
    begun.map_err(|error| Lost { was_sent: !is_refused(&error), error })?;
    receive(from).map_err(|error| Lost { was_sent: true, error })
}

fn receive(mut from: BufReader<Stream>) -> io::Result<Reply> {
    for _ in 0..MOST_HEADS {
        let Head { status, framing } = Head::read(&mut from)?;
        if (100..200).contains(&status) {
            continue;
        }
        let mut body = Vec::new();
        Body::new(from, framing, LONGEST_BODY as u64).read_to_end(&mut body)?;
        return Ok(Reply { status, body });
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "there are only interim answers"))
}

/// TLS 1.3 tells only now that the other side does not want to talk to us. Whatever else it complains of
/// may come from who has read the request.
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
/// Where nobody listens, or TLS cannot begin.
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
        let told = |alert| io::Error::other(rustls::Error::AlertReceived(alert));
        for alert in [AlertDescription::CertificateRequired, AlertDescription::UnknownCA] {
            assert!(is_refused(&told(alert)), "{alert:?}");
        }
        for alert in [AlertDescription::InternalError, AlertDescription::UserCanceled] {
            assert!(!is_refused(&told(alert)), "{alert:?}");
        }
        assert!(!is_refused(&io::ErrorKind::UnexpectedEof.into()));
    }
}
