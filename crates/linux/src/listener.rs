//! The program that listens on a host port. It is searched only once a port is known to be taken,
//! for the error's sentence.

use std::cell::OnceCell;
use std::fs::{self, read_to_string};
use std::net::IpAddr;
use std::path::Path;

use model::{Error, PortMap, Protocol, Result, Runtime};
use netlink::probe::{self, Port};

/// The process that keeps a container's ports bound for Podman. It stands for the container that
/// publishes the port.
const RESERVER: &str = "conmon";

/// Podman 5 binds them itself, before it calls us.
const CALLER: &str = "podman";

/// A process with a socket on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    name: String,
    pid: u32,
}

impl std::fmt::Display for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} ({})", self.pid, self.name)
    }
}

/// The process that keeps published ports bound: `spoke serve`.
const DAEMON: &str = "spoke";

/// The holder of a port of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// No program listens. A socket that is bound and does not listen keeps the port from others.
    Kept,
    /// Podman keeps it for a container that publishes it.
    Podman(Listener),
    /// Another process of this host listens.
    By(Listener),
    /// A process that cannot be seen from here listens.
    Unknown,
}

/// A process that cannot be seen from here.
const UNSEEN: &str = "a process of this host";

impl Taken {
    /// The program that listens besides a container of `runtime`, in words; `None` where that
    /// runtime keeps the port for the container.
    pub fn rival(&self, runtime: Runtime) -> Option<String> {
        match self {
            Taken::Podman(_) if matches!(runtime, Runtime::Podman | Runtime::Cni) => None,
            Taken::Podman(by) | Taken::By(by) => Some(by.to_string()),
            Taken::Unknown => Some(UNSEEN.to_owned()),
            Taken::Kept => None,
        }
    }
}

/// Refuses a port of a protocol that this kernel does not speak: it may have been made without SCTP.
pub(crate) fn refuse_unspoken(map: &PortMap) -> Result<()> {
    if map.protocol != Protocol::Sctp || probe::has(map.protocol) {
        return Ok(());
    }
    let (port, protocol) = (map.host_port, map.protocol);
    Err(Error::unsupported(format!(
        "host port {port}/{protocol}: this kernel has no {protocol}; load its module, or do not \
         publish the port"
    )))
}

/// Refuses a port that a process of this host listens on, but one that keeps it for the container.
pub(crate) fn refuse(map: &PortMap) -> Result<()> {
    refuse_but(map, &|listener| listener.name == RESERVER || called_us(listener.pid))
}

/// Refuses a port that any program of this host listens on, be it for a container.
pub(crate) fn refuse_any(map: &PortMap) -> Result<()> {
    refuse_but(map, &|_| false)
}

/// The same, but for a listener of Podman's that keeps the port for the container.
fn refuse_but(map: &PortMap, keeps: &dyn Fn(&Listener) -> bool) -> Result<()> {
    if probe::port(map.protocol, map.host, map.host_port.get())? == Port::Free {
        return Ok(());
    }
    let by = match taken(map) {
        Taken::Kept => return Ok(()),
        Taken::Podman(listener) if keeps(&listener) => return Ok(()),
        Taken::Podman(listener) | Taken::By(listener) => listener.to_string(),
        Taken::Unknown => UNSEEN.to_owned(),
    };
    Err(Error::conflict(format!(
        "host port {}/{} ({map}) is in use by {by}",
        map.host_port, map.protocol
    )))
}

/// The program that listens on a port of the host, besides `spoke serve`.
pub fn taken(map: &PortMap) -> Taken {
    Listening::default().taken(map)
}

/// The sockets of this host that listen. Each protocol's are read once, when they are asked for: the
/// kernel walks all its connections for that, however few there are.
#[derive(Debug, Default)]
pub struct Listening {
    tcp: OnceCell<Vec<Listens>>,
    udp: OnceCell<Vec<Listens>>,
    sctp: OnceCell<Vec<Listens>>,
}

