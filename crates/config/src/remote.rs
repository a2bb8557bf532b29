//! `[remote]`: third-party Docker plugins, which Spoke calls as Docker's libnetwork does.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use model::{Error, Result};
use serde::Deserialize;

use super::daemon::absolute;

/// A plugin that is slower than an hour is dead; one that has no time at all cannot answer.
const TIMEOUT: RangeInclusive<u64> = 1..=3600;

/// For more hosts than this a file is not the right means.
const MOST_HOSTS: usize = 4096;

/// Where plugins are found, how long they may take, and which other hosts are announced to them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RemoteConfig {
    /// Where plugins have their sockets: `NAME.sock` or `NAME/NAME.sock`.
    pub sockets: Vec<PathBuf>,
    /// Where files say how to reach plugins, in order: `NAME.spec` or `NAME.json`, or the same in a
    /// directory `NAME`.
    pub descriptions: Vec<PathBuf>,
    /// The directory in which plugins find network namespaces: links to these.
    pub sandboxes: PathBuf,
    /// How long a plugin has for an answer, in seconds.
    #[serde(alias = "patience_seconds")]
    pub timeout_seconds: u64,
    /// The hosts that are announced to drivers whose networks span hosts (libnetwork's
    /// `DiscoverNew`).
    pub hosts: BTreeSet<IpAddr>,
    /// Which of them this one is.
    pub own: Option<IpAddr>,
}

impl Default for RemoteConfig {
    fn default() -> Self {
        Self {
            sockets: vec!["/run/docker/plugins".into()],
            descriptions: vec!["/etc/docker/plugins".into(), "/usr/lib/docker/plugins".into()],
            sandboxes: "/var/run/docker/netns".into(),
            timeout_seconds: 30,
            hosts: BTreeSet::new(),
            own: None,
        }
    }
}

impl RemoteConfig {
    /// How long a plugin has for an answer.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }

    /// Refuses what could not be used.
    pub(super) fn check(&self) -> Result<()> {
        for path in &self.sockets {
            absolute("remote.sockets", path)?;
        }
        for path in &self.descriptions {
            absolute("remote.descriptions", path)?;
        }
        absolute("remote.sandboxes", &self.sandboxes)?;
        if !TIMEOUT.contains(&self.timeout_seconds) {
            return Err(Error::invalid(format!(
                "remote.timeout_seconds is {}; it must be between {} and {}",
                self.timeout_seconds,
                TIMEOUT.start(),
                TIMEOUT.end()
            )));
        }
        if self.hosts.len() > MOST_HOSTS {
            return Err(Error::invalid(format!("remote.hosts are more than {MOST_HOSTS}")));
        }
        match self.own {
            Some(own) if !self.hosts.contains(&own) => Err(Error::invalid(format!(
                "remote.own {own} is none of remote.hosts; add it there"
            ))),
            None if !self.hosts.is_empty() => Err(Error::invalid(
                "remote.hosts does not say which of them this one is; set remote.own",
            )),
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<RemoteConfig> {
        let config: RemoteConfig =
            toml::from_str(text).map_err(|error| Error::invalid(error.to_string()))?;
        config.check().map(|()| config)
    }

    #[test]
    fn looks_where_docker_looks() {
        let config = parse("").unwrap();
        assert_eq!(config, RemoteConfig::default());
        assert_eq!(config.sockets, [PathBuf::from("/run/docker/plugins")]);
    }

    #[test]
    fn says_which_host_it_is() {
        let config = parse("hosts = ['192.0.2.1', '192.0.2.2']\nown = '192.0.2.2'").unwrap();
        assert_eq!(config.hosts.len(), 2);
        for (text, word) in [
            ("hosts = ['192.0.2.1']", "remote.own"),
            ("hosts = ['192.0.2.1']\nown = '192.0.2.9'", "192.0.2.9"),
            ("hosts = ['here']", "IP"),
            ("sockets = ['plugins']", "absolute"),
            ("descriptions = ['plugins']", "absolute"),
            ("sandboxes = 'netns'", "absolute"),
            ("timeout_seconds = 0", "between 1 and 3600"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
