//! The head of an HTTP/1.1 answer (RFC 9112 §4, §5, §6.3).

use std::io::{self, BufRead, Read};

use crate::Framing;

/// Status line and headers, in bytes.
const LONGEST_HEAD: u64 = 16 << 10;
const MOST_HEADERS: usize = 64;

/// The head of an answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    /// The status (RFC 9110, 15).
    pub status: u16,
    /// Where the body ends.
    pub framing: Framing,
    /// Another request may follow on the same connection (RFC 9112 §9.3).
    pub is_kept: bool,
}

impl Head {
    /// Reads up to the empty line.
    ///
    /// # Errors
    /// `InvalidData` where it is no head of HTTP/1, has more than 64 headers or 16 KiB.
    pub fn read(from: &mut impl BufRead) -> io::Result<Self> {
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
        let framing = framing(answer.headers)?;
        // A server that ends the connection without saying so has done it before the next request.
        let is_ended = value(answer.headers, "connection")
            .is_some_and(|given| given.eq_ignore_ascii_case(b"close"));
        let is_kept = answer.version == Some(1) && framing != Framing::Connection && !is_ended;
        Ok(Self { status, framing, is_kept })
    }
}

/// RFC 9112 §6.3: chunks count more than a length.
fn framing(headers: &[httparse::Header<'_>]) -> io::Result<Framing> {
    match (value(headers, "transfer-encoding"), value(headers, "content-length")) {
        (Some(coding), _) if coding.eq_ignore_ascii_case(b"chunked") => {
            Ok(Framing::Chunked { remaining: None })
        }
        (Some(_), _) => Err(invalid("the answer's transfer encoding is not chunked")),
        (None, Some(length)) => {
            let length = std::str::from_utf8(length).ok().and_then(|text| text.parse().ok());
            length.map(Framing::Length).ok_or_else(|| invalid("the answer has no valid length"))
        }
        (None, None) => Ok(Framing::Connection),
    }
}

fn value<'a>(headers: &[httparse::Header<'a>], name: &str) -> Option<&'a [u8]> {
    let header = headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
    header.map(|header| header.value.trim_ascii())
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
                Framing::Chunked { remaining: None },
            ),
            ("", Framing::Connection),
        ];
        for (headers, framing) in framings {
            let head = head(&format!("HTTP/1.1 200 OK\r\n{headers}\r\nbody")).unwrap();
            assert_eq!((head.status, head.framing), (200, framing));
        }
        assert_eq!(head("HTTP/1.0 404 Not Found\r\n\r\n").unwrap().status, 404);
    }

    #[test]
    fn tells_whether_another_request_may_follow() {
        let is_kept = |raw: &str| head(raw).unwrap().is_kept;
        assert!(is_kept("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"));
        assert!(is_kept("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
        assert!(!is_kept("HTTP/1.1 200 OK\r\n\r\n{}"));
        assert!(!is_kept("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}"));
        for given in ["close", "Close"] {
            let raw =
                format!("HTTP/1.1 200 OK\r\nConnection: {given}\r\nContent-Length: 0\r\n\r\n");
            assert!(!is_kept(&raw), "{given}");
        }
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
