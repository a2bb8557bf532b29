//! Trunks: ports that carry other ports, each in a VLAN.

use model::ResourceId;
use serde::{Deserialize, Serialize};

/// A trunk.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Trunk {
    /// Its id.
    pub id: ResourceId,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// The port that carries the others.
    pub port_id: ResourceId,
    /// Those.
    #[serde(default)]
    pub sub_ports: Vec<SubPort>,
    /// Its revision.
    #[serde(default)]
    pub revision_number: Option<u64>,
}

/// A port that a trunk carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubPort {
    /// The port.
    pub port_id: ResourceId,
    /// `vlan`.
    pub segmentation_type: String,
    /// The VLAN, 1 to 4094.
    pub segmentation_id: u16,
}
