//! Sandboxes that Spoke itself connects to networks.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{AttachmentId, PortMap, Process};

/// What leads one sandbox out is chosen among these, and nobody else's interfaces (libnetwork's
/// sandbox with its endpoints).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    /// Its attachments, from their intent to their end.
    pub members: BTreeSet<AttachmentId>,
    /// The ports of the host that lead to it, whichever of them was named with them: whoever leads
    /// it out publishes them all (libnetwork's port map).
    #[serde(default)]
    pub ports: Vec<PortMap>,
    /// Whether what leads it out is what was chosen.
    pub steering: Steering,
}

/// Whether a sandbox is led out as was chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Steering {
    /// As its attachments' records say.
    #[default]
    Settled,
    /// Being changed by this process; unsettled once that is dead.
    By(Process),
    /// Somebody failed to change it: nobody knows what leads it out.
    Unsettled,
}
