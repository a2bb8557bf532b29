//! Sockets that the binary or systemd opened.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use model::{Error, Result};
use tokio::net::{TcpStream, UnixStream};

use super::Tls;

/// Where engines connect to.
#[derive(Debug)]
pub enum Listener {
    /// A unix socket. The file's mode decides which clients may connect.
    Unix(UnixListener),
    /// TCP without protection: every client is obeyed.
    Tcp(TcpListener),
    /// TCP with certificates on both sides.
    Tls(TcpListener, Tls),
}

/// The same, known to the runtime.
pub(super) enum Bound {
    Unix(tokio::net::UnixListener),
    Tcp(tokio::net::TcpListener),
    Tls(tokio::net::TcpListener, Tls),
}

/// A new connection.
pub(super) enum Accepted {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(TcpStream, Tls),
}

impl Listener {
    pub(super) fn bind(self) -> Result<Bound> {
        let bound = match self {
            Listener::Unix(listener) => unix(listener).map(Bound::Unix),
            Listener::Tcp(listener) => tcp(listener).map(Bound::Tcp),
            Listener::Tls(listener, tls) => tcp(listener).map(|tcp| Bound::Tls(tcp, tls)),
        };
        bound.map_err(|error| Error::os("listening for Docker on a socket", error))
    }
}

fn unix(listener: UnixListener) -> std::io::Result<tokio::net::UnixListener> {
    listener.set_nonblocking(true)?;
    tokio::net::UnixListener::from_std(listener)
}

fn tcp(listener: TcpListener) -> std::io::Result<tokio::net::TcpListener> {
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}

impl Bound {
    pub(super) async fn accept(&self) -> std::io::Result<Accepted> {
        match self {
            Bound::Unix(listener) => Ok(Accepted::Unix(listener.accept().await?.0)),
            Bound::Tcp(listener) => Ok(Accepted::Tcp(tuned(listener.accept().await?.0)?)),
            Bound::Tls(listener, tls) => {
                Ok(Accepted::Tls(tuned(listener.accept().await?.0)?, tls.clone()))
            }
        }
    }
}

/// Answers are small and wanted at once; and a peer that vanished must not hold its place.
fn tuned(stream: TcpStream) -> std::io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
    Ok(stream)
}
