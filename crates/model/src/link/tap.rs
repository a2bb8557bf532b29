//! Links of programs, such as hypervisors.

use serde::{Deserialize, Serialize};

use crate::IfName;

/// A device whose packets a program in the container sends and receives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tap {
    /// Whether it has several queues.
    pub multi_queue: bool,
    /// Which user may open it, besides root.
    pub owner: Option<u32>,
    /// Which group may open it.
    pub group: Option<u32>,
    /// The SELinux context of the process that makes it, and so of the device.
    pub selinux_context: Option<String>,
    /// A bridge in the container that it becomes a port of.
    pub bridge: Option<IfName>,
}
