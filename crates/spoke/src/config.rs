//! The configuration of this host: `/etc/spoke/config.toml`, or the file that `SPOKE_CONFIG`
//! names. A missing file is an empty one; an unknown key is an error.

use std::path::PathBuf;

use model::{Backend, Error, Result};
use serde::Deserialize;

/// Where the configuration is, unless `SPOKE_CONFIG` says otherwise.
const PATH: &str = "/etc/spoke/config.toml";

/// A larger file is refused.
const LARGEST: u64 = 1 << 20;

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// `[store]`.
    pub(crate) store: StoreConfig,
    /// `[firewall]`.
    pub(crate) firewall: FirewallConfig,
}

/// Where the book is kept.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StoreConfig {
    /// What is void after a reboot: attachments and addresses.
    pub(crate) runtime: PathBuf,
    /// What outlives a reboot: networks and reservations.
    pub(crate) state: PathBuf,
}

/// Which packet filter is used.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct FirewallConfig {
    /// `nftables` or `iptables`, wherever a network's configuration names none.
    pub(crate) backend: Backend,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self { runtime: "/run/spoke".into(), state: "/var/lib/spoke".into() }
    }
}

impl Default for FirewallConfig {
    fn default() -> Self {
        Self { backend: Backend::Nftables }
    }
}

impl Config {
    /// Reads the file that is meant on this host.
    pub(crate) fn of_this_host() -> Result<Self> {
        Self::read(&std::env::var_os("SPOKE_CONFIG").map_or_else(|| PATH.into(), PathBuf::from))
    }

    /// Reads the file at `path`, or gives the defaults where there is none.
    fn read(path: &std::path::Path) -> Result<Self> {
        let doing = || format!("reading the configuration {}", path.display());
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.len() > LARGEST => {
                return Err(Error::invalid("it is larger than 1 MiB").context(doing()));
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(Error::os(doing(), error)),
        }
        let text = std::fs::read_to_string(path).map_err(|error| Error::os(doing(), error))?;
        Self::parse(&text).map_err(|error| error.context(doing()))
    }

    fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| Error::invalid(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(Config::parse("").unwrap(), Config::default());
    }

    #[test]
    fn names_the_unknown_key() {
        let error = Config::parse("[firewall]\nbackand = \"iptables\"\n").unwrap_err();
        assert!(error.to_string().contains("backand"), "{error}");
        let iptables = Config::parse("[firewall]\nbackend = \"iptables\"\n").unwrap();
        assert_eq!(iptables.firewall.backend, Backend::Iptables);
    }
}
