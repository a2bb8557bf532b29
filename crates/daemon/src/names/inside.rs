//! The sandboxes of Docker's containers, from inside.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::names::{Door, Inside, Leaving, Opened, Sandbox};
use linux::filter::{
    SANDBOX_SERVER, SandboxNames, lead_sandbox, lead_sandbox_again, unlead_sandbox,
};
use model::{Error, Kind, Result};
use netlink::{Netns, Socket, nft};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::fd_store::{FdStore, PREFIX};

/// Where servers listen.
const PORT: u16 = 53;
/// Connections that wait to be accepted.
const WAITING: i32 = 16;

/// A sandbox in which queries are led to Spoke.
struct Entered {
    fd_store: Arc<FdStore>,
    path: PathBuf,
    netns: Netns,
    mark: Option<u32>,
    names: SandboxNames,
    led: Mutex<Led>,
}

/// The packet filter of a sandbox, when queries were led from there.
struct Led {
    socket: Socket,
    /// That of the rules which led them. What another program changes has a later one.
    generation: u32,
}

impl Led {
    /// `lead` leads them, and changes the rules once.
    fn after<T>(
        socket: &mut Socket,
        lead: impl FnOnce(&mut Socket) -> Result<T>,
    ) -> Result<(u32, T)> {
        let before = nft::generation(socket)?;
        let led = lead(socket)?;
        Ok((before.wrapping_add(1), led))
    }
}

/// Opens sockets in sandboxes, and leads to them what Docker's servers there are asked.
pub(super) struct SandboxDoor(pub(super) Arc<FdStore>);

impl Door for SandboxDoor {
    fn enter(&self, sandbox: &Sandbox) -> Result<Option<Opened>> {
        enter(&self.0, sandbox)
    }
}

fn enter(fd_store: &Arc<FdStore>, sandbox: &Sandbox) -> Result<Option<Opened>> {
    let netns = match Netns::open(&sandbox.path) {
        Ok(netns) => netns,
        // Engines make a file first, and mount the namespace there afterwards.
        Err(error) if error.kind() == Kind::Invalid => return Ok(None),
        Err(error) => return Err(error),
    };
    if sandbox.inode != 0 && sandbox.inode != netns.inode() {
        return Ok(None);
    }
    let mark = if sandbox.is_shut { None } else { Some(random()?) };
    let stored = stored_names(&netns);
    let left = stored.each_ref().map(|name| fd_store.take(name));
    let opened = open_and_lead(&sandbox.path, &netns, (left, mark));
    // What is kept holds the namespace: it is not kept where nothing is led to it.
    let (udp, tcp, names, led) =
        opened.inspect_err(|_| stored.iter().for_each(|it| fd_store.discard(it)))?;
    for (name, socket) in stored.iter().zip([udp.as_fd(), tcp.as_fd()]) {
        fd_store.keep(name, socket);
    }
    let inside = Arc::new(Entered {
        fd_store: Arc::clone(fd_store),
        path: sandbox.path.clone(),
        netns,
        mark,
        names,
        led: Mutex::new(led),
    });
    Ok(Some(Opened { udp, tcp, inside }))
}

/// Opens them as [`open`], and leads to them.
fn open_and_lead(
    path: &Path,
    netns: &Netns,
    (left, mark): ([Option<OwnedFd>; 2], Option<u32>),
) -> Result<(UdpSocket, TcpListener, SandboxNames, Led)> {
    let (udp, tcp, names) = netns.enter(|| open(path, left, mark))??;
    let mut socket = netns.enter(Socket::netfilter)??;
    let (generation, ()) = Led::after(&mut socket, |socket| lead_sandbox(socket, &names))?;
    Ok((udp, tcp, names, Led { socket, generation }))
}

