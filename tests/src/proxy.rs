//! A proxy that tunnels (CONNECT, RFC 9110 9.3.6): the only way of a world to servers outside of it,
//! whose names it alone knows.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

use crate::http::{self, Request};
use crate::inside;
use crate::registry::basic;

/// The proxy; it ends when dropped.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    end: Arc<OwnedFd>,
    listening: Option<thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// By `HOST:PORT`.
    servers: BTreeMap<String, SocketAddr>,
    /// What `Proxy-Authorization` has to be.
    login: Option<String>,
    asked: Mutex<Vec<String>>,
}

impl Proxy {
    /// At a port of the loopback of the network namespace at `netns`, with a way to each of these
    /// servers by their `HOST:PORT`, for who knows this name and password.
    #[track_caller]
    pub fn inside(
        netns: &Path,
        port: u16,
        servers: &[(&str, SocketAddr)],
        login: Option<(&str, &str)>,
    ) -> Self {
        let listener = inside::listen(File::open(netns).expect("a network namespace"), port);
        let servers = servers.iter().map(|(name, address)| ((*name).to_owned(), *address));
        let shared = Arc::new(Shared {
            servers: servers.collect(),
            login: login.map(|(name, password)| basic(name, password)),
            asked: Mutex::default(),
        });
        let end = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"));
        let (ended, seen) = (Arc::clone(&end), Arc::clone(&shared));
        let listening = thread::spawn(move || accept(&listener, &ended, &seen));
        Self { shared, end, listening: Some(listening) }
    }

    /// For whom it was asked since the last time, as `HOST:PORT`.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.end, &1_u64.to_ne_bytes());
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
    }
}

fn accept(listener: &TcpListener, end: &OwnedFd, shared: &Arc<Shared>) {
    while inside::is_asked(listener, end) {
        let Ok((stream, _)) = listener.accept() else { continue };
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            // A client that goes away is no failure of the proxy's.
            let _ = serve(&stream, &shared);
            let _ = stream.shutdown(Shutdown::Both);
        });
    }
}

fn serve(mut stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let Some(request) = http::request(&mut reader)? else { return Ok(()) };
    let server = match way(&request, shared) {
        Ok(server) => server,
        Err(refusal) => {
            let head = format!("HTTP/1.1 {refusal}\r\nContent-Length: 0\r\n\r\n");
            return stream.write_all(head.as_bytes());
        }
    };
    stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n")?;
    thread::scope(|both| {
        both.spawn(|| {
            let _ = io::copy(&mut &server, &mut &*stream);
            let _ = stream.shutdown(Shutdown::Write);
        });
        let _ = io::copy(&mut reader, &mut &server);
        let _ = server.shutdown(Shutdown::Write);
    });
    Ok(())
}

/// To whom it leads, or why it does not.
fn way(request: &Request, shared: &Shared) -> Result<TcpStream, &'static str> {
    if request.method != "CONNECT" {
        return Err("405 Not Tunneled");
    }
    shared.asked.lock().unwrap_or_else(PoisonError::into_inner).push(request.target.clone());
    let said = request.headers.iter().find(|(name, _)| name == "proxy-authorization");
    if shared.login.is_some() && shared.login.as_ref() != said.map(|(_, value)| value) {
        return Err("407 Proxy Authentication Required");
    }
    let server = shared.servers.get(&request.target).ok_or("502 Unknown Host")?;
    TcpStream::connect(server).map_err(|_| "502 Not There")
}
