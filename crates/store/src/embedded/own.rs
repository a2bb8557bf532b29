//! What this process wrote itself need not be read again as long as nobody wrote after it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::port::{Key, Record, Revision, Versioned};
use model::Result;

use super::half::Open;
use super::header::{Header, State};

/// More are forgotten: a short-lived process writes few, and a daemon is seldom the only one.
const MOST: usize = 64;

/// The records of one half that this process wrote, as they are since its last transaction.
///
/// Every transaction that changes this half raises the sequence number of its lock file before it does (one
/// that takes that back has changed nothing). So while that number is the one of our own last transaction,
/// what it left is what is there. The same could not be said of what was only read: a file may have been read
/// between another's number and change.
#[derive(Debug, Default)]
pub(super) struct Own(Mutex<Last>);

#[derive(Debug, Default)]
struct Last {
    sequence: u64,
    /// `None` is a deleted one.
    records: BTreeMap<Key, Option<Versioned>>,
}

impl Own {
    /// What is under `key`, where that is known without reading its file.
    pub(super) fn get(&self, key: &Key, open: &Open) -> Result<Option<Option<Versioned>>> {
        let last = self.last();
        let Some(record) = last.records.get(key) else { return Ok(None) };
        let calm = Header { sequence: last.sequence, state: State::Calm };
        let is_so = open.header()? == calm && open.is_alive()?;
        Ok(is_so.then(|| record.clone()))
    }

    /// Of what is under `key`, for whoever holds the lock, whose file says `sequence`.
    pub(super) fn revision(&self, key: &Key, sequence: u64) -> Option<Option<Revision>> {
        let last = self.last();
        let record = last.records.get(key).filter(|_| last.sequence == sequence)?;
        Some(record.as_ref().map(|record| record.revision))
    }

    /// After a transaction of ours that changed this half, which said `before` until then.
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
