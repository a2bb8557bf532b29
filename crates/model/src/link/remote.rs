//! Links that third-party plugins make: Docker network plugins, and chains of CNI plugins.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{AliasId, DriverName, IfName};

/// A network that a remote driver of libnetwork's makes (moby `libnetwork/docs/remote.md`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteLink {
    /// Which driver.
    pub driver: DriverName,
    /// The driver's id of the network: libnetwork's network id, which Spoke chooses.
    pub id: AliasId,
    /// The options with which the network was created. Only the crate that calls the driver reads
    /// them.
    pub network: String,
    /// The options with which this endpoint is created, opaque in the same way. Empty if they equal
    /// those of every other endpoint.
    #[serde(default)]
    pub endpoint: String,
}

/// An interface that a third-party driver made in the host's namespace. It moves into a sandbox,
/// and back afterwards. It is the kernel's part of [`RemoteLink`], known after the driver's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalInterface {
    /// Its name in the host's namespace (libnetwork's `SrcName`).
    pub source: IfName,
    /// The prefix of its name in the sandbox, before the lowest free number (libnetwork's
    /// `DstPrefix`). Without one, exactly [`crate::Link::name`], or else the attachment's name.
    pub prefix: Option<IfName>,
}

/// Third-party CNI plugins that make the whole attachment, executed in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginChain {
    /// The network configuration list. Only the crate that executes it reads it.
    pub config: String,
    /// The directories of the executables, in order.
    pub path: Vec<PathBuf>,
}
