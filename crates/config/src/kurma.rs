//! `[kurma]`: the networking pod.

use std::path::PathBuf;
use std::time::Duration;

use container::Engine;
use image::{KeyRule, Policy, Proxies};
use kurma::Directories;
use model::{Error, Result};
use serde::Deserialize;

use super::StoreConfig;
use super::daemon::absolute;

/// Where Kurma has the files that keep network namespaces.
const NETNS: &str = "/var/lib/kurma/netns";

/// The longest wait for a plugin, in seconds.
const LONGEST: u64 = 3600;

/// Networks whose plugins run out of images.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KurmaConfig {
    /// Whether `spoke serve` runs the networking pod.
    pub enabled: bool,
    /// The file of networks, Kurma's own: JSON or YAML.
    pub networks: PathBuf,
    /// Plugin containers and the records of pods; `kurma` below `[store] runtime` unless given.
    pub runtime: Option<PathBuf>,
    /// The files that keep the pods' network namespaces; `/var/lib/kurma/netns` unless given.
    pub netns: Option<PathBuf>,
    /// The cache of images; `images` below `[store] state` unless given.
    pub images: Option<PathBuf>,
    /// Hosts that images may be fetched from without TLS.
    pub insecure: Vec<String>,
    /// The keys whose signatures images need.
    pub keys: Vec<KeysConfig>,
    /// Credentials for registries, a file as Docker and Podman have it.
    pub auth: Option<PathBuf>,
    /// The engine of plugin containers.
    pub engine: EngineName,
    /// How long one call of a plugin may take, in seconds.
    pub call_seconds: u64,
    /// How long a call waits for a plugin that is not up, in seconds.
    pub wait_seconds: u64,
}

/// Images whose name starts so must be signed by one of these keys.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeysConfig {
    /// The beginning of the name; the empty one is every image's.
    pub prefix: String,
    /// OpenPGP public keys.
    pub files: Vec<PathBuf>,
}

/// The engine of plugin containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineName {
    /// This program.
    #[default]
    Native,
    /// runc(8), for its profiles.
    Runc,
    /// crun(1).
    Crun,
}

impl Default for KurmaConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            networks: "/etc/kurma/kurma.json".into(),
            runtime: None,
            netns: None,
            images: None,
            insecure: Vec::new(),
            keys: Vec::new(),
            auth: None,
            engine: EngineName::Native,
            call_seconds: 60,
            wait_seconds: 10,
        }
    }
}

impl EngineName {
    /// The engine of this name.
    pub fn engine(self) -> Engine {
        match self {
            Self::Native => Engine::Native,
            Self::Runc => Engine::Runtime("runc".into()),
            Self::Crun => Engine::Runtime("crun".into()),
        }
    }
}

impl KurmaConfig {
    /// Where everything is.
    pub fn directories(&self, store: &StoreConfig) -> Directories {
        let runtime = self.runtime.clone().unwrap_or_else(|| store.runtime.join("kurma"));
        let netns = self.netns.clone().unwrap_or_else(|| NETNS.into());
        Directories { runtime, netns }
    }

    /// Where images are kept.
    pub fn cache(&self, store: &StoreConfig) -> PathBuf {
        self.images.clone().unwrap_or_else(|| store.state.join("images"))
    }

    /// The allowed sources of images, through `proxies`.
    pub fn policy(&self, proxies: Proxies) -> Policy {
        let rule =
            |keys: &KeysConfig| KeyRule { prefix: keys.prefix.clone(), files: keys.files.clone() };
        Policy {
            keys: self.keys.iter().map(rule).collect(),
            insecure: self.insecure.clone(),
            auth: self.auth.clone(),
            proxies,
            ..Policy::default()
        }
    }

    /// How long one call may take.
    pub fn limit(&self) -> Duration {
        Duration::from_secs(self.call_seconds)
    }

    /// How long a plugin that is not up is waited for.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.wait_seconds)
    }

    /// Refuses what cannot be.
    pub(super) fn check(&self) -> Result<()> {
        absolute("kurma.networks", &self.networks)?;
        let given = [
            ("kurma.netns", &self.netns),
            ("kurma.runtime", &self.runtime),
            ("kurma.images", &self.images),
            ("kurma.auth", &self.auth),
        ];
        for (key, path) in given {
            path.as_ref().map_or(Ok(()), |path| absolute(key, path))?;
        }
        let files = self.keys.iter().flat_map(|keys| &keys.files);
        for path in files {
            absolute("kurma.keys.files", path)?;
        }
        if let Some(keys) = self.keys.iter().find(|keys| keys.files.is_empty()) {
            return Err(Error::invalid(format!(
                "kurma.keys has no files for the prefix {:?}: nothing could be signed by them",
                keys.prefix
            )));
        }
        between("kurma.call_seconds", self.call_seconds, 1)?;
        between("kurma.wait_seconds", self.wait_seconds, 0)
    }
}

fn between(key: &str, seconds: u64, least: u64) -> Result<()> {
    match (least..=LONGEST).contains(&seconds) {
        true => Ok(()),
        false => {
            let what = format!("{key} is {seconds}; it must be between {least} and {LONGEST}");
            Err(Error::invalid(what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn parse(text: &str) -> Result<Config> {
        Config::parse(&format!("[kurma]\n{text}"))
    }

    #[test]
    fn follows_the_store_unless_set() {
        let config = Config::parse("[store]\nruntime = \"/r\"\nstate = \"/s\"\n").unwrap();
        let directories = config.kurma.directories(&config.store);
        assert_eq!(directories.runtime, PathBuf::from("/r/kurma"));
        assert_eq!(directories.netns, PathBuf::from("/var/lib/kurma/netns"));
        assert_eq!(config.kurma.cache(&config.store), PathBuf::from("/s/images"));
        let reported = parse("runtime = \"/x\"\nimages = \"/y\"\nengine = \"crun\"").unwrap();
        assert_eq!(reported.kurma.directories(&reported.store).runtime, PathBuf::from("/x"));
        assert_eq!(reported.kurma.cache(&reported.store), PathBuf::from("/y"));
        assert_eq!(reported.kurma.engine.engine(), Engine::Runtime("crun".into()));
    }

    #[test]
    fn keys_are_a_policy() {
        let config =
            parse("insecure = [\"h:5000\"]\nkeys = [{ prefix = \"krm.test/\", files = [\"/k\"] }]");
        let policy = config.unwrap().kurma.policy(Proxies::default());
        assert_eq!(policy.insecure, ["h:5000"]);
        let rule = KeyRule { prefix: "krm.test/".into(), files: vec!["/k".into()] };
        assert_eq!(policy.keys, [rule]);
    }

    #[test]
    fn refuses_what_cannot_be() {
        for (text, word) in [
            ("networks = \"k.json\"", "kurma.networks"),
            ("netns = \"x\"", "kurma.netns"),
            ("auth = \"x\"", "kurma.auth"),
            ("engine = \"docker\"", "docker"),
            ("call_seconds = 0", "between 1 and 3600"),
            ("wait_seconds = 4000", "between 0 and 3600"),
            ("keys = [{ prefix = \"a\", files = [] }]", "has no files"),
            ("keys = [{ prefix = \"a\", files = [\"x\"] }]", "kurma.keys.files"),
            ("pod_networks = []", "pod_networks"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
