//! Port updates on disk. A port's file is in one place at a time, and moving it decides:
//!
//! - `owed/PORT.json`: pending, no request was sent to Neutron yet (the directory has the name that version 0.1.0 gave it);
//! - `begun/PORT.json`: a process works on it, and holds the file's lock; or that process died, or
//!   had no answer;
//! - `void/PORT.json`: cancelled. The holder of the lock is waiting for the last answer;
//! - `lost/PORT.json`: there is no such port in Neutron.
//!
//! All of it is deleted with the boot, as the containers are.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use model::{ResourceId, Result};
use rustix::fs::FlockOperation;

use super::PortUpdate;
use crate::deadline;
use crate::files::{self, failed, file_of, make_directory, moved, nofollow, read, remove};

/// The interval at which to check whether another process is done, where there is a deadline: locks
/// have none.
const GLANCE: Duration = Duration::from_millis(20);

/// Where the files are. It costs nothing to have one.
#[derive(Clone, Debug)]
pub(crate) struct UpdateFiles {
    directory: PathBuf,
    /// The deadline of a waiting caller.
    until: Option<Instant>,
}

/// An update that this process carries out. No other process does, until this is dropped.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) port_update: PortUpdate,
    /// Whether an earlier process began with it, with an unknown result.
    pub(crate) is_again: bool,
    lock_file: File,
}

/// How far it was when it was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancelled {
    /// No request was sent to Neutron.
    NotSent,
    /// A request was sent, and its effect or its time is unknown.
    Unsure,
}

impl UpdateFiles {
    /// Below this directory.
    pub(crate) fn at(directory: &Path) -> Self {
        Self { directory: directory.join("naming"), until: None }
    }

    /// Sets a deadline.
    #[must_use]
    pub(crate) fn by(self, until: Option<Instant>) -> Self {
        Self { until, ..self }
    }

    /// Queues an update, in place of the previous one.
    pub(crate) fn enqueue(&self, port_update: &PortUpdate) -> Result<()> {
        let id = &port_update.port.id;
        if self.cancel(id)?.is_some() {
            self.close(id)?;
        }
        files::write(&self.directory.join("draft"), &self.queued(id), port_update)
    }

    /// Begins with the pending update of a port, or continues where another process died; `None`
    /// where there is none, or another process works on it.
    pub(crate) fn begin(&self, id: &ResourceId) -> Result<Option<Started>> {
        let (queued, started) = (self.queued(id), self.started(id));
        if let Some(lock_file) = lock_file(&queued, FlockOperation::NonBlockingLockExclusive)?
            && moved(&queued, &started)?
        {
            return self.started_by(id, lock_file, false);
        }
        match lock_file(&started, FlockOperation::NonBlockingLockExclusive)? {
            Some(lock_file) => self.started_by(id, lock_file, true),
            None => Ok(None),
        }
    }

    fn started_by(
        &self,
        id: &ResourceId,
        lock_file: File,
        is_again: bool,
    ) -> Result<Option<Started>> {
        let path = self.started(id);
        if !is_of(&lock_file, &path) {
            return Ok(None);
        }
        match read::<PortUpdate>(&path)? {
            Some(port_update) if port_update.port.id == *id => {
                Ok(Some(Started { port_update, is_again, lock_file }))
            }
            // It vanished meanwhile, or is not Spoke's.
            _ => remove(&path).map(|_| None),
        }
    }

    /// Whether the port is to be deleted, or has another owner.
    pub(crate) fn is_given_up(&self, started: &Started) -> bool {
        !is_of(&started.lock_file, &self.started(&started.port_update.port.id))
    }

    /// Neutron knows.
    pub(crate) fn done(&self, started: &Started) -> Result<()> {
        let id = &started.port_update.port.id;
        // The process that cancelled it waits, and learns by this that all answers have arrived.
        match remove(&self.started(id))? {
            true => Ok(()),
            false => remove(&self.cancelled_file(id)).map(drop),
        }
    }

    /// Neutron has no such port. `false` where it was given up meanwhile, so that this is no wonder.
    pub(crate) fn lose(&self, started: &Started) -> Result<bool> {
        let id = &started.port_update.port.id;
        match moved(&self.started(id), &self.file("lost", id))? {
            true => Ok(true),
            false => remove(&self.cancelled_file(id)).map(|_| false),
        }
    }

    /// Cancels the pending update of the port, and waits for a process that carries it out. `None`
    /// where there is none: Neutron has the name, or was never to have it. Otherwise to be closed
    /// once the port is gone.
    pub(crate) fn cancel(&self, id: &ResourceId) -> Result<Option<Cancelled>> {
        let cancelled_file = self.cancelled_file(id);
        remove(&self.file("lost", id))?;
        if moved(&self.queued(id), &cancelled_file)? {
            return Ok(Some(Cancelled::NotSent));
        }
        // Moved or missing: the wait below finds out.
        let _ = moved(&self.started(id), &cancelled_file)?;
        let Some(lock_file) = self.wait_for(&cancelled_file)? else { return Ok(None) };
        // Where the file is gone, that process has all its answers.
        Ok(is_of(&lock_file, &cancelled_file).then_some(Cancelled::Unsure))
    }

