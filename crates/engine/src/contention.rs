//! Errors for the process or attachment that came second.

use model::{Attachment, AttachmentId, Error};

/// How often a lost race for an address, a port or the record is run again.
pub(crate) const RACES: usize = 200;

pub(crate) fn lost(attachment: &Attachment) -> Error {
    Error::try_again(format!("attaching {}: lost {RACES} races in a row", attachment.id))
}

pub(crate) fn overtaken(id: &AttachmentId) -> Error {
    Error::try_again(format!("{id} was detached while it was being attached"))
}
