//! Attachments whose runtime makes them in two steps: reserved first, joined to a sandbox later
//! (libnetwork's endpoints).

use model::{Attachment, AttachmentId, Error, Handoff, IfName, Publish, Result, Sandbox, Sysctl};

use crate::{Engine, Request};

/// What is asked of [`Engine::join`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joining {
    /// Where the runtime says that the sandbox is or will be.
    pub sandbox: Sandbox,
    /// Who completes the interface there.
    pub handoff: Handoff,
    /// What the interface is called there, where we complete it.
    pub name: Option<IfName>,
    /// Kernel parameters to set there, where we complete it.
    pub sysctls: Vec<Sysctl>,
}

impl Engine<'_> {
    /// Records an attachment, with its addresses, in phase [`model::Phase::Reserved`]. Nothing is
    /// made in the kernel. Repeating it gives the same record.
    pub fn reserve(&self, _request: &Request) -> Result<Attachment> {
        Err(Error::bug("not there yet"))
    }

    /// The record of the attachment's link.
    pub fn attachment(&self, _id: &AttachmentId) -> Result<Option<Attachment>> {
        Err(Error::bug("not there yet"))
    }

    /// Makes a reserved attachment's interface. Repeating it gives the same result.
    pub fn join(&self, _id: &AttachmentId, _joining: &Joining) -> Result<Attachment> {
        Err(Error::bug("not there yet"))
    }

    /// Takes the interface away, and the published ports; the attachment is reserved again. What
    /// the runtime moved into the sandbox it takes back by itself: that goes with the attachment.
    pub fn leave(&self, _id: &AttachmentId) -> Result<()> {
        Err(Error::bug("not there yet"))
    }

    /// Removes the attachment, every layer of it; what is gone is done.
    pub fn remove(&self, _id: &AttachmentId) -> Result<()> {
        Err(Error::bug("not there yet"))
    }

    /// Publishes ports of an attachment instead of those that it published before.
    pub fn publish(&self, _id: &AttachmentId, _publish: &Publish) -> Result<()> {
        Err(Error::bug("not there yet"))
    }

    /// Ends the publishing of the attachment's ports.
    pub fn unpublish(&self, _id: &AttachmentId) -> Result<()> {
        Err(Error::bug("not there yet"))
    }
}
