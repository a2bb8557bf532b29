//! One log file that is locked and being changed.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use model::{Error, Result, Timestamp};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};

use super::{ENDED, Entry, LogDirectory, Record, Subject, Undo, UndoLog, VERSION, failed, make};

/// Distinguishes the drafts of one process.
static DRAFTS: AtomicU64 = AtomicU64::new(0);
/// A file with more lines than fit into so many bytes is replaced by a new one.
const LONG: u64 = 64 << 10;
/// The limit of log files of removed networks of one name.
const MOST_ENDED: u32 = 10_000;

/// A log file, locked until it is dropped. Changes are on disk once it is saved.
pub(in super::super) struct LogFile {
    undo_log: UndoLog,
    key: String,
    /// Where it is on disk, and its lock; nowhere before it is saved, and once nothing is on it.
    there: Option<(LogDirectory, File)>,
    pub(in super::super) record: Record,
}

impl LogFile {
    pub(super) fn new(undo_log: UndoLog, subject: Subject) -> Self {
        let record = Record {
            version: VERSION,
            boot: undo_log.boot.clone(),
            subject,
            entries: Vec::new(),
            joined: None,
            sandbox: None,
            forgotten: BTreeSet::new(),
        };
        Self { undo_log, key: record.subject.key(), there: None, record }
    }

    pub(super) fn found(
        undo_log: UndoLog,
        key: &str,
        place: LogDirectory,
        lock: File,
        record: Record,
    ) -> Self {
        Self { undo_log, key: key.to_owned(), there: Some((place, lock)), record }
    }

    /// Its name.
    pub(in super::super) fn key(&self) -> &str {
        &self.key
    }

