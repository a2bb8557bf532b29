//! An address that has another hardware address than neighbours may remember.
//!
//! The hardware address derives from the address, and moves with it from one container to the next.
//! Only one that somebody chose does not: neighbours are notified of it, and when its container
//! goes, of what the next one will have. The bridge tells them, because the container's end may be
//! nowhere yet: Docker moves it later.

use std::net::IpAddr;
use std::thread;

use model::{Attachment, IfName, Mac, Result};
use netlink::packet::{arp, neighbor};
use netlink::wire::Batch;
use netlink::{Errno, Socket};

use crate::identity::mac_of;

/// Who has which addresses on a bridge from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    bridge: IfName,
    mac: Mac,
    addresses: Vec<IpAddr>,
}

impl Moved {
    /// What neighbours must know when the container comes.
    pub(crate) fn by_coming(attachment: &Attachment, addresses: Vec<IpAddr>) -> Option<Self> {
        let (bridge, mac) = chosen(attachment)?;
        Some(Self { bridge, mac, addresses }).filter(|moved| !moved.addresses.is_empty())
    }

    /// What they must know when it is gone.
    pub(crate) fn by_going(attachment: &Attachment) -> Option<Self> {
        let (bridge, _) = chosen(attachment)?;
        let addresses: Vec<IpAddr> =
            attachment.addresses.iter().map(|held| held.address.addr()).collect();
        let mac = mac_of(&attachment.id.network, *addresses.first()?);
        Some(Self { bridge, mac, addresses })
    }

    /// Tells them. Nobody waits for it where `alone`. Who is not told finds out later.
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
            match address {
                IpAddr::V4(address) => arp::announce(bridge, self.mac, *address)?,
                IpAddr::V6(address) => neighbor::announce(bridge, self.mac, *address)?,
            }
        }
        Ok(())
    }
}

/// The bridge, and the hardware address that somebody chose.
fn chosen(attachment: &Attachment) -> Option<(IfName, Mac)> {
    let link = attachment.wiring.link.as_ref()?;
    let tuned = attachment.wiring.tuning.as_ref().and_then(|tuning| tuning.mac);
    Some((link.kind.bridge()?.name.clone(), tuned.or(link.mac)?))
}
