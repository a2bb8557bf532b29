//! The sockets at one gateway.

use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use crate::table::Place;

/// One of them.
#[derive(Debug)]
pub(crate) enum Listening {
    /// For datagrams.
    Udp(Place, UdpSocket),
    /// For connections.
    Tcp(Place, TcpListener),
}

impl Listening {
    /// Where it is.
    pub(crate) fn place(&self) -> &Place {
        match self {
            Listening::Udp(place, _) | Listening::Tcp(place, _) => place,
        }
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listening::Udp(_, socket) => socket.as_fd(),
            Listening::Tcp(_, socket) => socket.as_fd(),
        }
    }
}
