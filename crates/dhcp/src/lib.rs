//! Addresses of DHCP servers (RFC 2131): the protocol, its leases on disk, and the one thread that
//! renews all of them. For virtual machines, whose interfaces no other program configures, [`guest`] is the
//! other side: it answers what one machine asks.
//!
//! [`packet`] is the wire format, [`Client`] the protocol as a state machine without I/O,
//! [`LeaseStore`] the leases on disk, and [`Keeper`] the thread. A lease is on disk before its
//! address is used, so that a daemon that is killed continues where it was.

mod client;
pub mod guest;
mod keeper;
mod lease_store;
mod link;
mod locator;
pub mod packet;
mod time;

use std::path::PathBuf;

use model::{AttachmentId, Dhcp, Mac};
use serde::{Deserialize, Serialize};

pub use client::{Client, Heading, Pace, Step};
pub use keeper::{Keeper, News};
pub use lease_store::{Lease, LeaseStore, Leases};
pub use locator::ContainerLocator;
pub use packet::Terms;
pub use time::Time;

/// The owner of an address, and the request for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The attachment.
    pub id: AttachmentId,
    /// Where the namespace of its link can be opened; the host's where it is empty.
    pub netns: PathBuf,
    /// The hardware address of its link, by which that is found where it has another name.
    pub mac: Option<Mac>,
    /// The client identifier for the server (RFC 2132 §9.14).
    pub client: Vec<u8>,
    /// The request to the server.
    pub dhcp: Dhcp,
}

/// Requested by default (RFC 2132): mask, routers, name servers, domain, MTU, static routes,
/// domains to search, classless routes. A request that skips some of the reference's defaults,
/// which are the first two, names everything.
const USUAL: [u8; 8] = [1, 3, 6, 15, 26, 33, 119, 121];

impl Subject {
    /// The options that are asked for (RFC 2132 §9.8). Classless routes come before routers and static
    /// ones, as RFC 3442 demands.
    fn parameters(&self) -> Vec<u8> {
        let usual = USUAL.iter().filter(|_| self.dhcp.skip.is_empty());
        let mut all: Vec<u8> = self.dhcp.request.iter().chain(usual).copied().collect();
        all.sort_unstable();
        all.dedup();
        all.sort_by_key(|code| *code != packet::code::ROUTES);
        all
    }
}
