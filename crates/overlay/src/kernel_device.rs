//! Devices of the kernel: the MTU of the one below, the hardware address of a bridge, removal.

use std::net::IpAddr;

use model::{Error, IfName, Mac, Result};
use netlink::wire::Batch;
use netlink::{At, Change, Link, Socket, sysctl};

/// Gives the bridge the hardware address that it has on this host only, and tells its containers.
pub(crate) fn rename(
    (name, mac): (&IfName, Mac),
    bridge: &Link,
    socket: &mut Socket,
) -> Result<()> {
    sysctl::ensure(format!("net/ipv4/conf/{name}/arp_notify"), "1")?;
    let mut batch = Batch::new();
    batch.change_link(At::Index(bridge.index), &[Change::Mac(mac)]);
    socket.send(&mut batch)?.into_result()
}

/// The MTU of the device that has this address, in bytes.
///
/// # Errors
/// `NotFound` where no device has it.
pub fn underlay_mtu(local: IpAddr, socket: &mut Socket) -> Result<u32> {
    let held = socket.addresses(None)?;
    let holder = held.iter().find(|held| held.address.addr() == local);
    let link = match holder {
        Some(held) => socket.link(At::Index(held.link))?,
        None => None,
    };
    link.map(|link| link.mtu)
        .ok_or_else(|| Error::not_found(format!("no device of this host has the address {local}")))
}

pub(crate) fn delete(socket: &mut Socket, link: &Link) -> Result<()> {
    let mut batch = Batch::new();
    batch.delete_link(At::Index(link.index));
    socket.send(&mut batch)?.except(netlink::Errno::NODEV).into_result()
}
