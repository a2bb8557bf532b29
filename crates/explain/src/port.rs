//! What the walk asks of the kernel: the one thing here that does I/O is behind it.

use std::net::IpAddr;

use model::{Family, IfName, Mac, Protocol, Result};
use netlink::diag::Taking;
use netlink::nft::{AnySet, Datum};
use netlink::{Address, BridgeSettings, Forwarded, Link, Neighbour, RouteLookup, Routed};

use crate::frozen::Frozen;
use crate::rules::Rules;

/// A network namespace that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Space(pub usize);

impl Space {
    /// This host's own.
    pub const HOST: Self = Self(0);
}

/// Which link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// That with this index.
    Index(u32),
    /// That of this name.
    Name(IfName),
}

/// The kernel, as it is now. Nothing is changed, and no packet is sent.
///
/// Each answer may be an error of the kernel's: what could not be read is not known.
#[allow(missing_docs)]
pub trait Kernel {
    fn link(&mut self, space: Space, which: &Which) -> Result<Option<Link>>;
    /// The addresses of every link.
    fn addresses(&mut self, space: Space) -> Result<Vec<Address>>;
    fn neighbours(&mut self, space: Space, link: u32) -> Result<Vec<Neighbour>>;
    fn way(&mut self, space: Space, packet: &Routed) -> Result<RouteLookup>;
    /// Whether a routing rule goes by the mark of a packet.
    fn routes_by_mark(&mut self, space: Space, family: Family) -> Result<bool>;
    /// A kernel parameter below `/proc/sys`; `None` if there is none.
    fn parameter(&mut self, space: Space, key: &str) -> Result<Option<String>>;
    /// The sockets that take packets; `None` where the kernel cannot say.
    fn taking(&mut self, space: Space, protocol: Protocol) -> Result<Option<Vec<Taking>>>;
    /// What holds the program of a namespace that has the socket with this inode, where that is stopped; all of its
    /// programs if `None`. `None` also where that cannot be known.
    fn frozen(&mut self, space: Space, socket: Option<u32>) -> Result<Option<Frozen>> {
        let _ = (space, socket);
        Ok(None)
    }
    fn rules(&mut self, space: Space) -> Result<std::rc::Rc<Rules>>;
    fn seek(&mut self, space: Space, set: &AnySet, key: &[u8]) -> Result<Option<Option<Datum>>>;
    /// Whether a packet now matches the quota of this name, in the table of a set; `None` if it is none.
    fn quota_matches(&mut self, space: Space, set: &AnySet, name: &str) -> Result<Option<bool>> {
        let _ = (space, set, name);
        Ok(None)
    }
    fn bridge(&mut self, bridge: u32) -> Result<Option<BridgeSettings>>;
    fn forwarded(&mut self, bridge: u32, mac: Mac) -> Result<Option<Forwarded>>;
    /// The VLANs of a bridge port as (number, whether untagged).
    fn vlans(&mut self, port: u32) -> Result<Vec<(u16, bool)>>;

    /// The link that has an address.
    fn owner(&mut self, space: Space, address: IpAddr) -> Result<Option<u32>> {
        let all = self.addresses(space)?;
        Ok(all.iter().find(|it| it.address.addr() == address).map(|it| it.link))
    }
}
