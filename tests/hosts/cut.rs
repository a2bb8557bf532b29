//! A host's way to etcd on which an answer is lost: etcd carries the transaction out, and the connection is cut.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

use crate::bed::Segment;

/// Only a hanging test waits that long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A transaction whose answer is lost.
#[derive(Clone, Debug)]
pub(crate) enum Lost {
    /// One that writes a record whose key begins so, with these words.
    Put(String, String),
    /// One that deletes a record whose key begins so.
    Delete(String),
}

/// The way. It carries connections until the test ends.
pub(crate) struct Way {
    address: SocketAddr,
    lost: Arc<Shared>,
}

/// What is to be lost.
#[derive(Default)]
struct Shared {
    next: Mutex<Option<Lost>>,
    changed: Condvar,
}

impl Way {
    /// At `192.0.2.NUMBER` of a segment.
    #[track_caller]
    pub(crate) fn new(segment: &Segment, number: u8) -> Self {
        segment.sh(&format!("ip address add 192.0.2.{number}/24 dev seg0"));
        let address = SocketAddr::from(([192, 0, 2, number], 2379));
        let netns = File::open(segment.netns()).expect("a network namespace");
        let (said, hears) = std::sync::mpsc::channel();
        let lost = Arc::new(Shared::default());
        let shared = Arc::clone(&lost);
        thread::spawn(move || -> io::Result<()> {
            // Threads of this one begin in its namespace.
            move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network))?;
            let listener = TcpListener::bind(address)?;
            let _ = said.send(());
            loop {
                let (client, shared) = (listener.accept()?.0, Arc::clone(&shared));
                // A host that goes away is no failure of the way's.
                thread::spawn(move || carry(&client, &shared));
            }
        });
        hears.recv().expect("an address of the segment");
        Self { address, lost }
    }

    /// Where etcd seems to be.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next answer to such a transaction is lost.
    pub(crate) fn lose(&self, lost: Lost) {
        *locked(&self.lost.next) = Some(lost);
    }

    /// Waits until it was.
    #[track_caller]
    pub(crate) fn until_lost(&self) {
        let next = locked(&self.lost.next);
        let waited = self.lost.changed.wait_timeout_while(next, TIMEOUT, |next| next.is_some());
        let (next, _) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(next.is_none(), "no answer to {next:?} was lost");
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One connection.
fn carry(client: &TcpStream, lost: &Shared) -> io::Result<()> {
    let server = TcpStream::connect(SocketAddr::from(([192, 0, 2, 100], 2379)))?;
    // The transaction under way, where its answer is to be lost.
    let asked = Mutex::new(None);
    thread::scope(|scope| {
        scope.spawn(|| {
            let done = ask(client, &server, |body| {
                let next = locked(&lost.next).clone();
                *locked(&asked) = next.filter(|next| next.is_in(body));
            });
            let _ = server.shutdown(Shutdown::Both);
            done
        });
        let done = answer(&server, client, || {
            let was_asked = locked(&asked).is_some();
            if was_asked {
                *locked(&lost.next) = None;
                lost.changed.notify_all();
            }
            !was_asked
        });
        let _ = client.shutdown(Shutdown::Both);
        done
    })
}

/// Carries requests, one after the other.
fn ask(client: &TcpStream, mut server: &TcpStream, note: impl Fn(&[u8])) -> io::Result<()> {
    let mut reader = BufReader::new(client);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let begin = head.len();
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
            let line = head[begin..].trim_end().to_ascii_lowercase();
            if let Some(of) = line.strip_prefix("content-length:") {
                length = of.trim().parse().map_err(io::Error::other)?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        note(&body);
        server.write_all(&[head.as_bytes(), &body].concat())?;
    }
}

/// Carries answers until one is lost: that of a transaction that was carried out.
fn answer(
    mut server: &TcpStream,
    mut client: &TcpStream,
    passes: impl Fn() -> bool,
) -> io::Result<()> {
    let mut buffer = [0; 16 << 10];
    loop {
        let count = server.read(&mut buffer)?;
        let bytes = &buffer[..count];
        let is_done = String::from_utf8_lossy(bytes).contains("\"succeeded\":true");
        if count == 0 || (is_done && !passes()) {
            return Ok(());
        }
        client.write_all(bytes)?;
    }
}

impl Lost {
    /// Whether a request is such a transaction.
    fn is_in(&self, body: &[u8]) -> bool {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |value: &Value| {
            let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let is_of =
            |write: &Value, key: &str| text(&write["key"]).starts_with(&format!("/spoke/v1/{key}"));
        body["success"].as_array().into_iter().flatten().any(|write| match self {
            Self::Put(key, words) => {
                let put = &write["request_put"];
                is_of(put, key) && text(&put["value"]).contains(words)
            }
            Self::Delete(key) => is_of(&write["request_delete_range"], key),
        })
    }
}
