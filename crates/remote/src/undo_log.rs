//! The undo log: the calls that undo what plugins did, on disk before they are needed.
//!
//! A log file is a file for one subject, a network or an attachment, locked (flock(2)) by the
//! process that works on it and replaced by renaming. Log files with a pending call are in `owed`,
//! all others in `held`: a search for pending calls reads nothing else. Unreadable log files are
//! moved to `odd`.
//!
//! An attachment's log file does not outlive a boot, as its sandbox is gone: all of it is pending
//! then. It is not synced; a network's is. It changes with every call, and some file systems write
//! a file that replaces another to the disk at once, so changes are appended: the last whole line
//! counts.

mod entry;
mod file;
mod log_file;

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::{AttachmentId, DriverName, Error, Layer, NetworkName, Result};
use rustix::fs::{CWD, FlockOperation, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub(super) use entry::{
    At, CleanupPending, DriverAllocation, Entry, JoinAnswer, KeptRoute, PoolAsked, Undo, pool_key,
};
use file::{Why, decode, is_at, is_no_file, open};
pub(super) use log_file::LogFile;

/// The version of a log file's contents; a later one is left alone.
const VERSION: u32 = 1;
/// The largest log file: an endpoint has a dozen calls, a network a few for each pool.
const LONGEST: u64 = 4 << 20;
/// Most log files are shorter, in bytes: these are read in one call.
const USUAL: usize = 4 << 10;
/// After this time the file of a killed writer is no longer in use.
const STALE: Duration = Duration::from_hours(1);
/// More files than this in the place of one log file are left where they are.
const MOST_ODD: u32 = 100;
/// Between the name of a network and a number, where its log file outlives it. No name holds it.
const ENDED: char = '+';

/// The directory of log files.
#[derive(Clone, Debug)]
pub(super) struct UndoLog {
    directory: PathBuf,
    boot: String,
    timeout: Duration,
}

/// In which part of the undo log a log file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogDirectory {
    Held,
    CleanupPending,
}

/// The subject of a log file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Subject {
    Network(NetworkName),
    Attachment(AttachmentId, Layer),
}

/// The contents of a log file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    version: u32,
    /// In which boot it began.
    boot: String,
    pub(super) subject: Subject,
    /// In the order in which they were written down.
    pub(super) entries: Vec<Entry>,
    /// Join's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) joined: Option<JoinAnswer>,
    /// The link by which the driver knows the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sandbox: Option<PathBuf>,
    /// The network's pools that a driver forgot when it was started anew.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) forgotten: BTreeSet<String>,
}

impl LogDirectory {
    const ALL: [LogDirectory; 2] = [LogDirectory::Held, LogDirectory::CleanupPending];

    fn name(self) -> &'static str {
        match self {
            LogDirectory::Held => "held",
            LogDirectory::CleanupPending => "owed",
        }
    }
}

impl Subject {
    /// Its log file's name: a function of the identity alone.
    pub(super) fn key(&self) -> String {
        match self {
            Subject::Network(network) => format!("network-{network}"),
            Subject::Attachment(id, layer) => {
                format!("endpoint-{}", digest(&[&text_of(id), layer.name()]))
            }
        }
    }

    fn is_network(&self) -> bool {
        matches!(self, Subject::Network(_))
    }
}

/// The driver's id of an endpoint: 64 hexadecimal digits, as libnetwork's, and always the same for
/// one attachment to one network.
pub(super) fn endpoint_id(id: &AttachmentId, network: &str) -> String {
    digest(&[&text_of(id), network])
}

/// A digest of texts, of which none holds a NUL.
pub(super) fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text_of(id: &AttachmentId) -> String {
    format!("{}\0{}\0{}", id.network, id.container, id.ifname)
}

impl Record {
    /// Whether it is of a life of this host that is over, and its sandbox with it.
    pub(super) fn is_of_another_boot(&self, undo_log: &UndoLog) -> bool {
        !self.subject.is_network() && self.boot != undo_log.boot
    }
}

impl UndoLog {
    pub(super) fn new(directory: PathBuf, boot: String, timeout: Duration) -> Self {
        Self { directory, boot, timeout }
    }

    /// The subject's log file, locked until it is dropped; an empty one where there is none yet.
    pub(super) fn open(&self, subject: Subject) -> Result<LogFile> {
        match self.find(&subject.key())? {
            Some(log_file) => Ok(log_file),
            None => Ok(LogFile::new(self.clone(), subject)),
        }
    }

    /// A log file by its name, locked until it is dropped.
    pub(super) fn find(&self, key: &str) -> Result<Option<LogFile>> {
        self.lock(key, self.timeout)
    }

    /// The same; fails with [`model::Kind::TryAgain`] at once where another process works on it.
    pub(super) fn find_idle(&self, key: &str) -> Result<Option<LogFile>> {
        self.lock(key, Duration::ZERO)
    }

    fn lock(&self, key: &str, timeout: Duration) -> Result<Option<LogFile>> {
        let until = Instant::now() + timeout;
        // A log file that is moved in between is found in the second round.
        for place in [LogDirectory::ALL, LogDirectory::ALL].concat() {
            let path = self.path(place, key);
            loop {
                let file = match open(&path) {
                    Ok(file) => file,
                    Err(error) if error.kind() == ErrorKind::NotFound => break,
                    Err(error) if is_no_file(&error) => {
                        self.put_aside(&path);
                        return Err(self.unreadable(&path, &Why::Damaged(error.to_string())));
                    }
                    Err(error) => return Err(failed("opening", &path, error)),
                };
                let how = FlockOperation::NonBlockingLockExclusive;
                let locked = ::file::lock_until(&file, how, until);
                if !locked.map_err(|error| failed("locking", &path, error))? {
                    let what = format!("{} is in use by another process", path.display());
                    return Err(Error::try_again(what));
                }
                if is_at(&file, &path) {
                    let record = self.read(&file, &path)?;
                    return Ok(Some(LogFile::found(self.clone(), key, place, file, record)));
                }
            }
        }
        Ok(None)
    }

