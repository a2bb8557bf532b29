//! Endpoints that users keep apart from sandboxes (libnetwork's `Network.CreateEndpoint`,
//! `Endpoint.Join`, `Endpoint.Leave` and `Endpoint.Delete`).
//!
//! Such an attachment is reserved until it joins a sandbox that Spoke itself connects, and again
//! after it has left that sandbox. [`Networks::connect`] and [`Networks::disconnect`] do both halves at
//! once, with the same records. Only its user removes it: neither the end of its sandbox nor that
//! of a process does. A durable record says how it is created again after a reboot, and
//! reservations keep its addresses until then.

mod again;
mod refuse;

use model::{
    Attachment, AttachmentId, ContainerId, Error, GatewayRole, Handoff, IfName, Kind, Layer, Phase,
    Result, Runtime, Sandbox,
};

use crate::attachments::begin::{Draft, Inherited, Race, Tried};
use crate::attachments::endpoint::is_filled;
use crate::contention::{RACES, lost, overtaken};
use crate::links::detach::Meaning;
use crate::links::rewind::was_reserved;
use crate::links::sandbox::set_gateway_where_it_can;
use crate::networks::kept::refuse::{refuse_inseparable, refuse_inseparable_link};
use crate::port::{Expect, Key, Presence, Txn};
use crate::records::book::Read;
use crate::records::endpoint::{shown, standing};
use crate::{Connecting, Joining, Networks, Request};

/// The interface name in an endpoint's identity. Its name in a sandbox is known only there.
pub const APART: &str = "eth";

/// The parameters of [`Networks::join_endpoint`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entering {
    /// The sandbox, which exists.
    pub sandbox: Sandbox,
    /// The sandbox's name; each sandbox has one.
    pub container: ContainerId,
    /// The name of the interface there.
    pub name: IfName,
    /// As [`Connecting::priority`].
    pub priority: i32,
}