impl Listening {
    /// Who listens on a port of the host, besides `spoke serve`.
    pub fn taken(&self, map: &PortMap) -> Taken {
        let inodes: Vec<u64> = self
            .of(map.protocol)
            .iter()
            .filter(|socket| socket.hears(map))
            .map(|socket| socket.inode)
            .collect();
        if inodes.is_empty() {
            return Taken::Kept;
        }
        match owner(&inodes) {
            // It reads no datagrams; where it listens, it does for itself.
            Some(listener) if listener.name == DAEMON && map.protocol == Protocol::Udp => {
                Taken::Kept
            }
            Some(listener) if [RESERVER, CALLER].contains(&listener.name.as_str()) => {
                Taken::Podman(listener)
            }
            Some(listener) => Taken::By(listener),
            None => Taken::Unknown,
        }
    }

    fn of(&self, protocol: Protocol) -> &[Listens] {
        match protocol {
            Protocol::Tcp => self.tcp.get_or_init(|| listed(&["tcp", "tcp6"], sockets)),
            Protocol::Udp => self.udp.get_or_init(|| listed(&["udp", "udp6"], sockets)),
            Protocol::Sctp => self.sctp.get_or_init(|| listed(&["sctp/eps"], endpoints)),
        }
    }
}

/// A socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listens {
    port: u16,
    /// Where it is bound, if its table says so.
    address: Option<IpAddr>,
    inode: u64,
}

impl Listens {
    /// Whether it would hear of a packet to the port.
    fn hears(&self, map: &PortMap) -> bool {
        let is_there = self.address.is_none_or(|address| overlaps(map.host, address));
        self.port == map.host_port.get() && is_there
    }
}

/// Whether the process is one of those that we are a child of.
fn called_us(pid: u32) -> bool {
    let mut ancestor = std::process::id();
    while ancestor > 1 {
        let status = fs::read_to_string(format!("/proc/{ancestor}/status")).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        ancestor = parent.and_then(|parent| parent.trim().parse().ok()).unwrap_or(0);
        if ancestor == pid {
            return true;
        }
    }
    false
}

fn listed(tables: &[&str], read: fn(&str) -> Vec<Listens>) -> Vec<Listens> {
    let texts = tables.iter().filter_map(|table| read_to_string(format!("/proc/net/{table}")).ok());
    texts.flat_map(|text| read(&text)).collect()
}

/// Those of a table of proc(5); of TCP's, those that listen.
fn sockets(table: &str) -> Vec<Listens> {
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (address, port) = fields.get(1)?.rsplit_once(':')?;
        let listens = matches!(*fields.get(3)?, "0A" | "07");
        let port = u16::from_str_radix(port, 16).ok()?;
        let (address, inode) = (Some(bound(address)?), fields.get(9)?.parse().ok()?);
        (listens && inode != 0).then_some(Listens { port, address, inode })
    };
    table.lines().skip(1).filter_map(socket).collect()
}

/// The same in SCTP's table, which does not say to which addresses.
fn endpoints(table: &str) -> Vec<Listens> {
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (port, inode) = (fields.get(5)?.parse().ok()?, fields.get(7)?.parse().ok()?);
        (*fields.get(3)? == "10").then_some(Listens { port, address: None, inode })
    };
    table.lines().skip(1).filter_map(socket).collect()
}

/// An address as proc(5) writes it: words of 32 bits, each in the host's byte order.
fn bound(text: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let digits = text.get(at * 8..at * 8 + 8)?;
        u32::from_str_radix(digits, 16).ok().map(|word| word.to_ne_bytes())
    };
    if text.len() == 8 {
        return word(0).map(IpAddr::from);
    }
    let words = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
    let bytes: [u8; 16] = words.try_into().ok()?;
    Some(IpAddr::from(bytes).to_canonical())
}

