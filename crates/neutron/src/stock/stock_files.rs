//! The files of the stock. A port's file is in exactly one place, and moving it decides which
//! process has the port:
//!
//! - `ready/KEY/PORT.json`: available to any process that wants such a port;
//! - `lent/PORT.json`: in use, until it is returned or Neutron's port is gone;
//! - `returned/PORT.json`: to be reset;
//! - `wanted/KEY.json`: such ports are wanted; the file's time is that of the last request.
//!
//! All of it is deleted with the boot. Lost ports are found again in Neutron by their mark.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use model::{ResourceId, Result};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::api::PortResource;
use crate::files::{
    self, entries, failed, file_of, ids, make_directory, moved, names, nofollow, read, remove,
};
use crate::stock_key::{KeyDigest, StockKey};

/// Where the files are. It costs nothing to have one.
#[derive(Clone, Debug)]
pub(crate) struct StockFiles {
    directory: PathBuf,
}

/// A port of the stock, as it was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stored {
    /// The key of the port.
    pub(crate) key: KeyDigest,
    /// Neutron's answer when it was made.
    pub(crate) port: PortResource,
}

/// Ports like this are wanted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StockDemand {
    pub(crate) key: StockKey,
    pub(crate) digest: KeyDigest,
    /// When one was last wanted.
    pub(crate) last: SystemTime,
}

/// Keeps processes that take ports of a key from a port that is being made. Ends when it is
/// dropped.
#[derive(Debug)]
pub(crate) struct KeyLock {
    _directory: File,
}

impl StockFiles {
    /// The stock below this directory.
    pub(crate) fn at(directory: &Path) -> Self {
        Self { directory: directory.join("stock") }
    }

    /// Takes a port of this kind exclusively, the oldest first as far as that is known.
    pub(crate) fn claim(&self, digest: &KeyDigest) -> Result<Option<PortResource>> {
        // In a tmpfs the directory's last entry is the oldest.
        for id in ids(&self.ready(digest))?.into_iter().rev() {
            if let Some(port) = self.claim_at(&self.ready(digest), &id)? {
                return Ok(Some(port));
            }
        }
        Ok(None)
    }

    /// Takes this very port, if it is ready.
    pub(crate) fn claim_port(&self, id: &ResourceId) -> Result<Option<PortResource>> {
        for digest in self.kinds()? {
            if let Some(port) = self.claim_at(&self.ready(&digest), id)? {
                return Ok(Some(port));
            }
        }
        Ok(None)
    }

    fn claim_at(&self, ready: &Path, id: &ResourceId) -> Result<Option<PortResource>> {
        let lent = self.lent(id);
        if !moved(&file_of(ready, id), &lent)? {
            return Ok(None);
        }
        match read::<Stored>(&lent)? {
            Some(stored) if stored.port.id == *id => Ok(Some(stored.port)),
            // It cannot be used: a port without a file is found by its mark.
            _ => remove(&lent).map(|_| None),
        }
    }

    /// Says that ports like this are wanted now.
    pub(crate) fn want(&self, key: &StockKey) -> Result<()> {
        let digest = key.digest()?;
        match self.touch(&digest)? {
            true => Ok(()),
            false => self.write(&self.wanted_file(&digest), key),
        }
    }

    /// Says that ports are still wanted; `false` where they were not.
    pub(crate) fn touch(&self, digest: &KeyDigest) -> Result<bool> {
        let path = self.wanted_file(digest);
        let touched = OpenOptions::new()
            .write(true)
            .custom_flags(nofollow())
            .open(&path)
            .and_then(|file| file.set_times(FileTimes::new().set_modified(SystemTime::now())));
        match touched {
            Ok(()) => Ok(true),
            Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(false),
            Err(cause) => Err(failed("touching", &path, cause)),
        }
    }

    /// Whether such ports are wanted still.
    pub(crate) fn is_wanted(&self, digest: &KeyDigest) -> bool {
        self.wanted_file(digest).exists()
    }

