//! Names of containers that become known only after they are attached.

use model::{AttachmentId, HostName, Layer, OwnerName, Phase, Result};

use crate::Engine;
use crate::book::unchanged;
use crate::port::{Key, Record, Txn};

impl Engine<'_> {
    /// Remembers what a container is called on a network whose names Spoke answers for, where that is known
    /// only after it is attached. One that is not complete, or not known, stays as it is.
    pub fn set_names(
        &self,
        id: &AttachmentId,
        owner: Option<&OwnerName>,
        names: &[HostName],
    ) -> Result<()> {
        let lock = self.host.lock_attachment(id);
        let Some(read) = self.record_of(id, Layer::Link)? else { return Ok(()) };
        let owner = owner.or(read.value.owner.as_ref());
        let is_complete =
            matches!(read.value.phase, Phase::Attached(_)) && read.value.wiring.has_names();
        if !is_complete || (read.value.owner.as_ref(), &read.value.names[..]) == (owner, names) {
            return Ok(());
        }
        let mut named = read.value.clone();
        named.owner = owner.cloned();
        named.names = names.to_vec();
        let key = Key::Attachment(id.clone(), Layer::Link);
        let txn = Txn::new()
            .expect(key.clone(), unchanged(Some(&read)))
            .put(key, Record::Attachment(named));
        self.store.commit(&txn)?;
        drop(lock);
        self.bring_back(id)
    }

    /// Remembers the name of the container whose attachment this is, for people to read. One that is
    /// not complete, or not known, stays as it is, and so does one that changes at this moment.
    pub fn set_owner(&self, id: &AttachmentId, owner: &OwnerName) -> Result<()> {
        let lock = self.host.lock_attachment(id);
        let Some(read) = self.record_of(id, Layer::Link)? else { return Ok(()) };
        let is_complete = matches!(read.value.phase, Phase::Attached(_));
        if !is_complete || read.value.owner.as_ref() == Some(owner) {
            return Ok(());
        }
        let mut named = read.value.clone();
        named.owner = Some(owner.clone());
        let key = Key::Attachment(id.clone(), Layer::Link);
        let txn = Txn::new()
            .expect(key.clone(), unchanged(Some(&read)))
            .put(key, Record::Attachment(named));
        self.store.commit(&txn)?;
        drop(lock);
        self.bring_back(id)
    }
}
