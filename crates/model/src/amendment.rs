//! What a command changed of a running container.

use serde::{Deserialize, Serialize};

use crate::{
    Attachment, Bandwidth, Error, Fence, Layer, NetworkName, OwnerName, PortMap, Result, Runtime,
};

/// What commands changed of a running container on one network. It belongs to the container's name:
/// when a container of the same runtime and name is attached again, it has the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amendment {
    /// The network.
    pub network: NetworkName,
    /// The container's runtime.
    pub runtime: Runtime,
    /// The container's lasting name, or else the id that its runtime gave it.
    pub name: OwnerName,
    /// The layer whose record has the ports.
    pub layer: Layer,
    /// The ports that were added to those that the runtime published.
    #[serde(default)]
    pub ports: Vec<PortMap>,
    /// The limits instead of those that the runtime set. None where these hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
    /// Where it may go, instead of what its runtime or its network says. None where that holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<Fence>,
}

impl Amendment {
    /// Nothing yet, of the container whose attachment this is.
    ///
    /// # Errors
    /// [`crate::Kind::Unsupported`] where its runtime gave it no name, and an id that is none.
    pub fn of(attachment: &Attachment) -> Result<Self> {
        Ok(Self {
            network: attachment.id.network.clone(),
            runtime: attachment.runtime,
            name: Self::name_of(attachment)?,
            layer: attachment.layer,
            ports: Vec::new(),
            bandwidth: None,
            egress: None,
        })
    }

    /// The name under which the container's changes are kept.
    ///
    /// # Errors
    /// As [`Amendment::of`].
    pub fn name_of(attachment: &Attachment) -> Result<OwnerName> {
        let id = || attachment.sandbox_name().as_str().parse();
        attachment.owner.clone().map_or_else(id, Ok).map_err(|error: Error| {
            Error::unsupported(format!("{} has no lasting name: {error}", attachment.id))
        })
    }

    /// Whether it comes to nothing.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.bandwidth.is_none() && self.egress.is_none()
    }
}
