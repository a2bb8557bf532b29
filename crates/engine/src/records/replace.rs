//! Replaces the record of an attachment, on condition that it is unchanged.

use model::{Attachment, Result};

use crate::Records;
use crate::contention::overtaken;
use crate::port::{Expect, Key, Outcome, Record, Txn};
use crate::records::book::Read;

impl Records<'_> {
    /// Writes the record again if this process still owns it. Otherwise another process detached
    /// it.
    pub(crate) fn replace(
        &self,
        started: &mut Read<Box<Attachment>>,
        with: Box<Attachment>,
        txn: Txn,
    ) -> Result<()> {
        match self.try_replace(started, with, txn)? {
            None => Ok(()),
            Some(_) => Err(overtaken(&started.value.id)),
        }
    }

    pub(crate) fn try_replace(
        &self,
        started: &mut Read<Box<Attachment>>,
        with: Box<Attachment>,
        mut txn: Txn,
    ) -> Result<Option<Key>> {
        let key = Key::Attachment(with.id.clone(), with.layer);
        txn.expect.insert(0, (key.clone(), Expect::At(started.revision)));
        match self.store.commit(&txn.put(key, Record::Attachment(with.clone())))? {
            Outcome::Done(revision) => {
                *started = Read { value: with, revision };
                Ok(None)
            }
            Outcome::Lost(key) => Ok(Some(key)),
        }
    }
}
