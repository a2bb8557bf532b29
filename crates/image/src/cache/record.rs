//! The files of the cache that describe its contents.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use model::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{App, ImageId};

/// An image in the cache.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: ImageId,
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) app: Option<App>,
    /// Names of layers, the lowest first.
    pub(crate) layers: Vec<String>,
    /// Fingerprints of the keys with which its signature was checked, in hexadecimal digits.
    pub(crate) signers: BTreeSet<String>,
    /// Whether it is known under its name: discovery found it there, or the operator said so. The
    /// name in its manifest alone is no proof of that.
    #[serde(default)]
    pub(crate) is_named: bool,
}

/// The last result of a locator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LocatorRecord {
    /// The locator.
    pub(crate) key: String,
    pub(crate) id: ImageId,
    /// The file that it was read from, if it is one of this host.
    pub(crate) stamp: Option<Stamp>,
}

/// A file as it was: a changed file differs in one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Record {
    pub(crate) fn read(path: &Path) -> Result<Option<Self>> {
        let record: Option<Self> = read(path)?;
        let plain = |name: &String| !name.contains('/') && !name.starts_with('.');
        Ok(record.filter(|record| record.layers.iter().all(plain)))
    }

    pub(crate) fn write(&self, path: &Path, staging: &Path) -> Result<()> {
        write(path, staging, self)
    }
}

impl LocatorRecord {
    pub(crate) fn read(path: &Path) -> Result<Option<Self>> {
        read(path)
    }

    pub(crate) fn write(&self, path: &Path, staging: &Path) -> Result<()> {
        write(path, staging, self)
    }
}

/// An unreadable record, for example after a power failure, counts as missing: it is fetched again.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::os(format!("reading {}", path.display()), error)),
    }
}

/// Appears at `path` by one rename out of `staging`, whose lock the caller holds.
pub(super) fn write<T: Serialize>(path: &Path, staging: &Path, value: &T) -> Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let json = serde_json::to_vec(value)
        .map_err(|error| Error::bug("an image's record is no JSON").because(error))?;
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let temporary = staging.join(format!("{}-{count}.json", std::process::id()));
    file::replace(path, &temporary, &json)
        .map_err(|error| Error::os(format!("writing {}", path.display()), error))
}
