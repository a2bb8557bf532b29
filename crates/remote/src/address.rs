//! Where a plugin serves: what its description's URL says (moby `pkg/plugins`).

mod tls;

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use model::{Error, Result};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

pub use tls::{Trust, TrustFiles};

/// A host that does not answer at all is not waited for any longer.
const CONNECTING: Duration = Duration::from_secs(5);
/// The longest URL that is read, in bytes.
const LONGEST: usize = 1024;

/// Where a plugin serves.
#[derive(Clone, Debug)]
pub enum Address {
    /// On a unix socket.
    Unix(PathBuf),
    /// On TCP, without protection.
    Tcp(Host),
    /// On TCP, with TLS.
    Tls(Host, Trust),
}

/// A host's name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// An IPv6 address stands in no brackets.
    pub name: String,
    /// The port.
    pub port: u16,
}

/// The parts of a URL, before the trusted authorities are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Url {
    /// `unix:///path`
    Unix(PathBuf),
    /// `tcp://host:port` or `http://host[:port]`
    Plain(Host),
    /// `https://host[:port]`
    Secure(Host),
}

impl Url {
    /// Reads a URL. Whatever path stands behind a host is passed over, as Docker does.
    pub fn read(text: &str) -> Result<Self> {
        let text = text.trim();
        let shown: String = text.chars().take(80).collect();
        let bad = |why: &str| Error::invalid(format!("{shown:?} is no plugin's address: {why}"));
        if text.len() > LONGEST || text.chars().any(char::is_control) {
            return Err(bad("it is too long, or no single line"));
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| bad(WANTED))?;
        let host = |port| Host::read(rest, port).ok_or_else(|| bad("it names no host and port"));
        match scheme.to_ascii_lowercase().as_str() {
            "unix" if rest.starts_with('/') => Ok(Url::Unix(rest.into())),
            "unix" => Err(bad("the socket's path must be absolute")),
            "tcp" => Ok(Url::Plain(host(None)?)),
            "http" => Ok(Url::Plain(host(Some(80))?)),
            "https" => Ok(Url::Secure(host(Some(443))?)),
            _ => Err(bad(WANTED)),
        }
    }
}

const WANTED: &str = "it must begin with unix://, tcp://, http:// or https://";

impl Host {
    fn read(rest: &str, default: Option<u16>) -> Option<Self> {
        let authority = rest.split('/').next()?;
        let (name, port) = match authority.strip_prefix('[') {
            Some(v6) => {
                let (name, port) = v6.split_once(']')?;
                name.parse::<std::net::Ipv6Addr>().ok()?;
                (name, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
            }
            None => match authority.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (authority, None),
            },
        };
        let port = port.map_or(default, |port| port.parse().ok().filter(|port| *port != 0))?;
        let good = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
        let is_name = !name.is_empty() && name.chars().all(good);
        is_name.then(|| Self { name: name.to_owned(), port })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]:{}", self.name, self.port),
            false => write!(f, "{}:{}", self.name, self.port),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix://{}", path.display()),
            Address::Tcp(host) => write!(f, "tcp://{host}"),
            Address::Tls(host, _) => write!(f, "https://{host}"),
        }
    }
}

impl Address {
    /// The `Host` of a request, as Docker's engines from 23.0 on write it.
    pub(super) fn host(&self) -> String {
        match self {
            Address::Unix(_) => "plugin.moby.localhost".to_owned(),
            Address::Tcp(host) | Address::Tls(host, _) => host.to_string(),
        }
    }

    /// A connection to it, or [`ErrorKind::TimedOut`] at the deadline.
    pub(super) fn connect(&self, deadline: Instant) -> io::Result<OwnedFd> {
        match self {
            Address::Unix(path) => connect_unix(path, deadline),
            Address::Tcp(host) | Address::Tls(host, _) => host.connect(deadline),
        }
    }
}

impl Host {
    fn connect(&self, deadline: Instant) -> io::Result<OwnedFd> {
        let mut why = io::Error::new(ErrorKind::NotFound, "the host's name has no address");
        let addresses = self.resolve(deadline)?;
        for (tried, address) in addresses.iter().enumerate() {
            // The others need time as well.
            let others = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
            let remaining = left_until(deadline)?.min(CONNECTING) / others;
            match TcpStream::connect_timeout(address, remaining) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream.into());
                }
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// The system's resolver has no deadline: an abandoned thread ends when the resolver gives up.
    fn resolve(&self, deadline: Instant) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = self.name.parse::<IpAddr>() {
            return Ok(vec![(address, self.port).into()]);
        }
        within(deadline, {
            let (name, port) = (self.name.clone(), self.port);
            move || Ok((name.as_str(), port).to_socket_addrs()?.collect())
        })
    }
}

