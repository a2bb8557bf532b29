//! Who listens on a host port. Asked only once a port is known to be taken, for the sentence that
//! says by whom.

use std::fs;
use std::path::Path;

use model::{Error, PortMap, Protocol, Result};
use netlink::probe::{self, Port};

/// The process that keeps a container's ports bound for Podman, so that nobody else binds them. It
/// stands for the very container that publishes the port.
const RESERVER: &str = "conmon";

/// Podman 5 binds them itself, before it calls us.
const CALLER: &str = "podman";

/// A process with a socket on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listener {
    name: String,
    pid: u32,
}

/// Refuses a port that a process of this host listens on.
pub(crate) fn refuse(map: &PortMap) -> Result<()> {
    if probe::port(map.protocol, map.host, map.host_port.get())? == Port::Free {
        return Ok(());
    }
    let by = match find(map) {
        Some(listener) if listener.name == RESERVER => return Ok(()),
        Some(listener) if listener.name == CALLER && called_us(listener.pid) => return Ok(()),
        Some(listener) => format!("process {} ({})", listener.pid, listener.name),
        None => "a process of this host".to_owned(),
    };
    Err(Error::conflict(format!(
        "host port {}/{} ({map}) is in use by {by}",
        map.host_port, map.protocol
    )))
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

fn find(map: &PortMap) -> Option<Listener> {
    let tables = match map.protocol {
        Protocol::Tcp => ["tcp", "tcp6"],
        Protocol::Udp => ["udp", "udp6"],
        Protocol::Sctp => return None,
    };
    let inodes: Vec<u64> = tables
        .iter()
        .filter_map(|table| fs::read_to_string(format!("/proc/net/{table}")).ok())
        .flat_map(|text| sockets(&text, map.host_port.get()))
        .collect();
    owner(&inodes)
}

/// The inodes of the sockets bound to `port` in a table of proc(5); of TCP's, those that listen.
fn sockets(table: &str, port: u16) -> Vec<u64> {
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (_, local) = fields.get(1)?.rsplit_once(':')?;
        let listens = matches!(*fields.get(3)?, "0A" | "07");
        let bound = u16::from_str_radix(local, 16).ok()?;
        (listens && bound == port).then(|| fields.get(9)?.parse().ok())?
    };
    table.lines().skip(1).filter_map(socket).filter(|inode| *inode != 0).collect()
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

    #[test]
    fn nonsense_lists_no_socket() {
        assert!(sockets("header\n\n: : :\n1 2 3 4\n", 80).is_empty());
    }
}
