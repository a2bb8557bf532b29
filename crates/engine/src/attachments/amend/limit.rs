//! Limits of a running container's bandwidth.

use model::{Amendment, Attachment, AttachmentId, Bandwidth, Error, Layer, Result};

use crate::Attachments;
use crate::attachments::amend::bring::is_limited;
use crate::attachments::amend::holders::not_attached;
use crate::contention::RACES;
use crate::port::{Key, Outcome, Record, Txn};
use crate::records::book::{Read, key_of_amendment, unchanged};

/// What the container's name has to do with limits that are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LimitKeeping {
    /// It keeps them from now on: they are a command's.
    Becomes,
    /// It keeps them already, or nothing is written.
    Is,
    /// The name is not asked: a plugin limits what the link's record limits already, and the quota stays.
    Unasked,
}

impl Attachments<'_> {
    /// Sets the limits of an attached container instead of those that it has, and keeps them under
    /// its name. Without any it is unlimited, and nothing is kept: the next container of that name
    /// has what its runtime says. A quota counts on where there was one of the same period.
    /// Repeating it is no error; after a failure the previous limits hold.
    ///
    /// Fails with [`model::Kind::NotFound`] where it is not attached, and with
    /// [`model::Kind::Unsupported`] where its interface cannot be limited.
    pub fn set_limits(&self, id: &AttachmentId, limits: &Bandwidth) -> Result<()> {
        self.try_limit(id, limits, LimitKeeping::Becomes)
    }

    /// Sets the limits that the container's name keeps already, where it has others.
    pub(super) fn limit_again(&self, id: &AttachmentId, limits: &Bandwidth) -> Result<()> {
        match self.limited(id)? {
            Some(read) if is_so(&read.value, &completed(limits, &read.value)) => Ok(()),
            Some(_) => self.try_limit(id, limits, LimitKeeping::Is),
            None => Ok(()),
        }
    }

    /// Sets the rates that a plugin asks for where the link's record limits, whose name keeps none.
    pub(super) fn limit_for_plugin(&self, id: &AttachmentId, asked: &Bandwidth) -> Result<()> {
        match asked.has_rates() {
            true => self.try_limit(id, asked, LimitKeeping::Unasked),
            false => Ok(()),
        }
    }

    fn try_limit(&self, id: &AttachmentId, limits: &Bandwidth, kept: LimitKeeping) -> Result<()> {
        let _lock = self.host.lock_attachment(id);
        for _ in 0..RACES {
            let Some(read) = self.limited(id)? else { return Err(not_attached(id)) };
            limits.quota.map_or(Ok(()), |_| read.value.refuse_quota())?;
            let wanted = match kept {
                LimitKeeping::Becomes => limits.clone(),
                LimitKeeping::Is => completed(limits, &read.value),
                LimitKeeping::Unasked => Bandwidth { quota: read.value.quota(), ..limits.clone() },
            };
            let before = read.value.wiring.bandwidth.clone();
            let mut now = read.value.clone();
            let device = before.as_ref().and_then(|before| before.device.clone());
            now.wiring.bandwidth = Some(Bandwidth { device, ..wanted });
            let old = self.kept_limits(&read.value)?;
            if kept == LimitKeeping::Is && old.as_ref() != Some(limits) {
                return Ok(());
            }
            let Some(read) = self.write_limits(&read, now, limits, kept)? else { continue };
            return self.make_limits(read.value.clone()).inspect_err(|_| {
                let mut undone = read.value.clone();
                undone.wiring.bandwidth = Some(before.unwrap_or_default());
                let kept = if kept == LimitKeeping::Becomes { kept } else { LimitKeeping::Unasked };
                // If this fails the record has what was asked for, and is compared again.
                let written =
                    self.write_limits(&read, undone.clone(), &old.unwrap_or_default(), kept);
                if let Ok(Some(_)) = written {
                    // The caller gets the error that led here.
                    let _ = self.links.limit_as_recorded(&undone);
                }
            });
        }
        Err(Error::try_again(format!("limiting {id}: lost {RACES} races in a row")))
    }

    /// Makes the limits in the kernel that the record has at the end: another process may write others
    /// before these are made.
    fn make_limits(&self, mut record: Box<Attachment>) -> Result<()> {
        for _ in 0..RACES {
            self.links.limit_as_recorded(&record)?;
            match self.records.record_of(&record.id, record.layer)? {
                Some(now) if now.value.wiring.bandwidth != record.wiring.bandwidth => {
                    record = now.value;
                }
                Some(_) | None => return Ok(()),
            }
        }
        Err(Error::try_again(format!("the limits of {} change all the time", record.id)))
    }

    /// The limits that the container's name keeps.
    fn kept_limits(&self, record: &Attachment) -> Result<Option<Bandwidth>> {
        let key = key_of_amendment(&Amendment::of(record)?);
        Ok(self.records.amendment_under(&key)?.and_then(|read| read.value.bandwidth))
    }

    /// The record that has the limits: the link's where that limits, or the layer of a plugin that does,
    /// or else the link's.
    fn limited(&self, id: &AttachmentId) -> Result<Option<Read<Box<Attachment>>>> {
        let link = self.attached(id, Layer::Link)?;
        if link.as_ref().is_some_and(|read| is_limited(&read.value)) {
            return Ok(link);
        }
        Ok(self.attached(id, Layer::Bandwidth)?.or(link))
    }

    /// `None` where another process changed something meanwhile.
    fn write_limits(
        &self,
        read: &Read<Box<Attachment>>,
        now: Box<Attachment>,
        limits: &Bandwidth,
        kept: LimitKeeping,
    ) -> Result<Option<Read<Box<Attachment>>>> {
        let key = Key::Attachment(now.id.clone(), now.layer);
        let txn = Txn::new()
            .require(key.clone(), unchanged(Some(read)))
            .put(key, Record::Attachment(now.clone()));
        let txn = self.links.forget_usage_of(&read.value, &now, txn)?;
        let txn = match kept {
            LimitKeeping::Becomes => {
                let limits = limits.is_any().then(|| Bandwidth { device: None, ..limits.clone() });
                self.remember_change(&now, txn, |kept| kept.bandwidth = limits)?
            }
            LimitKeeping::Is => {
                match self.while_kept(&now, txn, |kept| kept.bandwidth.as_ref() == Some(limits))? {
                    Some(txn) => txn,
                    None => return Ok(None),
                }
            }
            LimitKeeping::Unasked => txn,
        };
        match self.store.commit(&txn)? {
            Outcome::Done(revision) => Ok(Some(Read { value: now, revision })),
            Outcome::Lost(_) => Ok(None),
        }
    }
}

/// The limits that a name keeps, for one of its containers: where no rate is kept, its runtime's hold.
pub(super) fn completed(kept: &Bandwidth, record: &Attachment) -> Bandwidth {
    match (kept.has_rates(), &record.wiring.bandwidth) {
        (false, Some(own)) => Bandwidth { quota: kept.quota, ..own.clone() },
        (_, _) => kept.clone(),
    }
}

fn is_so(record: &Attachment, limits: &Bandwidth) -> bool {
    let is = record.wiring.bandwidth.as_ref();
    is.is_some_and(|is| {
        (is.ingress, is.egress, is.quota) == (limits.ingress, limits.egress, limits.quota)
    })
}
