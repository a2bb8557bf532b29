//! Detaching: the only way back, from anywhere.

use std::time::Duration;

use model::{Attachment, AttachmentId, Error, Layer, Phase, Result, Runtime};

use crate::book::{Read, unchanged};
use crate::port::{Key, Outcome, Presence, Record, Txn};
use crate::{Engine, Request};

/// How long a detach waits for the process that is still attaching. An attach takes milliseconds;
/// one that takes this long hangs in a foreign plugin.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often a changed record is read again.
const RACES: usize = 50;

impl Engine<'_> {
    /// Removes one layer of an attachment, whether or not there is a record of it. Repeating it
    /// is no error. Without a record, what the identity names is removed all the same, and what
    /// the reference plugins would have left for it.
    pub fn detach(&self, request: &Request) -> Result<()> {
        match self.record_of(&request.id(), request.layer) {
            Ok(Some(read)) => self.detach_record(read),
            Ok(None) => self.detach_unrecorded(request),
            Err(error) => self.detach_unrecorded(request).and(Err(error)),
        }
    }

    /// Brings a record to its end. On an error it stays, in phase [`Phase::Detaching`].
    pub(crate) fn detach_record(&self, read: Read<Box<Attachment>>) -> Result<()> {
        let Some(read) = self.mark_detaching(read)? else { return Ok(()) };
        self.undo(&read.value)?;
        self.forget(read)
    }

    fn detach_unrecorded(&self, request: &Request) -> Result<()> {
        let attachment = Attachment {
            id: request.id(),
            layer: request.layer,
            runtime: Runtime::Reference,
            owner: request.owner.clone(),
            since: self.host.now(),
            sandbox: request.sandbox.clone(),
            wiring: request.wiring.clone(),
            ipam: request.ipam.clone(),
            leases: Vec::new(),
            addresses: request.addresses.clone(),
            routes: request.network.routes.clone(),
            dns: request.network.dns.clone(),
            phase: Phase::Detaching,
        };
        self.undo(&attachment)
    }

    /// Both halves are tried, whatever the first one says: as much as possible is given back.
    fn undo(&self, attachment: &Attachment) -> Result<()> {
        let kernel = self.driver.detach(attachment);
        let addresses = self.ipam.release(attachment);
        kernel.and(addresses).map_err(|error| error.context(format!("detaching {}", attachment.id)))
    }

    /// Announces the end. `None`: somebody else brought the record to its end.
    fn mark_detaching(
        &self,
        mut read: Read<Box<Attachment>>,
    ) -> Result<Option<Read<Box<Attachment>>>> {
        for _ in 0..RACES {
            if read.value.phase == Phase::Detaching {
                return Ok(Some(read));
            }
            let mut marked = read.value.clone();
            let was = std::mem::replace(&mut marked.phase, Phase::Detaching);
            let key = Key::Attachment(marked.id.clone(), marked.layer);
            let txn = Txn::new()
                .expect(key.clone(), unchanged(Some(&read)))
                .put(key, Record::Attachment(marked.clone()));
            match self.store.commit(&txn) {
                Ok(Outcome::Done(revision)) => {
                    self.outlive(&marked.id, &was)?;
                    return Ok(Some(Read { value: marked, revision }));
                }
                Ok(Outcome::Lost(_)) => match self.record_of(&marked.id, marked.layer)? {
                    Some(again) => read = again,
                    None => return Ok(None),
                },
                // A store that takes no more writes must not keep a container's network alive.
                Err(_) => return Ok(Some(read)),
            }
        }
        Err(Error::try_again(format!("{} changes all the time", read.value.id)))
    }

    /// A process that is still attaching would go on making what we remove.
    fn outlive(&self, id: &AttachmentId, was: &Phase) -> Result<()> {
        let Phase::Attaching { by } = was else { return Ok(()) };
        if *by == self.host.me() || self.host.wait_for_end(by, PATIENCE) {
            return Ok(());
        }
        Err(Error::try_again(format!("{id} is still being attached by process {}", by.pid)))
    }

    /// Deletes the record with everything that the book holds for it.
    fn forget(&self, read: Read<Box<Attachment>>) -> Result<()> {
        let key = Key::Attachment(read.value.id.clone(), read.value.layer);
        for _ in 0..RACES {
            let mut txn = Txn::new().expect(key.clone(), unchanged(Some(&read)));
            txn = self.give_back(&read.value, txn)?;
            txn = self.disclaim_ports(&read.value, txn)?.delete(key.clone());
            match self.store.commit(&txn) {
                Ok(Outcome::Done(_)) => return Ok(()),
                Ok(Outcome::Lost(lost)) if lost == key => return Ok(()),
                Ok(Outcome::Lost(_)) => {}
                // The kernel is clean; the record goes at the next reconcile.
                Err(_) => return Ok(()),
            }
        }
        Err(Error::try_again(format!("forgetting {} loses every race", read.value.id)))
    }

    /// Detaches every layer of an attachment whose container is proved to be gone.
    pub(crate) fn free_if_gone(&self, id: &AttachmentId) -> Result<bool> {
        let mut freed = false;
        for layer in LAYERS {
            let Some(read) = self.record_of(id, layer)? else { continue };
            if self.is_gone(&read.value) {
                self.detach_record(read)?;
                freed = true;
            }
        }
        Ok(freed)
    }

    /// Proved: the process died on the way, or the container's namespace is no more.
    pub(crate) fn is_gone(&self, attachment: &Attachment) -> bool {
        match &attachment.phase {
            Phase::Attaching { by } => *by != self.host.me() && !self.host.is_running(by),
            Phase::Detaching => true,
            Phase::Attached(_) => self.presence(attachment) == Presence::Gone,
        }
    }

    /// Of a container that has a link of ours, the link proves most: it decides for every layer.
    pub(crate) fn presence(&self, attachment: &Attachment) -> Presence {
        match self.record_of(&attachment.id, Layer::Link) {
            Ok(Some(link)) => self.driver.presence(&link.value),
            Ok(None) | Err(_) => self.driver.presence(attachment),
        }
    }
}

/// Every layer, the link last: the others refer to it.
const LAYERS: [Layer; 5] =
    [Layer::Tuning, Layer::Firewall, Layer::Publish, Layer::Link, Layer::Address];
