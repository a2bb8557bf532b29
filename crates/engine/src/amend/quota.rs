//! What a container may carry in a period: the kernel counts and refuses, and the book outlives the kernel's count.
//!
//! Everybody who has an attachment restored has it counted too ([`Engine::meter`]): on from what the book has, or
//! anew where a period has begun. What was counted since is written now and then ([`Engine::note_usages`]), and
//! before an attachment is undone.

use model::{Amendment, Attachment, AttachmentId, Error, Layer, Phase, Quota, Result, Usage};

use super::key_of_amendment;
use crate::Engine;
use crate::attach::RACES;
use crate::book::{Read, unchanged};
use crate::gc::all_of;
use crate::port::{Key, Metered, Outcome, Prefix, Record, Txn};

/// A container that has used up its quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedUp {
    /// Which.
    pub id: AttachmentId,
    /// What it is called.
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

impl Engine<'_> {
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

    /// How much of the quota that a name keeps is used, as the book has it.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn used_of_name(&self, amendment: &Amendment) -> Result<Option<u64>> {
        let quota = amendment.bandwidth.as_ref().and_then(|limits| limits.quota);
        let key = key_of_usage(&key_of_amendment(amendment));
        let (Some(quota), Some(key)) = (quota, key) else { return Ok(None) };
        let known = self.usage_under(&key)?.map(|read| read.value);
        let current = known.filter(|it| it.is_of(quota.period, self.host.now()));
        Ok(Some(current.map_or(0, |it| it.used)))
    }

    /// Writes what containers have used of their quotas since, and has those counted anew whose period has begun.
    /// An attachment on which another thread works is left for the next time. Returns those that have used theirs up
    /// since the last time, each once in a period.
    ///
    /// # Errors
    /// The first; the others are looked at all the same.
    pub fn note_usages(&self, used_up: &mut Vec<UsedUp>) -> Result<()> {
        let (mut failures, has_any) = (Vec::new(), self.has_quotas()?);
        let records = if has_any { self.records(&Prefix::Attachments)? } else { Vec::new() };
        for read in records {
            let is_complete = matches!(read.value.phase, Phase::Attached(_));
            let Some(quota) = read.value.quota().filter(|_| is_complete) else { continue };
            let Some(_lock) = self.host.try_lock_attachment(&read.value.id) else { continue };
            match self.note(&read, quota) {
                Ok(true) => used_up.push(UsedUp {
                    id: read.value.id.clone(),
                    name: read.value.container_name(),
                    quota,
                }),
                Ok(false) => {}
                Err(error) => failures.push(error),
            }
        }
        all_of(failures)
    }

    /// Whether a name keeps a quota: only then a container has one.
    fn has_quotas(&self) -> Result<bool> {
        let kept = self.amendments()?;
        Ok(kept.iter().filter_map(|it| it.bandwidth.as_ref()).any(|it| it.quota.is_some()))
    }

    /// Whether it has used up its quota, and that is to be reported.
    fn note(&self, read: &Read<Box<Attachment>>, quota: Quota) -> Result<bool> {
        for _ in 0..RACES {
            let account = self.account(&read.value, quota)?;
            if !account.is_known() {
                self.restore_as_recorded(read)?;
                return Ok(false);
            }
            // Read behind the book: what was counted before a period began is not written into it.
            let Some(counted) = self.driver.metered(&read.value)? else { return Ok(false) };
            let is_over = counted.used >= quota.bytes;
            let now = Usage {
                used: counted.used.max(account.now.used),
                reported: is_over,
                ..account.now
            };
            let is_news = is_over && !account.now.reported;
            if now == account.now || self.write_usage(&account, now)? {
                return Ok(is_news);
            }
        }
        Err(lost(&read.value))
    }

    /// Writes what was counted of an attachment that is about to be undone. What fails here must not keep it: it is
    /// counted less by what it carried since the last look.
    pub(crate) fn note_last(&self, attachment: &Attachment) {
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
    pub(crate) fn meter(&self, attachment: &Attachment) -> Result<bool> {
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
            if counted.is_some_and(|it| it.bytes == bytes) {
                return Ok(false);
            }
            let used = counted.map_or(account.now.used, |it| it.used.max(account.now.used));
            return self.driver.meter(attachment, Metered { bytes, used }).map(|()| true);
        }
        Err(lost(attachment))
    }

    /// Sets the limits of an attached container to those of its wiring, its quota too.
    pub(crate) fn limit_as_recorded(&self, attachment: &Attachment) -> Result<()> {
        self.driver.limit(attachment)?;
        self.meter(attachment).map(drop)
    }

    /// Ends what a killed command left of a quota that was lifted. Whose limits were never changed has none.
    fn end_metering(&self, attachment: &Attachment) -> Result<bool> {
        let is_changed = attachment.layer == Layer::Link && attachment.wiring.bandwidth.is_some();
        if !is_changed || self.driver.metered(attachment)?.is_none() {
            return Ok(false);
        }
        self.driver.unmeter(attachment).map(|()| true)
    }

    fn account(&self, attachment: &Attachment, quota: Quota) -> Result<Account> {
        let amendment = key_of_amendment(&Amendment::of(attachment)?);
        let key = key_of_usage(&amendment)
            .ok_or_else(|| Error::bug(format!("{} has another key", attachment.id)))?;
        let known = self.usage_under(&key)?;
        let at = self.host.now();
        let current = known.as_ref().filter(|it| it.value.is_of(quota.period, at));
        let now = current.map_or_else(|| Usage::fresh(quota.period, at), |it| it.value);
        Ok(Account { key, known, now })
    }

    /// `false` where another process has written meanwhile.
    fn write_usage(&self, account: &Account, now: Usage) -> Result<bool> {
        let txn = Txn::new()
            .expect(account.key.clone(), unchanged(account.known.as_ref()))
            .put(account.key.clone(), Record::Usage(now));
        Ok(matches!(self.store.commit(&txn)?, Outcome::Done(_)))
    }
}

/// Where is kept what was used, beside the change that sets the quota.
pub(crate) fn key_of_usage(amendment: &Key) -> Option<Key> {
    match amendment {
        Key::Amendment(network, runtime, name) => {
            Some(Key::Usage(network.clone(), *runtime, name.clone()))
        }
        _ => None,
    }
}

/// Adds to a transaction that what was used is forgotten, where `before` had a quota and `now` has none.
pub(crate) fn forget_usage(before: &Amendment, now: Option<&Amendment>, txn: Txn) -> Txn {
    let has = |it: &Amendment| it.bandwidth.as_ref().is_some_and(|it| it.quota.is_some());
    match key_of_usage(&key_of_amendment(before)) {
        Some(key) if has(before) && !now.is_some_and(has) => txn.delete(key),
        Some(_) | None => txn,
    }
}

fn lost(attachment: &Attachment) -> Error {
    Error::try_again(format!("the quota of {}: lost {RACES} races in a row", attachment.id))
}
