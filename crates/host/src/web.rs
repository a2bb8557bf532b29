//! Requests for the page, as the daemon and `spoke web` judge them. Every browser on this host, and
//! every site that it shows, can send requests to a loopback address.

pub mod http;

use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use self::http::{Connection, Head};

/// The page's socket, below the runtime directory.
const SOCKET: &str = "web.sock";

/// A request with more header fields is none of a browser's.
const FIELDS: usize = 64;

/// So much of a request that is too long is read and dropped, in pieces: an answer may get lost where
/// the connection ends before.
const DROPPED: usize = 64;

/// How long the next piece may take.
const PIECE_TIMEOUT: Duration = Duration::from_millis(100);

/// How long a client may take for each step of asking and reading.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);

/// How long a client may take to read an answer.
const LIMIT: Duration = Duration::from_secs(10);

/// What is written at once, in bytes.
const PIECE: usize = 16 << 10;

/// Where the daemon serves the page.
pub fn socket(runtime: &Path) -> PathBuf {
    runtime.join(SOCKET)
}

/// A request that reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Begins with a slash.
    pub target: String,
    /// Whether the answer has a body.
    pub is_get: bool,
    /// Whether its body may be compressed.
    pub accepts_gzip: bool,
    /// What the client calls this server.
    host: Option<String>,
    /// Why a browser sends it: where from, and what for (Fetch Metadata Request Headers).
    site: Option<String>,
    is_visit: bool,
}

/// Why a request is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status line after the version (RFC 9110, 15).
    pub status: &'static str,
    /// For people.
    pub sentence: &'static str,
}

fn refused<T>(status: &'static str, sentence: &'static str) -> Result<T, Refusal> {
    Err(Refusal { status, sentence })
}

impl Request {
    /// Reads a request up to its empty line.
    pub fn read(head: &str) -> Result<Self, Refusal> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut parsed = httparse::Request::new(&mut fields);
        match parsed.parse(head.as_bytes()) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) | Err(_) => {
                return refused("400 Bad Request", "this is no request of HTTP");
            }
        }
        let (method, target) = (parsed.method.unwrap_or_default(), parsed.path.unwrap_or_default());
        if !matches!(method, "GET" | "HEAD") {
            return refused("405 Method Not Allowed", "the page only reads: GET and HEAD");
        }
        if !target.starts_with('/') {
            return refused("400 Bad Request", "this is no proxy");
        }
        let fields = Fields(parsed.headers);
        if fields.has("transfer-encoding")
            || fields.one("content-length").is_some_and(|it| it != "0")
        {
            return refused("400 Bad Request", "the page takes no content");
        }
        if fields.count("host") > 1 {
            return refused("400 Bad Request", "there is more than one Host");
        }
        Ok(Self {
            target: target.to_owned(),
            is_get: method == "GET",
            accepts_gzip: fields.one("accept-encoding").is_some_and(|all| takes_gzip(&all)),
            host: fields.one("host"),
            site: fields.one("sec-fetch-site"),
            is_visit: fields.one("sec-fetch-mode").as_deref() == Some("navigate")
                && fields.one("sec-fetch-dest").as_deref() == Some("document"),
        })
    }

    /// Refuses what another site has a browser ask. A name that is resolved to a loopback address by
    /// its owner (DNS rebinding) is no name of this host; and what a page of another origin loads is
    /// its matter, while a link to here is the reader's.
    pub fn check_loopback(&self) -> Result<(), Refusal> {
        if !self.host.as_deref().is_some_and(is_loopback_name) {
            return refused(
                "421 Misdirected Request",
                "this is at localhost, 127.0.0.1 or [::1], and at no other name",
            );
        }
        match self.site.as_deref() {
            None | Some("same-origin" | "none") => Ok(()),
            Some(_) if self.is_visit => Ok(()),
            Some(_) => refused("403 Forbidden", "another site asks for this"),
        }
    }
}

impl Request {
    /// The request as the daemon is asked, with another target.
    pub fn forwarded(&self, target: &str) -> String {
        let method = if self.is_get { "GET" } else { "HEAD" };
        let gzip = if self.accepts_gzip { "Accept-Encoding: gzip\r\n" } else { "" };
        format!("{method} {target} HTTP/1.1\r\nHost: spoke\r\n{gzip}Connection: close\r\n\r\n")
    }
}

fn takes_gzip(codings: &str) -> bool {
    codings.split(',').any(|coding| {
        let mut words = coding.split(';').map(str::trim);
        words.next() == Some("gzip") && !words.any(|word| matches!(word, "q=0" | "q=0.0"))
    })
}

/// Whether a Host field names a loopback address.
fn is_loopback_name(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        Some(_) | None => (host, "0"),
    };
    let is_name = name.eq_ignore_ascii_case("localhost")
        || name == "[::1]"
        || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
    is_name && port.parse::<u16>().is_ok()
}

/// The fields of a request.
struct Fields<'a>(&'a [httparse::Header<'a>]);

impl Fields<'_> {
    fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let same = move |field: &&httparse::Header<'_>| field.name.eq_ignore_ascii_case(name);
        self.0.iter().filter(same).map(|field| field.value)
    }

    fn has(&self, name: &str) -> bool {
        self.count(name) > 0
    }

    fn count(&self, name: &str) -> usize {
        self.values(name).count()
    }

    fn one(&self, name: &str) -> Option<String> {
        self.values(name).next().map(|value| String::from_utf8_lossy(value).into_owned())
    }
}

