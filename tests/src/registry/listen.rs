//! Its connections.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::{fs, thread};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::api::{self, Reply};
use super::book::Book;
use super::{Fault, locked};
use crate::http;
use crate::inside;

/// A certificate that signs itself.
#[derive(Clone)]
pub struct Certificate {
    config: Arc<ServerConfig>,
    pem: String,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Certificate")
    }
}

impl Certificate {
    /// For these names and addresses.
    ///
    /// # Panics
    /// When they are none.
    #[track_caller]
    pub fn of(names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key)
            })
            .expect("a configuration");
        Self { config: Arc::new(config), pem: made.cert.pem() }
    }

    /// Writes it where clients look for authorities, such as at `SSL_CERT_FILE`.
    ///
    /// # Panics
    /// When it cannot be written.
    #[track_caller]
    pub fn write(&self, path: &Path) {
        fs::write(path, &self.pem).expect("a file");
    }
}

/// Serves until the file descriptor becomes readable.
pub(super) fn listen(
    listener: TcpListener,
    certificate: Option<&Certificate>,
    book: Arc<Mutex<Book>>,
) -> (Arc<OwnedFd>, thread::JoinHandle<()>) {
    let end = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"));
    let config = certificate.map(|certificate| Arc::clone(&certificate.config));
    let ends = Arc::clone(&end);
    let listening = thread::spawn(move || accept(&listener, &ends, config.as_ref(), &book));
    (end, listening)
}

fn accept(
    listener: &TcpListener,
    end: &OwnedFd,
    config: Option<&Arc<ServerConfig>>,
    book: &Arc<Mutex<Book>>,
) {
    while inside::is_asked(listener, end) {
        let Ok((stream, _)) = listener.accept() else { continue };
        let _ = stream.set_nodelay(true);
        let (book, config) = (Arc::clone(book), config.cloned());
        thread::spawn(move || {
            // A client that goes away is no failure of the server's.
            let _ = match config {
                Some(config) => secure(&stream, config, &book),
                None => serve(&stream, &book),
            };
            let _ = stream.shutdown(Shutdown::Both);
        });
    }
}

fn secure(stream: &TcpStream, config: Arc<ServerConfig>, book: &Mutex<Book>) -> io::Result<()> {
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    serve(StreamOwned::new(connection, stream), book)
}

/// The requests of one connection, until it ends or is cut.
fn serve<S: Read + Write>(stream: S, book: &Mutex<Book>) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some(request) = http::request(&mut reader)? {
        if request.method == "CONNECT" {
            // As a proxy it is itself the requested server.
            reader.get_mut().write_all(b"HTTP/1.1 200 Here\r\n\r\n")?;
            continue;
        }
        let fault = {
            let mut book = locked(book);
            book.seen.push(api::seen(&request));
            book.fault(&request.target)
        };
        let is_head = request.method == "HEAD";
        let answer = || api::answer(&mut locked(book), &request);
        let bytes = match fault {
            None => answer().bytes(is_head),
            Some(Fault::Redirect(url)) => {
                let path = if url.ends_with('/') { "" } else { &request.target };
                Reply::new(307).with("Location", format!("{url}{path}")).bytes(is_head)
            }
            Some(Fault::Body(body)) => {
                let mut answer = answer();
                answer.body = body;
                answer.bytes(is_head)
            }
            Some(Fault::Truncate(length)) => {
                let mut bytes = answer().bytes(is_head);
                let head = bytes.windows(4).position(|end| end == b"\r\n\r\n").unwrap_or_default();
                bytes.truncate(head + 4 + length);
                reader.get_mut().write_all(&bytes)?;
                return Ok(());
            }
            Some(Fault::Busy(status, None)) => Reply::new(status).bytes(is_head),
            Some(Fault::Busy(status, Some(seconds))) => {
                Reply::new(status).with("Retry-After", seconds.to_string()).bytes(is_head)
            }
            Some(Fault::Delay(time)) => {
                thread::sleep(time);
                answer().bytes(is_head)
            }
            Some(Fault::Cut) => return Ok(()),
        };
        reader.get_mut().write_all(&bytes)?;
        reader.get_mut().flush()?;
    }
    Ok(())
}
