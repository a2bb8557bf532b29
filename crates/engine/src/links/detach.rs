//! Detaching: the only way to undo, from every state.
//!
//! Kernel names depend on the identity alone. A process that undoes a record must therefore own it
//! until the end. It marks the record with itself, and no other process touches the record while
//! that one is alive.

use std::time::Duration;

use model::{
    Attachment, AttachmentId, Error, Handoff, Ipam, Kind, Layer, Phase, Process, Result, Runtime,
};

use crate::failures::all_of;
use crate::links::rewind::is_rewindable;
use crate::port::{Key, Outcome, Presence, Record, Txn};
use crate::records::book::{Read, unchanged};
use crate::{Links, Request};

/// How long a detach waits for another process that works on the same record, in all. That takes
/// milliseconds; one that takes this long hangs in a third-party plugin.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The interval at which to check whether the other process is done with the record. A daemon does
/// not end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How often a changed record is read again.
const RACES: usize = 50;

/// What a detach means when the record has changed since it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Every attachment of that identity, because the runtime asked for it.
    Whatever,
    /// Only the classified record, not a successor.
    Classified,
}

impl Links<'_> {
    /// Removes one layer of an attachment, whether or not there is a record of it. Repeating it
    /// is no error. Without a record, what the identity names is removed all the same, and what
    /// the reference plugins would have left for it.
    pub fn detach(&self, request: &Request) -> Result<()> {
        let _lock = self.host.lock_attachment(&request.id());
        match self.records.record_of(&request.id(), request.layer) {
            Ok(Some(read)) => self.detach_record(read, Meaning::Whatever).map(|_| ()),
            Ok(None) => match self.renamed(request) {
                Ok(Some(old)) => self.detach_renamed(old),
                Ok(None) => self.detach_unrecorded(request),
                Err(error) => self.detach_unrecorded(request).and(Err(error)),
            },
            Err(error) => self.detach_unrecorded(request).and(Err(error)),
        }
    }

    /// Detaches a record and deletes it. On an error it stays, in phase [`Phase::Detaching`].
    /// `false`: it is not the classified record any more, or another process deleted it. The caller
    /// holds the turn ([`crate::port::Host::lock_attachment`]).
    pub(crate) fn detach_record(
        &self,
        read: Read<Box<Attachment>>,
        meaning: Meaning,
    ) -> Result<bool> {
        // A record that another process has taken is checked like any other.
        if is_only_in_the_book(&read.value) && self.try_forget(&read)? {
            return Ok(true);
        }
        let Some(mut read) = self.own(read, meaning)? else { return Ok(false) };
        keep_leaving(&mut read.value);
        if let Err(error) = self.undo(&read.value) {
            self.disown(read);
            return Err(error);
        }
        self.hand_over(&read.value);
        let gone = read.value.clone();
        self.forget(read)?;
        // An attach that this one interrupted left its ports to it.
        self.hand_over(&gone);
        Ok(true)
    }

    fn detach_unrecorded(&self, request: &Request) -> Result<()> {
        let phase = Phase::Detaching { by: self.host.me(), attacher: None };
        let mut attachment = request.record(Runtime::Reference, self.host.now(), phase);
        let elsewhere = self.is_elsewhere(request);
        // Where the records cannot be listed the interface may be another network's: it stays until
        // the runtime repeats its call.
        if !matches!(elsewhere, Ok(false)) {
            attachment.sandbox = None;
        }
        self.undo(&attachment).and(elsewhere.map(|_| ()))
    }

    /// Whether the container has this interface from another network: then it is not for us to
    /// remove by its name.
    fn is_elsewhere(&self, request: &Request) -> Result<bool> {
        Ok(self.records.attachments_of(&request.container)?.iter().any(|record| {
            record.id.ifname == request.ifname && record.id.network != request.network.name
        }))
    }

    /// Both halves are tried, whatever the first one says: as much as possible is released.
    fn undo(&self, attachment: &Attachment) -> Result<()> {
        let release = || self.ipam.release(attachment);
        // A server is notified over the link, so before the link goes.
        self.note_last(attachment);
        let reported = attachment.ipam.asks_over_link().then(release);
        let kernel = self.driver.detach(attachment);
        let addresses = reported.unwrap_or_else(release);
        kernel.and(addresses).map_err(|error| error.context(format!("detaching {}", attachment.id)))
    }

    /// Makes this process the owner of the record, once every process that worked on it has ended.
    fn own(
        &self,
        mut read: Read<Box<Attachment>>,
        meaning: Meaning,
    ) -> Result<Option<Read<Box<Attachment>>>> {
        let (id, layer) = (read.value.id.clone(), read.value.layer);
        for _ in 0..RACES {
            let others = Others::of(&read.value.phase, &self.host.me());
            if let Some(detacher) = others.detacher
                && self.host.is_running(&detacher)
            {
                self.outlive(&read, detacher)?;
            } else {
                match (self.mark(&read, others.attacher)?, others.attacher) {
                    (Marked::Ours(owned), None) => return Ok(Some(owned)),
                    (Marked::Ours(owned), Some(attacher)) => {
                        return match self.outlive(&owned, attacher) {
                            Ok(now) => Ok(Some(now.unwrap_or(owned))),
                            Err(error) => {
                                self.disown(owned);
                                Err(error)
                            }
                        };
                    }
                    (Marked::Changed, _) => {}
                }
            }
            if meaning == Meaning::Classified {
                return Ok(None);
            }
            match self.records.record_of(&id, layer)? {
                Some(again) => read = again,
                None => return Ok(None),
            }
        }
        Err(Error::try_again(format!("{id} changes all the time")))
    }

    /// Notes that this process, which may never end, does not work on the record any more: it failed. What is
    /// to be undone stays in the record, and the next detach, attach or reconcile of any process does it.
    pub(super) fn disown(&self, mut read: Read<Box<Attachment>>) {
        let me = self.host.me();
        let mut disowned = read.value.clone();
        disowned.phase = match disowned.phase {
            Phase::Attaching { by } if by == me => Phase::Attaching { by: Process::NONE },
            Phase::Detaching { by, attacher } if by == me => {
                Phase::Detaching { by: Process::NONE, attacher: attacher.filter(|it| *it != me) }
            }
            Phase::Reserved
            | Phase::Attaching { .. }
            | Phase::Attached(_)
            | Phase::Detaching { .. } => return,
        };
        // If this fails, others wait until this process ends. The failure before it is reported.
        let _ = self.records.try_replace(&mut read, disowned, Txn::new());
    }

    fn mark(&self, read: &Read<Box<Attachment>>, attacher: Option<Process>) -> Result<Marked> {
        let mut marked = read.value.clone();
        marked.phase = Phase::Detaching { by: self.host.me(), attacher };
        let key = Key::Attachment(marked.id.clone(), marked.layer);
        let txn = Txn::new()
            .require(key.clone(), unchanged(Some(read)))
            .put(key, Record::Attachment(marked.clone()));
        match self.store.commit(&txn) {
            Ok(Outcome::Done(revision)) => Ok(Marked::Ours(Read { value: marked, revision })),
            Ok(Outcome::Lost(_)) => Ok(Marked::Changed),
            Err(error) if error.kind() == Kind::TryAgain => Err(error),
            // A store that accepts no more writes must not keep a container's network. That the
            // record stays is reported afterwards.
            Err(_) => Ok(Marked::Ours(read.clone())),
        }
    }

    /// Waits until a process that works on the record, and would continue making what we remove,
    /// has ended or has written that it is done. Then the record is as it is now, if it has changed.
    fn outlive(
        &self,
        read: &Read<Box<Attachment>>,
        process: Process,
    ) -> Result<Option<Read<Box<Attachment>>>> {
        let (id, layer) = (&read.value.id, read.value.layer);
        for _ in 0..TIMEOUT.as_millis() / POLL_INTERVAL.as_millis() {
            let has_ended = self.host.wait_for_end(&process, POLL_INTERVAL);
            // Also of one that has ended: it may have written that it is done just before.
            let now = self.records.record_of(id, layer)?;
            if now.as_ref().map(|now| now.revision) != Some(read.revision) {
                return Ok(now);
            }
            if has_ended {
                return Ok(None);
            }
        }
        Err(Error::try_again(format!("process {} still works on {id}", process.pid)))
    }

    /// The record of the attachment's link, once no other process makes the interface.
    pub(crate) fn let_finish(&self, id: &AttachmentId) -> Result<Option<Read<Box<Attachment>>>> {
        for _ in 0..RACES {
            let Some(read) = self.records.record_of(id, Layer::Link)? else { return Ok(None) };
            let others = Others::of(&read.value.phase, &self.host.me());
            match (&read.value.phase, others.attacher) {
                (Phase::Attaching { .. }, Some(attacher)) if self.host.is_running(&attacher) => {
                    self.outlive(&read, attacher)?;
                }
                (_, _) => return Ok(Some(read)),
            }
        }
        Err(Error::try_again(format!("{id} changes all the time")))
    }

    /// Notifies a process that took over a record on which this one worked that this one is done.
    pub(crate) fn let_go(&self, id: &AttachmentId, layer: Layer) {
        let Ok(Some(read)) = self.records.record_of(id, layer) else { return };
        let me = self.host.me();
        let Phase::Detaching { by, attacher: Some(attacher) } = read.value.phase else { return };
        if attacher != me || by == me {
            return;
        }
        let expect = unchanged(Some(&read));
        let mut released = read.value;
        released.phase = Phase::Detaching { by, attacher: None };
        let key = Key::Attachment(id.clone(), layer);
        let txn = Txn::new().require(key.clone(), expect).put(key, Record::Attachment(released));
        // Otherwise a waiting process notices the end of this one.
        let _ = self.store.commit(&txn);
    }

    /// Deletes the record with everything that the store holds for it. The kernel is clean by then.
    /// A caller that gets success does not come again, so whatever the store kept would stay taken.
    fn forget(&self, read: Read<Box<Attachment>>) -> Result<()> {
        let id = read.value.id.clone();
        self.forget_ours(read).map_err(|error| match error.kind() {
            Kind::TryAgain => error,
            _ => Error::try_again(format!(
                "{id} is detached, and what it held is still taken: {error}"
            )),
        })
    }

    /// A record that has changed is still this process's as long as it names this process.
    fn forget_ours(&self, mut read: Read<Box<Attachment>>) -> Result<()> {
        for _ in 0..RACES {
            if self.try_forget(&read)? {
                return Ok(());
            }
            match self.records.record_of(&read.value.id, read.value.layer)? {
                Some(now) if self.is_ours_to_undo(&now.value) => read = now,
                Some(_) | None => return Ok(()),
            }
        }
        Err(Error::try_again(format!("{} changes all the time", read.value.id)))
    }

    fn is_ours_to_undo(&self, attachment: &Attachment) -> bool {
        matches!(attachment.phase, Phase::Detaching { by, .. } if by == self.host.me())
    }

    /// The same; `false` where the record is not the one that was read any more.
    fn try_forget(&self, read: &Read<Box<Attachment>>) -> Result<bool> {
        let key = Key::Attachment(read.value.id.clone(), read.value.layer);
        for _ in 0..RACES {
            let txn = Txn::new().require(key.clone(), unchanged(Some(read)));
            let txn = match &read.value.ipam {
                Ipam::Requested { .. } => self.records.unbind(&read.value, txn)?,
                Ipam::None
                | Ipam::Book { .. }
                | Ipam::HostLocal { .. }
                | Ipam::Fixed { .. }
                | Ipam::Foreign(_)
                | Ipam::Dhcp(_)
                | Ipam::Remote(_) => self.addresses.give_back(&read.value, txn)?,
            };
            // Claims that cannot be read are reconcile's to repair.
            let txn = self.addresses.disclaim_ports(&read.value, txn.clone()).unwrap_or(txn);
            let txn = self.dismiss(&read.value, &[], txn.clone()).unwrap_or(txn);
            let txn = self.addresses.drop_kept(&read.value, txn);
            match self.store.commit(&txn.delete(key.clone()))? {
                Outcome::Done(_) => return Ok(true),
                Outcome::Lost(lost) if lost == key => return Ok(false),
                Outcome::Lost(_) => {}
            }
        }
        Err(Error::try_again(format!("forgetting {} loses every race", read.value.id)))
    }

    /// Brings every layer of an attachment to its end, whatever the first one says. The caller
    /// holds the turn.
    pub(crate) fn detach_layers(&self, id: &AttachmentId) -> Result<()> {
        let mut failures = Vec::new();
        for layer in Layer::ALL {
            if let Some(read) = self.records.record_of(id, layer)? {
                failures.extend(self.detach_record(read, Meaning::Whatever).err());
            }
        }
        all_of(failures)
    }

    /// Detaches every layer of an attachment whose container is provably gone. The caller holds no
    /// turn at any attachment, because two that check each other would wait for each other.
    pub(crate) fn free_if_gone(&self, id: &AttachmentId) -> Result<bool> {
        let _lock = self.host.lock_attachment(id);
        let mut freed = false;
        for layer in Layer::ALL {
            let Some(read) = self.records.record_of(id, layer)? else { continue };
            if self.is_gone(&read.value) {
                freed |= match is_rewindable(&read.value) && read.value.kept {
                    true => self.rewind(read)?.is_some(),
                    false => self.detach_record(read, Meaning::Classified)?,
                };
            }
        }
        Ok(freed)
    }

    /// Whether the end is proved: the processes that worked on it died, or the container's
    /// namespace is gone. This process does not work on it either, because the caller holds the
    /// turn.
    pub(crate) fn is_gone(&self, attachment: &Attachment) -> bool {
        self.is_gone_as(attachment, self.presence_if_attached(attachment))
    }

    /// The kernel's proof about a complete attachment.
    pub(crate) fn presence_if_attached(&self, attachment: &Attachment) -> Option<Presence> {
        matches!(attachment.phase, Phase::Attached(_)).then(|| self.presence(attachment))
    }

    /// The same for a caller that has asked the kernel already.
    pub(crate) fn is_gone_as(&self, attachment: &Attachment, presence: Option<Presence>) -> bool {
        let others = Others::of(&attachment.phase, &self.host.me());
        let at_work = [others.attacher, others.detacher].into_iter().flatten();
        match &attachment.phase {
            Phase::Attaching { .. } | Phase::Detaching { .. } => {
                !at_work.into_iter().any(|process| self.host.is_running(&process))
            }
            // Only its runtime knows.
            Phase::Reserved => false,
            Phase::Attached(_) => match presence {
                Some(Presence::Gone) => true,
                Some(Presence::Alive) | None => false,
                Some(Presence::Doubtful) => self.is_ended(attachment),
            },
        }
    }

    /// Where Spoke made the container's link, that link is the best proof. It decides for every
    /// layer.
    pub(crate) fn presence(&self, attachment: &Attachment) -> Presence {
        match self.records.record_of(&attachment.id, Layer::Link) {
            Ok(Some(link)) => self.driver.presence(&link.value),
            Ok(None) | Err(_) => self.driver.presence(attachment),
        }
    }
}

