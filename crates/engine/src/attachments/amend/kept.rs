//! What a container's name keeps, and the records of attached containers that it belongs to.

use model::{
    Amendment, AmendmentPart, Attachment, AttachmentId, Error, Layer, NetworkName, OwnerName,
    Phase, Result, Runtime,
};

use crate::Attachments;
use crate::contention::RACES;
use crate::port::{Key, Outcome, Presence, Record, Txn};
use crate::records::book::{Read, key_of_amendment, unchanged};

impl Attachments<'_> {
    /// The record of a layer, where it is attached and its interface is there.
    pub(super) fn attached(
        &self,
        id: &AttachmentId,
        layer: Layer,
    ) -> Result<Option<Read<Box<Attachment>>>> {
        Ok(self.records.record_of(id, layer)?.filter(|read| {
            matches!(read.value.phase, Phase::Attached(_))
                && self.links.presence(&read.value) != Presence::Gone
        }))
    }

    /// Adds to a transaction that the container's name keeps a change.
    pub(super) fn remember_change(
        &self,
        record: &Attachment,
        txn: Txn,
        change: impl FnOnce(&mut Amendment),
    ) -> Result<Txn> {
        let mut amendment = Box::new(Amendment::of(record)?);
        let known = self.records.amendment_under(&key_of_amendment(&amendment))?;
        if let Some(known) = &known {
            amendment.clone_from(&known.value);
        }
        change(&mut amendment);
        self.kept(known.as_ref(), amendment, txn)
    }

    /// Adds to a transaction that the container's name keeps this still; `None` where it does not: another
    /// process may have it forgotten since it was read.
    pub(super) fn while_kept(
        &self,
        record: &Attachment,
        txn: Txn,
        is_so: impl FnOnce(&Amendment) -> bool,
    ) -> Result<Option<Txn>> {
        let key = key_of_amendment(&Amendment::of(record)?);
        let known = self.records.amendment_under(&key)?.filter(|read| is_so(&read.value));
        Ok(known.map(|read| txn.require(key, unchanged(Some(&read)))))
    }

    /// Forgets a part of what the containers of a name would get again, where none is attached; on every
    /// network unless one is given. Whether there was any.
    ///
    /// # Errors
    /// Where the records cannot be read or written.
    pub fn forget_amendment(
        &self,
        (runtime, name): (Runtime, &OwnerName),
        network: Option<&NetworkName>,
        part: AmendmentPart,
    ) -> Result<bool> {
        for _ in 0..RACES {
            let mut known = self.amendments_of(runtime, name, network)?;
            known.retain(|read| read.value.has(part));
            if known.is_empty() {
                return Ok(false);
            }
            let mut txn = Txn::new();
            for read in &known {
                let mut rest = read.value.clone();
                rest.clear(part);
                txn = self.kept(Some(read), rest, txn)?;
            }
            if let Outcome::Done(_) = self.store.commit(&txn)? {
                return Ok(true);
            }
        }
        Err(Error::try_again(format!("the {part} of {name}: lost {RACES} races in a row")))
    }

    /// Adds to a transaction that a name keeps this now; nothing is no record.
    pub(super) fn kept(
        &self,
        known: Option<&Read<Box<Amendment>>>,
        now: Box<Amendment>,
        txn: Txn,
    ) -> Result<Txn> {
        let key: Key = key_of_amendment(&now);
        let txn = txn.require(key.clone(), unchanged(known));
        let txn = match known {
            Some(known) => self.links.forget_usage(&known.value, &now, txn)?,
            None => txn,
        };
        Ok(match now.is_empty() {
            true => txn.delete(key),
            false => txn.put(key, Record::Amendment(now)),
        })
    }
}
