//! Attachments whose runtime makes them in two steps: reserved first, joined to a sandbox later
//! (libnetwork's endpoints).
//!
//! The record is there from the reservation to the removal. Between the two the interface may come
//! and go: each time the record says first, in phase [`Phase::Attaching`], that the kernel is being
//! changed. What a process leaves in that phase is rewound to the reservation, not removed: only the
//! runtime knows whether it wants it.

use std::net::IpAddr;

use model::{
    Alias, AliasId, Attachment, AttachmentId, Error, Handoff, IfName, Layer, Phase, Result,
    Sandbox, Sysctl,
};

use crate::attachments::begin::{Draft, Inherited, Race, Tried};
use crate::contention::{RACES, lost};
use crate::links::detach::Meaning;
use crate::links::rewind::was_reserved;
use crate::port::{Expect, Presence, Txn};
use crate::records::book::Read;
use crate::{Attachments, Request};

/// The parameters of [`Attachments::join`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joining {
    /// Where the runtime says that the sandbox is or will be.
    pub sandbox: Sandbox,
    /// Which side completes the interface there.
    pub handoff: Handoff,
    /// The name of the interface there, where Spoke completes it.
    pub name: Option<IfName>,
    /// Kernel parameters to set there, where we complete it.
    pub sysctls: Vec<Sysctl>,
}

impl Attachments<'_> {
    /// Records an attachment, with its addresses, in phase [`Phase::Reserved`], under a runtime's
    /// id of its network. Nothing is made in the kernel. Repeating it gives the same record; with
    /// other addresses it is a [`model::Kind::Conflict`]. The record's link has its hardware
    /// address.
    pub fn reserve(&self, request: &Request, alias: &AliasId) -> Result<Attachment> {
        let mut draft = self.draft(request, alias)?;
        let mut race = Race::default();
        for _ in 0..RACES {
            let lock = self.host.lock_attachment(&draft.blank.id);
            if let Some(there) = self.standing(&draft)? {
                return Ok(*there);
            }
            let nothing = Inherited { expect: Expect::Absent, record: None };
            match self.try_begin(&draft, nothing, &race.avoid) {
                Ok(Tried::Done(started)) => {
                    return self.fill(request, started.read, |_| Txn::new());
                }
                tried => {
                    drop(lock);
                    self.recover(&draft, tried, &mut race)?;
                    // The lost record may be that of the id: the runtime's name for it was added.
                    draft = self.draft(request, alias)?;
                }
            }
        }
        Err(lost(&draft.blank))
    }

    fn draft<'r>(&self, request: &'r Request, alias: &AliasId) -> Result<Draft<'r>> {
        let Some(under) = self.records.alias_of(alias)? else {
            return Err(Error::not_found(format!(
                "no network has the id {alias}; it must be made before its containers"
            )));
        };
        let Alias { network, runtime, .. } = &under.value;
        if *network != request.network.name {
            return Err(Error::conflict(format!(
                "the id {alias} stands for network {network}, not for {}",
                request.network.name
            )));
        }
        let phase = match is_filled(request) {
            true => Phase::Attaching { by: self.host.me() },
            false => Phase::Reserved,
        };
        let mut blank = request.record(*runtime, self.host.now(), phase);
        blank.alias = Some(alias.clone());
        blank.sandbox = None;
        Ok(Draft { under: Some(under), ..Draft::of(request, blank) })
    }

    /// The existing record, if it equals the request. One that is being removed is removed.
    fn standing(&self, draft: &Draft<'_>) -> Result<Option<Box<Attachment>>> {
        let id = &draft.blank.id;
        let Some(read) = self.records.record_of(id, Layer::Link)? else { return Ok(None) };
        let unfinished = match &read.value.phase {
            Phase::Reserved | Phase::Attached(_) => false,
            Phase::Attaching { .. } => {
                self.records.refuse_if_busy(&read.value)?;
                !was_reserved(&read.value)
            }
            Phase::Detaching { .. } => true,
        };
        if unfinished {
            self.links.detach_record(read, Meaning::Whatever)?;
            return Ok(None);
        }
        match is_as_asked(&read.value, draft.request) {
            true => Ok(Some(read.value)),
            false => Err(Error::conflict(format!(
                "{id} exists already, with other addresses: {}",
                addresses(&read.value)
            ))),
        }
    }

    /// Gets the addresses that the store does not decide alone, where there are any, and reserves
    /// the attachment with what `with` writes besides.
    pub(crate) fn fill(
        &self,
        request: &Request,
        mut read: Read<Box<Attachment>>,
        with: impl FnOnce(&mut Attachment) -> Txn,
    ) -> Result<Attachment> {
        if !is_filled(request) {
            return Ok(*read.value);
        }
        let filled = self.reach(request, &mut read).and_then(|()| {
            let mut complete = read.value.clone();
            self.name_hardware(&mut complete);
            complete.phase = Phase::Reserved;
            let txn = with(&mut complete);
            self.records.replace(&mut read, complete, txn)
        });
        match filled {
            Ok(()) => Ok(*read.value),
            Err(error) => {
                let id = read.value.id.clone();
                // If this fails the record stays, and the next call removes it.
                let _ = self.links.detach_record(read, Meaning::Classified);
                self.links.let_go(&id, Layer::Link);
                Err(error)
            }
        }
    }

    /// Makes a reserved attachment's interface. Repeating it gives the same result; after a failure
    /// the attachment is reserved as before. Fails with [`model::Kind::Conflict`] where it is
    /// joined to another sandbox that still exists.
    pub fn join(&self, id: &AttachmentId, joining: &Joining) -> Result<Attachment> {
        let _lock = self.host.lock_attachment(id);
        let mut read = self.reserved(id)?;
        if self.is_joined(&read.value, joining)? {
            return Ok(*read.value);
        }
        if read.value.phase != Phase::Reserved || read.value.handoff == Handoff::Caller {
            let Some(rewound) = self.links.rewind(read)? else { return Err(not_reserved(id)) };
            read = rewound;
        }
        let started = self.joined(&read.value, joining)?;
        self.records.replace(&mut read, started, Txn::new())?;
        let made = self.make_link(&read.value).and_then(|attached| {
            let mut complete = read.value.clone();
            complete.phase = Phase::Attached(attached);
            self.records.replace(&mut read, complete, Txn::new())
        });
        match made {
            Ok(()) => Ok(*read.value),
            Err(error) => {
                // If this fails the record says that it is unfinished, and the next call continues.
                let _ = self.links.rewind(read);
                self.links.let_go(id, Layer::Link);
                Err(error)
            }
        }
    }

    fn reserved(&self, id: &AttachmentId) -> Result<Read<Box<Attachment>>> {
        let Some(read) = self.records.record_of(id, Layer::Link)? else {
            return Err(not_reserved(id));
        };
        self.records.refuse_if_busy(&read.value)?;
        if !was_reserved(&read.value) {
            self.links.detach_record(read, Meaning::Whatever)?;
            return Err(not_reserved(id));
        }
        Ok(read)
    }

    pub(crate) fn is_joined(&self, record: &Attachment, joining: &Joining) -> Result<bool> {
        let Phase::Attached(_) = &record.phase else { return Ok(false) };
        let same = record.sandbox.as_ref() == Some(&joining.sandbox);
        let presence = self.driver.presence(record);
        match (&record.sandbox, presence) {
            (Some(other), Presence::Alive | Presence::Doubtful) if !same => {
                Err(Error::conflict(format!(
                    "{} is joined to the sandbox {}; it must leave that first",
                    record.id,
                    other.path.display()
                )))
            }
            (_, Presence::Alive) => Ok(same && record.handoff == joining.handoff),
            (_, Presence::Gone | Presence::Doubtful) => Ok(false),
        }
    }

    pub(crate) fn joined(
        &self,
        reserved: &Attachment,
        joining: &Joining,
    ) -> Result<Box<Attachment>> {
        let mut started = Box::new(reserved.clone());
        started.phase = Phase::Attaching { by: self.host.me() };
        started.sandbox = Some(joining.sandbox.clone());
        started.handoff = joining.handoff;
        started.spec = Some(reserved.spec());
        started.decide(joining.name.clone(), joining.sysctls.clone());
        self.links.renew_fence(&mut started)?;
        Ok(started)
    }

    /// Takes the interface away, and the published ports; the attachment is reserved again. What
    /// the runtime moved into the sandbox it takes back by itself: that goes with the attachment.
    /// Waits for a process that makes it at this moment. One that is not joined, or not known, is no
    /// error.
    pub fn leave(&self, id: &AttachmentId) -> Result<()> {
        let _lock = self.host.lock_attachment(id);
        let unpublished = self.withdraw_ports(id);
        let after = match self.links.let_finish(id)? {
            Some(read) => self.part(read),
            None => Ok(()),
        };
        unpublished.and(after)
    }

    pub(crate) fn part(&self, mut read: Read<Box<Attachment>>) -> Result<()> {
        let id = read.value.id.clone();
        match (&read.value.phase, read.value.handoff) {
            (Phase::Reserved, _) => Ok(()),
            (Phase::Detaching { .. }, _) => {
                self.links.detach_record(read, Meaning::Whatever).map(|_| ())
            }
            (Phase::Attached(_), Handoff::Caller) => {
                let mut after = read.value.clone();
                after.phase = Phase::Reserved;
                after.sandbox = None;
                self.records.replace(&mut read, after, Txn::new())
            }
            (Phase::Attached(_) | Phase::Attaching { .. }, _) => {
                let rewound = self.links.rewind(read);
                self.links.let_go(&id, Layer::Link);
                rewound.map(|_| ())
            }
        }
    }
}

