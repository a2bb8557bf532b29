//! Names of containers that become known only after they are attached.

use model::{Attachment, AttachmentId, Error, HostName, Layer, OwnerName, Phase, Result};

use crate::Attachments;
use crate::contention::RACES;
use crate::port::{AttachmentLock, Key, Outcome, Record, Txn};
use crate::records::book::unchanged;

impl Attachments<'_> {
    /// Remembers what a container is called on a network whose names Spoke answers for, where that is known
    /// only after it is attached. One that is not complete, or not known, stays as it is.
    ///
    /// # Errors
    /// [`model::Kind::TryAgain`] where another thread works on the attachment, or its record changes all the
    /// time: nothing is waited for.
    pub fn set_names(
        &self,
        id: &AttachmentId,
        owner: Option<&OwnerName>,
        names: &[HostName],
    ) -> Result<()> {
        let Some(lock) = self.host.try_lock_attachment(id) else {
            return Err(Error::try_again(format!("{id} is being worked on")));
        };
        self.rename(id, lock, |now| {
            let owner = owner.or(now.owner.as_ref());
            let is_new = (now.owner.as_ref(), &now.names[..]) != (owner, names);
            (now.wiring.has_names() && is_new).then(|| Attachment {
                owner: owner.cloned(),
                names: names.to_vec(),
                ..now.clone()
            })
        })
    }

    /// Remembers the name of the container whose attachment this is, for people to read. One that is
    /// not complete, or not known, stays as it is, and so does one on which another thread works.
    pub fn set_owner(&self, id: &AttachmentId, owner: &OwnerName) -> Result<()> {
        let Some(lock) = self.host.try_lock_attachment(id) else { return Ok(()) };
        self.rename(id, lock, |now| {
            let is_new = now.owner.as_ref() != Some(owner);
            is_new.then(|| Attachment { owner: Some(owner.clone()), ..now.clone() })
        })
    }

    /// Writes down what `renamed` makes of a complete attachment, and serves what its name keeps.
    fn rename(
        &self,
        id: &AttachmentId,
        lock: AttachmentLock,
        renamed: impl Fn(&Attachment) -> Option<Attachment>,
    ) -> Result<()> {
        let key = Key::Attachment(id.clone(), Layer::Link);
        for _ in 0..RACES {
            let Some(read) = self.records.record_of(id, Layer::Link)? else { return Ok(()) };
            if !matches!(read.value.phase, Phase::Attached(_)) {
                return Ok(());
            }
            let Some(named) = renamed(&read.value) else { return Ok(()) };
            let txn = Txn::new().require(key.clone(), unchanged(Some(&read)));
            let txn = self.links.carry_usage(&read.value, &named, txn)?;
            let txn = self.carry_kept(&read.value, &named, txn)?;
            let txn = txn.put(key.clone(), Record::Attachment(Box::new(named)));
            if let Outcome::Done(_) = self.store.commit(&txn)? {
                drop(lock);
                return self.bring_back(id);
            }
        }
        Err(Error::try_again(format!("{id} changes all the time")))
    }
}
