//! The device by which this host is on the segment of the others.

use std::net::{IpAddr, Ipv6Addr};

use model::{HostLink, IfName, IpNet, Mac, Result};
use netlink::{At, Socket};

/// The device that has this host's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Underlay {
    /// Its name.
    pub name: IfName,
    /// Its index.
    pub link: u32,
    /// Its MTU, in bytes.
    pub mtu: u32,
    /// This host's address.
    pub address: IpAddr,
    /// The same with the prefix of the segment.
    pub net: IpNet,
    /// Its hardware address, where it is on Ethernet.
    pub mac: Option<Mac>,
    /// Its link-local address of IPv6.
    pub v6: Option<Ipv6Addr>,
}

impl Underlay {
    /// Whether a host is reached there without a router.
    pub fn has(&self, host: IpAddr) -> bool {
        self.mac.is_some() && self.net.contains(&host)
    }

    /// What others have to know of it.
    pub fn shared(&self) -> Option<HostLink> {
        self.mac.map(|mac| HostLink { mac, v6: self.v6 })
    }
}

/// The device with this address; `None` where there is none.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn underlay(local: IpAddr, socket: &mut Socket) -> Result<Option<Underlay>> {
    let held = socket.addresses(None)?;
    let holder = held.iter().find(|held| held.address.addr() == local);
    let Some(holder) = holder else { return Ok(None) };
    let Some(link) = socket.link(At::Index(holder.link))? else { return Ok(None) };
    let v6 = held.iter().filter(|held| held.link == holder.link).find_map(|held| {
        match held.address.addr() {
            IpAddr::V6(address) if address.is_unicast_link_local() => Some(address),
            _ => None,
        }
    });
    Ok(Some(Underlay {
        name: link.name,
        link: link.index,
        mtu: link.mtu,
        address: local,
        net: holder.address,
        mac: link.mac,
        v6,
    }))
}
