//! Sandboxes that Spoke itself connects to networks.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{AttachmentId, ContainerId, Family, PortMap, Process};

/// What leads one sandbox out is chosen among these, and nobody else's interfaces (libnetwork's
/// sandbox with its endpoints).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxRecord {
    /// Its attachments, from their intent to their end.
    pub members: BTreeSet<AttachmentId>,
    /// The ports of the host that lead to it, whichever of them was named with them: whoever leads
    /// it out publishes them all (libnetwork's port map).
    #[serde(default)]
    pub ports: Vec<PortMap>,
    /// Its namespace, so that the end of that can be proved.
    #[serde(default)]
    pub namespace: Option<Namespace>,
    /// Whether what leads it out is what was chosen.
    #[serde(alias = "steering")]
    pub gateway_state: GatewayState,
}

/// What the kernel calls a network namespace as long as that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// [`crate::Sandbox::inode`]: another one may get it later.
    pub inode: u64,
    /// The inode of the namespace from which it is called so.
    pub seen_from: u64,
    /// Its number there.
    pub number: u32,
}

/// Whether a sandbox is led out as was chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GatewayState {
    /// As its attachments' records say.
    #[default]
    #[serde(alias = "settled")]
    Determined,
    /// Being changed by this process; unsettled once that is dead.
    By(Process),
    /// Somebody failed to change it: nobody knows what leads it out.
    #[serde(alias = "unsettled")]
    Undetermined,
}

/// How a sandbox that Spoke connects to networks by itself (libnetwork's controller) may be led out
/// through one of its interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayRole {
    /// The sandbox's default routes are those of the interface with the greatest one.
    pub priority: i32,
    /// Of which families the default route is this one's now; of one that is being made: of which it is to
    /// be at once, where it has a way out.
    pub families: Vec<Family>,
    /// What the sandbox is called, where that is not what the attachment's container is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<ContainerId>,
}

impl GatewayRole {
    /// Of one that leads nobody yet.
    pub fn of(priority: i32) -> Self {
        Self { priority, ..Self::default() }
    }
}
