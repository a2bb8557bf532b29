//! Virtual machines on networks.

use crate::{Attachment, Tap, Wiring};

impl Wiring {
    /// The tap device that is a virtual machine's port of the bridge, where the link is one.
    pub fn tap(&self) -> Option<&Tap> {
        self.link.as_ref()?.kind.bridge()?.port.tap.as_ref()
    }
}

impl Attachment {
    /// The same of the attachment.
    pub fn tap(&self) -> Option<&Tap> {
        self.wiring.tap()
    }
}
