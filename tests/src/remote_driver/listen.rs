//! Where a driver is called: unix sockets, TCP, and TCP with certificates on both sides.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::{Shared, locked};
use crate::http;
use crate::inside;

/// Where a driver listens.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Unix(PathBuf),
    /// A port of this network namespace's loopback.
    Tcp {
        netns: Arc<File>,
        port: u16,
        tls: Option<Tls>,
    },
}

/// What a driver shows and wants to see.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

/// An authority, and what it certified for an engine; all of it as PEM (RFC 7468).
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The authority's certificate.
    pub authority: String,
    /// The engine's certificate.
    pub certificate: String,
    /// The engine's key.
    pub key: String,
    /// The driver's side: it serves only whom the authority certified.
    pub tls: Tls,
}

impl Certificates {
    /// Fresh ones for a driver called `name` or by its address.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key"))
            .expect("ours");
        let certified = |name: &str| {
            let key = KeyPair::generate().expect("a key");
            let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
            (params.signed_by(&key, &authority).expect("signed"), key)
        };
        let (certificate, key) = certified("engine");
        let (own, own_key) = certified(name);
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
        let own_key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(own_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_client_cert_verifier(verifier.build().expect("a verifier"))
            .with_single_cert(vec![own.der().clone()], own_key)
            .expect("its certificate");
        Self {
            authority: authority.pem(),
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            tls: Tls(Arc::new(config)),
        }
    }
}

/// Cuts a connection.
type Cut = Arc<dyn Fn() + Send + Sync>;

/// A listener with its connections; all end when it is dropped.
pub(super) struct Listening {
    end: Arc<OwnedFd>,
    open: Arc<Mutex<Vec<Cut>>>,
    accepting: Option<thread::JoinHandle<()>>,
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listening")
    }
}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener, Option<Tls>),
}

trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

impl Place {
    #[track_caller]
    pub(super) fn listen(&self, shared: &Arc<Shared>) -> Listening {
        let listener = match self {
            Self::Unix(path) => {
                fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
                let _ = fs::remove_file(path);
                Listener::Unix(UnixListener::bind(path).expect("a socket"))
            }
            Self::Tcp { netns, port, tls } => {
                let netns = netns.try_clone().expect("a network namespace");
                let listener = inside::listen(netns, *port);
                Listener::Tcp(listener, tls.clone())
            }
        };
        let end = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"));
        let open = Arc::new(Mutex::new(Vec::new()));
        let (ended, opened, shared) = (Arc::clone(&end), Arc::clone(&open), Arc::clone(shared));
        let accepting = thread::spawn(move || accept(&listener, &ended, &opened, &shared));
        Listening { end, open, accepting: Some(accepting) }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.end, &1_u64.to_ne_bytes());
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        for cut in locked(&self.open).drain(..) {
            cut();
        }
    }
}

impl Listener {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener) => listener.as_fd(),
            Self::Tcp(listener, _) => listener.as_fd(),
        }
    }

    fn accept(&self) -> io::Result<(Box<dyn Stream>, Cut)> {
        match self {
            Self::Unix(listener) => {
                let stream: UnixStream = listener.accept()?.0;
                let other = stream.try_clone()?;
                Ok((Box::new(stream), Arc::new(move || drop(other.shutdown(Shutdown::Both)))))
            }
            Self::Tcp(listener, tls) => {
                let stream: TcpStream = listener.accept()?.0;
                stream.set_nodelay(true)?;
                let other = stream.try_clone()?;
                let cut: Cut = Arc::new(move || drop(other.shutdown(Shutdown::Both)));
                let Some(Tls(config)) = tls else { return Ok((Box::new(stream), cut)) };
                let connection = ServerConnection::new(Arc::clone(config));
                let connection = connection.map_err(io::Error::other)?;
                Ok((Box::new(StreamOwned::new(connection, stream)), cut))
            }
        }
    }
}

fn accept(listener: &Listener, end: &OwnedFd, open: &Mutex<Vec<Cut>>, shared: &Arc<Shared>) {
    while inside::is_asked(&listener.fd(), end) {
        let Ok((stream, cut)) = listener.accept() else { continue };
        locked(open).push(Arc::clone(&cut));
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            // A client that goes away is no failure of the driver's.
            let _ = serve(stream, &shared);
            cut();
        });
    }
}

/// The calls of one connection, until it ends or is cut.
fn serve(stream: Box<dyn Stream>, shared: &Shared) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some(request) = http::request(&mut reader)? {
        let Some((status, body)) = shared.answer(&request) else { return Ok(()) };
        let length = body.len();
        let kind = "application/vnd.docker.plugins.v1.2+json";
        let head = format!(
            "HTTP/1.1 {status} Said\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
        );
        let stream = reader.get_mut();
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
        stream.flush()?;
    }
    Ok(())
}