    /// The contents of a log file, also of one that another process works on.
    pub(super) fn peek(&self, key: &str) -> Result<Option<Record>> {
        for place in [LogDirectory::ALL, LogDirectory::ALL].concat() {
            let path = self.path(place, key);
            match open(&path) {
                Ok(file) => {
                    return decode(&file).map(Some).map_err(|why| self.unreadable(&path, &why));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(failed("opening", &path, error)),
            }
        }
        Ok(None)
    }

    /// Reads a log file that is locked; what cannot be read goes out of the way.
    fn read(&self, file: &File, path: &Path) -> Result<Record> {
        decode(file).map_err(|why| {
            if let Why::Damaged(_) = why {
                self.put_aside(path);
            }
            self.unreadable(path, &why)
        })
    }

    fn put_aside(&self, path: &Path) {
        let Some(name) = path.file_name() else { return };
        let odd = self.directory.join("odd");
        // The rename below fails without it.
        let _ = make(&odd);
        let names = (1..=MOST_ODD).map(|number| match number {
            1 => name.to_owned(),
            _ => format!("{}{ENDED}{number}", name.display()).into(),
        });
        for name in names {
            match renameat_with(CWD, path, CWD, odd.join(name), RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => {}
                Ok(()) | Err(_) => return,
            }
        }
    }

    fn unreadable(&self, path: &Path, why: &Why) -> Error {
        match why {
            Why::Later(version) => Error::unsupported(format!(
                "{} was written by a later Spoke (version {version}); this one knows {VERSION}",
                path.display()
            )),
            Why::Damaged(cause) => Error::invalid(format!(
                "{} is no undo log of remote drivers and was put into {}: which cleanups are pending \
                 in it is not known: {cause}",
                path.display(),
                self.directory.join("odd").display()
            )),
        }
    }

    /// The names of all log files in a part of the undo log, sorted.
    pub(super) fn keys(&self, place: LogDirectory) -> Result<Vec<String>> {
        self.names(&self.directory.join(place.name()))
    }

    /// The names of what could not be read.
    pub(super) fn odd(&self) -> Result<Vec<String>> {
        self.names(&self.directory.join("odd"))
    }

    fn names(&self, directory: &Path) -> Result<Vec<String>> {
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed("listing", directory, error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| failed("listing", directory, error))?;
            if let Ok(name) = entry.file_name().into_string()
                && !name.starts_with('.')
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The contents of every log file in a part of the undo log, apart from those that are gone by
    /// then or that cannot be read.
    pub(super) fn records(&self, place: LogDirectory) -> Result<Vec<(String, Record)>> {
        let mut records = Vec::new();
        for key in self.keys(place)? {
            if let Ok(Some(record)) = self.peek(&key) {
                records.push((key, record));
            }
        }
        Ok(records)
    }

    /// The addresses of a pool whose release is pending.
    pub(super) fn releasing(&self, driver: &DriverName, pool: &str) -> Result<BTreeSet<IpAddr>> {
        let records = self.records(LogDirectory::CleanupPending)?;
        let entries = records.iter().flat_map(|(_, record)| &record.entries);
        let pending = entries.filter(|entry| entry.pending.is_some());
        Ok(pending.filter_map(|entry| entry.undo.address_in(driver, pool)).collect())
    }

    /// Whether a log file other than `but` holds what the call would release, and is still in use.
    pub(super) fn is_in_use(&self, undo: &Undo, but: &str) -> Result<bool> {
        for place in LogDirectory::ALL {
            for (key, record) in self.records(place)? {
                let mut entries = record.entries.iter();
                let is_held =
                    |entry: &Entry| entry.pending.is_none() && entry.undo.gives_back_same(undo);
                if key != but && !record.is_of_another_boot(self) && entries.any(is_held) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Deletes what could not be read.
    pub(super) fn forget_odd(&self, name: &str) -> Result<()> {
        let path = self.directory.join("odd").join(name);
        let removed = fs::remove_file(&path).or_else(|error| match is_no_file(&error) {
            true => fs::remove_dir_all(&path),
            false => Err(error),
        });
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(failed("removing", &path, error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Removes what killed writers left.
    pub(super) fn tidy(&self) {
        for place in LogDirectory::ALL {
            let Ok(entries) = fs::read_dir(self.directory.join(place.name())) else { continue };
            for entry in entries.flatten() {
                let is_draft = entry.file_name().as_encoded_bytes().starts_with(b".");
                let age = entry.metadata().and_then(|found| found.modified());
                let age = age.ok().and_then(|since| since.elapsed().ok());
                if is_draft && age.is_some_and(|age| age > STALE) {
                    // Another process may have removed it; the next one tries again.
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
    }

    fn path(&self, place: LogDirectory, key: &str) -> PathBuf {
        self.directory.join(place.name()).join(key)
    }
}

fn make(directory: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| failed("making", directory, error))
}

fn failed(doing: &str, path: &Path, error: io::Error) -> Error {
    Error::os(format!("{doing} {}", path.display()), error)
}
