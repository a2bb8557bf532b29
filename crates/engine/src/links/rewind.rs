//! Undoes an endpoint down to its reservation, or removes it.

use model::{Attachment, AttachmentId, Handoff, Layer, Phase, Result, Runtime};

use crate::Links;
use crate::contention::{RACES, lost};
use crate::failures::all_of;
use crate::links::detach::keep_leaving;
use crate::port::{Key, Txn};
use crate::records::book::Read;

impl Links<'_> {
    /// Undoes in the kernel what was made of a reserved attachment; its record and its addresses
    /// stay. `None`: another process has taken the record over. The caller holds the turn.
    pub(crate) fn rewind(
        &self,
        mut read: Read<Box<Attachment>>,
    ) -> Result<Option<Read<Box<Attachment>>>> {
        let working = Phase::Attaching { by: self.host.me() };
        if read.value.phase != working {
            let mut marked = read.value.clone();
            marked.phase = working;
            if self.records.try_replace(&mut read, marked, Txn::new())?.is_some() {
                return Ok(None);
            }
        }
        keep_leaving(&mut read.value);
        self.note_last(&read.value);
        if let Err(error) = self.driver.withdraw(&read.value) {
            self.disown(read);
            return Err(error);
        }
        let key = Key::Attachment(read.value.id.clone(), read.value.layer);
        for _ in 0..RACES {
            let mut reserved = read.value.clone();
            reserved.phase = Phase::Reserved;
            reserved.sandbox = None;
            reserved.handoff = Handoff::Finish;
            reserved.gateway_role = None;
            reserved.undecide();
            let txn = self.part_from_sandbox(&read.value)?;
            match self.records.try_replace(&mut read, reserved, txn)? {
                None => return Ok(Some(read)),
                Some(lost) if lost == key => return Ok(None),
                // Another of its sandbox came or went.
                Some(_) => {}
            }
        }
        Err(lost(&read.value))
    }

    /// Removes the attachment, every layer of it; what is gone is no error. Addresses that were
    /// requested by themselves stay until they are released by themselves.
    ///
    /// Without a record, what the identity names is removed all the same.
    pub fn remove(&self, id: &AttachmentId) -> Result<()> {
        let _lock = self.host.lock_attachment(id);
        match self.records.has_record(id)? {
            true => self.detach_layers(id),
            false => self.detach_unknown(id),
        }
    }

    /// The kernel may still have what lost records described.
    fn detach_unknown(&self, id: &AttachmentId) -> Result<()> {
        let Some(network) = self.records.declared(&id.network)? else { return Ok(()) };
        let mut aliases = self.records.aliases()?.into_iter();
        // By that a driver knows an engine's endpoint.
        let alias = aliases.find(|alias| alias.network == id.network).map(|alias| alias.id);
        let unknown = |layer| Attachment {
            wiring: network.wiring.clone(),
            alias: alias.clone(),
            ..Attachment::new(
                id.clone(),
                layer,
                Runtime::Reference,
                self.host.now(),
                Phase::Detaching { by: self.host.me(), attacher: None },
            )
        };
        let layers = [Layer::Publish, Layer::Link].into_iter();
        all_of(layers.filter_map(|layer| self.driver.detach(&unknown(layer)).err()).collect())
    }
}

/// Whether the reservation was complete and is not being removed, whatever the state of the
/// interface. An interface has a sandbox from the start.
pub(crate) fn was_reserved(attachment: &Attachment) -> bool {
    match &attachment.phase {
        Phase::Reserved | Phase::Attached(_) => true,
        Phase::Attaching { .. } => attachment.sandbox.is_some(),
        Phase::Detaching { .. } => false,
    }
}

/// Whether only the interface was being made or unmade, or went with its sandbox: whose it is still counts
/// on the rest.
pub(crate) fn is_rewindable(attachment: &Attachment) -> bool {
    let counts_on_it = match &attachment.phase {
        Phase::Attaching { .. } => attachment.alias.is_some() || attachment.kept,
        // Its user keeps it, whatever became of the sandbox.
        Phase::Attached(_) => attachment.kept,
        Phase::Reserved | Phase::Detaching { .. } => false,
    };
    counts_on_it && attachment.layer == Layer::Link && was_reserved(attachment)
}
