//! What containers are attached to.

use serde::{Deserialize, Serialize};

use crate::{Dns, Ipam, NetworkName, Route, Runtime, Timestamp, Wiring};

/// A network: the template from which its attachments are made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Unique on this host.
    pub name: NetworkName,
    /// Who described it.
    pub runtime: Runtime,
    /// Since when it is known.
    pub since: Timestamp,
    /// What the dataplane does for each attachment.
    pub wiring: Wiring,
    /// Who hands out its addresses.
    pub ipam: Ipam,
    /// The routes that each attachment gets.
    pub routes: Vec<Route>,
    /// What attachments should resolve names with.
    pub dns: Dns,
    /// Whether an attachment whose owner has a lasting name gets the same addresses each time.
    pub sticky: bool,
}
