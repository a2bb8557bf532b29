//! A cache of Neutron's answers that hardly ever change: networks with their subnets, and the ids
//! of names.
//!
//! It is in memory and, for short-lived processes, in files that are deleted with the boot.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use model::{Error, ResourceId, ResourceRef, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::Neutron;
use crate::api::{Filter, NetworkResource, SubnetResource};

/// So long it is believed.
const FRESH: Duration = Duration::from_secs(60);

/// The limit of the cache; beyond it, everything is dropped.
const LARGEST: usize = 4096;

/// A larger file is not Spoke's.
const LARGEST_FILE: u64 = 1 << 20;

/// The directory of the files.
const DIRECTORY: &str = "known";

/// A network with its subnets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownNetwork {
    pub(crate) network: NetworkResource,
    pub(crate) subnets: Vec<SubnetResource>,
}

/// The cache.
#[derive(Debug, Default)]
pub(crate) struct AnswerCache {
    reported: Mutex<BTreeMap<String, (Instant, Arc<Value>)>>,
}

impl AnswerCache {
    /// The cached answer for the key, or the answer of `ask`.
    fn get<T: Serialize + DeserializeOwned>(
        &self,
        directory: &Path,
        key: &str,
        ask: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if let Some(value) = self.recall(directory, key)
            && let Ok(reported) = T::deserialize(value.as_ref())
        {
            return Ok(reported);
        }
        let reported = ask()?;
        if let Ok(value) = serde_json::to_value(&reported) {
            // A process that cannot write it asks again.
            let _ = write(directory, key, &value);
            self.remember(key, Arc::new(value));
        }
        Ok(reported)
    }

    fn recall(&self, directory: &Path, key: &str) -> Option<Arc<Value>> {
        let reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        match reported.get(key) {
            Some((since, value)) if since.elapsed() < FRESH => return Some(Arc::clone(value)),
            // The file is older than that.
            Some(_) => return None,
            None => {}
        }
        drop(reported);
        let value = Arc::new(read(directory, key)?);
        self.remember(key, Arc::clone(&value));
        Some(value)
    }

