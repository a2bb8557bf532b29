//! The program of an image: executable, arguments, environment, user.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The program, and its user (App Container specification 0.8 `app`; OCI image configuration
/// `config`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct App {
    /// The program and its arguments; may be empty.
    pub exec: Vec<String>,
    /// A user's name or number, or the path of a file whose owner is meant; see
    /// [`crate::Image::owner`]. Empty: root.
    pub user: String,
    /// The same for the group. Empty: the user's.
    pub group: String,
    /// More groups of the process.
    pub supplementary_groups: Vec<u32>,
    /// The environment of the program, in its order.
    pub environment: Vec<(String, String)>,
    /// Where the program starts; the root where there is none.
    pub working_directory: Option<PathBuf>,
    /// Its rights.
    pub isolators: Isolators,
    /// Where it wants something mounted.
    pub mount_points: Vec<MountPoint>,
}

/// The rights of an app, as far as its image names them (App Container specification 0.8
/// "Isolators").
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Isolators {
    /// `os/linux/privileged` or `host/privileged`: everything that root may do on the host.
    pub privileged: bool,
    /// `host/api-access`: wants to speak with who runs it.
    pub api_access: bool,
    /// A change of the capabilities that it gets otherwise.
    pub capabilities: Option<CapabilityChange>,
    /// `os/linux/namespaces`: which namespaces are the host's.
    pub namespaces: HostNamespaces,
    /// `os/linux/no-new-privileges`, where it says so.
    pub no_new_privileges: Option<bool>,
}

/// `os/linux/capabilities-retain-set` or `os/linux/capabilities-remove-set`, with names such as
/// `CAP_NET_ADMIN`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CapabilityChange {
    /// Exactly these.
    Retain(Vec<String>),
    /// All but these of what there is otherwise.
    Remove(Vec<String>),
}

/// Which of the host's namespaces an image wants to share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostNamespaces {
    /// System V and POSIX message queues.
    pub ipc: bool,
    /// The network.
    pub net: bool,
    /// Processes.
    pub pid: bool,
    /// Users.
    pub user: bool,
    /// The host's name.
    pub uts: bool,
}

/// A place within an image where something is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountPoint {
    /// Its purpose.
    pub name: String,
    /// Its absolute path in the image.
    pub path: PathBuf,
    /// Whether the app does not write there.
    pub read_only: bool,
}
