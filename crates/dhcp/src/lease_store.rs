//! Leases on disk, below the runtime directory: a file for each, discarded at a reboot.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use model::{Error, Ipv4Net, Mac, Result};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::{Subject, Terms, Time};

/// More leases than this are not kept.
pub(crate) const MOST: usize = 8192;
/// No lease is longer, in bytes.
const LONGEST: u64 = 64 << 10;
/// The suffix of an unfinished file.
const UNFINISHED: &str = "new";
/// The lock file.
const LOCK: &str = "lock";

/// A lease, with all that is needed to continue with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The owner of the lease.
    pub subject: Subject,
    /// The hardware address of its link.
    pub mac: Mac,
    /// The server's terms.
    pub terms: Terms,
    /// When.
    pub since: Time,
    /// The first address: the one in the answer to the caller.
    pub first: Ipv4Net,
    /// Whether the terms ended by themselves, or are not yet on the link again since they did.
    pub lost: bool,
}

#[derive(Serialize, Deserialize)]
struct Written {
    boot: String,
    lease: Lease,
}

/// The directory of them, for one process at a time.
#[derive(Debug)]
pub struct LeaseStore {
    directory: PathBuf,
    boot: String,
    _lock: File,
}

impl LeaseStore {
    /// Opens the directory, which is made where it is missing. `boot` is another text after every
    /// boot.
    ///
    /// # Errors
    /// [`model::Kind::Conflict`] where another process has it open; where it cannot be made.
    pub fn open(directory: &Path, boot: String) -> Result<Self> {
        let doing = |cause: io::Error| {
            Error::os(format!("opening the leases in {}", directory.display()), cause)
        };
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(doing)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(directory.join(LOCK))
            .map_err(doing)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            Error::conflict(format!(
                "another process keeps the leases in {} alive",
                directory.display()
            ))
        })?;
        Ok(Self { directory: directory.to_owned(), boot, _lock: lock })
    }

    /// The leases that exist, each with its name here. What cannot be read, or is of an earlier
    /// boot, is removed.
    ///
    /// # Errors
    /// Where the directory cannot be read.
    pub fn leases(&self) -> Result<Vec<(String, Lease)>> {
        let entries = fs::read_dir(&self.directory).map_err(|cause| self.failed(cause))?;
        let mut leases = Vec::new();
        for entry in entries.take(2 * MOST) {
            let entry = entry.map_err(|cause| self.failed(cause))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name == LOCK {
                continue;
            }
            match self.read(&name) {
                Some(lease) if name != UNFINISHED && leases.len() < MOST => {
                    leases.push((name, lease));
                }
                _ => self.remove(&name)?,
            }
        }
        Ok(leases)
    }

    fn read(&self, name: &str) -> Option<Lease> {
        let file = File::open(self.directory.join(name)).ok()?;
        let mut text = String::new();
        file.take(LONGEST).read_to_string(&mut text).ok()?;
        let written: Written = serde_json::from_str(&text).ok()?;
        (written.boot == self.boot).then_some(written.lease)
    }

    /// Writes the lease down: once this returns, it is there whatever happens to the process.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write(&self, name: &str, lease: &Lease) -> Result<()> {
        let written = Written { boot: self.boot.clone(), lease: lease.clone() };
        let text = serde_json::to_vec(&written)
            .map_err(|cause| Error::bug("a lease cannot be written").because(cause))?;
        self.put(name, &text).map_err(|cause| self.failed(cause))
    }

    fn put(&self, name: &str, text: &[u8]) -> io::Result<()> {
        let path = self.directory.join(UNFINISHED);
        let mut options = OpenOptions::new();
        let mut file = options.create(true).write(true).truncate(true).mode(0o600).open(&path)?;
        file.write_all(text)?;
        file.sync_data()?;
        fs::rename(&path, self.directory.join(name))?;
        File::open(&self.directory)?.sync_data()
    }

    /// Deletes a lease; a missing one is no error.
    ///
    /// # Errors
    /// Where it cannot be removed.
    pub fn remove(&self, name: &str) -> Result<()> {
        match fs::remove_file(self.directory.join(name)) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => Err(self.failed(cause)),
            _ => Ok(()),
        }
    }

    fn failed(&self, cause: io::Error) -> Error {
        Error::os(format!("keeping leases in {}", self.directory.display()), cause)
    }
}
