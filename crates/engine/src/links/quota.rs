//! The quota of a container for a period: the kernel counts and refuses, and the book outlives the kernel's
//! count.
//!
//! Everybody who has an attachment restored has it counted too ([`Links::meter`]): on from what the book has, or
//! anew where a period has begun. What was counted since is written now and then ([`Links::note_usages`]), and
//! before an attachment is undone.

use std::collections::BTreeSet;

use model::{
    Amendment, Attachment, AttachmentId, Error, Layer, NetworkName, Phase, Quota, Result,
    Timestamp, Usage,
};

use crate::Links;
use crate::contention::RACES;
use crate::failures::all_of;
use crate::port::{Key, Metered, Outcome, Prefix, Record, Txn, Versioned};
use crate::records::book::{Read, key_of_amendment, unchanged};

/// How old what is written may be, in seconds.
const OLDEST: u64 = 60;

/// What [`Links::note_usages`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noting {
    /// What grew by a hundredth of its quota, is a minute old, or tells something: each writing is synced.
    Due,
    /// Everything.
    All,
}

/// A container that has used up its quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedUp {
    /// Which.
    pub id: AttachmentId,
    /// The container's name.
    pub name: String,
    /// Its quota.
    pub quota: Quota,
}

/// What the book has of the period that is now.
struct Account {
    key: Key,
    known: Option<Read<Usage>>,
    now: Usage,
}

impl Account {
    /// Whether the book has it as it is.
    fn is_known(&self) -> bool {
        self.known.as_ref().is_some_and(|known| known.value == self.now)
    }
}

