//! Where a running container may go, instead of what its network says.

use model::{
    Amendment, Attachment, AttachmentId, Error, Fence, Layer, NetworkName, OwnerName, Phase,
    Result, Runtime,
};

use super::key_of_amendment;
use crate::Engine;
use crate::attach::RACES;
use crate::book::{Read, unchanged};
use crate::port::{Key, Outcome, Presence, Record, Txn};

impl Engine<'_> {
    /// Gives an attached container rules of its own, and keeps them under its name. Without any those of its
    /// network hold, and nothing is kept: the next container of that name has what its runtime says. The
    /// caller ends what is allowed no more. Returns the attachment as it is now.
    ///
    /// # Errors
    /// [`model::Kind::NotFound`] where it is not attached; [`model::Kind::Unsupported`] where nothing could
    /// keep the rules. After another failure they are recorded, and made later.
    pub fn set_egress(&self, id: &AttachmentId, rules: Option<&Fence>) -> Result<Attachment> {
        self.try_fence(id, rules, true)
    }

    /// Forgets the rules that the containers of a name would get again, where none is attached. Whether there
    /// were any.
    ///
    /// # Errors
    /// Where the records cannot be read or written.
    pub fn forget_egress(
        &self,
        (runtime, name): (Runtime, &OwnerName),
        network: Option<&NetworkName>,
    ) -> Result<bool> {
        for _ in 0..RACES {
            let mut known = self.amendments_of(runtime, name, network)?;
            known.retain(|read| read.value.egress.is_some());
            if known.is_empty() {
                return Ok(false);
            }
            let txn = known.into_iter().fold(Txn::new(), |txn, read| {
                let (key, expect) = (key_of_amendment(&read.value), unchanged(Some(&read)));
                let rest = Box::new(Amendment { egress: None, ..*read.value });
                let txn = txn.expect(key.clone(), expect);
                match rest.is_empty() {
                    true => txn.delete(key),
                    false => txn.put(key, Record::Amendment(rest)),
                }
            });
            if let Outcome::Done(_) = self.store.commit(&txn)? {
                return Ok(true);
            }
        }
        Err(Error::try_again(format!("the egress of {name}: lost {RACES} races in a row")))
    }

    /// The same of rules that the container's name keeps already.
    pub(super) fn fence_again(&self, id: &AttachmentId, rules: &Fence) -> Result<()> {
        match self.fenced(id)? {
            Some(read) if read.value.wiring.own_fence.as_ref() != Some(rules) => {
                self.try_fence(id, Some(rules), false).map(drop)
            }
            Some(_) | None => Ok(()),
        }
    }

    fn try_fence(
        &self,
        id: &AttachmentId,
        rules: Option<&Fence>,
        remember: bool,
    ) -> Result<Attachment> {
        let _lock = self.host.lock_attachment(id);
        for _ in 0..RACES {
            let Some(read) = self.fenced(id)? else {
                return Err(Error::not_found(format!(
                    "{id} is not attached; `spoke ps` lists what is"
                )));
            };
            let mut now = read.value.clone();
            now.wiring.own_fence = rules.cloned();
            self.refuse_own_fence(&now, self.named(&id.network)?.as_ref())?;
            self.driver.refuse_fence(&now)?;
            let key = Key::Attachment(now.id.clone(), now.layer);
            let mut txn = Txn::new()
                .expect(key.clone(), unchanged(Some(&read)))
                .put(key, Record::Attachment(now.clone()));
            if remember {
                txn = self.remember_egress(&now, rules, txn)?;
            }
            if let Outcome::Done(_) = self.store.commit(&txn)? {
                self.driver.fence(&now)?;
                return Ok(*now);
            }
        }
        Err(Error::try_again(format!("egress of {id}: lost {RACES} races in a row")))
    }

    fn remember_egress(&self, now: &Attachment, rules: Option<&Fence>, txn: Txn) -> Result<Txn> {
        let mut amendment = Amendment::of(now)?;
        let key = key_of_amendment(&amendment);
        let known = self.amendment_under(&key)?;
        let expect = unchanged(known.as_ref());
        if let Some(known) = known {
            amendment = *known.value;
        }
        amendment.egress = rules.cloned();
        let txn = txn.expect(key.clone(), expect);
        Ok(match amendment.is_empty() {
            true => txn.delete(key),
            false => txn.put(key, Record::Amendment(Box::new(amendment))),
        })
    }

    fn fenced(&self, id: &AttachmentId) -> Result<Option<Read<Box<Attachment>>>> {
        let is_ready = |read: &Read<Box<Attachment>>| {
            matches!(read.value.phase, Phase::Attached(_))
                && self.presence(&read.value) != Presence::Gone
        };
        Ok(self.record_of(id, Layer::Link)?.filter(is_ready))
    }
}