/// The sockets of the daemon's life before, which are in that namespace, or new ones.
fn open(
    path: &Path,
    [udp, tcp]: [Option<OwnedFd>; 2],
    mark: Option<u32>,
) -> Result<(UdpSocket, TcpListener, SandboxNames)> {
    let failed = |cause: io::Error| {
        Error::os(format!("listening at {SANDBOX_SERVER} in {}", path.display()), cause)
    };
    let or_new = |left: Option<OwnedFd>, kind| left.map_or_else(|| bound(kind), Ok).map_err(failed);
    let udp = UdpSocket::from(or_new(udp, SocketType::DGRAM)?);
    let tcp = or_new(tcp, SocketType::STREAM)?;
    rustix::net::listen(&tcp, WAITING).map_err(|cause| failed(cause.into()))?;
    let tcp = TcpListener::from(tcp);
    let port = |address: io::Result<SocketAddr>| address.map(|it| it.port()).map_err(failed);
    let names = SandboxNames { udp: port(udp.local_addr())?, tcp: port(tcp.local_addr())?, mark };
    Ok((udp, tcp, names))
}

/// Under which names the sockets in a namespace are kept. They keep it, so that its number is no other one's.
fn stored_names(netns: &Netns) -> [String; 2] {
    ["udp", "tcp"].map(|kind| format!("{PREFIX}{kind}-in-{}", netns.inode()))
}

/// At a port that the kernel chooses, as Docker's own server has one. The loopback device may be down yet.
fn bound(kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::INET, kind, flags, None)?;
    sockopt::set_ip_freebind(&socket, true)?;
    rustix::net::bind(&socket, &SocketAddr::new(IpAddr::V4(SANDBOX_SERVER), 0))?;
    Ok(socket)
}

/// A mark that containers do not know, though they may set marks.
fn random() -> Result<u32> {
    let mut bytes = [0; 4];
    let flags = rustix::rand::GetRandomFlags::empty();
    let read = rustix::rand::getrandom(&mut bytes, flags);
    read.map_err(|cause| Error::os("reading random numbers", cause.into()))?;
    // 0 is what sockets without a mark have.
    Ok(u32::from_ne_bytes(bytes).max(1))
}

impl Entered {
    /// A socket that reaches Docker's server past what leads to Spoke.
    fn socket(&self, kind: SocketType, flags: SocketFlags) -> io::Result<OwnedFd> {
        let mark = self.mark.ok_or(io::ErrorKind::PermissionDenied)?;
        let flags = flags | SocketFlags::CLOEXEC;
        let made = self.netns.enter(|| {
            let socket = rustix::net::socket_with(AddressFamily::INET, kind, flags, None)?;
            netlink::set_mark(&socket, mark)?;
            Ok(socket)
        });
        made.map_err(io::Error::other)?
    }
}

impl Inside for Entered {
    fn udp(&self) -> io::Result<UdpSocket> {
        let socket = UdpSocket::from(self.socket(SocketType::DGRAM, SocketFlags::NONBLOCK)?);
        socket.connect((SANDBOX_SERVER, PORT))?;
        Ok(socket)
    }

    fn tcp(&self, limit: Duration) -> io::Result<TcpStream> {
        let socket = self.socket(SocketType::STREAM, SocketFlags::empty())?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(limit))?;
        rustix::net::connect(&socket, &SocketAddr::from((SANDBOX_SERVER, PORT)))?;
        Ok(TcpStream::from(socket))
    }

    fn is_there(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|there| there.ino() == self.netns.inode())
    }

    fn is_changed(&self) -> bool {
        // While it is put back the lock is held.
        let Ok(mut led) = self.led.try_lock() else { return false };
        let Led { socket, generation } = &mut *led;
        self.mark.is_none() && nft::generation(socket).is_ok_and(|now| now != *generation)
    }

    fn restore(&self) -> Result<bool> {
        let mut led = self.led.lock().unwrap_or_else(PoisonError::into_inner);
        let Led { socket, generation } = &mut *led;
        let lead = |socket: &mut Socket| lead_sandbox_again(socket, &self.names);
        let (after, was_gone) = Led::after(socket, lead)?;
        *generation = after;
        Ok(was_gone)
    }

    fn leave(&self, leaving: Leaving) {
        if leaving == Leaving::Ended && self.mark.is_none() {
            // Queries wait for the next life, and do not go past the host.
            return;
        }
        if leaving != Leaving::Renewed {
            let socket = self.netns.enter(Socket::netfilter).and_then(|socket| socket);
            // The namespace goes with its container; and of one that stays, Docker's server is asked again.
            let _ = socket.and_then(|mut socket| unlead_sandbox(&mut socket));
        }
        stored_names(&self.netns).iter().for_each(|name| self.fd_store.discard(name));
    }
}
