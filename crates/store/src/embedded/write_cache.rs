//! A cache of this process's own writes, valid as long as no other process has written.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::port::{Key, Record, Revision, Versioned};
use model::Result;

use super::header::{Header, State};
use super::open::Open;

/// The limit of the cache. A short-lived process writes few records, and a daemon is seldom the
/// only writer.
const MOST: usize = 64;

/// The records of one half that this process wrote, as of its last transaction.
///
/// Every transaction that changes this half first raises the sequence number of its lock file (one
/// that restores the number has changed nothing). So while that number is the one of this process's
/// last transaction, its records are current. The same is not true of records that were only read:
/// a file may have been read between another process's number and its change.
#[derive(Debug, Default)]
pub(super) struct WriteCache(Mutex<Last>);

#[derive(Debug, Default)]
struct Last {
    sequence: u64,
    /// `None` is a deleted one.
    records: BTreeMap<Key, Option<Versioned>>,
}

impl WriteCache {
    /// The value under `key`, if it is known without reading its file.
    pub(super) fn get(&self, key: &Key, open: &Open) -> Result<Option<Option<Versioned>>> {
        let last = self.last();
        let Some(record) = last.records.get(key) else { return Ok(None) };
        let calm = Header { sequence: last.sequence, state: State::Calm };
        let is_so = open.header()? == calm && open.is_alive()?;
        Ok(is_so.then(|| record.clone()))
    }

    /// The revision of `key`, for the holder of the lock, whose file has `sequence`.
    pub(super) fn revision(&self, key: &Key, sequence: u64) -> Option<Option<Revision>> {
        let last = self.last();
        let record = last.records.get(key).filter(|_| last.sequence == sequence)?;
        Some(record.as_ref().map(|record| record.revision))
    }

    /// Updates the cache after a transaction of this process that changed this half; its sequence
    /// was `before` until then.
    pub(super) fn changed<'a>(
        &self,
        before: u64,
        revision: Revision,
        changes: impl Iterator<Item = (&'a Key, Option<&'a Record>)>,
    ) {
        let mut last = self.last();
        if last.sequence != before || last.records.len() > MOST {
            last.records.clear();
        }
        last.sequence = revision.0;
        for (key, record) in changes {
            let written = record.map(|record| Versioned { record: record.clone(), revision });
            last.records.insert(key.clone(), written);
        }
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
