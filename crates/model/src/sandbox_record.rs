//! Sandboxes that Spoke itself connects to networks.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{AttachmentId, ContainerId, Family, PortMap, Process};

/// The attachments of one sandbox, among which its default gateway is chosen. Interfaces that
/// others made are not considered (libnetwork's sandbox with its endpoints).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxRecord {
    /// Its attachments, from their intent to their end.
    pub members: BTreeSet<AttachmentId>,
    /// The host's ports that lead to the sandbox, whichever attachment was requested with them. The
    /// default-gateway endpoint publishes all of them (libnetwork's port map).
    #[serde(default)]
    pub ports: Vec<PortMap>,
    /// Those of them that a command added while the sandbox was connected
    /// ([`crate::Amendment`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<PortMap>,
    /// Its namespace, so that the end of that can be proved.
    #[serde(default)]
    pub namespace: Option<Namespace>,
    /// Whether the sandbox has the default gateway that was chosen.
    #[serde(alias = "steering")]
    pub gateway_state: GatewayState,
}

/// The kernel's identity of a network namespace, valid while the namespace exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// [`crate::Sandbox::inode`]: another one may get it later.
    pub inode: u64,
    /// The inode of the namespace from which it is called so.
    pub seen_from: u64,
    /// Its number there.
    pub number: u32,
}

/// Whether a sandbox has the default gateway that was chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GatewayState {
    /// As its attachments' records say.
    #[default]
    #[serde(alias = "settled")]
    Determined,
    /// This process changes it. After that process's death it is undetermined.
    By(Process),
    /// A change failed. The default gateway is unknown.
    #[serde(alias = "unsettled")]
    Undetermined,
}

/// The part that one interface can take for the default route of a sandbox that Spoke itself
/// connects to networks (libnetwork's controller).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayRole {
    /// The sandbox's default routes are those of the interface with the greatest one.
    pub priority: i32,
    /// Of which families the default route is this one's now; of one that is being made: of which
    /// it is to be at once, where it has a default route.
    pub families: Vec<Family>,
    /// The name of the sandbox, where it differs from the attachment's container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<ContainerId>,
}

impl GatewayRole {
    /// The role of an interface that is not the default gateway yet.
    pub fn of(priority: i32) -> Self {
        Self { priority, ..Self::default() }
    }
}
