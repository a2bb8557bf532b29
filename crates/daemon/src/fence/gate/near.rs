//! What no name outside leads to: this host, and the containers that it routes to.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use linux::identity::is_ours_by;
use model::{IpNet, Result};
use netlink::{Links, Socket};

use crate::fence::records::Records;

/// How long what was read is taken for known.
const FRESH: Duration = Duration::from_secs(1);

/// What is near this host, and where that is read.
pub(super) struct Surroundings {
    /// Not those that are asked when something is opened: no call waits for these here.
    records: Records,
    known: Option<(Instant, Near)>,
}

impl Surroundings {
    pub(super) fn new(runtime: PathBuf, state: PathBuf) -> Self {
        Self { records: Records::new(runtime, state), known: None }
    }

    /// As of a moment ago.
    ///
    /// # Errors
    /// Where the kernel or the records cannot be asked.
    pub(super) fn now(&mut self) -> Result<&mut Near> {
        let known = self.known.take().filter(|(at, _)| at.elapsed() < FRESH);
        let known = match known {
            Some(known) => known,
            None => (Instant::now(), Near::read(&mut self.records)?),
        };
        Ok(&mut self.known.insert(known).1)
    }
}

/// This host's addresses, those by which it reaches all of a link, and the subnets that it routes to containers.
pub(super) struct Near {
    addresses: BTreeSet<IpAddr>,
    broadcasts: BTreeSet<IpAddr>,
    subnets: BTreeSet<IpNet>,
    /// The interfaces that lead to containers.
    ours: BTreeSet<u32>,
    socket: Socket,
}

impl Near {
    /// The interfaces are those that Spoke made in this host, and bridges on which it has ports.
    fn read(records: &mut Records) -> Result<Self> {
        let mut socket = Socket::route()?;
        let links = socket.links(Links::default())?;
        let ours = links.iter().filter(|link| is_ours_by(link.group));
        let ours: BTreeSet<u32> =
            ours.flat_map(|link| [Some(link.index), link.master]).flatten().collect();
        let held = socket.addresses(None)?;
        let gateways = held.iter().filter(|it| ours.contains(&it.link)).map(|it| it.address);
        let mut subnets: BTreeSet<IpNet> = gateways.map(|it| it.trunc()).collect();
        // Of ptp the host has no subnet, and of a bridge only while it is there.
        subnets.extend(records.routed()?);
        let addresses = held.iter().map(|it| it.address.addr()).collect();
        let broadcasts = held.iter().flat_map(|it| [it.broadcast, broadcast_of(it.address)]);
        let broadcasts = broadcasts.flatten().collect();
        Ok(Self { addresses, broadcasts, subnets, ours, socket })
    }

    /// Whether an address is this host's.
    pub(super) fn is_host(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    /// Whether an address is this host's, a container's, or that of all on a link of this host's: no packet is
    /// forwarded to that.
    ///
    /// # Errors
    /// Where the kernel cannot be asked.
    pub(super) fn has(&mut self, address: IpAddr) -> Result<bool> {
        let is_of_link = self.is_host(address) || self.broadcasts.contains(&address);
        let is_known = is_of_link || self.subnets.iter().any(|it| it.contains(&address));
        Ok(is_known || self.is_led(address)?)
    }

    /// Whether a route leads to it by such an interface, and by no router there: that may be one to everywhere.
    fn is_led(&mut self, address: IpAddr) -> Result<bool> {
        let route = self.socket.entry_to(address)?;
        let on_link = route.filter(|it| it.gateway.is_none() && it.dst.prefix_len() > 0);
        Ok(on_link.and_then(|it| it.link).is_some_and(|link| self.ours.contains(&link)))
    }
}

/// The address of all on a link that a subnet implies (RFC 919), which the kernel knows whatever the link has been given; IPv6 has none.
fn broadcast_of(net: IpNet) -> Option<IpAddr> {
    match net {
        IpNet::V4(net) if net.prefix_len() < 31 => Some(net.broadcast().into()),
        IpNet::V4(_) | IpNet::V6(_) => None,
    }
}
