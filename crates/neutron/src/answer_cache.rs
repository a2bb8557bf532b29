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

use model::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// So long it is believed.
const FRESH: Duration = Duration::from_secs(60);

/// The limit of the cache; beyond it, everything is dropped.
const LARGEST: usize = 4096;

/// A larger file is not Spoke's.
const LARGEST_FILE: u64 = 1 << 20;

/// The cache.
#[derive(Debug, Default)]
pub(crate) struct AnswerCache {
    reported: Mutex<BTreeMap<String, (Instant, Arc<Value>)>>,
}

impl AnswerCache {
    /// The cached answer for the key, or the answer of `ask`.
    pub(crate) fn get<T: Serialize + DeserializeOwned>(
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

    pub(crate) fn forget(&self, directory: &Path, key: &str) {
        // Mostly there is none; an old one expires.
        let _ = fs::remove_file(file(directory, key));
        self.reported.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
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
    use model::Error;

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
}