/// The result of `work` if it comes before the deadline.
fn within<T: Send + 'static>(
    deadline: Instant,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (report, reported) = mpsc::sync_channel(1);
    thread::Builder::new().name("resolve".to_owned()).spawn(move || {
        // The receiver may be gone.
        let _ = report.send(work());
    })?;
    reported.recv_timeout(left_until(deadline)?).unwrap_or_else(|_| {
        Err(io::Error::new(ErrorKind::TimedOut, "the host's name was not resolved in time"))
    })
}

fn left_until(deadline: Instant) -> io::Result<Duration> {
    let remaining = deadline.saturating_duration_since(Instant::now());
    if remaining.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(remaining) }
}

/// A plugin that accepts slowly lets its queue fill up: the caller waits for it, as for an answer.
fn connect_unix(socket: &Path, deadline: Instant) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = SocketAddrUnix::new(socket)?;
    loop {
        // The kernel counts microseconds, and takes none for no limit.
        let remaining = left_until(deadline)?.max(Duration::from_micros(1));
        set_socket_timeout(&fd, Timeout::Send, Some(remaining))?;
        match rustix::net::connect(&fd, &address) {
            // As unix(7) says that its time is over; or a signal came.
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            done => return Ok(done.map(|()| fd)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, port: u16) -> Host {
        Host { name: name.to_owned(), port }
    }

    #[test]
    fn urls_are_read_as_docker_reads_them() {
        let cases = [
            ("unix:///run/x.sock\n", Url::Unix("/run/x.sock".into())),
            ("tcp://localhost:8080", Url::Plain(host("localhost", 8080))),
            ("http://10.0.0.1/some/path", Url::Plain(host("10.0.0.1", 80))),
            ("HTTPS://[fe80::1]:9", Url::Secure(host("fe80::1", 9))),
            ("https://plugin.example", Url::Secure(host("plugin.example", 443))),
        ];
        for (text, url) in cases {
            assert_eq!(Url::read(text).unwrap(), url, "{text}");
        }
        assert_eq!(host("fe80::1", 9).to_string(), "[fe80::1]:9");
    }

    #[test]
    fn no_resolver_is_waited_for_beyond_the_deadline() {
        let (release, held) = mpsc::channel::<()>();
        let begin = Instant::now();
        let late = within(begin + Duration::from_millis(50), move || {
            let _ = held.recv();
            Ok(())
        });
        assert_eq!(late.unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(begin.elapsed() < Duration::from_secs(20));
        drop(release);
        assert_eq!(within(begin + Duration::from_secs(60), || Ok(7)).unwrap(), 7);
        let found = host("localhost", 1).resolve(begin + Duration::from_secs(60)).unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback()) && !found.is_empty());
    }

    /// One that accepts late is waited for, one that never does is not waited for any longer.
    #[test]
    fn a_full_queue_is_waited_for_within_the_deadline() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let flags = SocketFlags::CLOEXEC;
        let listener =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let soon = || Instant::now() + Duration::from_millis(50);
        let _first = connect_unix(&path, soon()).unwrap();
        let full = connect_unix(&path, soon()).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::TimedOut);
        thread::scope(|scope| {
            let waiting =
                scope.spawn(|| connect_unix(&path, Instant::now() + Duration::from_secs(60)));
            rustix::net::accept(&listener).unwrap();
            waiting.join().unwrap().unwrap();
        });
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let long = format!("tcp://{}:1", "x".repeat(2000));
        for bad in [
            "",
            "/run/x.sock",
            "unix://run/x",
            "ftp://x:1",
            "tcp://x",
            "tcp://:1",
            "tcp://x:0",
            "tcp://x:70000",
            "http://[x]:1",
            "http://[::1]1",
            "http://a b:1",
            "http://u@h:1",
            "tcp://x:1\nHost: y",
            &long,
        ] {
            assert_eq!(Url::read(bad).unwrap_err().kind(), model::Kind::Invalid, "{bad:?}");
        }
    }
}
