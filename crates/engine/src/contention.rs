//! What is reported where another process or another attachment was first.

use model::{Attachment, AttachmentId, Error, Holder};

use crate::Records;

/// How often a lost race for an address, a port or the record is run again.
pub(crate) const RACES: usize = 200;

pub(crate) fn lost(attachment: &Attachment) -> Error {
    Error::try_again(format!("attaching {}: lost {RACES} races in a row", attachment.id))
}

pub(crate) fn overtaken(id: &AttachmentId) -> Error {
    Error::try_again(format!("{id} was detached while it was being attached"))
}

impl Records<'_> {
    /// The error that names the holder of an address.
    pub(crate) fn held(&self, holder: &Holder) -> Error {
        let address = holder.lease.address.addr();
        Error::conflict(format!(
            "address {address} is held by {} (runtime {}); `spoke ipam show {address}` says since when",
            self.tenant(holder),
            holder.runtime,
        ))
    }
}