    /// Everything that is wanted.
    pub(crate) fn wanted(&self) -> Result<Vec<StockDemand>> {
        let directory = self.directory.join("wanted");
        let mut wanted = Vec::new();
        for name in names(&directory)? {
            let path = directory.join(format!("{name}.json"));
            let key: Option<StockKey> = read(&path)?;
            let last = fs::metadata(&path).and_then(|data| data.modified()).ok();
            match (key, KeyDigest::try_from(name), last) {
                (Some(key), Ok(digest), Some(last)) if key.digest()? == digest => {
                    wanted.push(StockDemand { key, digest, last });
                }
                // It vanished meanwhile, or is not Spoke's.
                _ => drop(remove(&path)?),
            }
        }
        Ok(wanted)
    }

    /// Lets no more ports be made like that.
    pub(crate) fn forget(&self, digest: &KeyDigest) -> Result<()> {
        remove(&self.wanted_file(digest)).map(drop)
    }

    /// Makes a port available.
    pub(crate) fn put(&self, stored: &Stored) -> Result<()> {
        self.write(&file_of(&self.ready(&stored.key), &stored.port.id), stored)
    }

    /// Records that a port like those of the stock is in use.
    pub(crate) fn lend(&self, stored: &Stored) -> Result<()> {
        self.write(&self.lent(&stored.port.id), stored)
    }

    /// Lets a port be made like new again. `false` where it was not of the stock.
    pub(crate) fn give_back(&self, id: &ResourceId) -> Result<bool> {
        moved(&self.lent(id), &file_of(&self.directory.join("returned"), id))
    }

    /// The returned ports.
    pub(crate) fn returned(&self) -> Result<Vec<Stored>> {
        self.stored(&self.directory.join("returned"))
    }

    /// The ports that were released.
    pub(crate) fn returned_ports(&self) -> Result<Vec<ResourceId>> {
        ids(&self.directory.join("returned"))
    }

    /// Makes a returned port available again.
    pub(crate) fn ready_again(&self, stored: &Stored) -> Result<()> {
        let id = &stored.port.id;
        let returned = file_of(&self.directory.join("returned"), id);
        moved(&returned, &file_of(&self.ready(&stored.key), id)).map(drop)
    }

    /// Ends the return of a port: it is ready again, or gone.
    pub(crate) fn settle(&self, id: &ResourceId) -> Result<()> {
        remove(&file_of(&self.directory.join("returned"), id)).map(drop)
    }

    /// One port of this key, which stays where it is.
    pub(crate) fn first(&self, digest: &KeyDigest) -> Result<Option<Stored>> {
        for id in self.ready_ports(digest)? {
            if let Some(stored) = read(&file_of(&self.ready(digest), &id))? {
                return Ok(Some(stored));
            }
        }
        Ok(None)
    }

    /// The ports of this key that are ready.
    pub(crate) fn ready_ports(&self, digest: &KeyDigest) -> Result<Vec<ResourceId>> {
        ids(&self.ready(digest))
    }

    /// The ports in use.
    pub(crate) fn lent_ports(&self) -> Result<Vec<ResourceId>> {
        ids(&self.directory.join("lent"))
    }

    /// Since when a port is in use.
    pub(crate) fn lent_since(&self, id: &ResourceId) -> Option<SystemTime> {
        // A rename is a change of the file's status.
        let changed = fs::metadata(self.lent(id)).ok()?.ctime();
        let seconds = std::time::Duration::from_secs(u64::try_from(changed).ok()?);
        SystemTime::UNIX_EPOCH.checked_add(seconds)
    }

    /// The ports in use, as they were made.
    pub(crate) fn lent_all(&self) -> Result<Vec<Stored>> {
        let directory = self.directory.join("lent");
        let mut found = Vec::new();
        for id in ids(&directory)? {
            let stored = read::<Stored>(&file_of(&directory, &id))?;
            found.extend(stored.filter(|stored| stored.port.id == id));
        }
        Ok(found)
    }

    /// Whether it is in use.
    pub(crate) fn is_lent(&self, id: &ResourceId) -> bool {
        self.lent(id).exists()
    }