    /// Waits for a process that carries it out, until the deadline.
    fn wait_for(&self, cancelled_file: &Path) -> Result<Option<File>> {
        let Some(until) = self.until else {
            return lock_file(cancelled_file, FlockOperation::LockExclusive);
        };
        loop {
            let lock_file = lock_file(cancelled_file, FlockOperation::NonBlockingLockExclusive)?;
            if lock_file.is_some() || !cancelled_file.exists() {
                return Ok(lock_file);
            }
            if Instant::now() >= until {
                return Err(deadline::late("waiting for the name of a port"));
            }
            thread::sleep(GLANCE);
        }
    }

    /// The same without waiting, where no process works on it.
    pub(crate) fn cancel_idle(&self, id: &ResourceId) -> Result<()> {
        remove(&self.file("lost", id))?;
        remove(&self.queued(id)).map(drop)
    }

    /// Ends a cancelled update.
    pub(crate) fn close(&self, id: &ResourceId) -> Result<()> {
        remove(&self.cancelled_file(id)).map(drop)
    }

    /// The ports with a pending update.
    pub(crate) fn pending_ports(&self) -> Result<Vec<ResourceId>> {
        // In the order in which a file goes, so that none is missed.
        let mut all = files::ids(&self.directory.join("owed"))?;
        for id in files::ids(&self.directory.join("begun"))? {
            if !all.contains(&id) {
                all.push(id);
            }
        }
        Ok(all)
    }

    /// The pending update of a port.
    pub(crate) fn queued_of(&self, id: &ResourceId) -> Result<Option<PortUpdate>> {
        match read(&self.queued(id))? {
            Some(port_update) => Ok(Some(port_update)),
            None => read(&self.started(id)),
        }
    }

    /// The pending updates, and the cancelled ones that are not closed.
    pub(crate) fn all(&self) -> Result<Vec<PortUpdate>> {
        let mut all: Vec<PortUpdate> = Vec::new();
        for place in ["owed", "begun", "void", "lost"] {
            for port_update in self.in_place(place)? {
                if !all.iter().any(|known| known.port.id == port_update.port.id) {
                    all.push(port_update);
                }
            }
        }
        Ok(all)
    }

    /// The updates that cannot be carried out any more.
    pub(crate) fn lost(&self) -> Result<Vec<PortUpdate>> {
        self.in_place("lost")
    }

    fn in_place(&self, place: &str) -> Result<Vec<PortUpdate>> {
        let directory = self.directory.join(place);
        let mut found = Vec::new();
        for id in files::ids(&directory)? {
            let port_update: Option<PortUpdate> = read(&file_of(&directory, &id))?;
            found.extend(port_update.filter(|port_update| port_update.port.id == id));
        }
        Ok(found)
    }

    /// The right to carry out updates for all processes; `None` where another process has it.
    pub(crate) fn worker(&self) -> Result<Option<File>> {
        files::only(&self.directory.join("clerk"))
    }

    /// Whether a process carries out queued updates.
    pub(crate) fn is_kept(&self) -> bool {
        files::is_held(&self.directory.join("clerk"))
    }

    /// Where something appears when there is work.
    pub(crate) fn notifier(&self) -> Result<PathBuf> {
        let notifier = self.directory.join("owed");
        make_directory(&notifier).map(|()| notifier)
    }

    /// Removes what writers left that were killed.
    pub(crate) fn sweep(&self, before: SystemTime) -> Result<()> {
        files::sweep(&self.directory.join("draft"), before)
    }

    fn queued(&self, id: &ResourceId) -> PathBuf {
        self.file("owed", id)
    }

    fn started(&self, id: &ResourceId) -> PathBuf {
        self.file("begun", id)
    }

    fn cancelled_file(&self, id: &ResourceId) -> PathBuf {
        self.file("void", id)
    }

    fn file(&self, place: &str, id: &ResourceId) -> PathBuf {
        file_of(&self.directory.join(place), id)
    }
}

/// The lock of a file, wherever the file is moved; `None` where there is no file, or another
/// process holds it and `how` does not wait.
fn lock_file(path: &Path, how: FlockOperation) -> Result<Option<File>> {
    let file = match OpenOptions::new().read(true).custom_flags(nofollow()).open(path) {
        Ok(file) => file,
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(failed("opening", path, cause)),
    };
    match file::lock(&file, how) {
        Ok(()) => Ok(Some(file)),
        Err(cause) if cause.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(cause) => Err(failed("locking", path, cause)),
    }
}

/// Whether this is the file that exists.
fn is_of(file: &File, path: &Path) -> bool {
    let same = |there: fs::Metadata| {
        file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
    };
    fs::symlink_metadata(path).is_ok_and(same)
}
