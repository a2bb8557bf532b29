//! A small registry (OCI distribution specification 1.1, pull and push) and web server for tests: it
//! keeps what is pushed in memory, serves pages and files as well, and goes wrong as a test says.

mod api;
mod book;
mod listen;

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fd::OwnedFd;

use crate::inside;
pub(crate) use api::basic;
use book::Book;
pub use listen::Certificate;

/// What becomes of a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Sends elsewhere, with status 307; the path is added where the URL ends in no slash.
    Redirect(String),
    /// Other bytes than those that were asked for.
    Body(Vec<u8>),
    /// So many bytes of those that were announced, and then the connection is cut.
    Truncate(usize),
    /// This status, and when to come back, in seconds.
    Busy(u16, Option<u64>),
    /// The answer comes so much later.
    Delay(Duration),
    /// The connection is cut before an answer.
    Cut,
}

/// Who may ask.
#[derive(Clone, Debug, Default)]
pub enum Login {
    /// Everybody.
    #[default]
    Anybody,
    /// Who knows this name and password.
    Basic(String, String),
    /// Who has a token: given for this name and password, or to everybody.
    Bearer(Option<(String, String)>),
}

/// A request that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// GET, HEAD, PUT, …
    pub method: String,
    /// Path and query.
    pub target: String,
    /// What it says about who asks.
    pub authorization: Option<String>,
    /// What was sent, as far as it's text.
    pub body: String,
}

/// The server; it ends when dropped.
#[derive(Debug)]
pub struct Registry {
    address: SocketAddr,
    book: Arc<Mutex<Book>>,
    end: Arc<OwnedFd>,
    listening: Option<thread::JoinHandle<()>>,
}

impl Registry {
    /// At some port of this process's loopback, without TLS.
    #[track_caller]
    pub fn start() -> Self {
        Self::on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port"), None)
    }

    /// The same with TLS.
    #[track_caller]
    pub fn secure(certificate: &Certificate) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        Self::on(listener, Some(certificate))
    }

    /// At a port of the loopback of the network namespace at `netns`.
    #[track_caller]
    pub fn inside(netns: &Path, port: u16, certificate: Option<&Certificate>) -> Self {
        let netns = File::open(netns).expect("a network namespace");
        let listener = inside::listen(netns, port);
        Self::on(listener, certificate)
    }

    /// At a socket that listens.
    #[track_caller]
    pub fn on(listener: TcpListener, certificate: Option<&Certificate>) -> Self {
        let address = listener.local_addr().expect("it listens");
        let scheme = if certificate.is_some() { "https" } else { "http" };
        let book = Arc::new(Mutex::new(Book::new(format!("{scheme}://{address}"))));
        let (end, listening) = listen::listen(listener, certificate, Arc::clone(&book));
        Self { address, book, end, listening: Some(listening) }
    }

    /// `127.0.0.1:PORT`, as it stands in an image's name.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT`
    pub fn origin(&self) -> String {
        locked(&self.book).origin.clone()
    }

    /// Keeps a blob; its digest.
    pub fn add_blob(&self, bytes: &[u8]) -> String {
        locked(&self.book).add_blob(bytes)
    }

    /// Keeps a manifest as `tag` of a repository; its digest.
    pub fn add_manifest(&self, repository: &str, tag: &str, kind: &str, bytes: &[u8]) -> String {
        locked(&self.book).add_manifest(repository, tag, kind, bytes)
    }

    /// The manifest that is kept as `tag`.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn manifest(&self, repository: &str, tag: &str) -> Vec<u8> {
        let book = locked(&self.book);
        let (_, bytes) = book.manifest(repository, tag).expect("a manifest");
        bytes.to_vec()
    }

    /// Serves these bytes at a path, which starts with a slash and has no query.
    pub fn serve(&self, path: &str, bytes: &[u8]) {
        locked(&self.book).pages.insert(path.to_owned(), bytes.to_vec());
    }

    /// Who may ask the registry from now on; pages are for everybody.
    pub fn require(&self, login: Login) {
        locked(&self.book).login = login;
    }

    /// The next `times` requests whose target starts with `prefix` meet this.
    pub fn fail(&self, prefix: &str, times: usize, fault: Fault) {
        locked(&self.book).faults.push((prefix.to_owned(), times, fault));
    }

    /// The requests since the last time, in the order in which they came.
    pub fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut locked(&self.book).seen)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.end, &1_u64.to_ne_bytes());
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
