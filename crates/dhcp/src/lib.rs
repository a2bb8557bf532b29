//! Addresses of DHCP servers (RFC 2131): the protocol, its leases on disk, and the one thread that
//! keeps all of them alive.
//!
//! [`packet`] is the wire, [`Client`] the protocol as a machine without I/O, [`LeaseStore`] the leases on
//! disk, and [`Keeper`] the thread. A lease is on disk before anybody uses its address, so that a
//! daemon that is killed goes on where it was.

mod client;
mod keeper;
mod lease_store;
mod link;
pub mod packet;
mod time;

use std::path::PathBuf;

use model::{AttachmentId, Dhcp, Mac};
use serde::{Deserialize, Serialize};

pub use client::{Client, Heading, Pace, Step};
pub use keeper::{Keeper, News, Places};
pub use lease_store::{Lease, LeaseStore};
pub use packet::Terms;
pub use time::Time;

/// Whose address it is, and what to ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The attachment.
    pub id: AttachmentId,
    /// Where the namespace of its link can be opened; the host's where it is empty.
    pub netns: PathBuf,
    /// The hardware address of its link, by which that is found where it has another name.
    pub mac: Option<Mac>,
    /// What the server knows the client by (RFC 2132 §9.14).
    pub client: Vec<u8>,
    /// What to ask the server for.
    pub dhcp: Dhcp,
}

/// What is asked for without being told (RFC 2132): mask, routers, name servers, domain, MTU, static
/// routes, domains to search, classless routes. Whoever skips some of what the reference asks for,
/// which is the first two, names everything.
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
