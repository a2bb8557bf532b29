//! Announcements of an address that has another hardware address than neighbours may remember.
//!
//! The hardware address derives from the container's first address, and moves with it from one
//! container to the next. Its second address, of the other family, may meet another first one the
//! next time; and a hardware address that a user chose, or that was there before the addresses,
//! derives from none. Such addresses are announced to the neighbours. When their container is
//! removed, the next container's hardware address is, where that one derives. The bridge sends the
//! announcement, because the container's end may not be in place yet: Docker moves it later.

use std::net::IpAddr;
use std::thread;

use model::{Attachment, IfName, Mac, Result};
use netlink::wire::Batch;
use netlink::{Errno, Socket, packet};

use crate::identity::mac_of;
use crate::plan;

/// The addresses on a bridge and their hardware addresses from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    bridge: IfName,
    mac: Mac,
    addresses: Vec<IpAddr>,
}

impl Moved {
    /// The announcement when the container comes.
    pub(crate) fn by_coming(attachment: &Attachment, mut addresses: Vec<IpAddr>) -> Option<Self> {
        let (bridge, mac) = present(attachment)?;
        addresses.retain(|address| mac != mac_of(&attachment.id.network, *address));
        Some(Self { bridge, mac, addresses }).filter(|moved| !moved.addresses.is_empty())
    }

    /// The announcement when it is gone. The next holder of any address but the first announces it
    /// itself, and so does one whose address source is asked over the link.
    pub(crate) fn by_going(attachment: &Attachment) -> Option<Self> {
        let (bridge, before) = present(attachment)?;
        let first = attachment.addresses.first()?.address.addr();
        let mac = mac_of(&attachment.id.network, first);
        let is_awaited = before != mac && !attachment.ipam.asks_over_link();
        is_awaited.then(|| Self { bridge, mac, addresses: vec![first] })
    }

    /// Sends it. The caller does not wait for it where `alone`. A neighbour that misses it finds
    /// out later.
    pub(crate) fn report(self, alone: bool) {
        match alone {
            true => drop(self.reported()),
            false => drop(
                thread::Builder::new().name("moved".into()).spawn(move || drop(self.reported())),
            ),
        }
    }

    fn reported(&self) -> Result<()> {
        let mut socket = Socket::route()?;
        let Some(bridge) = socket.link_index(&self.bridge)? else { return Ok(()) };
        let mut batch = Batch::new();
        for address in &self.addresses {
            batch.delete_neighbour(bridge, *address);
        }
        socket.send(&mut batch)?.except(Errno::NOENT).into_result()?;
        for address in &self.addresses {
            packet::announce(bridge, self.mac, *address)?;
        }
        Ok(())
    }
}

/// The bridge, and the hardware address of the container on it.
fn present(attachment: &Attachment) -> Option<(IfName, Mac)> {
    let link = attachment.wiring.link.as_ref()?;
    let tuned = attachment.wiring.tuning.as_ref().and_then(|tuning| tuning.mac);
    Some((link.kind.bridge()?.name.clone(), tuned.or_else(|| plan::hardware_address(attachment))?))
}

#[cfg(test)]
mod tests;