    fn remember(&self, key: &str, value: Arc<Value>) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.len() >= LARGEST {
            reported.clear();
        }
        reported.insert(key.to_owned(), (Instant::now(), value));
    }

    fn forget(&self, directory: &Path, key: &str) {
        // Mostly there is none; an old one expires.
        let _ = fs::remove_file(file(directory, key));
        self.reported.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

impl Neutron {
    /// The network with its subnets.
    ///
    /// # Errors
    /// [`model::Kind::NotFound`] where there is none; [`model::Kind::Invalid`] where several have
    /// the name.
    pub(crate) fn known_network(&self, which: &ResourceRef) -> Result<KnownNetwork> {
        self.known.get(&self.known_directory(), &network_key(which), || self.ask_network(which))
    }

    /// The same, asked now: something was there that was not known.
    pub(crate) fn fresh_network(&self, which: &ResourceRef) -> Result<KnownNetwork> {
        self.known.forget(&self.known_directory(), &network_key(which));
        self.known_network(which)
    }

    fn ask_network(&self, which: &ResourceRef) -> Result<KnownNetwork> {
        let found = self.own_first(which, |filter| self.api().networks(filter))?;
        let network = only(found, "network", which)?;
        let filter = [("network_id", network.id.to_string())];
        let mut subnets = self.api().subnets(&filter)?;
        subnets.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(KnownNetwork { network, subnets })
    }

    /// The id of a resource of the kind that `path` and `key` name ([`crate::api::Api::ids`]).
    ///
    /// # Errors
    /// As [`Neutron::known_network`].
    pub(crate) fn id_of(&self, which: &ResourceRef, path: &str, key: &str) -> Result<ResourceId> {
        match which {
            ResourceRef::Id(id) => Ok(id.clone()),
            ResourceRef::Name(_) => {
                let name = format!("{path} {which}");
                self.known.get(&self.known_directory(), &name, || {
                    let found = self.own_first(which, |filter| self.api().ids(path, key, filter));
                    only(found?, what(path), which)
                })
            }
        }
    }

    /// The resource of this name or id. A name is first searched in this project: other projects
    /// may have shared resources of the same name, and an administrator sees all projects.
    ///
    /// # Errors
    /// Neutron's refusal.
    pub(crate) fn own_first<T>(
        &self,
        which: &ResourceRef,
        list: impl Fn(Filter<'_>) -> Result<Vec<T>>,
    ) -> Result<Vec<T>> {
        let filter = filter_of(which);
        if let (ResourceRef::Name(_), Some(project)) = (which, self.transport.project()?) {
            let own = list(&[filter.clone(), ("project_id", project)])?;
            if !own.is_empty() {
                return Ok(own);
            }
        }
        list(&[filter])
    }

    fn known_directory(&self) -> PathBuf {
        self.directory.join(DIRECTORY)
    }
}

impl KnownNetwork {
    /// The subnet of this id or name.
    pub(crate) fn subnet(&self, which: &ResourceRef) -> Result<&SubnetResource> {
        let is_it = |subnet: &&SubnetResource| match which {
            ResourceRef::Id(id) => subnet.id == *id,
            ResourceRef::Name(name) => subnet.name == name.as_str(),
        };
        only(self.subnets.iter().filter(is_it).collect(), "subnet of the network", which)
    }
}

/// The one that there must be.
fn only<T>(mut found: Vec<T>, what: &str, which: &ResourceRef) -> Result<T> {
    match (found.pop(), found.len()) {
        (Some(one), 0) => Ok(one),
        (None, _) => Err(Error::not_found(format!("Neutron knows no {what} {which}"))),
        (Some(_), more) => Err(Error::invalid(format!(
            "{} of Neutron's resources are a {what} {which}; name it by its id",
            more + 1
        ))),
    }
}

fn what(path: &str) -> &'static str {
    match path {
        "security-groups" => "security group",
        "qos/policies" => "QoS policy",
        "trunks" => "trunk",
        _ => "network",
    }
}

fn filter_of(which: &ResourceRef) -> (&'static str, String) {
    match which {
        ResourceRef::Id(id) => ("id", id.to_string()),
        ResourceRef::Name(name) => ("name", name.as_str().to_owned()),
    }
}

fn network_key(which: &ResourceRef) -> String {
    let (by, text) = filter_of(which);
    format!("network {by} {text}")
}

fn file(directory: &Path, key: &str) -> PathBuf {
    let digest = Sha256::digest(key.as_bytes());
    let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    directory.join(name)
}

/// An answer that another process had less than [`FRESH`] ago.
fn read(directory: &Path, key: &str) -> Option<Value> {
    let mut text = String::new();
    let file = fs::File::open(file(directory, key)).ok()?;
    let age = SystemTime::now().duration_since(file.metadata().ok()?.modified().ok()?).ok()?;
    if age >= FRESH {
        return None;
    }
    file.take(LARGEST_FILE).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn write(directory: &Path, key: &str, value: &Value) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let path = file(directory, key);
    let aside = path.with_extension(format!("{}", std::process::id()));
    file::replace(&path, &aside, value.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_once_and_another_process_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deeper");
        let (first, second) = (AnswerCache::default(), AnswerCache::default());
        let reported: u32 = first.get(&path, "a", || Ok(7)).unwrap();
        let again: u32 = first.get(&path, "a", || Err(Error::bug("asked again"))).unwrap();
        let other: u32 = second.get(&path, "a", || Err(Error::bug("asked again"))).unwrap();
        assert_eq!((reported, again, other), (7, 7, 7));
        first.forget(&path, "a");
        assert_eq!(first.get(&path, "a", || Ok(8_u32)).unwrap(), 8);
        // What another program wrote there is not believed.
        fs::write(file(&path, "b"), "{").unwrap();
        assert_eq!(second.get(&path, "b", || Ok(9_u32)).unwrap(), 9);
    }

    #[test]
    fn names_must_be_of_one() {
        let which: ResourceRef = "front".parse().unwrap();
        assert_eq!(only(vec![1], "network", &which).unwrap(), 1);
        let none = only(Vec::<u8>::new(), "network", &which).unwrap_err();
        assert_eq!(none.kind(), model::Kind::NotFound);
        let many = only(vec![1, 2], "network", &which).unwrap_err();
        assert!(many.to_string().starts_with("2 of"), "{many}");
    }
}
