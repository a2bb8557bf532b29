//! The records of pods on disk: one file and one lock for each.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use model::Result;

use super::Record;
use crate::PodId;
use crate::disk::{self, Lock};

/// The directory of records.
pub(super) struct RecordStore {
    directory: PathBuf,
}

/// The exclusive right to work on a pod.
pub(super) struct PodLock {
    record: PathBuf,
    lock: PathBuf,
    held: Lock,
}

impl RecordStore {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    fn record(&self, pod: &PodId) -> PathBuf {
        self.directory.join(format!("{pod}.json"))
    }

    pub(super) fn pods(&self) -> Result<Vec<PodId>> {
        let names = disk::names(&self.directory, ".json")?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    pub(super) fn read(&self, pod: &PodId) -> Result<Option<Record>> {
        disk::read(&self.record(pod))?.as_ref().map(Record::from_value).transpose()
    }

    /// Waits until no other process works on the pod.
    pub(super) fn lock(&self, pod: &PodId) -> Result<PodLock> {
        disk::make_directory(&self.directory)?;
        let lock = self.directory.join(format!("{pod}.lock"));
        Ok(PodLock { record: self.record(pod), held: Lock::wait(&lock)?, lock })
    }

    /// The turn, where no other process works on the pod.
    pub(super) fn try_lock(&self, pod: &PodId) -> Result<Option<PodLock>> {
        disk::make_directory(&self.directory)?;
        let lock = self.directory.join(format!("{pod}.lock"));
        let held = Lock::now(&lock)?;
        Ok(held.map(|held| PodLock { record: self.record(pod), held, lock }))
    }
}

impl PodLock {
    /// A process with this file open has the turn: a call that outlives its caller.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.held.as_fd()
    }

    pub(super) fn read(&self) -> Result<Option<Record>> {
        disk::read(&self.record)?.as_ref().map(Record::from_value).transpose()
    }

    pub(super) fn write(&self, record: &Record) -> Result<()> {
        disk::write(&self.record, &record.to_value())
    }

    /// Nothing is left of the pod.
    pub(super) fn forget(self) -> Result<()> {
        disk::remove(&self.record)?;
        disk::remove(&self.record.with_extension("new"))?;
        disk::remove(&self.lock)
    }
}
