//! Names of containers that become known only after they are attached.

use model::{AttachmentId, Layer, OwnerName, Phase, Result};

use crate::Engine;
use crate::book::unchanged;
use crate::port::{Key, Record, Txn};

impl Engine<'_> {
    /// Remembers the name of the container whose attachment this is, for people to read. One that is
    /// not complete, or not known, stays as it is, and so does one that changes at this moment.
    pub fn set_owner(&self, id: &AttachmentId, owner: &OwnerName) -> Result<()> {
        let _turn = self.host.turn(id);
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
        self.store.commit(&txn).map(|_| ())
    }
}
