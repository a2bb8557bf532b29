//! HTTP for clients that may reach the socket: one request for each connection, answered and closed.
//! A scraper comes a few times a minute, and a browser to the page now and then, so speed does not
//! matter; but each has a thread, so that a slow one delays no other. And the metrics, the first
//! that is served so.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use model::Result;
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::web::Request;

/// A longer request is none of a scraper's, nor of a browser's.
const LARGEST: usize = 8 << 10;

/// So many are answered at a time. Of more, the one that has been there longest is cut off.
const MOST: usize = 32;

/// How long a client may take to ask, and to read.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The stack of each thread, in bytes.
const STACK: usize = 512 << 10;

/// The media type of OpenMetrics.
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Where clients connect.
#[derive(Debug)]
pub enum HttpListener {
    /// A unix socket.
    Unix(UnixListener),
    /// A TCP address.
    Tcp(TcpListener),
}

/// A connection of either kind.
pub trait Connection: Read + Write + Send {
    /// Bounds both directions.
    fn bound(&self, limit: Duration) -> std::io::Result<()>;

    /// Ends it from another thread.
    fn ending(&self) -> std::io::Result<Ending>;

    /// Whether the client has gone. Does not wait.
    fn is_over(&self) -> bool;
}

/// An end that the peer has closed is readable, with nothing to read (recv(2)).
fn is_closed(socket: impl AsFd) -> bool {
    let mut byte = [0_u8; 1];
    match recv(socket, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((_, read)) => read == 0,
        Err(cause) => cause != Errno::WOULDBLOCK && cause != Errno::INTR,
    }
}

/// Ends a connection for its reader and its writer.
type Ending = Box<dyn Fn() + Send>;

/// Both kinds of sockets are bounded, ended and asked alike.
macro_rules! connection {
    ($socket:ty) => {
        impl Connection for $socket {
            fn bound(&self, limit: Duration) -> std::io::Result<()> {
                self.set_read_timeout(Some(limit))?;
                self.set_write_timeout(Some(limit))
            }

            fn ending(&self) -> std::io::Result<Ending> {
                let same = self.try_clone()?;
                Ok(Box::new(move || drop(same.shutdown(Shutdown::Both))))
            }

            fn is_over(&self) -> bool {
                is_closed(self)
            }
        }
    };
}

connection!(UnixStream);

connection!(TcpStream);

/// A connection that is being answered.
struct Open {
    end: Ending,
    is_done: Arc<AtomicBool>,
    has_asked: Arc<AtomicBool>,
}

/// How many threads answer, also those whose connections were cut off.
#[derive(Default)]
struct Working {
    count: Mutex<usize>,
    ended: Condvar,
}

impl Working {
    /// Waits until there is room for one more thread, and counts it. `false` where none came: who was cut
    /// off ends soon, and more threads would only take memory.
    fn begin(&self) -> bool {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |count: &mut usize| *count >= 2 * MOST;
        let waited = self.ended.wait_timeout_while(count, TIMEOUT, is_full);
        let (mut count, result) = waited.unwrap_or_else(PoisonError::into_inner);
        if !result.timed_out() {
            *count += 1;
        }
        !result.timed_out()
    }

    fn end(&self) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count = count.saturating_sub(1);
        self.ended.notify_one();
    }
}

/// Answers one connection; says when the client has asked for what it may have.
type Answering<'a> = dyn Fn(&mut dyn Connection, &AtomicBool) -> std::io::Result<()> + Sync + 'a;

/// Cuts off until there is room for one more: who has not asked yet comes first, and of these the one
/// that has been there longest. So no client without a token ends the connection of one with it.
fn make_room(open: &mut VecDeque<Open>) {
    open.retain(|one| !one.is_done.load(Ordering::Acquire));
    while open.len() >= MOST {
        let silent = open.iter().position(|one| !one.has_asked.load(Ordering::Acquire));
        if let Some(one) = open.remove(silent.unwrap_or(0)) {
            (one.end)();
        }
    }
}

