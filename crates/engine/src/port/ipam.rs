//! The port to address sources other than the store.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{Attachment, Dns, InterfaceAddress, Link, Network, Result, Route};

use crate::Members;

/// What a third party's address source gives for an attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// The addresses.
    pub addresses: Vec<InterfaceAddress>,
    /// The routes.
    pub routes: Vec<Route>,
    /// The resolver's configuration.
    pub dns: Dns,
    /// The link as it was made, where its maker decides more than its addresses.
    pub link: Option<Link>,
}

/// The answer to [`Ipam::lease`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Granted {
    /// The leases that the store chose stand.
    Chosen,
    /// An address that the store chose has a holder that the store does not know.
    Held {
        /// The address.
        address: IpAddr,
        /// The holder, for a message.
        by: String,
        /// Every address that such holders have, so that none is proposed again.
        all: BTreeSet<IpAddr>,
    },
    /// The source chose by itself.
    Offered(Box<Offer>),
}

/// An address source beside the store: a `host-local` directory, or a foreign IPAM plugin. The
/// attachment's [`model::Ipam`] says which.
pub trait Ipam {
    /// Allocates the network's pools, before the network exists; returns what the source gave.
    /// After a failure it releases what it got. [`Ipam::remove`] is the opposite.
    fn request(&self, network: &Network) -> Result<model::Ipam> {
        Ok(network.ipam.clone())
    }

    /// Claims the attachment's leases, or asks for addresses. The record is already committed.
    ///
    /// For a [`model::Ipam::Remote`] the attachment's leases are requests: it must get these
    /// addresses, or the call fails. Their prefix is as long as the address, because only the
    /// source knows the subnet. The answer is [`Granted::Offered`] with the right one, each address
    /// once.
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
