//! What a search compares of attachments.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{
    AddressSpace, Attachment, AttachmentId, Backend, ContainerId, Layer, NetworkName, OwnerName,
    Phase, PortMap, Runtime, Sandbox,
};

/// What tells one attachment from others, without the rest of its record: a store may know it of all of them without
/// reading their records. A change of it changes what the store wrote of it, which is derived and not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentOutline {
    /// As [`Attachment::id`].
    pub id: AttachmentId,
    /// As [`Attachment::layer`].
    pub layer: Layer,
    /// As [`Attachment::title`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<NetworkName>,
    /// As [`Attachment::runtime`].
    pub runtime: Runtime,
    /// As [`Attachment::owner`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerName>,
    /// As [`Attachment::sandbox_name`], where that is not the container's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sandbox_name: Option<ContainerId>,
    /// As [`Attachment::sandbox`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
    /// Its addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
    /// The tenant's address space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_space: Option<AddressSpace>,
    /// Its published ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortMap>,
    /// Whether these are in a table of Spoke's own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_in_table: bool,
    /// Whether it is complete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_attached: bool,
}

impl AttachmentOutline {
    /// Of this record.
    pub fn of(record: &Attachment) -> Self {
        let sandbox_name = record.sandbox_name();
        let publish = record.wiring.publish.as_ref();
        Self {
            id: record.id.clone(),
            layer: record.layer,
            title: record.title.clone(),
            runtime: record.runtime,
            owner: record.owner.clone(),
            sandbox_name: (*sandbox_name != record.id.container).then(|| sandbox_name.clone()),
            sandbox: record.sandbox.clone(),
            addresses: record.addresses.iter().map(|held| held.address.addr()).collect(),
            address_space: record.wiring.address_space.clone(),
            ports: publish.map_or_else(Vec::new, |publish| publish.ports.clone()),
            is_in_table: publish.is_some_and(|publish| publish.backend == Backend::Nftables),
            is_attached: matches!(record.phase, Phase::Attached(_)),
        }
    }

    /// As [`Attachment::container_name`].
    pub fn container_name(&self) -> String {
        let owner = self.owner.as_ref().map(ToString::to_string);
        owner.unwrap_or_else(|| self.id.container.to_string())
    }

    /// As [`Attachment::sandbox_name`].
    pub fn sandbox_name(&self) -> &ContainerId {
        self.sandbox_name.as_ref().unwrap_or(&self.id.container)
    }

    /// As [`Attachment::network`].
    pub fn network(&self) -> &NetworkName {
        self.title.as_ref().unwrap_or(&self.id.network)
    }
}