    /// Nothing is on it.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.record.entries.is_empty()
    }

    /// Whether a call in it is pending.
    pub(in super::super) fn has_pending(&self) -> bool {
        self.record.entries.iter().any(|entry| entry.pending.is_some())
    }

    /// The entry that undoes what `is` says, while that is in use.
    pub(in super::super) fn holds(&self, is: impl Fn(&Undo) -> bool) -> bool {
        self.record.entries.iter().any(|entry| entry.pending.is_none() && is(&entry.undo))
    }

    /// Writes a call down that is about to be needed.
    pub(in super::super) fn hold(&mut self, undo: Undo) {
        self.record.entries.push(Entry::held(undo));
    }

    /// Strikes the last of what is the same as this.
    pub(in super::super) fn strike(&mut self, undo: &Undo) {
        if let Some(at) = self.record.entries.iter().rposition(|entry| entry.undo == *undo) {
            self.record.entries.remove(at);
        }
    }

    /// Puts what is known now in the place of what was written down before.
    pub(in super::super) fn put(&mut self, instead: &Undo, undo: Undo) {
        match self.record.entries.iter_mut().rev().find(|entry| entry.undo == *instead) {
            Some(entry) => entry.undo = undo,
            None => self.hold(undo),
        }
    }

    /// Announces the end of all that `is` says; whether there is any.
    pub(in super::super) fn mark_pending(
        &mut self,
        now: Timestamp,
        is: impl Fn(&Undo) -> bool,
    ) -> bool {
        let mut any = false;
        for entry in self.record.entries.iter_mut().filter(|entry| is(&entry.undo)) {
            entry.mark_pending(now);
            any = true;
        }
        any
    }

    /// Makes it one of this boot.
    pub(in super::super) fn renew(&mut self) {
        self.record.boot.clone_from(&self.undo_log.boot);
    }

    /// Puts it on disk as it is, in the part of the undo log where it belongs; a log file with
    /// nothing on it is gone.
    pub(in super::super) fn save(&mut self) -> Result<()> {
        if self.is_empty() {
            return self.remove();
        }
        let place =
            if self.has_pending() { LogDirectory::CleanupPending } else { LogDirectory::Held };
        let directory = self.undo_log.directory.join(place.name());
        let path = directory.join(&self.key);
        if self.is_appended()? {
            return self.append(place, &directory, &path);
        }
        let (draft, lock) = self.draft(&directory)?;
        let put = self.put_into_place(&draft, place, &path);
        if put.is_err() {
            // The first error is returned; an old draft is removed later.
            let _ = fs::remove_file(&draft);
        }
        put?;
        self.sync(&directory)?;
        if let Some((before, _)) = &self.there
            && *before != place
        {
            self.sync(&self.undo_log.directory.join(before.name()))?;
        }
        self.there = Some((place, lock));
        Ok(())
    }

    /// Whether another line goes to the file that exists.
    fn is_appended(&self) -> Result<bool> {
        let Some((_, file)) = &self.there else { return Ok(false) };
        let length = file
            .metadata()
            .map_err(|error| Error::os(format!("inspecting log file {}", self.key), error))?;
        Ok(!self.record.subject.is_network() && length.len() < LONG)
    }

    /// Moved first: pending calls are searched nowhere else.
    fn append(&mut self, place: LogDirectory, directory: &Path, path: &Path) -> Result<()> {
        let text = self.text()?;
        let Some((before, file)) = &mut self.there else { return Ok(()) };
        if *before != place {
            let old = self.undo_log.path(*before, &self.key);
            make(directory)?;
            fs::rename(&old, path).map_err(|error| failed("moving", &old, error))?;
            *before = place;
        }
        // A killed writer may have left half a line.
        let line = [b"\n", text.as_slice()].concat();
        file.write_all(&line).map_err(|error| failed("writing", path, error))
    }

    /// The contents of the log file, as a line.
    fn text(&self) -> Result<Vec<u8>> {
        let text = serde_json::to_vec(&self.record);
        let mut text = text.map_err(|error| {
            Error::bug(format!("encoding log file {}", self.key)).because(error)
        })?;
        text.push(b'\n');
        Ok(text)
    }

    fn put_into_place(&self, draft: &Path, place: LogDirectory, path: &Path) -> Result<()> {
        match self.there {
            None => renameat_with(CWD, draft, CWD, path, RenameFlags::NOREPLACE).map_err(|error| {
                match io::Error::from(error) {
                    error if error.kind() == ErrorKind::AlreadyExists => Error::try_again(format!(
                        "{} was just made by another process",
                        path.display()
                    )),
                    error => failed("writing", path, error),
                }
            }),
            Some((before, _)) => {
                if before != place {
                    let old = self.undo_log.path(before, &self.key);
                    fs::rename(&old, path).map_err(|error| failed("moving", &old, error))?;
                }
                fs::rename(draft, path).map_err(|error| failed("writing", path, error))
            }
        }
    }

    /// A new file with the contents of the log file, locked before other processes can see it.
    fn draft(&self, directory: &Path) -> Result<(std::path::PathBuf, File)> {
        let text = self.text()?;
        let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
        let draft = directory.join(format!(".{}-{number}", process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let open = || options.open(&draft);
        let opened = open().or_else(|error| match error.kind() {
            ErrorKind::NotFound => {
                make(directory).map_err(io::Error::other)?;
                open()
            }
            _ => Err(error),
        });
        let written = opened.and_then(|mut file| {
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            file.write_all(&text)?;
            if self.record.subject.is_network() {
                file.sync_all()?;
            }
            Ok(file)
        });
        match written {
            Ok(file) => Ok((draft, file)),
            Err(error) => {
                // The first error is returned; an old draft is removed later.
                let _ = fs::remove_file(&draft);
                Err(failed("writing", &draft, error))
            }
        }
    }

    fn remove(&mut self) -> Result<()> {
        let Some((place, _)) = &self.there else { return Ok(()) };
        let path = self.undo_log.path(*place, &self.key);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(failed("removing", &path, error));
            }
            Ok(()) | Err(_) => {}
        }
        let directory = self.undo_log.directory.join(place.name());
        self.sync(&directory)?;
        self.there = None;
        Ok(())
    }

    fn sync(&self, directory: &Path) -> Result<()> {
        if !self.record.subject.is_network() {
            return Ok(());
        }
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(|error| failed("syncing", directory, error))
    }

    /// Frees the name of a network whose end is pending: the rest must not block another network of
    /// that name.
    pub(in super::super) fn end(&mut self) -> Result<()> {
        let is_over = self.record.entries.iter().all(|entry| entry.pending.is_some());
        if self.key.contains(ENDED) || !self.record.subject.is_network() || !is_over {
            return Ok(());
        }
        let Some((place, _)) = &self.there else { return Ok(()) };
        let old = self.undo_log.path(*place, &self.key);
        for number in 1..=MOST_ENDED {
            let key = format!("{}{ENDED}{number}", self.key);
            let new = self.undo_log.path(*place, &key);
            match renameat_with(CWD, &old, CWD, &new, RenameFlags::NOREPLACE) {
                Ok(()) => {
                    self.key = key;
                    return Ok(());
                }
                Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(failed("moving", &old, error.into())),
            }
        }
        Err(Error::exhausted(format!(
            "{} networks of one name ended and have pending cleanups: see `spoke gc`",
            MOST_ENDED
        )))
    }
}
