//! Closes a network to attachments while what they share is removed.
//!
//! The mark is the record [`Key::Configured`], in the stage [`Stage::Unmaking`]. It belongs to this boot, as
//! what is removed does, so it costs no write to a disk. Every attach of a link expects that record to be as
//! it was read. The mark of a dead process keeps nothing out.

use model::{Attachment, Error, Network, Result, Stage, Unmaking};

use crate::Networks;
use crate::contention::RACES;
use crate::port::{Expect, Key, Outcome, Prefix, Record, Revision, Txn};
use crate::records::book::unchanged;
use crate::records::stage::opened;

/// A network that is closed.
pub(crate) struct Closed {
    key: Key,
    revision: Revision,
    /// As a configuration described it before.
    before: Option<Box<Network>>,
}

/// What became of a network that was closed.
pub(crate) enum Closing<T> {
    /// It was done.
    Done(T),
    /// Nothing was done, because this is attached.
    Used(Box<Attachment>),
}

impl Networks<'_> {
    /// Does something while nothing can be attached to the network, and nothing is. `is_over` says of the result
    /// whether the network is gone; otherwise it is open again.
    ///
    /// # Errors
    /// `TryAgain` where another process, or another thread, removes or renames the network.
    pub(super) fn while_closed<T>(
        &self,
        (network, why): (&Network, Unmaking),
        is_over: impl FnOnce(&T) -> bool,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<Closing<T>> {
        let closed = self.close(network, why)?;
        // No attachment can begin any more, but one may have begun just before.
        let done = self
            .records
            .attachments_in(&Prefix::AttachmentsOf(network.name.clone()))
            .and_then(|records| match records.into_iter().next() {
                Some(read) => Ok(Closing::Used(read.value)),
                None => work().map(Closing::Done),
            });
        match &done {
            Ok(Closing::Done(result)) if is_over(result) => {}
            Ok(_) | Err(_) => self.reopen(closed),
        }
        done
    }

    fn close(&self, network: &Network, why: Unmaking) -> Result<Closed> {
        let key = Key::Configured(network.name.clone());
        for _ in 0..RACES {
            let known = self.records.network_under(&key)?;
            let expect = unchanged(known.as_ref());
            let before = known.map(|read| read.value);
            before.as_ref().map_or(Ok(()), |before| self.records.refuse_if_worked_on(before))?;
            let mut mark = before.clone().unwrap_or_else(|| Box::new(network.clone()));
            mark.stage = Stage::Unmaking { by: self.host.me(), why };
            let txn =
                Txn::new().require(key.clone(), expect).put(key.clone(), Record::Network(mark));
            if let Outcome::Done(revision) = self.store.commit(&txn)? {
                return Ok(Closed { key, revision, before });
            }
        }
        Err(Error::try_again(format!("network {} changes all the time", network.name)))
    }

    fn reopen(&self, closed: Closed) {
        let Closed { key, revision, before } = closed;
        let txn = Txn::new().require(key.clone(), Expect::At(revision));
        let txn = match before {
            Some(before) => txn.put(key, Record::Network(Box::new(opened(*before)))),
            None => txn.delete(key),
        };
        // If this fails, the network is closed until this process ends. The failure before it is reported.
        let _ = self.store.commit(&txn);
    }
}
