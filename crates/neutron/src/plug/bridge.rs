//! Ports of Linux bridges, one for each network, as Neutron's Linux bridge agent has them.

use model::{Error, IfName, Kind, Mtu, Result};
use netlink::wire::Batch;
use netlink::{At, Change, Errno, HostLock, Link, Links, NewBridge, Socket};

use super::GROUP;

/// Makes `end` a port of the bridge, which is made where it is missing: the agent may come later.
/// The first join and the last leave exclude each other.
pub(super) fn join(bridge: &IfName, end: &IfName, lock: &HostLock) -> Result<()> {
    lock.with(|| {
        let mut socket = Socket::route()?;
        let link = found(end, &mut socket)?;
        let master = ensure(bridge, Mtu::new(link.mtu), &mut socket)?;
        attach(&link, master, &mut socket)
    })
}

/// Takes `end` out of the bridge. One that was made here goes with its last port, whose ever that is.
pub(super) fn leave(bridge: &IfName, end: &IfName, lock: &HostLock) -> Result<()> {
    lock.with(|| {
        let mut socket = Socket::route()?;
        let Some(there) = socket.link(At::Name(bridge))? else { return Ok(()) };
        if let Some(link) = socket.link(At::Name(end))?
            && link.master == Some(there.index)
        {
            let mut batch = Batch::new();
            batch.change_link(At::Index(link.index), &[Change::Master(None)]);
            socket.send(&mut batch)?.except(Errno::NODEV).into_result()?;
        }
        let ports = Links { master: Some(there.index), ..Links::default() };
        match there.group == GROUP && socket.links(ports)?.is_empty() {
            true => delete(&there, &mut socket),
            false => Ok(()),
        }
    })
}

/// Whether `end` is a port of the bridge.
pub(super) fn has(bridge: &IfName, end: &IfName) -> Result<bool> {
    let mut socket = Socket::route()?;
    let Some(there) = socket.link(At::Name(bridge))? else { return Ok(false) };
    let link = socket.link(At::Name(end))?;
    Ok(link.is_some_and(|link| link.master == Some(there.index)))
}

/// The bridge's index; it is made, with our mark, where it is missing.
pub(super) fn ensure(bridge: &IfName, mtu: Option<Mtu>, socket: &mut Socket) -> Result<u32> {
    if let Some(there) = socket.link(At::Name(bridge))? {
        return taken(&there);
    }
    let mut batch = Batch::new();
    let new = NewBridge { name: bridge, mac: None, mtu, vlan_filtering: false, up: true };
    batch.new_bridge(&new);
    // By itself: the mark is not for one that Neutron's agent made at the same moment.
    match socket.send(&mut batch)?.into_result() {
        Err(error) if error.kind() == Kind::Conflict => return taken(&found(bridge, socket)?),
        made => made?,
    }
    let mut batch = Batch::new();
    let ours = [Change::Group(GROUP), Change::NoIpv6Addresses];
    batch.change_link(At::Name(bridge), &ours);
    socket.send(&mut batch)?.into_result()?;
    quiet(bridge);
    Ok(found(bridge, socket)?.index)
}

/// An existing one is used as it is.
fn taken(there: &Link) -> Result<u32> {
    match there.kind.as_deref() {
        Some("bridge") => Ok(there.index),
        _ => Err(Error::conflict(format!("{} is there already, and is no bridge", there.name))),
    }
}

/// The host itself is no station of such a network: it neither answers there nor listens.
fn quiet(bridge: &IfName) {
    for (path, value) in [
        (format!("net/ipv6/conf/{bridge}/disable_ipv6"), "1"),
        (format!("net/ipv4/conf/{bridge}/arp_ignore"), "8"),
        (format!("net/ipv4/conf/{bridge}/rp_filter"), "1"),
        (format!("net/ipv4/conf/{bridge}/drop_unicast_in_l2_multicast"), "1"),
    ] {
        // The kernel may lack it, and `/proc/sys` may be read-only.
        let _ = netlink::sysctl::ensure(path, value);
    }
}

pub(super) fn attach(link: &Link, master: u32, socket: &mut Socket) -> Result<()> {
    if link.master == Some(master) {
        return Ok(());
    }
    let mut batch = Batch::new();
    batch.change_link(At::Index(link.index), &[Change::Master(Some(master)), Change::Up(true)]);
    socket.send(&mut batch)?.into_result()
}

pub(super) fn delete(link: &Link, socket: &mut Socket) -> Result<()> {
    let mut batch = Batch::new();
    batch.delete_link(At::Index(link.index));
    socket.send(&mut batch)?.except(Errno::NODEV).into_result()
}

pub(super) fn found(name: &IfName, socket: &mut Socket) -> Result<Link> {
    let link = socket.link(At::Name(name))?;
    link.ok_or_else(|| Error::not_found(format!("interface {name} is gone")))
}
