//! The own egress rules of a running container, instead of its network's.

use model::{Attachment, AttachmentId, Error, Fence, Layer, Moment, Result};

use crate::Attachments;
use crate::attachments::amend::Remember;
use crate::attachments::amend::holders::not_attached;
use crate::contention::RACES;
use crate::port::{Key, Outcome, Record, Txn};
use crate::records::book::unchanged;

impl Attachments<'_> {
    /// Gives an attached container rules of its own, and keeps them under its name. Without any those of its
    /// network hold, and nothing is kept: the next container of that name has what its runtime says. Where they
    /// were strict they stay so. The
    /// caller ends what is allowed no more. Returns the attachment as it is now.
    ///
    /// # Errors
    /// [`model::Kind::NotFound`] where it is not attached; [`model::Kind::Unsupported`] where nothing could
    /// keep the rules. After another failure they are recorded, and made later.
    pub fn set_egress(&self, id: &AttachmentId, rules: Option<&Fence>) -> Result<Attachment> {
        match self.try_fence(id, rules, Remember::Yes)? {
            Some(now) => Ok(now),
            None => Err(Error::bug(format!("egress of {id}: nothing was to be kept"))),
        }
    }

    /// Has the own rules of an attached container refuse nothing until then, or refuse again where no time is given.
    /// That ends with the attachment: its name keeps the rules alone. The caller says to the kernel for how long, and
    /// ends what is allowed no more. Returns the attachment as it is now.
    ///
    /// # Errors
    /// As [`Attachments::set_egress`]; [`model::Kind::NotFound`] where the container has no rules of its own, too.
    pub fn learn_egress(&self, id: &AttachmentId, until: Option<&Moment>) -> Result<Attachment> {
        let _lock = self.host.lock_attachment(id);
        for _ in 0..RACES {
            let Some(read) = self.attached(id, Layer::Link)? else { return Err(not_attached(id)) };
            let mut now = read.value.clone();
            let Some(own) = &mut now.wiring.own_fence else {
                return Err(Error::not_found(format!(
                    "{id} has no egress rules of its own: `spoke egress set --container` gives it some, and \
                     `spoke egress learn {}` is for those of its network",
                    id.network
                )));
            };
            own.learning = until.cloned();
            let key = Key::Attachment(now.id.clone(), now.layer);
            let txn = Txn::new()
                .require(key.clone(), unchanged(Some(&read)))
                .put(key, Record::Attachment(now.clone()));
            if let Outcome::Done(_) = self.store.commit(&txn)? {
                self.driver.fence(&now)?;
                return Ok(*now);
            }
        }
        Err(Error::try_again(format!("egress of {id}: lost {RACES} races in a row")))
    }

    /// Gives an attached container the rules that its name keeps already, where it has others.
    pub(super) fn fence_again(&self, id: &AttachmentId, rules: &Fence) -> Result<()> {
        match self.attached(id, Layer::Link)? {
            Some(read)
                if !read
                    .value
                    .wiring
                    .own_fence
                    .as_ref()
                    .is_some_and(|it| it.same_rules(rules) && (it.strict || !rules.strict)) =>
            {
                self.try_fence(id, Some(rules), Remember::Known).map(drop)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// `None` where the container's name does not keep any more what it is said to.
    fn try_fence(
        &self,
        id: &AttachmentId,
        rules: Option<&Fence>,
        remember: Remember,
    ) -> Result<Option<Attachment>> {
        let _lock = self.host.lock_attachment(id);
        for _ in 0..RACES {
            let Some(read) = self.attached(id, Layer::Link)? else { return Err(not_attached(id)) };
            let mut now = read.value.clone();
            let before = now.wiring.own_fence.take();
            let rules_now = rules.map(|rules| rules.staying_strict(before.as_ref()));
            let learning = before.and_then(|own| own.learning);
            now.wiring.own_fence = rules_now.clone().map(|rules| Fence { learning, ..rules });
            self.links.refuse_own_fence(&now, self.records.named(&id.network)?.as_ref())?;
            self.driver.refuse_fence(&now)?;
            let key = Key::Attachment(now.id.clone(), now.layer);
            let txn = Txn::new()
                .require(key.clone(), unchanged(Some(&read)))
                .put(key, Record::Attachment(now.clone()));
            let txn = match remember {
                Remember::Yes => self.remember_change(&now, txn, |kept| kept.egress = rules_now)?,
                Remember::Known => {
                    match self.while_kept(&now, txn, |kept| kept.egress.as_ref() == rules)? {
                        Some(txn) => txn,
                        None => return Ok(None),
                    }
                }
            };
            // Before it is recorded: what is recorded is made, whatever becomes of the neighbours.
            self.links.shut_neighbours(&now)?;
            if let Outcome::Done(_) = self.store.commit(&txn)? {
                self.driver.fence(&now)?;
                return Ok(Some(*now));
            }
        }
        Err(Error::try_again(format!("egress of {id}: lost {RACES} races in a row")))
    }
}
