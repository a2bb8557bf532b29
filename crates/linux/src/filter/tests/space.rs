//! A network namespace of a test's own, and conversations in it.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use model::Result;
use netlink::{Netns, Socket};

use crate::filter::Owner;

/// No owner is gone.
pub(super) fn alive(_: &Owner) -> Result<bool> {
    Ok(false)
}

/// Lives as long as this does.
pub(crate) struct Space {
    keeper: Child,
    pub(crate) netns: Netns,
}

impl Space {
    pub(crate) fn new() -> Self {
        let mut keeper = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        keeper.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let netns = Netns::open(Path::new(&format!("/proc/{}/ns/net", keeper.id()))).unwrap();
        let space = Self { keeper, netns };
        space.run("ip link set lo up; sysctl -qw net.ipv6.conf.all.accept_dad=0");
        space.run("sysctl -qw net.ipv6.conf.default.accept_dad=0");
        space
    }

    pub(super) fn pid(&self) -> u32 {
        self.keeper.id()
    }

    pub(super) fn socket(&self) -> Socket {
        self.netns.enter(Socket::netfilter).unwrap().unwrap()
    }

    /// Runs a shell command; its output.
    pub(crate) fn run(&self, command: &str) -> String {
        let output = self.netns.enter(|| Command::new("sh").args(["-ec", command]).output());
        let output = output.unwrap().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Answers on this port, in all protocols, with `name` and the client's address.
    pub(super) fn serve(&self, name: &'static str, port: u16) {
        // An IPv6 socket of Linux serves IPv4 too.
        let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
        let listener = self.netns.enter(|| TcpListener::bind(any)).unwrap().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let peer = stream.peer_addr().unwrap().ip().to_canonical();
                let _ = write!(stream, "{name} {peer}");
            }
        });
        let socket = self.netns.enter(|| UdpSocket::bind(any)).unwrap().unwrap();
        thread::spawn(move || {
            loop {
                let (_, peer) = socket.recv_from(&mut [0; 8]).unwrap();
                let answer = format!("{name} {}", peer.ip().to_canonical());
                let _ = socket.send_to(answer.as_bytes(), peer);
            }
        });
    }

    /// Who answers there, and which client it saw; empty if none does.
    pub(super) fn tcp(&self, address: &str, port: u16) -> String {
        let to = SocketAddr::new(address.parse().unwrap(), port);
        self.netns.enter(|| tcp(to).unwrap_or_default()).unwrap()
    }

    /// Waits until a server answers there.
    pub(super) fn reach(&self, address: &str, port: u16) {
        let deadline = Instant::now() + 20 * TIMEOUT;
        while self.tcp(address, port).is_empty() {
            assert!(Instant::now() < deadline, "{address} does not answer");
        }
    }

    /// As [`Space::tcp`].
    pub(super) fn udp(&self, address: &str, port: u16) -> String {
        let to = SocketAddr::new(address.parse().unwrap(), port);
        self.netns.enter(|| udp(to).unwrap_or_default()).unwrap()
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// Long enough for a loaded machine, where an answer comes; waited for only where none does.
const TIMEOUT: Duration = Duration::from_millis(800);

fn tcp(to: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&to, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn udp(to: SocketAddr) -> std::io::Result<String> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.send(b"x")?;
    let mut answer = [0; 64];
    let length = socket.recv(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}
