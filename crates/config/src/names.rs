//! `[names]`: names of containers.

use serde::Deserialize;

/// Who is answered besides containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NamesConfig {
    /// Whether this host resolves `NAME.NETWORK.spoke`, by systemd-resolved.
    pub host: bool,
}
