//! The port to address sources other than the store.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{Attachment, Dns, InterfaceAddress, Link, Network, Result, Route};

use crate::Members;

/// What an address third party's source gives for an attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// The addresses.
    pub addresses: Vec<InterfaceAddress>,
    /// The routes.
    pub routes: Vec<Route>,
    /// The resolver's configuration.
    pub dns: Dns,
    /// What the link came to be, where whoever made it decides more of it than its addresses.
    pub link: Option<Link>,
}

/// The answer to [`Ipam::lease`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Granted {
    /// The leases that the store chose stand.
    Chosen,
    /// One that the store chose is held by somebody whom the store does not know.
    Held {
        /// The address.
        address: IpAddr,
        /// Who holds it, for a person to read.
        by: String,
        /// Every address that such holders have, so that none is proposed again.
        all: BTreeSet<IpAddr>,
    },
    /// The source chose by itself.
    Offered(Offer),
}

/// An address source beside the store: a `host-local` directory, or a foreign IPAM plugin. The
/// attachment's [`model::Ipam`] says which.
pub trait Ipam {
    /// Gets what the network's addresses are allocated from, before there is a network: what the
    /// source gave. Where it fails on the way it releases what it got. [`Ipam::remove`] is the
    /// opposite.
    fn request(&self, network: &Network) -> Result<model::Ipam> {
        Ok(network.ipam.clone())
    }

    /// Claims the attachment's leases, or asks for addresses. The record is already committed.
    ///
    /// Of a [`model::Ipam::Remote`] the leases that the attachment has are wishes: these addresses it
    /// must get, or the call fails. Their prefix is as long as the address, for only the source knows
    /// the subnet; the answer is [`Granted::Offered`] with the right one, each address once.
    fn lease(&self, attachment: &Attachment) -> Result<Granted>;

    /// Releases everything that the attachment's owner holds; nothing held is no error.
    fn release(&self, attachment: &Attachment) -> Result<()>;

    /// Whether the source still holds what the attachment has.
    fn check(&self, attachment: &Attachment) -> Result<()>;

    /// Releases what attachments outside `valid` hold of the network's addresses.
    fn gc(&self, network: &Network, valid: &Members) -> Result<()>;

    /// Whether the source could give an address now.
    fn status(&self, network: &Network) -> Result<()>;

    /// Removes what the network's attachments shared, if none of it is held.
    fn remove(&self, network: &Network) -> Result<()>;
}
