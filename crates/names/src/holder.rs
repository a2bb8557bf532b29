//! Who has an address.

use model::{AttachmentId, Timestamp};

/// Which attachment has an address: not the next one that gets it, and not what was called the same before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// The attachment.
    pub id: AttachmentId,
    /// When it began.
    pub since: Timestamp,
}