/// Whether nothing was made of the record, or all of it was undone: what the runtime moved itself is
/// there until it is removed.
fn is_only_in_the_book(attachment: &Attachment) -> bool {
    let is_reserved = attachment.phase == Phase::Reserved && attachment.handoff == Handoff::Finish;
    is_reserved && !attachment.ipam.is_shared() && !attachment.wiring.chooses_addresses()
}

/// The result of marking a record.
enum Marked {
    Ours(Read<Box<Attachment>>),
    Changed,
}

/// The other processes that worked on a record when it was read.
struct Others {
    attacher: Option<Process>,
    detacher: Option<Process>,
}

impl Others {
    fn of(phase: &Phase, me: &Process) -> Self {
        let (attacher, detacher) = match phase {
            Phase::Attaching { by } => (Some(*by), None),
            Phase::Reserved | Phase::Attached(_) => (None, None),
            Phase::Detaching { by, attacher } => (*attacher, Some(*by)),
        };
        let other = |process: &Process| process != me && *process != Process::NONE;
        Self { attacher: attacher.filter(other), detacher: detacher.filter(other) }
    }
}

/// Has one that is undone undo the ports too that are being withdrawn.
pub(crate) fn keep_leaving(attachment: &mut Attachment) {
    if let Some(publish) = &mut attachment.wiring.publish {
        publish.ports.append(&mut publish.leaving);
    }
}