    /// Ends the use of a port that does not return.
    pub(crate) fn drop_lent(&self, id: &ResourceId) -> Result<bool> {
        remove(&self.lent(id))
    }

    /// Every key that something was ready of.
    pub(crate) fn kinds(&self) -> Result<Vec<KeyDigest>> {
        let names = entries(&self.directory.join("ready"))?.into_iter();
        Ok(names.filter_map(|name| KeyDigest::try_from(name).ok()).collect())
    }

    /// The turn to make ports of this key, which others may have too.
    pub(crate) fn making(&self, digest: &KeyDigest) -> Result<KeyLock> {
        self.lock_key(digest, FlockOperation::LockShared)
    }

    /// Waits for a process that is making a port of this key.
    pub(crate) fn made(&self, digest: &KeyDigest) -> Result<()> {
        self.lock_key(digest, FlockOperation::LockExclusive).map(drop)
    }

    /// Removes the place of this key's ports, if it is empty.
    pub(crate) fn tidy(&self, digest: &KeyDigest) {
        // Ports in it keep it.
        let _ = fs::remove_dir(self.ready(digest));
    }

    /// The right to fill the stock; `None` where another process has it.
    pub(crate) fn filler(&self) -> Result<Option<File>> {
        files::only(&self.directory.join("filler"))
    }

    /// Whether a process fills the stock, and resets what is returned.
    pub(crate) fn is_filled(&self) -> bool {
        files::is_held(&self.directory.join("filler"))
    }

    /// Where something appears when there is work.
    pub(crate) fn notified(&self) -> Result<[PathBuf; 2]> {
        let notified = ["wanted", "returned"].map(|name| self.directory.join(name));
        for notifier in &notified {
            make_directory(notifier)?;
        }
        Ok(notified)
    }

    /// Removes what writers left that were killed.
    pub(crate) fn sweep(&self, before: SystemTime) -> Result<()> {
        files::sweep(&self.directory.join("draft"), before)
    }

    /// Where it is noted that an engine cannot use what is ready.
    pub(super) fn passed_over(&self) -> PathBuf {
        self.directory.join("passed-over")
    }

    /// Notes something.
    pub(super) fn note(&self, path: &Path) -> Result<()> {
        self.write(path, &true)
    }

    /// The opposite.
    pub(super) fn forget_note(&self, path: &Path) -> Result<()> {
        remove(path).map(drop)
    }

    fn lock_key(&self, digest: &KeyDigest, how: FlockOperation) -> Result<KeyLock> {
        let path = self.ready(digest);
        loop {
            make_directory(&path)?;
            let directory = match File::open(&path) {
                Err(cause) if cause.kind() == ErrorKind::NotFound => continue,
                opened => opened.map_err(|cause| failed("opening", &path, cause))?,
            };
            flock(&directory, how).map_err(|cause| failed("locking", &path, cause.into()))?;
            let data = directory.metadata().map_err(|cause| failed("reading", &path, cause))?;
            // It may have been removed before the lock was granted.
            if data.nlink() > 0 {
                return Ok(KeyLock { _directory: directory });
            }
        }
    }

    fn stored(&self, directory: &Path) -> Result<Vec<Stored>> {
        let mut found = Vec::new();
        for id in ids(directory)? {
            let path = file_of(directory, &id);
            match read::<Stored>(&path)? {
                Some(stored) if stored.port.id == id => found.push(stored),
                _ => drop(remove(&path)?),
            }
        }
        Ok(found)
    }

    fn ready(&self, digest: &KeyDigest) -> PathBuf {
        self.directory.join("ready").join(digest.as_str())
    }

    fn lent(&self, id: &ResourceId) -> PathBuf {
        file_of(&self.directory.join("lent"), id)
    }

    fn wanted_file(&self, digest: &KeyDigest) -> PathBuf {
        self.directory.join("wanted").join(format!("{}.json", digest.as_str()))
    }

    fn write(&self, path: &Path, value: &impl Serialize) -> Result<()> {
        files::write(&self.directory.join("draft"), path, value)
    }
}