impl Links<'_> {
    /// How much of its quota an attached container has used, as the kernel counts it, or else as the book has it.
    ///
    /// # Errors
    /// Where neither can be read.
    pub fn used_of(&self, attachment: &Attachment) -> Result<Option<u64>> {
        let Some(quota) = attachment.quota() else { return Ok(None) };
        let account = self.account(attachment, quota)?;
        if !account.is_known() {
            return Ok(Some(0));
        }
        let counted = self.driver.metered(attachment)?;
        Ok(Some(counted.map_or(account.now.used, |it| it.used.max(account.now.used))))
    }

    /// How much of the quota that a name keeps is used, as the book has it: by the interface that used most.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn used_of_name(&self, amendment: &Amendment) -> Result<Option<u64>> {
        let Some(quota) = amendment.quota() else { return Ok(None) };
        let at = self.host.now();
        let used =
            self.usages_of_name(amendment)?.into_iter().filter_map(|(_, it)| match it.record {
                Record::Usage(usage) if usage.is_of(quota.period, at) => Some(usage.used),
                _ => None,
            });
        Ok(Some(used.max().unwrap_or_default()))
    }

    /// Writes what containers have used of their quotas since, as far as `noting` says, and has those counted anew
    /// whose period has begun. An attachment on which another thread works is left for the next time. Returns those that have used theirs up
    /// since the last time, each once in a period.
    ///
    /// # Errors
    /// The first; the others are looked at all the same.
    pub fn note_usages(&self, noting: Noting, used_up: &mut Vec<UsedUp>) -> Result<()> {
        // What has a quota has a usage since it was attached; no record of another network is read.
        let usages = self.store.list(&Prefix::Usages)?.into_iter();
        let networks: BTreeSet<NetworkName> =
            usages.filter_map(|(key, _)| network_of(key)).collect();
        let mut failures = Vec::new();
        for network in networks {
            for read in self.records.attachments_in(&Prefix::AttachmentsOf(network))? {
                match self.note_one(&read, noting) {
                    Ok(over) => used_up.extend(over),
                    Err(error) => failures.push(error),
                }
            }
        }
        all_of(failures)
    }

    fn note_one(&self, read: &Read<Box<Attachment>>, noting: Noting) -> Result<Option<UsedUp>> {
        let attachment = &read.value;
        let is_complete = matches!(attachment.phase, Phase::Attached(_));
        let Some(quota) = attachment.quota().filter(|_| is_complete) else { return Ok(None) };
        let Some(_lock) = self.host.try_lock_attachment(&attachment.id) else { return Ok(None) };
        let is_news = self.note(read, quota, noting)?;
        let (id, name) = (attachment.id.clone(), attachment.container_name());
        Ok(is_news.then_some(UsedUp { id, name, quota }))
    }

    /// Whether it has used up its quota, and that is to be reported.
    fn note(&self, read: &Read<Box<Attachment>>, quota: Quota, noting: Noting) -> Result<bool> {
        for _ in 0..RACES {
            let account = self.account(&read.value, quota)?;
            if !account.is_known() {
                self.restore_as_recorded(read)?;
                return Ok(false);
            }
            // Read behind the book: what was counted before a period began is not written into it.
            let Some(counted) = self.driver.metered(&read.value)? else { return Ok(false) };
            let before = account.now;
            let is_over = counted.used >= quota.bytes;
            let used = counted.used.max(before.used);
            // A count that fell behind the book is no reason to report it again.
            let reported = used >= quota.bytes && (is_over || before.reported);
            let now = Usage { used, reported, ..before };
            let is_news = is_over && !before.reported;
            let is_kept = now == before
                || (noting == Noting::Due && !is_due(before, now, quota, self.host.now()));
            if is_kept || self.write_usage(&account, now)? {
                return Ok(is_news);
            }
        }
        Err(lost(&read.value))
    }

    /// Writes what was counted of an attachment that is about to be undone. What fails here must not keep it: it is
    /// counted less by what it carried since the last look.
    pub(super) fn note_last(&self, attachment: &Attachment) {
        let Some(quota) = attachment.quota() else { return };
        for _ in 0..RACES {
            let Ok(account) = self.account(attachment, quota) else { return };
            let Ok(Some(counted)) = self.driver.metered(attachment) else { return };
            if !account.is_known() || counted.used <= account.now.used {
                return;
            }
            let now = Usage { used: counted.used, ..account.now };
            if !matches!(self.write_usage(&account, now), Ok(false)) {
                return;
            }
        }
    }

    /// Has an attachment counted as its record says, if it is not. Whether it was not.
    pub(super) fn meter(&self, attachment: &Attachment) -> Result<bool> {
        let Some(quota) = attachment.quota() else { return self.end_metering(attachment) };
        for _ in 0..RACES {
            let account = self.account(attachment, quota)?;
            let Quota { bytes, .. } = quota;
            if !account.is_known() {
                // The kernel first: its old count must not be taken for that of the new period.
                self.driver.meter(attachment, Metered { bytes, used: account.now.used })?;
                if self.write_usage(&account, account.now)? {
                    return Ok(true);
                }
                continue;
            }
            let counted = self.driver.metered(attachment)?;
            let least = account.now.used.min(bytes);
            if counted.is_some_and(|it| it.bytes == bytes && it.used >= least) {
                return Ok(false);
            }
            let used = counted.map_or(account.now.used, |it| it.used.max(account.now.used));
            return self.driver.meter(attachment, Metered { bytes, used }).map(|()| true);
        }
        Err(lost(attachment))
    }

    /// The same of an attachment that is made. An earlier one of the same identity may have left a count: that
    /// of one without a quota would cut it off for good.
    pub(crate) fn meter_made(&self, attachment: &Attachment) -> Result<()> {
        let is_free = attachment.layer == Layer::Link && attachment.quota().is_none();
        match is_free && attachment.refuse_quota().is_ok() {
            true => self.end_count(attachment).map(drop),
            false => self.meter(attachment).map(drop),
        }
    }

    /// Sets the limits of an attached container to those of its wiring, its quota too.
    pub(crate) fn limit_as_recorded(&self, attachment: &Attachment) -> Result<()> {
        self.driver.limit(attachment)?;
        self.meter(attachment).map(drop)
    }

    /// Ends what a killed command left of a quota that was lifted. Whose limits were never changed has none.
    fn end_metering(&self, attachment: &Attachment) -> Result<bool> {
        let is_changed = attachment.layer == Layer::Link && attachment.wiring.bandwidth.is_some();
        if is_changed { self.end_count(attachment) } else { Ok(false) }
    }

    fn end_count(&self, attachment: &Attachment) -> Result<bool> {
        match self.driver.metered(attachment)? {
            Some(_) => self.driver.unmeter(attachment).map(|()| true),
            None => Ok(false),
        }
    }

    /// Adds to a transaction that what was used follows a record to its new name. The old name's stays where
    /// that keeps a quota: its next container counts on too.
    pub(crate) fn carry_usage(
        &self,
        before: &Attachment,
        after: &Attachment,
        txn: Txn,
    ) -> Result<Txn> {
        let Some(quota) = before.quota() else { return Ok(txn) };
        let (old, new) = (self.account(before, quota)?, self.account(after, quota)?);
        if old.key == new.key || !old.is_known() {
            return Ok(txn);
        }
        // A name is written all the same where the kernel does not answer: the book is a minute old at most.
        let counted = self.driver.metered(before).ok().flatten().map_or(0, |it| it.used);
        let used = counted.max(old.now.used).max(new.now.used);
        let now = Usage { used, ..old.now };
        let kept = self.records.amendment_under(&key_of_amendment(&Amendment::of(before)?))?;
        let txn = txn
            .require(old.key.clone(), unchanged(old.known.as_ref()))
            .require(new.key.clone(), unchanged(new.known.as_ref()))
            .put(new.key, Record::Usage(now));
        Ok(match kept.is_some_and(|read| read.value.quota().is_some()) {
            true => txn,
            false => txn.delete(old.key),
        })
    }

    /// Adds to a transaction that what a container used is forgotten, where its record loses its quota.
    pub(crate) fn forget_usage_of(
        &self,
        before: &Attachment,
        now: &Attachment,
        txn: Txn,
    ) -> Result<Txn> {
        if before.quota().is_none() || now.quota().is_some() {
            return Ok(txn);
        }
        Ok(txn.delete(key_of_usage(before)?))
    }

    /// Adds to a transaction that what a name used is forgotten, where `before` had a quota and `now` has none.
    pub(crate) fn forget_usage(
        &self,
        before: &Amendment,
        now: &Amendment,
        txn: Txn,
    ) -> Result<Txn> {
        match before.quota().is_some() && now.quota().is_none() {
            true => {
                let usages = self.usages_of_name(before)?.into_iter();
                Ok(usages.fold(txn, |txn, (key, _)| txn.delete(key)))
            }
            false => Ok(txn),
        }
    }

    /// What the interfaces of a name have used.
    fn usages_of_name(&self, amendment: &Amendment) -> Result<Vec<(Key, Versioned)>> {
        let mut usages = self.usages_of(&amendment.network)?;
        usages.retain(|(key, _)| {
            matches!(key, Key::Usage(_, runtime, name, _)
                if (runtime, name) == (&amendment.runtime, &amendment.name))
        });
        Ok(usages)
    }

    /// What was used on a network, of all names.
    pub(crate) fn usages_of(&self, network: &NetworkName) -> Result<Vec<(Key, Versioned)>> {
        self.store.list(&Prefix::UsagesOf(network.clone()))
    }

    fn account(&self, attachment: &Attachment, quota: Quota) -> Result<Account> {
        let key = key_of_usage(attachment)?;
        let known = self.records.usage_under(&key)?;
        let at = self.host.now();
        let current = known.as_ref().filter(|it| it.value.is_of(quota.period, at));
        let now = current.map_or_else(|| Usage::fresh(quota.period, at), |it| it.value);
        Ok(Account { key, known, now })
    }

    /// `false` where another process has written meanwhile.
    fn write_usage(&self, account: &Account, now: Usage) -> Result<bool> {
        let txn = Txn::new()
            .require(account.key.clone(), unchanged(account.known.as_ref()))
            .put(account.key.clone(), Record::Usage(Usage { noted: self.host.now(), ..now }));
        Ok(matches!(self.store.commit(&txn)?, Outcome::Done(_)))
    }
}

/// Where is kept what an attachment used, beside the change that sets the quota.
fn key_of_usage(attachment: &Attachment) -> Result<Key> {
    let Amendment { network, runtime, name, .. } = Amendment::of(attachment)?;
    Ok(Key::Usage(network, runtime, name, attachment.id.ifname.clone()))
}

fn network_of(key: Key) -> Option<NetworkName> {
    match key {
        Key::Usage(network, ..) => Some(network),
        _ => None,
    }
}

/// Whether it is time to write what was used.
fn is_due(before: Usage, now: Usage, quota: Quota, at: Timestamp) -> bool {
    now.reported != before.reported
        || now.used - before.used >= quota.bytes / 100
        // A clock that is set back makes nothing young.
        || at.0.abs_diff(before.noted.0) >= OLDEST
}

fn lost(attachment: &Attachment) -> Error {
    Error::try_again(format!("the quota of {}: lost {RACES} races in a row", attachment.id))
}
