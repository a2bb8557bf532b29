//! The one door.

use model::{Attached, Attachment, Network, Result};

use crate::port::{Driver, Host, Ipam, Store};
use crate::{Members, Request};

/// Every verb, over the ports that the binary wired.
pub struct Engine<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) driver: &'a dyn Driver,
    pub(crate) ipam: &'a dyn Ipam,
    pub(crate) host: &'a dyn Host,
}

impl<'a> Engine<'a> {
    /// An engine over these ports.
    pub fn new(
        store: &'a dyn Store,
        driver: &'a dyn Driver,
        ipam: &'a dyn Ipam,
        host: &'a dyn Host,
    ) -> Self {
        Self { store, driver, ipam, host }
    }

    /// Makes one layer of an attachment: addresses first, then the dataplane. The record that is
    /// returned is in phase [`model::Phase::Attached`]. Fails with `Conflict` where the layer is already
    /// complete; after any failure nothing is left.
    pub fn attach(&self, _request: &Request) -> Result<Attachment> {
        Err(model::Error::bug("not built yet"))
    }

    /// Removes one layer of an attachment, whether or not there is a record of it. Repeating it is
    /// no error.
    pub fn detach(&self, _request: &Request) -> Result<()> {
        Err(model::Error::bug("not built yet"))
    }

    /// Compares the kernel and the book with what was attached, and names the first difference.
    pub fn check(&self, _request: &Request, _attached: &Attached) -> Result<()> {
        Err(model::Error::bug("not built yet"))
    }

    /// Removes every attachment of the network that is not listed, all layers of it.
    pub fn gc(&self, _network: &Network, _valid: &Members) -> Result<()> {
        Err(model::Error::bug("not built yet"))
    }

    /// Whether the network could take another attachment now.
    pub fn status(&self, _network: &Network) -> Result<()> {
        Err(model::Error::bug("not built yet"))
    }
}