impl Networks<'_> {
    /// Creates an endpoint, with its addresses and its hardware address, in phase
    /// [`Phase::Reserved`]. The request names no sandbox. It names the ports of the host that lead
    /// to the endpoint while it is joined.
    ///
    /// Fails with [`Kind::Conflict`] where an endpoint of this name exists, and with
    /// [`Kind::Unsupported`] where the network's driver makes interfaces only together with their
    /// addresses, in a sandbox.
    pub fn create_endpoint(&self, request: &Request, how: &Connecting) -> Result<Attachment> {
        refuse_inseparable(request)?;
        let phase = match is_filled(request) {
            true => Phase::Attaching { by: self.host.me() },
            false => Phase::Reserved,
        };
        let mut blank = request.record(request.network.runtime, self.host.now(), phase);
        how.say(&mut blank);
        blank.sandbox = None;
        let draft = Draft { apart: true, ..Draft::of(request, blank) };
        let mut race = Race::default();
        for _ in 0..RACES {
            let lock = self.host.lock_attachment(&draft.blank.id);
            self.clear_unfinished(&draft.blank.id)?;
            let nothing = Inherited { expect: Expect::Absent, record: None };
            match self.attachments.try_begin(&draft, nothing, &race.avoid) {
                Ok(Tried::Done(started)) => {
                    return self.attachments.fill(request, started.read, |complete| {
                        self.addresses.keep_if_reserved(complete, Txn::new())
                    });
                }
                tried => {
                    drop(lock);
                    self.attachments.recover(&draft, tried, &mut race)?;
                }
            }
        }
        Err(lost(&draft.blank))
    }

    /// Removes what a dead process left of an endpoint of this name; an existing one is a conflict.
    fn clear_unfinished(&self, id: &AttachmentId) -> Result<()> {
        if let Some(kept) = self.records.kept_of(id)? {
            return Err(standing(&kept.value));
        }
        let Some(read) = self.records.record_of(id, Layer::Link)? else { return Ok(()) };
        self.records.refuse_if_busy(&read.value)?;
        match was_reserved(&read.value) {
            true => Err(standing(&read.value)),
            false => self.links.detach_record(read, Meaning::Classified).map(|_| ()),
        }
    }

    /// Joins an endpoint to a sandbox, and chooses the sandbox's default gateway again, as
    /// [`Networks::connect`] does. Repeating it gives the same result; after a failure the endpoint
    /// is in no sandbox, unless it was in this one before.
    ///
    /// Fails with [`Kind::NotFound`] where the endpoint does not exist, and with [`Kind::Conflict`]
    /// where it is in another sandbox that still exists, or another container has one of its ports.
    pub fn join_endpoint(&self, id: &AttachmentId, entering: &Entering) -> Result<Attachment> {
        // Before anything else names it, with a number that others may get after it.
        let _ = self.driver.namespace(&entering.sandbox);
        let container = &entering.container;
        let _lock = self.links.lock_of(container)?;
        let is_first = self.records.sandbox_record_of(container)?.is_none();
        let mut joined = self.step_in(id, entering);
        if let Err(error) = &joined
            && error.kind() == Kind::Conflict
            && self.free_ports_for(id, entering)?
        {
            joined = self.step_in(id, entering);
        }
        let is_new = joined.inspect_err(|_| self.leave_undetermined(container))?;
        match self.update_gateway_locked(container, &[], is_first) {
            Ok(()) => match self.records.record_of(id, Layer::Link)? {
                Some(read) => Ok(*read.value),
                None => Err(overtaken(id)),
            },
            // It was in the sandbox before, and stays.
            Err(error) if !is_new => Err(error),
            Err(error) => {
                // What stays is found by the next call for this sandbox, as after a crash.
                let _ = self.take_out(id);
                let _ = self.update_gateway_locked(container, &[], false);
                Err(error)
            }
        }
    }

    /// Makes the interface, not yet as default gateway; `false` where it was made before.
    fn step_in(&self, id: &AttachmentId, entering: &Entering) -> Result<bool> {
        let _lock = self.host.lock_attachment(id);
        let mut read = self.endpoint_of(id)?;
        self.records.refuse_if_busy(&read.value)?;
        let joining = joining(entering, &read.value);
        let is_same = *read.value.sandbox_name() == entering.container;
        if self.attachments.is_joined(&read.value, &joining)? && is_same {
            return Ok(false);
        }
        if read.value.phase != Phase::Reserved {
            let Some(rewound) = self.links.rewind(read)? else { return Err(overtaken(id)) };
            read = rewound;
        }
        self.announce_entering(&mut read, entering, &joining)?;
        let made = self.attachments.make_link(&read.value).and_then(|attached| {
            let mut complete = read.value.clone();
            complete.phase = Phase::Attached(attached);
            set_gateway_where_it_can(&mut complete);
            self.records.replace(&mut read, complete, Txn::new())
        });
        made.map(|()| true).inspect_err(|_| {
            // If this fails the record says that it is unfinished, and the next call continues.
            let _ = self.links.rewind(read);
            self.links.let_go(id, Layer::Link);
        })
    }

    /// Commits the intent: that it is one of its sandbox, and has the ports.
    fn announce_entering(
        &self,
        read: &mut Read<Box<Attachment>>,
        entering: &Entering,
        joining: &Joining,
    ) -> Result<()> {
        let key = Key::Attachment(read.value.id.clone(), Layer::Link);
        for _ in 0..RACES {
            let mut started = self.entering(&read.value, entering, joining)?;
            let txn = self.addresses.claim_ports(&started, Txn::new())?;
            let txn = self.links.enlist(&mut started, txn)?;
            match self.records.try_replace(read, started, txn)? {
                None => return Ok(()),
                Some(lost) if lost == key => return Err(overtaken(&read.value.id)),
                // Another attachment of the sandbox came or went, or a port was taken.
                Some(_) => {}
            }
        }
        Err(lost(&read.value))
    }

    fn entering(
        &self,
        reserved: &Attachment,
        entering: &Entering,
        joining: &Joining,
    ) -> Result<Box<Attachment>> {
        let mut started = self.attachments.joined(reserved, joining)?;
        let sandbox = Some(&entering.container).filter(|name| **name != reserved.id.container);
        started.gateway_role =
            Some(GatewayRole { sandbox: sandbox.cloned(), ..GatewayRole::of(entering.priority) });
        let mut entering = self.links.bring_ports(*started)?;
        self.attachments.amend(&mut entering)?;
        Ok(Box::new(entering))
    }

    /// Frees what a dead container has of the ports. The caller has no turn at any attachment.
    fn free_ports_for(&self, id: &AttachmentId, entering: &Entering) -> Result<bool> {
        let Some(read) = self.records.record_of(id, Layer::Link)? else { return Ok(false) };
        if read.value.phase != Phase::Reserved {
            return Ok(false);
        }
        let wanted = self.entering(&read.value, entering, &joining(entering, &read.value))?;
        match self.addresses.port_holder(&wanted)? {
            Some(holder) => self.links.free_if_gone(&holder),
            None => Ok(false),
        }
    }

    /// Takes an endpoint out of its sandbox, whose default gateway is chosen again. The endpoint
    /// keeps its addresses and its hardware address; its ports are not served. One that
    /// [`Networks::connect`] made is kept from then on, too. An endpoint that is in no sandbox is no
    /// error.
    ///
    /// Fails with [`Kind::NotFound`] where it does not exist, and with [`Kind::Unsupported`] where
    /// its driver cannot make it without its sandbox.
    pub fn leave_endpoint(&self, id: &AttachmentId) -> Result<()> {
        let read = self.endpoint_of(id)?;
        let sandbox = read.value.gateway_role.as_ref().map(|_| read.value.sandbox_name().clone());
        let taken_out = self.take_out(id);
        let settled = sandbox.map_or(Ok(()), |sandbox| self.update_gateway_after_leave(&sandbox));
        taken_out.and(settled)
    }

    fn take_out(&self, id: &AttachmentId) -> Result<()> {
        let _lock = self.host.lock_attachment(id);
        let Some(mut read) = self.links.let_finish(id)? else { return Ok(()) };
        if !read.value.kept && matches!(read.value.phase, Phase::Attached(_)) {
            refuse_inseparable_link(&read.value)?;
            let mut kept = read.value.clone();
            let txn = self.addresses.keep_joined(&mut kept)?;
            self.records.replace(&mut read, kept, txn)?;
        }
        self.attachments.part(read)
    }

    /// Removes an endpoint, and releases its addresses. One that is in a sandbox is refused unless
    /// `force`; one that is not there is no error then.
    pub fn remove_endpoint(&self, id: &AttachmentId, force: bool) -> Result<()> {
        let read = match self.records.record_of(id, Layer::Link)? {
            // Also what a dead process left of one.
            Some(read) if read.value.runtime == Runtime::Spoke => read,
            Some(_) | None => match self.endpoint_of(id) {
                Err(error) if error.kind() == Kind::NotFound && force => return Ok(()),
                found => found?,
            },
        };
        if let (Phase::Attached(_), Some(sandbox), false) =
            (&read.value.phase, &read.value.sandbox, force)
            && self.driver.presence(&read.value) != Presence::Gone
        {
            return Err(Error::conflict(format!(
                "{} is in the sandbox {}; take it out with `spoke endpoint leave {} {}`, or remove it \
                 with --force",
                shown(id),
                sandbox.path.display(),
                id.network,
                id.container
            )));
        }
        self.disconnect(id)
    }
}

fn joining(entering: &Entering, reserved: &Attachment) -> Joining {
    Joining {
        sandbox: entering.sandbox.clone(),
        handoff: Handoff::Finish,
        name: Some(entering.name.clone()),
        sysctls: reserved.spec().sysctls,
    }
}