/// An answer's head, with what keeps a browser from doing anything but show it. A body of `length`
/// follows, or one that ends with the connection.
pub fn head(status: &str, kind: &str, length: Option<usize>, more: &str) -> String {
    let length = length.map(|length| format!("Content-Length: {length}\r\n")).unwrap_or_default();
    let policy = page::POLICY;
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{length}{more}Connection: close\r\n\
         Cache-Control: no-store\r\nContent-Security-Policy: {policy}\r\n\
         X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n\
         Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
         Cross-Origin-Opener-Policy: same-origin\r\n\r\n"
    )
}

/// The request, up to its empty line; `None` where there is none, or it is answered already.
pub fn head_of(connection: &mut dyn Connection) -> io::Result<Option<String>> {
    connection.bound(TIMEOUT)?;
    match http::head(connection)? {
        Head::Whole(head) => Ok(Some(head)),
        Head::Missing => Ok(None),
        Head::TooLong => {
            let sentence = "the request has more than 8 KiB";
            let refusal = Refusal { status: "431 Request Header Fields Too Large", sentence };
            refuse(connection, &refusal)?;
            connection.bound(PIECE_TIMEOUT)?;
            let mut piece = [0; 1024];
            for _ in 0..DROPPED {
                if connection.read(&mut piece)? == 0 {
                    break;
                }
            }
            Ok(None)
        }
    }
}

/// Says why a request is not answered.
pub fn refuse(connection: &mut dyn Connection, refusal: &Refusal) -> io::Result<()> {
    let allow = if refusal.status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let text = format!("{}\n", refusal.sentence);
    let kind = "text/plain; charset=utf-8";
    let head = head(refusal.status, kind, Some(text.len()), allow);
    write(connection, format!("{head}{text}").as_bytes())
}

/// Writes all of it, within bounds: a client that reads slowly is given up.
pub fn write(connection: &mut dyn Connection, bytes: &[u8]) -> io::Result<()> {
    let deadline = Instant::now() + LIMIT;
    for piece in bytes.chunks(PIECE) {
        if Instant::now() > deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        connection.write_all(piece)?;
    }
    connection.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &str) -> Result<Request, Refusal> {
        Request::read(&format!("{}\r\n\r\n", lines.replace('\n', "\r\n")))
    }

    fn judged(lines: &str) -> &'static str {
        match read(lines).and_then(|request| request.check_loopback()) {
            Ok(()) => "200",
            Err(refusal) => &refusal.status[..3],
        }
    }

    #[test]
    fn only_reads_under_its_own_name() {
        for (lines, status) in [
            ("GET / HTTP/1.1\nHost: 127.0.0.1:9180", "200"),
            ("HEAD /ports HTTP/1.1\nHost: LocalHost", "200"),
            ("GET / HTTP/1.1\nhost: [::1]:80", "200"),
            ("GET / HTTP/1.1\nHost: [::1]", "200"),
            ("GET / HTTP/1.1\nHost: 127.8.9.1", "200"),
            ("GET / HTTP/1.1", "421"),
            ("GET / HTTP/1.1\nHost: evil.example:9180", "421"),
            ("GET / HTTP/1.1\nHost: localhost.evil.example", "421"),
            ("GET / HTTP/1.1\nHost: 127.0.0.1.evil.example", "421"),
            ("GET / HTTP/1.1\nHost: 127.0.0.1:80:80", "421"),
            ("GET / HTTP/1.1\nHost: localhost@evil", "421"),
            ("GET / HTTP/1.1\nHost: 192.0.2.1", "421"),
            ("GET / HTTP/1.1\nHost: ", "421"),
            ("GET / HTTP/1.1\nHost: localhost\nHost: evil", "400"),
            ("POST / HTTP/1.1\nHost: localhost", "405"),
            ("OPTIONS / HTTP/1.1\nHost: localhost", "405"),
            ("CONNECT localhost:1 HTTP/1.1\nHost: localhost", "405"),
            ("GET http://localhost/ HTTP/1.1\nHost: localhost", "400"),
            ("GET / HTTP/1.1\nHost: localhost\nTransfer-Encoding: chunked", "400"),
            ("GET / HTTP/1.1\nHost: localhost\nContent-Length: 5", "400"),
            ("GET  / HTTP/1.1\nHost: localhost", "400"),
            ("nonsense", "400"),
        ] {
            assert_eq!(judged(lines), status, "{lines}");
        }
    }

    #[test]
    fn other_sites_do_not_ask() {
        let from = |site: &str, rest: &str| {
            judged(&format!("GET / HTTP/1.1\nHost: localhost\nSec-Fetch-Site: {site}{rest}"))
        };
        let visit = "\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: document";
        assert_eq!([from("same-origin", ""), from("none", visit)], ["200", "200"]);
        assert_eq!(from("cross-site", visit), "200");
        for rest in
            ["", "\nSec-Fetch-Mode: no-cors", "\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: iframe"]
        {
            assert_eq!(
                [from("cross-site", rest), from("same-site", rest)],
                ["403", "403"],
                "{rest}"
            );
        }
    }

    #[test]
    fn who_does_not_want_it_gets_nothing_compressed() {
        let takes = |value: &str| {
            read(&format!("GET / HTTP/1.1\nAccept-Encoding: {value}")).unwrap().accepts_gzip
        };
        assert!(takes("gzip, deflate, br") && takes("br;q=1, gzip;q=0.5"));
        assert!(!takes("br") && !takes("gzip;q=0") && !takes("xgzip"));
    }
}
