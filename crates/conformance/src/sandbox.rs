//! Real namespaces for the cases, and what an engine does with an interface.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::{IfName, IpNet, Mac, Mtu, Result};
use netlink::wire::Batch;
use netlink::{At, Change, Link, Links, Netns, NewAddress, Socket};

/// How long what a driver does behind its answer may take.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Where the sandboxes of a Docker Engine are; there are drivers that want them there.
const PLACE: &str = "/var/run/docker/netns";

/// An engine's sandbox key for this id.
pub(super) fn key(id: &str) -> PathBuf {
    Path::new(PLACE).join(id.get(id.len().saturating_sub(12)..).unwrap_or(id))
}

/// Removes what [`make`] made, if it has no other contents.
pub(super) fn leave_place() {
    let place = Path::new(PLACE);
    let mut directories = place.ancestors().take(2);
    while directories.next().is_some_and(|directory| std::fs::remove_dir(directory).is_ok()) {}
}

/// A new namespace there.
pub(super) fn make(id: &str) -> Result<PathBuf> {
    let path = key(id);
    let netns = Netns::make(&path)?;
    netns.enter(|| -> Result<()> {
        let mut batch = Batch::new();
        batch.change_link(At::Index(1), &[Change::Up(true)]);
        Socket::route()?.send(&mut batch)?.into_result()
    })??;
    Ok(path)
}

/// The link of this name where the caller is.
pub(super) fn link(name: &str) -> Result<Option<Link>> {
    let name: IfName = name.parse()?;
    Socket::route()?.link(At::Name(&name))
}

/// The names of all links where the caller is.
pub(super) fn links() -> Result<Vec<String>> {
    let found = Socket::route()?.links(Links { kind: None, master: None })?;
    let mut names: Vec<String> = found.iter().map(|link| link.name.to_string()).collect();
    names.sort();
    Ok(names)
}

/// Waits until `holds`, which a driver may bring about behind its answer.
pub(super) fn soon(mut holds: impl FnMut() -> Result<bool>) -> Result<bool> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if holds()? {
            return Ok(true);
        }
        if Instant::now() > deadline {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The steps of libnetwork with an interface after Join: it is moved into the sandbox, renamed,
/// with the agreed hardware address and addresses, up.
pub(super) fn move_in(
    path: &Path,
    src: &Link,
    name: &str,
    (mac, addresses): (Option<Mac>, &[&str]),
) -> Result<Link> {
    let (target, name) = (Netns::open(path)?, name.parse::<IfName>()?);
    let mut batch = Batch::new();
    batch.change_link(At::Index(src.index), &[Change::Up(false)]);
    batch.move_link(src.index, target.as_fd(), &name);
    Socket::route()?.send(&mut batch)?.into_result()?;
    target.enter(|| -> Result<Link> {
        let mut socket = Socket::route()?;
        let there = socket.link(At::Name(&name))?;
        let there = there.ok_or_else(|| model::Error::not_found("the interface that was moved"))?;
        let mut batch = Batch::new();
        if let Some(mac) = mac.filter(|mac| there.mac != Some(*mac)) {
            batch.change_link(At::Index(there.index), &[Change::Mac(mac)]);
        }
        for net in addresses.iter().filter_map(|text| text.parse::<IpNet>().ok()) {
            batch.add_address(&NewAddress::new(there.index, net));
        }
        batch.change_link(At::Index(there.index), &[Change::Up(true)]);
        socket.send(&mut batch)?.into_result()?;
        Ok(there)
    })?
}

/// The opposite, after Leave: down, renamed as it was, back to where the caller is.
pub(super) fn move_out(path: &Path, name: &str, src: &str) -> Result<()> {
    let (home, name, src) = (Netns::current()?, name.parse::<IfName>()?, src.parse::<IfName>()?);
    Netns::open(path)?.enter(|| -> Result<()> {
        let mut socket = Socket::route()?;
        let Some(link) = socket.link(At::Name(&name))? else { return Ok(()) };
        let mut batch = Batch::new();
        batch.change_link(At::Index(link.index), &[Change::Up(false)]);
        batch.move_link(link.index, home.as_fd(), &src);
        socket.send(&mut batch)?.into_result()
    })?
}

/// The fault of an interface that a driver made, if it has one.
pub(super) fn wrong_with(link: &Link) -> Option<String> {
    let mac = link.mac.map(|mac| mac.to_string()).unwrap_or_default();
    let first = link.mac.map_or(0, |mac| mac.octets()[0]);
    if mac == "00:00:00:00:00:00" || first & 1 == 1 {
        Some(format!("{} has the address {mac}, which no interface may have", link.name))
    } else if Mtu::new(link.mtu).is_none() || link.mtu < 576 {
        Some(format!("{} has an MTU of {}", link.name, link.mtu))
    } else {
        None
    }
}

/// Whether a TCP connection from one namespace to the other's address comes about.
pub(super) fn talk(from: &Path, to: &Path, address: &str) -> Result<bool> {
    let Ok(ip) = address.split('/').next().unwrap_or_default().parse::<IpAddr>() else {
        return Ok(false);
    };
    let there = Netns::open(to)?.enter(|| TcpListener::bind(SocketAddr::new(ip, 0)))?;
    let Ok(listener) = there else { return Ok(false) };
    let Ok(at) = listener.local_addr() else { return Ok(false) };
    Netns::open(from)?.enter(|| TcpStream::connect_timeout(&at, TIMEOUT).is_ok())
}
