//! A way to a server of TLS on which the answer is lost: the server does its work, and the client does not hear of it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The type of an encrypted record (RFC 8446 §5.1): a client sends none before it has all of the server's handshake.
const ENCRYPTED: u8 = 23;

/// The way; it carries one connection.
#[derive(Debug)]
pub struct LostAnswer {
    address: SocketAddr,
    carrying: thread::JoinHandle<io::Result<()>>,
}

impl LostAnswer {
    /// At a port of the loopback of the network namespace at `netns`, and out of that to `server`.
    ///
    /// # Panics
    /// Where it cannot listen there.
    #[track_caller]
    pub fn inside(netns: &Path, server: SocketAddr) -> Self {
        let netns = File::open(netns).expect("a network namespace");
        let (said, hears) = std::sync::mpsc::channel();
        let carry = move || {
            // Threads of this one begin in its namespace.
            move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network))?;
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let _ = said.send(listener.local_addr()?);
            let (client, _) = listener.accept()?;
            lose(&client, &TcpStream::connect(server)?)
        };
        let carrying = thread::spawn(carry);
        Self { address: hears.recv().expect("a port of the world"), carrying }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the server has answered, and the answer is lost.
    ///
    /// # Panics
    /// Where the connection did not come that far.
    #[track_caller]
    pub fn lost(self) {
        self.carrying.join().expect("a thread").expect("a connection");
    }
}

/// Carries everything to the server, and what it says until the client asks; ends when the server has answered.
fn lose(client: &TcpStream, server: &TcpStream) -> io::Result<()> {
    let is_asked = AtomicBool::new(false);
    let done = thread::scope(|scope| {
        scope.spawn(|| {
            let done = copy(client, server, |bytes| {
                is_asked.fetch_or(has_encrypted(bytes), Ordering::SeqCst);
                true
            });
            // The other direction ends with the server, or with the client.
            let _ = server.shutdown(Shutdown::Write);
            done
        });
        let done = copy(server, client, |_| !is_asked.load(Ordering::SeqCst));
        let _ = client.shutdown(Shutdown::Both);
        done
    });
    match is_asked.into_inner() {
        true => done,
        false => Err(io::Error::other("the client did not ask")),
    }
}

/// Whether one of these records is encrypted. Each begins with its type, a version and its length.
fn has_encrypted(mut records: &[u8]) -> bool {
    while let [kind, _, _, high, low, rest @ ..] = records {
        if *kind == ENCRYPTED {
            return true;
        }
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        records = rest.get(length..).unwrap_or_default();
    }
    false
}

fn copy(
    mut from: &TcpStream,
    mut to: &TcpStream,
    mut passes: impl FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    let mut buffer = [0; 16 << 10];
    loop {
        let count = from.read(&mut buffer)?;
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
            return Ok(());
        };
        if passes(bytes) {
            to.write_all(bytes)?;
        }
    }
}
