//! Attaching: intent first, then the addresses of others, then the kernel, then the result.

use std::net::IpAddr;

use model::{
    Attached, Attachment, Error, Holder, InterfaceAddress, Kind, Layer, Lease, LinkKind, Phase,
    Result,
};

use crate::book::{Read, unchanged};
use crate::choose::{Avoid, Choice};
use crate::detach::Meaning;
use crate::port::{Expect, Granted, Key, Outcome, Prefix, Presence, Record, Txn};
use crate::{Engine, Request};

/// How often a lost race for an address, a port or the record is run again.
const RACES: usize = 200;

impl Engine<'_> {
    /// Makes one layer of an attachment: addresses first, then the dataplane. The record that is
    /// returned is in phase [`Phase::Attached`].
    ///
    /// What a dead process began for the same attachment is taken over, with its addresses.
    /// Fails with [`Kind::Conflict`] where the layer is already complete, or where an address or
    /// port is held; after any failure nothing is left.
    pub fn attach(&self, request: &Request) -> Result<Attachment> {
        let mut begun = self.begin(request)?;
        match self.make(request, &mut begun) {
            Ok(attached) => {
                let mut complete = begun.read.value;
                complete.phase = Phase::Attached(attached);
                Ok(*complete)
            }
            Err(error) => {
                // Detaching is the only way back. If it fails the record stays, and the next
                // detach, attach or reconcile finds it; if the record is not ours any more,
                // somebody waits for our end to undo it.
                let _ = self.detach_record(begun.read, Meaning::Judged);
                Err(error)
            }
        }
    }

    fn make(&self, request: &Request, begun: &mut Begun) -> Result<Attached> {
        if let Some(old) = begun.inherited.take() {
            self.driver.detach(&old)?;
            if matches!(old.ipam, model::Ipam::Foreign(_)) {
                self.ipam.release(&old)?;
            }
        }
        let read = &mut begun.read;
        self.obtain(request, read)?;
        let attached = self.driver.attach(&read.value)?;
        let mut complete = read.value.clone();
        complete.phase = Phase::Attached(attached.clone());
        self.replace(read, complete, Txn::new())?;
        Ok(attached)
    }

    /// Commits the intent: the record, its leases and its ports, all or none.
    fn begin(&self, request: &Request) -> Result<Begun> {
        let mut avoid = Avoid::new();
        let mut reclaimed = false;
        for _ in 0..RACES {
            let inherited = self.inherit(request)?;
            let tried = self.try_begin(request, inherited, &avoid);
            match tried {
                Ok(Tried::Done(begun)) => return Ok(begun),
                Ok(Tried::Lost(key)) => self.after_loss(request, &key, &mut avoid)?,
                // What was held when it was tried may be free by now.
                Err(error) if error.kind() == Kind::Exhausted && !avoid.is_empty() => avoid.clear(),
                Err(error) if !reclaimed && self.reclaim(request, &error)? => reclaimed = true,
                Err(error) => return Err(error),
            }
        }
        Err(Error::try_again(format!(
            "attaching {}: lost {RACES} races for an address in a row",
            request.id()
        )))
    }

    fn try_begin(&self, request: &Request, inherited: Inherited, avoid: &Avoid) -> Result<Tried> {
        let mut attachment = self.blank(request);
        let key = Key::Attachment(attachment.id.clone(), attachment.layer);
        let mut txn = Txn::new().expect(key.clone(), inherited.expect);
        let choice = match &inherited.record {
            Some(old) => {
                attachment.leases.clone_from(&old.leases);
                txn = self.disclaim_ports(old, txn)?;
                Choice::default()
            }
            None => {
                let choice = self.choose(request, avoid)?;
                attachment.leases.clone_from(&choice.leases);
                txn = self.take(&attachment, &choice.leases, txn);
                choice
            }
        };
        attachment.addresses.extend(attachment.leases.iter().map(address_of));
        txn = self.claim_ports(&attachment, txn)?;
        txn = choice.advance(txn);
        txn = self.remember(request, &attachment, txn)?;
        let attachment = Box::new(attachment);
        txn = txn.put(key, Record::Attachment(attachment.clone()));
        Ok(match self.store.commit(&txn)? {
            Outcome::Done(revision) => {
                let read = Read { value: attachment, revision };
                Tried::Done(Begun { read, inherited: inherited.record })
            }
            Outcome::Lost(key) => Tried::Lost(key),
        })
    }

    fn blank(&self, request: &Request) -> Attachment {
        let phase = Phase::Attaching { by: self.host.me() };
        request.record(request.network.runtime, self.host.now(), phase)
    }

    /// What an earlier record of the same attachment leaves to this one.
    fn inherit(&self, request: &Request) -> Result<Inherited> {
        let Some(read) = self.record_of(&request.id(), request.layer)? else {
            return Ok(Inherited { expect: Expect::Absent, record: None });
        };
        match &read.value.phase {
            Phase::Attaching { by } if *by != self.host.me() && self.host.is_running(by) => {
                Err(Error::try_again(format!(
                    "{} is being attached by process {}",
                    request.id(),
                    by.pid
                )))
            }
            Phase::Attaching { .. } if read.value.ipam == request.ipam && wants(request, &read) => {
                Ok(Inherited { expect: unchanged(Some(&read)), record: Some(read.value) })
            }
            Phase::Attached(_) if self.is_complete(request, &read.value) => {
                Err(Error::conflict(format!(
                    "interface {} of container {} already exists on network {}; delete it first",
                    request.ifname, request.container, request.network.name
                )))
            }
            Phase::Reserved
            | Phase::Attaching { .. }
            | Phase::Attached(_)
            | Phase::Detaching { .. } => {
                self.detach_record(read, Meaning::Judged)?;
                Ok(Inherited { expect: Expect::Absent, record: None })
            }
        }
    }

    /// Whether an attached record stands in the way of attaching again. Links and addresses do,
    /// while their container lives; loopback and the other layers are replaced, as the reference
    /// plugins do.
    fn is_complete(&self, request: &Request, record: &Attachment) -> bool {
        let is_loopback =
            record.wiring.link.as_ref().is_some_and(|link| link.kind == LinkKind::Loopback);
        match request.layer {
            Layer::Link | Layer::Address => {
                !is_loopback && self.driver.presence(record) != Presence::Gone
            }
            Layer::Publish | Layer::Firewall | Layer::Tuning => false,
        }
    }

    fn after_loss(&self, request: &Request, key: &Key, avoid: &mut Avoid) -> Result<()> {
        if let Key::Lease(space, address) = key {
            let exact = request.wanted.contains(address)
                || matches!(request.ipam, model::Ipam::Fixed { .. });
            if exact && let Some(read) = self.holder_of(space, *address)? {
                let freed = match read.value.attachment() {
                    Some(id) => self.free_if_gone(id)?,
                    None => false,
                };
                return if freed { Ok(()) } else { Err(held(&read.value)) };
            }
            avoid.insert(*address);
        }
        Ok(())
    }

    /// After a refusal: frees what provably dead containers hold. `true` if trying again may help.
    fn reclaim(&self, request: &Request, error: &Error) -> Result<bool> {
        match error.kind() {
            Kind::Exhausted => {
                let prefix = Prefix::AttachmentsOf(request.network.name.clone());
                let mut freed = false;
                for read in self.records(&prefix)? {
                    freed |= self.free_if_gone(&read.value.id)?;
                }
                Ok(freed)
            }
            Kind::Conflict => match self.port_holder(&self.blank(request))? {
                Some(holder) => self.free_if_gone(&holder),
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

    /// Gets the addresses that the book does not decide alone.
    fn obtain(&self, request: &Request, begun: &mut Read<Box<Attachment>>) -> Result<()> {
        match &begun.value.ipam {
            model::Ipam::HostLocal { .. } | model::Ipam::Foreign(_) => {}
            model::Ipam::None
            | model::Ipam::Book { .. }
            | model::Ipam::Fixed { .. }
            | model::Ipam::Requested { .. } => return Ok(()),
        }
        let mut avoid = Avoid::new();
        loop {
            match self.ipam.lease(&begun.value)? {
                Granted::Chosen => return Ok(()),
                Granted::Held { address, by, all } => {
                    if request.wanted.contains(&address) || !avoid.insert(address) {
                        let what = format!("address {address} is held by {by}");
                        return Err(Error::conflict(what));
                    }
                    avoid.extend(all);
                    self.choose_again(request, begun, &mut avoid)?;
                }
                Granted::Offered(offer) => {
                    let mut told = begun.value.clone();
                    told.addresses = offer.addresses;
                    told.routes = offer.routes;
                    if told.dns == model::Dns::default() {
                        told.dns = offer.dns;
                    }
                    return self.replace(begun, told, Txn::new());
                }
            }
        }
    }

    fn choose_again(
        &self,
        request: &Request,
        begun: &mut Read<Box<Attachment>>,
        avoid: &mut Avoid,
    ) -> Result<()> {
        for _ in 0..RACES {
            let choice = self.choose(request, avoid)?;
            let mut again = begun.value.clone();
            let old = std::mem::replace(&mut again.leases, choice.leases.clone());
            again.addresses = choice.leases.iter().map(address_of).collect();
            let mut txn = Txn::new();
            let fresh: Vec<Lease> =
                choice.leases.iter().filter(|lease| !old.contains(lease)).cloned().collect();
            for lease in old.iter().filter(|lease| !choice.leases.contains(lease)) {
                txn = txn.delete(Key::Lease(lease.space.clone(), lease.address.addr()));
            }
            txn = choice.advance(self.take(&again, &fresh, txn));
            match self.try_replace(begun, again, txn)? {
                None => return Ok(()),
                Some(Key::Lease(_, lost)) => avoid.insert(lost),
                Some(_) => return Err(overtaken(&begun.value)),
            };
        }
        Err(Error::try_again(format!("attaching {}: lost {RACES} races in a row", begun.value.id)))
    }

    /// Writes the record anew, if it is still ours; otherwise somebody detached it.
    fn replace(
        &self,
        begun: &mut Read<Box<Attachment>>,
        with: Box<Attachment>,
        txn: Txn,
    ) -> Result<()> {
        match self.try_replace(begun, with, txn)? {
            None => Ok(()),
            Some(_) => Err(overtaken(&begun.value)),
        }
    }

    fn try_replace(
        &self,
        begun: &mut Read<Box<Attachment>>,
        with: Box<Attachment>,
        mut txn: Txn,
    ) -> Result<Option<Key>> {
        let key = Key::Attachment(with.id.clone(), with.layer);
        txn.expect.insert(0, (key.clone(), Expect::At(begun.revision)));
        match self.store.commit(&txn.put(key, Record::Attachment(with.clone())))? {
            Outcome::Done(revision) => {
                *begun = Read { value: with, revision };
                Ok(None)
            }
            Outcome::Lost(key) => Ok(Some(key)),
        }
    }
}

/// A committed intent.
struct Begun {
    read: Read<Box<Attachment>>,
    /// What a dead process had begun for the same attachment, to be undone first.
    inherited: Option<Box<Attachment>>,
}

enum Tried {
    Done(Begun),
    Lost(Key),
}

struct Inherited {
    expect: Expect,
    record: Option<Box<Attachment>>,
}

fn wants(request: &Request, read: &Read<Box<Attachment>>) -> bool {
    let leased: Vec<IpAddr> = read.value.leases.iter().map(|lease| lease.address.addr()).collect();
    request.wanted.iter().all(|wanted| leased.contains(wanted))
}

fn address_of(lease: &Lease) -> InterfaceAddress {
    InterfaceAddress { address: lease.address, gateway: lease.gateway, interface: None }
}

fn overtaken(attachment: &Attachment) -> Error {
    Error::try_again(format!("{} was detached while it was being attached", attachment.id))
}

pub(crate) fn held(holder: &Holder) -> Error {
    Error::conflict(format!(
        "address {} is held by {} (runtime {}); `spoke ipam show {}` says since when",
        holder.lease.address.addr(),
        holder.tenant,
        holder.runtime,
        holder.lease.address.addr()
    ))
}
