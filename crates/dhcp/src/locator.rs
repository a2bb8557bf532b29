//! The port by which the client finds a link that was moved to another namespace.

use std::path::PathBuf;

use model::AttachmentId;

/// Where containers are, for a link that was moved since its lease was asked for.
pub trait ContainerLocator: Send {
    /// The path of the namespace of the attachment's container; `None` if it is unknown.
    fn sandbox(&self, id: &AttachmentId) -> Option<PathBuf>;

    /// Whether a link in the host's namespace that has this group (`IFLA_GROUP`) may be the
    /// attachment's. Others are left alone.
    fn is_link_of(&self, id: &AttachmentId, group: u32) -> bool;
}
