//! Between an engine and a plugin: what they say to each other, a line of JSON for each call.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::{Error, Result};
use remote::address::Address;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::http::{Connection, Message, connect};

/// Engines wait for a plugin without end; the recorder waits no longer than this.
const TIMEOUT: Duration = Duration::from_secs(3600);

/// Headers between two hosts only: hop-by-hop, or written again.
const OURS: [&str; 4] = ["Content-Length", "Connection", "Transfer-Encoding", "Accept-Encoding"];

/// One call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Tap {
    /// When it came, in seconds since 1970.
    pub t: f64,
    /// Which connection of the engine's it came on.
    pub conn: u64,
    /// How long the plugin took, in milliseconds.
    pub ms: f64,
    /// The request line.
    pub req: String,
    /// The request's headers.
    #[serde(default)]
    pub hdr: BTreeMap<String, String>,
    /// The request's body: a JSON value, or text where it is none.
    #[serde(default)]
    pub body: Value,
    /// The answer's status.
    pub code: u16,
    /// The answer's body, as `body`.
    #[serde(default)]
    pub resp: Value,
}

impl Tap {
    /// The method that was called.
    pub(crate) fn method(&self) -> &str {
        self.req.split(' ').nth(1).unwrap_or_default().trim_start_matches('/')
    }
}

/// A JSON value, or text.
pub(super) fn value(body: &[u8]) -> Value {
    serde_json::from_slice(body)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()))
}

/// The bytes of what [`value`] made.
pub(super) fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.clone().into_bytes(),
        other => other.to_string().into_bytes(),
    }
}

/// Stands between an engine and a plugin.
pub struct Recorder {
    /// Where the plugin is.
    pub plugin: Address,
    /// Where the trace goes.
    pub out: Mutex<Box<dyn Write + Send>>,
}

impl Recorder {
    /// Listens at `socket` until SIGINT or SIGTERM.
    ///
    /// # Errors
    /// Where it cannot listen there.
    pub fn run(self, socket: &Path) -> Result<()> {
        let recorder = Arc::new(self);
        listen(socket, move |connection, number| recorder.carry(connection, number))
    }

    /// Carries one connection's calls to the plugin until the engine closes it.
    fn carry(&self, mut engine: Connection, conn: u64) {
        while let Ok(request) = engine.receive(false) {
            let (t, started) = (now(), Instant::now());
            let answer = self.ask(&request).unwrap_or_else(|error| unanswered(&error));
            let ms = started.elapsed().as_secs_f64() * 1e3;
            let code = answer.status().unwrap_or_default();
            let hdr = request.headers.iter().cloned().collect();
            let (body, resp) = (value(&request.body), value(&answer.body));
            self.write(&Tap { t, conn, ms, req: request.first.clone(), hdr, body, code, resp });
            if engine.send(&answer.first, &kept(&answer), &answer.body).is_err() || request.ends() {
                return;
            }
        }
    }

    fn ask(&self, request: &Message) -> io::Result<Message> {
        let mut plugin = connect(&self.plugin, TIMEOUT)?;
        plugin.send(&request.first, &kept(request), &request.body)?;
        plugin.receive(true)
    }

    /// A failure to write the trace must not stop the engine.
    fn write(&self, tap: &Tap) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(line) = serde_json::to_string(tap) {
            let _ = writeln!(out, "{line}").and_then(|()| out.flush());
        }
    }
}

fn kept(message: &Message) -> String {
    let is_kept = |name: &str| !OURS.iter().any(|ours| ours.eq_ignore_ascii_case(name));
    let headers = message.headers.iter().filter(|(name, _)| is_kept(name));
    headers.map(|(name, value)| format!("{name}: {value}\r\n")).collect()
}

fn unanswered(error: &io::Error) -> Message {
    let text = format!("the plugin behind the recorder does not answer: {error}");
    let body = serde_json::json!({ "Err": text }).to_string().into_bytes();
    Message { first: "HTTP/1.1 502 Bad Gateway".to_owned(), headers: Vec::new(), body }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Serves each connection to `socket` in a thread, until SIGINT or SIGTERM; the socket goes then.
pub(super) fn listen(
    socket: &Path,
    serve: impl Fn(Connection, u64) + Clone + Send + 'static,
) -> Result<()> {
    let failed = |cause| Error::os(format!("listening at {}", socket.display()), cause);
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    if UnixStream::connect(socket).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    {
        fs::remove_file(socket).map_err(failed)?;
    }
    let listener = UnixListener::bind(socket).map_err(failed)?;
    let bound = Bound(socket.to_owned());
    thread::spawn(move || {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            thread::spawn(move || serve(Connection::accepted(stream), number));
        }
    });
    signals.forever().next();
    drop(bound);
    Ok(())
}

/// A socket's file, which engines find as long as it is there.
struct Bound(PathBuf);

impl Drop for Bound {
    fn drop(&mut self) {
        // The recording is over.
        let _ = fs::remove_file(&self.0);
    }
}
