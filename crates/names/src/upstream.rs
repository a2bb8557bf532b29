//! This host's own servers (resolv.conf(5)).

use std::hash::{Hash, Hasher};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

use crate::fenced_answer::FenceHost;
use crate::sandbox::Inside;

/// Where servers listen.
const PORT: u16 = 53;
/// No such file is longer, in bytes.
const LONGEST: u64 = 1 << 16;
/// No resolver asks more of them.
const MOST: usize = 3;
/// How long what was read holds.
const FRESH: Duration = Duration::from_secs(1);

/// The servers that a file names, in its order.
pub fn host_servers(path: &Path) -> Vec<IpAddr> {
    file::text(path, LONGEST).map(|text| parse(&text)).unwrap_or_default()
}

fn parse(text: &str) -> Vec<IpAddr> {
    let server = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        (words.next()? == "nameserver").then(|| words.next()?.parse().ok()).flatten()
    };
    let servers = text.lines().filter_map(server);
    servers.filter(|server: &IpAddr| !server.is_unspecified()).take(MOST).collect()
}

/// Who is asked.
#[derive(Clone)]
pub(crate) enum Upstream {
    /// One of these servers after the other.
    Servers(Servers),
    /// The server in the asker's sandbox.
    Inside(Arc<dyn Inside>),
}

impl Upstream {
    pub(crate) fn count(&self) -> usize {
        match self {
            Upstream::Servers(servers) => servers.all.len(),
            Upstream::Inside(_) => 1,
        }
    }

    /// A socket for the next try.
    pub(crate) fn connect(&self, tries: usize) -> io::Result<UdpSocket> {
        match self {
            Upstream::Servers(servers) => servers.udp(tries),
            Upstream::Inside(inside) => inside.udp(),
        }
    }
}

/// Two are equal where the same servers are asked by the same way; of those in sandboxes each is another one.
impl PartialEq for Upstream {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Upstream::Servers(own), Upstream::Servers(other)) => own == other,
            (Upstream::Inside(own), Upstream::Inside(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }
}

impl Eq for Upstream {}

impl Hash for Upstream {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Upstream::Servers(servers) => servers.hash(state),
            Upstream::Inside(inside) => Arc::as_ptr(inside).cast::<()>().hash(state),
        }
    }
}

/// Servers, and by which way they are asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Servers {
    pub(crate) all: Vec<IpAddr>,
    way: Option<u32>,
}

impl Servers {
    /// A network with a way out of its own is never asked for by another one: not by a server of this host
    /// (`gate` says which are its addresses), which would ask others by the host's way.
    pub(crate) fn new(mut all: Vec<IpAddr>, way: Option<u32>, gate: &dyn FenceHost) -> Self {
        if way.is_some() {
            let is_host = |server: IpAddr| server.is_loopback() || gate.is_host(server);
            all.retain(|server| !is_host(server.to_canonical()));
        }
        Self { all, way }
    }

    /// A socket that is connected to one of them, with a port that the kernel chooses at random (RFC 5452
    /// §9.2).
    fn udp(&self, tries: usize) -> io::Result<UdpSocket> {
        let server = tries.checked_rem(self.all.len()).and_then(|at| self.all.get(at));
        let server = SocketAddr::from((*server.ok_or(io::ErrorKind::NotFound)?, PORT));
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family(&server), SocketType::DGRAM, flags, None)?;
        self.lead(&socket)?;
        connect(&socket, &server)?;
        Ok(socket.into())
    }

    /// Leads what a socket sends to the way.
    fn lead(&self, socket: impl AsFd) -> io::Result<()> {
        match self.way {
            Some(mark) => netlink::set_mark(socket, mark).map_err(io::Error::from),
            None => Ok(()),
        }
    }

    /// A connection to a server.
    pub(crate) fn tcp(&self, server: IpAddr, limit: Duration) -> io::Result<TcpStream> {
        let server = SocketAddr::from((server, PORT));
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family(&server), SocketType::STREAM, flags, None)?;
        self.lead(&socket)?;
        match connect(&socket, &server) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(cause) => return Err(cause.into()),
        }
        let mut ready = [PollFd::new(&socket, PollFlags::OUT)];
        if poll(&mut ready, Timespec::try_from(limit).ok().as_ref())? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket_error(&socket)??;
        let stream = TcpStream::from(socket);
        stream.set_nonblocking(false)?;
        Ok(stream)
    }
}

fn family(server: &SocketAddr) -> AddressFamily {
    if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

/// The file, read now and then.
#[derive(Debug)]
pub(crate) struct Host {
    path: PathBuf,
    read: Option<(Instant, Vec<IpAddr>)>,
}

impl Host {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), read: None }
    }

    /// Those that are to be asked: `given`, or else what the file names.
    pub(crate) fn or(&mut self, given: Vec<IpAddr>, now: Instant) -> Vec<IpAddr> {
        if !given.is_empty() {
            return given;
        }
        match &self.read {
            Some((at, servers)) if now.saturating_duration_since(*at) < FRESH => servers.clone(),
            Some(_) | None => {
                let servers = host_servers(&self.path);
                self.read = Some((now, servers.clone()));
                servers
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_as_the_c_library_does() {
        let text = "# x\nsearch a\nnameserver 192.0.2.1\n nameserver ::1 # y\nnameserver\n\
                    nameserver nobody\nnameserver 0.0.0.0\nnameserver 10.0.0.1\nnameserver 10.0.0.2\n";
        let expected = ["192.0.2.1", "::1", "10.0.0.1"];
        assert_eq!(parse(text), expected.map(|it| it.parse::<IpAddr>().unwrap()));
    }
}
