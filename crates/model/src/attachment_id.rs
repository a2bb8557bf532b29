//! The identity of an attachment and of its layers.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ContainerId, IfName, NetworkName};

/// The identity of an attachment. The names of everything that it has in the kernel derive from it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttachmentId {
    /// The network.
    pub network: NetworkName,
    /// The container.
    pub container: ContainerId,
    /// The interface in the container.
    pub ifname: IfName,
}

impl fmt::Display for AttachmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "container {} ({}) on network {}", self.container, self.ifname, self.network)
    }
}

/// Which part of an attachment a record describes. A chain of plugins has one record each, so
/// that each can be added and removed by its own process; type `spoke` has one for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// The interface, with everything that was asked for together with it.
    Link,
    /// Only addresses, where a third-party plugin makes the link.
    Address,
    /// Only published ports.
    Publish,
    /// Only packet filtering.
    Firewall,
    /// Only tuning.
    Tuning,
    /// Only limits of bandwidth.
    Bandwidth,
    /// Only membership in a VRF.
    Vrf,
    /// Only routing by source.
    SourceRouting,
}

impl Layer {
    /// Every layer, in the order in which they are undone: the others refer to the link.
    pub const ALL: [Layer; 8] = [
        Layer::SourceRouting,
        Layer::Vrf,
        Layer::Bandwidth,
        Layer::Tuning,
        Layer::Firewall,
        Layer::Publish,
        Layer::Link,
        Layer::Address,
    ];

    /// A name of at most eight bytes, unique among layers.
    pub fn name(self) -> &'static str {
        match self {
            Layer::Link => "link",
            Layer::Address => "address",
            Layer::Publish => "publish",
            Layer::Firewall => "firewall",
            Layer::Tuning => "tuning",
            Layer::Bandwidth => "rate",
            Layer::Vrf => "vrf",
            Layer::SourceRouting => "sbr",
        }
    }
}
