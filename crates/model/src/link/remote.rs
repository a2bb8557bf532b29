//! Networks of third-party Docker network plugins.

use serde::{Deserialize, Serialize};

use crate::{AliasId, DriverName, IfName};

/// A network that a remote driver of libnetwork's makes (moby `libnetwork/docs/remote.md`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteLink {
    /// Which driver.
    pub driver: DriverName,
    /// What the driver calls the network: libnetwork's network id, ours to choose.
    pub id: AliasId,
    /// What the network was created with, opaque to everybody but the spoke that calls the driver.
    pub network: String,
    /// What this endpoint is created with, opaque in the same way; the same as of every other one
    /// where it is empty.
    #[serde(default)]
    pub endpoint: String,
}

/// An interface that somebody else made in the host's namespace, ready to be moved into a sandbox and
/// to be put back afterwards. The kernel's part of [`RemoteLink`], known once its driver was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalInterface {
    /// What it is called in the host's namespace (libnetwork's `SrcName`).
    pub source: IfName,
    /// What its name in the sandbox begins with, before the lowest number that is free there
    /// (libnetwork's `DstPrefix`); exactly [`crate::Link::name`], or else what the attachment says,
    /// where none is given.
    pub prefix: Option<IfName>,
}