/// Whether its addresses are known only after a third party was asked.
pub(crate) fn is_filled(request: &Request) -> bool {
    request.ipam.is_shared() || request.wiring.chooses_addresses()
}

/// Whether the record has the addresses, and the hardware address, that are asked for.
fn is_as_asked(record: &Attachment, request: &Request) -> bool {
    let has: Vec<IpAddr> = record.addresses.iter().map(|held| held.address.addr()).collect();
    let reported = request.ipam.fixed_addresses().iter();
    let named: Vec<IpAddr> = reported.map(|lease| lease.address.addr()).collect();
    let given: Vec<IpAddr> = request.addresses.iter().map(|held| held.address.addr()).collect();
    // A cloud adds addresses of subnets where every port has one.
    let adds = request.wiring.chooses_addresses();
    let exact = !adds && (!named.is_empty() || !given.is_empty());
    let mut asked = [named, given, request.wanted.clone()].concat();
    asked.sort();
    asked.dedup();
    let mac = |link: &Option<model::Link>| link.as_ref().and_then(|link| link.mac);
    let same_mac = match mac(&request.wiring.link) {
        Some(wanted) => mac(&record.wiring.link) == Some(wanted),
        None => true,
    };
    same_mac
        && asked.iter().all(|address| has.contains(address))
        && (!exact || asked.len() == has.len())
}

fn addresses(record: &Attachment) -> String {
    let held: Vec<String> = record.addresses.iter().map(|held| held.address.to_string()).collect();
    if held.is_empty() { "none".into() } else { held.join(", ") }
}

fn not_reserved(id: &AttachmentId) -> Error {
    Error::not_found(format!("{id} is not known; it must be made before it is joined"))
}