/// Whether sockets on both addresses would receive the same packet.
fn overlaps(wanted: Option<IpAddr>, bound: IpAddr) -> bool {
    let Some(wanted) = wanted else { return true };
    // A socket on `::` mostly receives IPv4 too.
    let every = |address: IpAddr, other: IpAddr| {
        address.is_unspecified() && (address.is_ipv6() || other.is_ipv4())
    };
    every(bound, wanted)
        || every(wanted, bound) && wanted.is_ipv4() == bound.is_ipv4()
        || wanted == bound
}

fn owner(inodes: &[u64]) -> Option<Listener> {
    let wanted: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let holds = |directory: &Path| {
        let Ok(files) = fs::read_dir(directory.join("fd")) else { return false };
        files.flatten().any(|file| {
            let target = fs::read_link(file.path()).unwrap_or_default();
            wanted.iter().any(|wanted| target.as_os_str() == wanted.as_str())
        })
    };
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .find(|(_, directory)| holds(directory))
        .map(|(pid, directory): (u32, _)| Listener {
            name: fs::read_to_string(directory.join("comm")).unwrap_or_default().trim().to_owned(),
            pid,
        })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::num::NonZeroU16;

    use super::*;

    #[test]
    fn names_the_process() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = NonZeroU16::new(listener.local_addr().unwrap().port()).unwrap();
        let map =
            PortMap { host: None, host_port: port, container_port: port, protocol: Protocol::Tcp };
        let error = refuse(&map).unwrap_err();
        assert_eq!(error.kind(), model::Kind::Conflict);
        assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
        drop(listener);
        refuse(&map).unwrap();
    }

    fn map(host: Option<&str>, protocol: Protocol) -> PortMap {
        let port = NonZeroU16::new(8080).unwrap();
        let host = host.map(|host| host.parse().unwrap());
        PortMap { host, host_port: port, container_port: port, protocol }
    }

    #[test]
    fn nonsense_lists_no_socket() {
        assert!(sockets("header\n\n: : :\n1 2 3 4\n").is_empty());
        assert!(endpoints("header\n\n1 2 3 4\n").is_empty());
    }

    #[test]
    fn only_who_hears_of_the_same_packet_has_the_port() {
        let of = |address: &str| {
            let line = format!("0: {address}:1F90 0:0 0A 0:0 0:0 0 0 0 77");
            move |host| {
                let map = map(host, Protocol::Tcp);
                sockets(&format!("h\n{line}")).iter().any(|socket| socket.hears(&map))
            }
        };
        let local = of("0100007F");
        assert!(local(None) && local(Some("127.0.0.1")) && local(Some("0.0.0.0")));
        assert!(!local(Some("192.0.2.1")) && !local(Some("::1")) && !local(Some("::")));
        let every = of("00000000000000000000000000000000");
        assert!(every(Some("127.0.0.1")) && every(Some("::1")) && every(None));
        let loopback = of("00000000000000000000000001000000");
        assert!(loopback(Some("::1")) && loopback(Some("::")) && !loopback(Some("127.0.0.1")));
    }

    #[test]
    fn endpoints_of_sctp_listen() {
        let table = " ENDPT SOCK STY SST HBKT LPORT UID INODE LADDRS\n\
            0 0 2 10 29 8080 0 77 0.0.0.0\n0 0 2 7 29 8080 0 78 0.0.0.0\n";
        assert_eq!(endpoints(table), [Listens { port: 8080, address: None, inode: 77 }]);
    }

    #[test]
    fn a_port_that_is_kept_is_free_for_us() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        drop(listener);
        let held = netlink::hold::hold(Protocol::Tcp, target).unwrap();
        assert!(matches!(held, netlink::hold::Hold::Held(_)));
        let host_port = NonZeroU16::new(target.port()).unwrap();
        refuse(&PortMap { host_port, ..map(Some("127.0.0.1"), Protocol::Tcp) }).unwrap();
    }
}