impl HttpListener {
    /// Answers scrapers with what `figures` says, for ever.
    pub fn serve_metrics(&self, figures: &Figures<'_>) {
        let is_loopback = matches!(self, HttpListener::Tcp(_));
        self.serve(&|connection, has_asked| {
            connection.bound(TIMEOUT)?;
            let Head::Whole(head) = head(connection)? else { return Ok(()) };
            has_asked.store(true, Ordering::Release);
            connection.write_all(answer(&head, is_loopback, figures).as_bytes())?;
            connection.flush()
        });
    }

    /// Has each connection answered, for ever.
    pub fn serve(&self, answering: &Answering<'_>) {
        std::thread::scope(|scope| {
            let (mut open, working) = (VecDeque::new(), Arc::new(Working::default()));
            loop {
                // Out of files: those that are open close some time.
                if self.accept(scope, (&mut open, &working), answering).is_err() {
                    std::thread::sleep(TIMEOUT);
                }
            }
        });
    }

    /// Has the next connection answered, on a thread of its own.
    fn accept<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        (open, working): (&mut VecDeque<Open>, &Arc<Working>),
        answering: &'scope Answering<'scope>,
    ) -> std::io::Result<()> {
        let mut connection: Box<dyn Connection> = match self {
            HttpListener::Unix(listener) => Box::new(listener.accept()?.0),
            HttpListener::Tcp(listener) => Box::new(listener.accept()?.0),
        };
        make_room(open);
        let (end, done) = (connection.ending()?, connection.ending()?);
        if !working.begin() {
            return Ok(());
        }
        let is_done = Arc::new(AtomicBool::new(false));
        let has_asked = Arc::new(AtomicBool::new(false));
        let (is_over, asked) = (Arc::clone(&is_done), Arc::clone(&has_asked));
        open.push_back(Open { end, is_done: is_over, has_asked: asked });
        let count = Arc::clone(working);
        let work = move || {
            // The client may have disconnected.
            drop(answering(&mut *connection, &has_asked));
            // The thread that could end it still has it open.
            done();
            is_done.store(true, Ordering::Release);
            count.end();
        };
        let spawned = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        if spawned.is_err() {
            working.end();
            // No thread answers the client: it is let go.
            open.pop_back();
        }
        spawned.map(drop)
    }
}

/// Returns the metrics.
type Figures<'a> = dyn Fn() -> Result<String> + Sync + 'a;

/// At a loopback address a browser can be made to ask: the metrics name networks and containers, and are no
/// other site's to read.
fn answer(head: &str, is_loopback: bool, figures: &Figures<'_>) -> String {
    match Request::read(head).and_then(|request| request.check_loopback()) {
        Err(refusal) if is_loopback => plain(refusal.status, &format!("{}\n", refusal.sentence)),
        Ok(()) | Err(_) => reply(head, figures),
    }
}

/// What a client sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// A request up to its empty line.
    Whole(String),
    /// More than is read.
    TooLong,
    /// None: the client has gone, or is too slow.
    Missing,
}

/// A request up to its empty line.
pub(crate) fn head(connection: &mut dyn Connection) -> std::io::Result<Head> {
    let deadline = Instant::now() + TIMEOUT;
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    while head.len() < LARGEST && Instant::now() < deadline {
        let read = connection.read(&mut buffer)?;
        head.extend_from_slice(&buffer[..read]);
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(Head::Whole(String::from_utf8_lossy(&head).into_owned()));
        }
        if read == 0 {
            return Ok(Head::Missing);
        }
    }
    Ok(if head.len() < LARGEST { Head::Missing } else { Head::TooLong })
}

