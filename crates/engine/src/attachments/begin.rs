//! Begins an attach: the intent is committed before anything is made.

use std::net::IpAddr;

use model::{
    Alias, Attachment, AttachmentId, Error, Fact, GatewayRole, InterfaceAddress, Ipam, Kind, Layer,
    Lease, LinkKind, Origin, Phase, RequestedAddress, Result, Runtime,
};

use crate::addresses::choose::Choice;
use crate::addresses::search::Avoid;
use crate::contention::{RACES, lost};
use crate::links::detach::Meaning;
use crate::port::{AttachmentLock, Expect, Key, Outcome, Prefix, Presence, Record, Txn};
use crate::records::book::{Read, unchanged};
use crate::records::endpoint::standing;
use crate::{Attachments, Connecting, Request};

impl Attachments<'_> {
    /// Commits the intent: the record, its leases and its ports, all or none.
    pub(super) fn begin(&self, request: &Request, role: Role<'_>) -> Result<Started> {
        let mut draft = Draft::of(request, self.blank(request));
        match role {
            Role::Alone => {}
            Role::Guest(how) => how.say(&mut draft.blank),
            Role::Unreported => draft.blank.teller = Some(self.host.me()),
            Role::Of(origin) => {
                draft.blank.teller = Some(self.host.me());
                draft.blank.be_of(origin);
            }
            Role::GatewayRoute(how) => {
                how.say(&mut draft.blank);
                draft.blank.gateway_role = Some(GatewayRole::of(how.priority));
                draft.blank.spec = Some(draft.blank.spec());
                draft.blank = self.links.bring_ports(draft.blank)?;
            }
        }
        self.amend(&mut draft.blank)?;
        let mut race = Race::default();
        for _ in 0..RACES {
            let lock = self.host.lock_attachment(&draft.blank.id);
            let inherited = self.inherit(request);
            match inherited.and_then(|it| self.try_begin(&draft, it, &race.avoid)) {
                Ok(Tried::Done(started)) => return Ok(Started { lock: Some(lock), ..started }),
                tried => {
                    drop(lock);
                    self.recover(&draft, tried, &mut race)?;
                }
            }
        }
        Err(lost(&draft.blank))
    }

    /// After an intent that was not committed: an error, unless trying again may help. The caller
    /// has no turn.
    pub(crate) fn recover(
        &self,
        draft: &Draft<'_>,
        tried: Result<Tried>,
        race: &mut Race,
    ) -> Result<()> {
        match tried {
            Ok(Tried::Done(_)) => Ok(()),
            Ok(Tried::Lost(key)) => self.after_loss(draft, &key, &mut race.avoid),
            // An address that was held before may be free by now.
            Err(error) if error.kind() == Kind::Exhausted && !race.avoid.is_empty() => {
                race.avoid.clear();
                Ok(())
            }
            Err(error) if !race.reclaimed && self.reclaim(draft.request, &error)? => {
                race.reclaimed = true;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn try_begin(
        &self,
        draft: &Draft<'_>,
        inherited: Inherited,
        avoid: &Avoid,
    ) -> Result<Tried> {
        let request = draft.request;
        let mut attachment = draft.blank.clone();
        self.links.refuse_own_fence(&attachment, Some(&request.network))?;
        self.refuse_hardware(draft)?;
        let key = Key::Attachment(attachment.id.clone(), attachment.layer);
        let mut txn = Txn::new().require(key.clone(), inherited.expect);
        if let Some((network, expect)) = self.records.refuse_unmade(&request.network)? {
            txn = txn.require(network, expect);
        }
        let (choice, mut txn) = match &inherited.record {
            Some(old) => {
                attachment.leases.clone_from(&old.leases);
                (Choice::default(), self.addresses.disclaim_ports(old, txn)?)
            }
            None => self.new_leases(draft, avoid, &mut attachment, txn)?,
        };
        attachment.addresses.extend(attachment.leases.iter().map(address_of));
        if attachment.tap().is_some() {
            self.name_hardware(&mut attachment);
        }
        if let Some(alias) = &draft.under {
            let key = Key::Alias(alias.value.id.clone());
            txn = txn.require(key, unchanged(Some(alias)));
            self.name_hardware(&mut attachment);
        }
        if draft.apart {
            self.name_hardware(&mut attachment);
            txn = self.addresses.keep_if_reserved(&mut attachment, txn);
        } else {
            txn = self.addresses.claim_ports(&attachment, txn)?;
        }
        txn = self.links.enlist(&mut attachment, txn)?;
        txn = choice.advance(txn);
        txn = match draft.under.is_none() {
            true => self.remember(request, &attachment, txn)?,
            false => self.records.expect_open(&request.network, request.layer, txn)?.1,
        };
        let attachment = Box::new(attachment);
        txn = txn.put(key, Record::Attachment(attachment.clone()));
        Ok(match self.store.commit(&txn)? {
            Outcome::Done(revision) => {
                if draft.under.is_none() {
                    self.subnets.bound_names(request, &attachment.leases);
                }
                let read = Read { value: attachment, revision };
                Tried::Done(Started { read, inherited: inherited.record, lock: None })
            }
            Outcome::Lost(key) => Tried::Lost(key),
        })
    }

    /// Chooses and takes the attachment's addresses.
    fn new_leases(
        &self,
        draft: &Draft<'_>,
        avoid: &Avoid,
        attachment: &mut Attachment,
        txn: Txn,
    ) -> Result<(Choice, Txn)> {
        let request = draft.request;
        let mut choice = self.addresses.choose(request, avoid)?;
        if let Ipam::Requested { leases } = &request.ipam {
            choice.leases.clone_from(leases);
        }
        if draft.apart && choice.is_from_others() {
            return Err(Error::unsupported(format!(
                "an endpoint of network {} has an address of its host's own blocks",
                request.network.name
            )));
        }
        attachment.leases.clone_from(&choice.leases);
        let txn = match &request.ipam {
            Ipam::Requested { .. } => self.records.bind(attachment, txn)?,
            _ => self.addresses.take(attachment, &choice.leases, txn),
        };
        Ok((choice, txn))
    }

    /// Writes down the hardware address that the interface will have.
    pub(super) fn name_hardware(&self, attachment: &mut Attachment) {
        let mac = self.driver.hardware_address(attachment);
        if let Some(link) = &mut attachment.wiring.link {
            link.mac = link.mac.or(mac);
        }
    }

    fn blank(&self, request: &Request) -> Attachment {
        let phase = Phase::Attaching { by: self.host.me() };
        request.record(request.network.runtime, self.host.now(), phase)
    }

    /// What this attachment takes over from an earlier record of it.
    fn inherit(&self, request: &Request) -> Result<Inherited> {
        let Some(read) = self.records.record_of(&request.id(), request.layer)? else {
            return Ok(Inherited { expect: Expect::Absent, record: None });
        };
        match &read.value.phase {
            _ if read.value.kept => Err(standing(&read.value)),
            Phase::Attaching { by } if *by != self.host.me() && self.host.is_running(by) => {
                Err(Error::try_again(format!(
                    "{} is being attached by process {}",
                    request.id(),
                    by.pid
                )))
            }
            // An address that a dead process chose is not chosen again. An address source outside
            // the store may allocate another one the next time.
            Phase::Attaching { .. } | Phase::Attached(_)
                if self.is_unfinished(request, &read.value)?
                    && read.value.ipam == request.ipam
                    && wants(request, &read)
                    && !matches!(read.value.ipam, Ipam::Dhcp(_) | Ipam::Remote(_))
                    && !read.value.wiring.chooses_addresses() =>
            {
                Ok(Inherited { expect: unchanged(Some(&read)), record: Some(read.value) })
            }
            Phase::Attached(_)
                if !self.is_unfinished(request, &read.value)?
                    && self.is_complete(request, &read.value) =>
            {
                Err(Error::conflict(format!(
                    "interface {} of container {} already exists on network {}; {}",
                    request.ifname,
                    request.container,
                    request.network.called(),
                    how_to_detach(request)
                ))
                .about(attached(request, &read.value)))
            }
            // A working attachment is not undone for a request that is refused.
            Phase::Attached(_) => {
                self.addresses.refuse_taken_ports(&self.blank(request))?;
                self.undo_earlier(read)
            }
            Phase::Reserved | Phase::Attaching { .. } | Phase::Detaching { .. } => {
                self.undo_earlier(read)
            }
        }
    }

    /// Whether the caller never got the result: its process died before the end, or before the
    /// report.
    fn is_unfinished(&self, request: &Request, record: &Attachment) -> Result<bool> {
        match (&record.phase, &record.teller) {
            (Phase::Attached(_), Some(teller)) => {
                let is_dead = *teller != self.host.me() && !self.host.is_running(teller);
                let key = Key::Attachment(request.id(), request.layer);
                Ok(is_dead && !self.store.is_answered(&key)?)
            }
            (Phase::Attached(_), None) => Ok(false),
            (Phase::Reserved | Phase::Attaching { .. } | Phase::Detaching { .. }, _) => Ok(true),
        }
    }

    fn undo_earlier(&self, read: Read<Box<Attachment>>) -> Result<Inherited> {
        self.links.detach_record(read, Meaning::Classified)?;
        Ok(Inherited { expect: Expect::Absent, record: None })
    }

    /// Whether an attached record blocks another attach. Links and addresses do, while their
    /// container exists; loopback and the other layers are replaced, as the reference plugins do.
    fn is_complete(&self, request: &Request, record: &Attachment) -> bool {
        let is_loopback =
            record.wiring.link.as_ref().is_some_and(|link| link.kind == LinkKind::Loopback);
        match request.layer {
            Layer::Link | Layer::Address => {
                !is_loopback && self.driver.presence(record) != Presence::Gone
            }
            Layer::Publish
            | Layer::Firewall
            | Layer::Tuning
            | Layer::Bandwidth
            | Layer::Vrf
            | Layer::SourceRouting => false,
        }
    }

    fn after_loss(&self, draft: &Draft<'_>, key: &Key, avoid: &mut Avoid) -> Result<()> {
        let request = draft.request;
        if matches!(request.ipam, Ipam::Requested { .. }) {
            return Ok(());
        }
        if let Key::Lease(space, address) = key {
            let exact =
                request.wanted.contains(address) || matches!(request.ipam, Ipam::Fixed { .. });
            if exact && let Some(read) = self.records.holder_of(space, *address)? {
                let freed = match read.value.attachment() {
                    Some(id) => self.links.free_if_gone(id)? || self.free_forgotten(id, draft)?,
                    None => false,
                };
                let is_neighbour = |id: &AttachmentId| id.network == request.network.name;
                return match freed {
                    true => Ok(()),
                    // Of other networks others do not know.
                    false if read.value.attachment().is_some_and(is_neighbour) => {
                        Err(self.records.held(&read.value).about(wanted_of(request, *address)))
                    }
                    false => Err(self.records.held(&read.value)),
                };
            }
            avoid.insert(*address);
        }
        Ok(())
    }

    /// Frees a reserved attachment whose address its runtime allocates again, under the same id of
    /// a network: the runtime has not deleted it.
    fn free_forgotten(&self, id: &AttachmentId, draft: &Draft<'_>) -> Result<bool> {
        let Some(alias) = &draft.under else { return Ok(false) };
        let _lock = self.host.lock_attachment(id);
        match self.records.record_of(id, Layer::Link)? {
            Some(read)
                if read.value.phase == Phase::Reserved
                    && read.value.alias.as_ref() == Some(&alias.value.id) =>
            {
                self.links.detach_record(read, Meaning::Classified)
            }
            Some(_) | None => Ok(false),
        }
    }

    /// After a refusal: frees what provably dead containers hold, and some of what is only kept for those
    /// that may come again. `true` if trying again may help.
    fn reclaim(&self, request: &Request, error: &Error) -> Result<bool> {
        match error.kind() {
            Kind::Exhausted => {
                let prefix = Prefix::AttachmentsOf(request.network.name.clone());
                let mut freed = false;
                for read in self.records.attachments_in(&prefix)? {
                    freed |= self.links.free_if_gone(&read.value.id)?;
                }
                Ok(self.subnets.forget_kept(request)? || freed)
            }
            Kind::Conflict => match self.addresses.port_holder(&self.blank(request))? {
                Some(holder) => self.links.free_if_gone(&holder),
                None => Ok(false),
            },
            Kind::Invalid
            | Kind::Unsupported
            | Kind::NotFound
            | Kind::TryAgain
            | Kind::Denied
            | Kind::Kernel
            | Kind::Bug => Ok(false),
        }
    }
}

/// What the caller does before it attaches the container anew.
fn how_to_detach(request: &Request) -> String {
    match request.network.runtime {
        Runtime::Spoke => format!(
            "`spoke network disconnect {} {}` takes it off",
            request.network.called(),
            request.container
        ),
        Runtime::Cni | Runtime::Podman | Runtime::Reference | Runtime::Docker | Runtime::Kurma => {
            "detach it first".to_owned()
        }
    }
}

/// That it exists already.
fn attached(request: &Request, record: &Attachment) -> Fact {
    let first = record.leases.first().map(|lease| lease.address.addr());
    let wanted = request.wanted.first().and_then(|address| wanted(request, *address));
    let made = match &record.phase {
        Phase::Attached(attached) => attached.interfaces.as_slice(),
        Phase::Reserved | Phase::Attaching { .. } | Phase::Detaching { .. } => &[],
    };
    let is_end = |it: &&model::Interface| {
        it.place == model::InterfaceNamespace::Host && it.name.as_str().starts_with("veth")
    };
    let peer = made.iter().find(is_end).map(|it| it.name.clone());
    Fact::Attached { first, wanted, peer }
}

/// The fact that a requested address has another holder.
pub(crate) fn wanted_of(request: &Request, address: IpAddr) -> Fact {
    match wanted(request, address) {
        Some(wanted) => Fact::Held(wanted),
        None => Fact::Held(RequestedAddress { address, index: 0, ranges: String::new() }),
    }
}

fn wanted(request: &Request, address: IpAddr) -> Option<RequestedAddress> {
    let pool = request.ipam.pools().iter().find(|pool| pool.range_of(address).is_some())?;
    Some(RequestedAddress { address, index: pool.id.index, ranges: pool.shown() })
}

/// Of what an attachment is a part.
#[derive(Clone, Copy)]
pub(crate) enum Role<'o> {
    /// Of nothing.
    Alone,
    /// Of nothing: it is a virtual machine's, in this way.
    Guest(&'o Connecting),
    /// Of nothing; its caller reports the result itself.
    Unreported,
    /// Of a call that makes several; its caller reports the result itself.
    Of(&'o Origin),
    /// Of a sandbox that Spoke itself connects, in this way.
    GatewayRoute(&'o Connecting),
}

/// The part of a commit that is the same at every try.
pub(crate) struct Draft<'r> {
    pub(crate) request: &'r Request,
    /// The record without any lease.
    pub(crate) blank: Attachment,
    /// The id of the network under which the attachment is made; it must stay as it is.
    pub(crate) under: Option<Read<Alias>>,
    /// Whether it is made apart from any sandbox, for its user to keep: it has no ports of the host yet.
    pub(crate) apart: bool,
}

impl<'r> Draft<'r> {
    /// A draft without a special role.
    pub(crate) fn of(request: &'r Request, blank: Attachment) -> Self {
        Self { request, blank, under: None, apart: false }
    }
}

/// What lost races have shown.
#[derive(Default)]
pub(crate) struct Race {
    pub(crate) avoid: Avoid,
    reclaimed: bool,
}

/// A committed intent.
pub(crate) struct Started {
    pub(crate) read: Read<Box<Attachment>>,
    /// The unfinished record of a dead process for the same attachment. It is undone first.
    pub(crate) inherited: Option<Box<Attachment>>,
    /// Held until the attachment is complete.
    #[expect(dead_code, reason = "it is held, not looked at")]
    lock: Option<AttachmentLock>,
}

pub(crate) enum Tried {
    Done(Started),
    Lost(Key),
}

pub(crate) struct Inherited {
    pub(crate) expect: Expect,
    pub(crate) record: Option<Box<Attachment>>,
}

fn wants(request: &Request, read: &Read<Box<Attachment>>) -> bool {
    let leased: Vec<IpAddr> = read.value.leases.iter().map(|lease| lease.address.addr()).collect();
    request.wanted.iter().all(|wanted| leased.contains(wanted))
}

pub(crate) fn address_of(lease: &Lease) -> InterfaceAddress {
    InterfaceAddress { address: lease.address, gateway: lease.gateway, interface: None }
}
