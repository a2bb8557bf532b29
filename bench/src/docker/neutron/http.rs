//! As much of an HTTP/1.1 server as OpenStack's clients need: a thread for each connection, bodies
//! with a length.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use model::{Error, Result};
use serde_json::Value;

use super::cloud::Cloud;

/// The stand-in for Keystone and Neutron.
pub(super) struct StandIn {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    cloud: Cloud,
    /// Milliseconds before each answer of Neutron's.
    delay: AtomicU64,
    calls: AtomicUsize,
}

/// What was asked.
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: Value,
}

/// What is answered.
pub(super) struct Answered {
    pub(super) status: u16,
    pub(super) body: Value,
    pub(super) token: bool,
}

impl StandIn {
    /// Listens on a free port of loopback, for as long as the process lives.
    pub(super) fn start() -> Result<Self> {
        let failed = |error| Error::os("listening for calls of Neutron", error);
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let cloud = Cloud::new(&format!("http://{address}"), address.port());
        let shared = Shared { cloud, delay: AtomicU64::new(0), calls: AtomicUsize::new(0) };
        let shared = Arc::new(shared);
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = Arc::clone(&serving);
                thread::spawn(move || serve(stream, &serving));
            }
        });
        Ok(Self { address, shared })
    }

    /// Where it answers.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How long every answer takes from now on.
    pub(super) fn take(&self, delay: Duration) {
        let millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.shared.delay.store(millis, Ordering::Relaxed);
    }

    /// How many calls Neutron had, ever.
    pub(super) fn calls(&self) -> usize {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// How many ports there are.
    pub(super) fn ports(&self) -> usize {
        self.shared.cloud.count("ports")
    }
}

/// Until the client has enough, or says something that is none of HTTP.
fn serve(stream: TcpStream, shared: &Shared) {
    let _ = stream.set_nodelay(true);
    let Ok(mut out) = stream.try_clone() else { return };
    let mut reader = BufReader::new(stream);
    while let Some(asked) = read(&mut reader) {
        let is_neutron = asked.path.starts_with("/v2.0/");
        if is_neutron {
            shared.calls.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(shared.delay.load(Ordering::Relaxed)));
        }
        if out.write_all(&written(&shared.cloud.answer(&asked))).is_err() {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok().filter(|read| *read > 0)?;
        if header.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let query = pairs.map(|(key, value)| (plain(key), plain(value))).collect();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Some(Asked { method, path: path.trim_end_matches(".json").to_owned(), query, body })
}

/// Percent-encoded text, decoded.
fn plain(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        let hex = |bytes: &mut std::str::Bytes<'_>| {
            let two = [bytes.next()?, bytes.next()?];
            u8::from_str_radix(std::str::from_utf8(&two).ok()?, 16).ok()
        };
        match byte {
            b'+' => decoded.push(b' '),
            b'%' => decoded.extend(hex(&mut bytes)),
            _ => decoded.push(byte),
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn written(answered: &Answered) -> Vec<u8> {
    let body = match &answered.body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let token = if answered.token { "X-Subject-Token: t\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {} Answer\r\nContent-Type: application/json\r\n{token}Content-Length: {}\r\n\r\n",
        answered.status,
        body.len()
    );
    [head.into_bytes(), body.into_bytes()].concat()
}
