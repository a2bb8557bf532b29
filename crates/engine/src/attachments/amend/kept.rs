//! Amendments that are kept under a container's name, and the records of attached containers to which they
//! belong.

use std::collections::BTreeSet;

use model::{
    Amendment, AmendmentPart, Attachment, AttachmentId, Error, Layer, NetworkName, OwnerName,
    Phase, Result, Runtime,
};

use crate::Attachments;
use crate::contention::RACES;
use crate::port::{Key, Outcome, Prefix, Presence, Record, Txn};
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
        // A container can be named as an endpoint's id.
        amendment.is_of_endpoint &= record.owner.is_none();
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

    /// Adds to a transaction that the own rules of a container are kept under its new name, too, unless that keeps
    /// others: when it comes back it may go no further than before. The old name's stay, for its next container.
    /// What is kept under the id of an endpoint that had no name yet goes over to the name whole.
    pub(in crate::attachments) fn carry_kept(
        &self,
        before: &Attachment,
        after: &Attachment,
        txn: Txn,
    ) -> Result<Txn> {
        // What has no lasting name keeps nothing.
        let (Ok(old), Ok(mut new)) = (Amendment::of(before), Amendment::of(after)) else {
            return Ok(txn);
        };
        if old.name == new.name {
            return Ok(txn);
        }
        let old_key = key_of_amendment(&old);
        let Some(old) = self.records.amendment_under(&old_key)? else { return Ok(txn) };
        let known = self.records.amendment_under(&key_of_amendment(&new))?;
        if let Some(known) = &known {
            new = *known.value.clone();
        }
        if before.owner.is_none() && old.value.is_of_endpoint {
            new.complete(&old.value);
            let txn = txn.require(old_key.clone(), unchanged(Some(&old))).delete(old_key);
            let txn = self.forget_all_usage(&old.value, txn)?;
            return self.kept(known.as_ref(), Box::new(new), txn);
        }
        let (Some(rules), None) = (&old.value.egress, &new.egress) else { return Ok(txn) };
        new.egress = Some(rules.clone());
        let txn = txn.require(old_key, unchanged(Some(&old)));
        self.kept(known.as_ref(), Box::new(new), txn)
    }

    /// Forgets what is kept under ids of endpoints that are gone, as no other gets them. On a network with a record that
    /// cannot be read all stays: that may be the endpoint's.
    pub(crate) fn forget_used_once(&self) -> Result<()> {
        let mut kept = self.records.amendments_in(&Prefix::Amendments)?;
        kept.retain(|read| read.value.is_of_endpoint);
        if kept.is_empty() {
            return Ok(());
        }
        // Read afterwards: the record of an endpoint is there before anything is kept of it.
        let there: BTreeSet<(NetworkName, String)> =
            self.records.attachments()?.iter().flat_map(names_of).collect();
        for read in kept {
            let (network, name) = (read.value.network.clone(), read.value.name.to_string());
            let is_unsure = self.records.has_damaged(&Prefix::AttachmentsOf(network.clone()))?;
            if is_unsure || there.contains(&(network, name)) {
                continue;
            }
            let key = key_of_amendment(&read.value);
            let txn = Txn::new().require(key.clone(), unchanged(Some(&read))).delete(key);
            let txn = self.forget_all_usage(&read.value, txn)?;
            // What has changed meanwhile is looked at the next time.
            self.store.commit(&txn)?;
        }
        Ok(())
    }

    /// Adds to a transaction that what a name used of a quota is forgotten, as the name itself is.
    fn forget_all_usage(&self, kept: &Amendment, txn: Txn) -> Result<Txn> {
        let nothing = Amendment { bandwidth: None, ..kept.clone() };
        self.links.forget_usage(kept, &nothing, txn)
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

/// Whatever a container may be called by, on its network.
fn names_of(record: &Attachment) -> Vec<(NetworkName, String)> {
    let owner = record.owner.as_ref().map(OwnerName::to_string);
    let ids = [record.id.container.to_string(), record.sandbox_name().to_string()];
    ids.into_iter().chain(owner).map(|name| (record.id.network.clone(), name)).collect()
}