fn reply(head: &str, figures: &Figures<'_>) -> String {
    let mut words = head.split(' ');
    let (verb, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    match (verb, path) {
        ("GET" | "HEAD", "/metrics") => match figures() {
            Ok(text) if verb == "HEAD" => message("200 OK", METRICS, "", text.len()),
            Ok(text) => message("200 OK", METRICS, &text, text.len()),
            Err(error) => plain("500 Internal Server Error", &format!("{error}\n")),
        },
        ("GET", "/health") => match figures() {
            Ok(_) => plain("200 OK", "ok\n"),
            Err(error) => plain("503 Service Unavailable", &format!("{error}\n")),
        },
        ("GET" | "HEAD", _) => plain("404 Not Found", "there are /metrics and /health\n"),
        (_, _) => plain("405 Method Not Allowed", "only GET\n"),
    }
}

fn plain(status: &str, text: &str) -> String {
    message(status, "text/plain; charset=utf-8", text, text.len())
}

fn message(status: &str, kind: &str, body: &str, length: usize) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use model::Error;

    use super::*;

    fn ask(request: &str) -> String {
        reply(request, &|| Ok("spoke_up 1\n# EOF\n".to_owned()))
    }

    #[test]
    fn answers_scrapers() {
        let metrics = ask("GET /metrics?x=1 HTTP/1.1\r\n\r\n");
        assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n") && metrics.ends_with("# EOF\n"));
        assert!(metrics.contains("Content-Length: 17\r\n"), "{metrics}");
        assert!(ask("HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
        assert!(ask("GET /health HTTP/1.0\r\n\r\n").contains("200 OK"));
        assert!(ask("GET / HTTP/1.1\r\n\r\n").contains("404"));
        assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").contains("405"));
        assert!(ask("\r\n\r\n").contains("405"));
        let sick = reply("GET /health HTTP/1.1\r\n\r\n", &|| Err(Error::try_again("busy")));
        assert!(sick.contains("503") && sick.ends_with("busy\n"));
    }

    #[test]
    fn another_site_reads_no_metrics_at_a_loopback_address() {
        let ask = |fields: &str, is_loopback| {
            let request = format!("GET /metrics HTTP/1.1\r\n{fields}\r\n");
            let text = answer(&request, is_loopback, &|| Ok("figures".to_owned()));
            text.split(' ').nth(1).unwrap().to_owned()
        };
        assert_eq!(ask("Host: 127.0.0.1:9100\r\n", true), "200");
        assert_eq!(ask("Host: localhost:9100\r\n", true), "200");
        assert_eq!(ask("Host: evil.example:9100\r\n", true), "421");
        assert_eq!(ask("", true), "421");
        assert_eq!(ask("Host: localhost\r\nSec-Fetch-Site: cross-site\r\n", true), "403");
        assert_eq!(ask("Host: spoke\r\n", false), "200");
        assert_eq!(ask("", false), "200");
    }

    /// More of them than are answered at a time: each sends nothing, or a byte now and then.
    #[test]
    fn a_slow_client_delays_no_other() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        // Ends with this process.
        std::thread::spawn(move || {
            HttpListener::Unix(listener).serve_metrics(&|| Ok("figures".to_owned()))
        });
        let mut slow: Vec<_> = (0..2 * MOST).map(|_| UnixStream::connect(&path).unwrap()).collect();
        // Those that were cut off for others cannot be written to.
        slow.iter_mut().for_each(|one| drop(one.write_all(b"G")));
        let started = Instant::now();
        let mut ours = UnixStream::connect(&path).unwrap();
        ours.bound(10 * TIMEOUT).unwrap();
        ours.write_all(b"GET /health HTTP/1.1\r\n\r\n").unwrap();
        let mut request_text = String::new();
        ours.read_to_string(&mut request_text).unwrap();
        assert!(request_text.ends_with("ok\n"), "{request_text}");
        // One after the other would have been that for each of them.
        assert!(started.elapsed() < TIMEOUT * 10, "{:?}", started.elapsed());
    }

    #[test]
    fn gives_up_on_what_never_ends() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        ours.bound(TIMEOUT).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let _ = theirs.write_all(&[b'x'; LARGEST + 1]);
            });
            assert_eq!(head(&mut ours).unwrap(), Head::TooLong);
        });
    }
}
