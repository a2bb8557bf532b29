//! Publishing ports of an attachment that exists, and ending that.
//!
//! A sandbox may have several attachments, and its runtime programs the ports of each (Docker 29:
//! one for the gateway of each address family). So a port is served per address family, by the
//! attachment that the last call named. Ports are split by family here, and what a sibling serves
//! is taken from it element by element before another attachment gets it.
//!
//! The store changes in this order: the new claims beside those of the sibling; the sibling's
//! claims deleted, once the kernel has removed its elements; then the new record complete. At every
//! instruction the store has at least what the kernel has.

mod plan;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;

use model::{
    Attachment, AttachmentId, Error, Family, Kind, Layer, Phase, PortMap, Protocol, Publish, Result,
};

use crate::Attachments;
use crate::addresses::claim::key_of;
use crate::attachments::publish::plan::{Plan, Planned};
use crate::contention::RACES;
use crate::links::detach::Meaning;
use crate::port::{AttachmentLock, Expect, Key, Outcome, Record, Txn};
use crate::records::book::{Read, unchanged};

/// The parameters of [`Attachments::publish`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publishing {
    /// How, and the ports of which the host's number is given.
    pub publish: Publish,
    /// The ports of which the host's number is to be chosen.
    pub open: Vec<OpenPort>,
    /// What to do about ports that another attachment of the same sandbox serves.
    pub siblings: Siblings,
}

/// A port of the container for which a port of the host is to be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenPort {
    /// Only this address of the host, as [`PortMap::host`].
    pub host: Option<IpAddr>,
    /// The numbers to choose from: the first that is free.
    pub among: RangeInclusive<NonZeroU16>,
    /// In the container.
    pub container_port: NonZeroU16,
    /// Of both.
    pub protocol: Protocol,
}

/// Which attachment serves a port for a sandbox that has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Siblings {
    /// This one, instead of the one that does now.
    TakeOver,
    /// The one that does now, in each address family that it serves (libnetwork's
    /// `no_proxy_6to4`).
    GiveWay,
}

/// Numbers of host ports that were chosen and refused.
type Refused = BTreeSet<(Protocol, NonZeroU16)>;

impl Attachments<'_> {
    /// Publishes ports of a joined attachment instead of those that it published before, and
    /// returns them: one for each address family that the attachment serves. A port whose number
    /// was chosen before keeps it. After a failure the previous ports are published.
    ///
    /// Fails with [`Kind::Conflict`] where another container has a port; the error names it and its
    /// runtime. Ports of a dead container are freed.
    pub fn publish(&self, id: &AttachmentId, wanted: &Publishing) -> Result<Vec<PortMap>> {
        let mut refused = Refused::new();
        let mut freed = BTreeSet::new();
        for _ in 0..RACES {
            match self.try_publish(id, wanted, &refused)? {
                Tried::Published(ports) => return Ok(ports),
                Tried::Lost => {}
                Tried::Held(map, holder) => {
                    if !freed.insert(holder.clone()) || !self.free_port_of(&holder)? {
                        return Err(self.addresses.taken(&map, &holder));
                    }
                }
                Tried::Refused(_, chosen) if !chosen.is_empty() => refused.extend(chosen),
                Tried::Refused(error, _) => return Err(error),
            }
        }
        Err(Error::try_again(format!("publishing ports of {id}: lost {RACES} races in a row")))
    }

    /// The ports that the attachment serves now.
    pub fn published(&self, id: &AttachmentId) -> Result<Vec<PortMap>> {
        let read = self.records.record_of(id, Layer::Publish)?;
        Ok(read.map(|read| read.value.published().to_vec()).unwrap_or_default())
    }

    /// Ends the publishing of the attachment's ports, but for those that were added while it ran
    /// ([`Attachments::add_port`]). What its siblings gave up for it stays unpublished: their runtime
    /// publishes it again.
    pub fn unpublish(&self, id: &AttachmentId) -> Result<()> {
        if let Some(publish) = self.bare(id)? {
            let wanted = Publishing { publish, open: Vec::new(), siblings: Siblings::GiveWay };
            match self.publish(id, &wanted) {
                Err(error) if error.kind() == Kind::NotFound => {}
                published => return published.map(drop),
            }
        }
        let _lock = self.host.lock_attachment(id);
        self.withdraw_ports(id)
    }

    /// How an attachment's ports are published that has added ones, without those that its runtime
    /// published.
    fn bare(&self, id: &AttachmentId) -> Result<Option<Publish>> {
        let read = self.records.record_of(id, Layer::Publish)?;
        let publish = read.and_then(|read| read.value.wiring.publish);
        let publish = publish.filter(|publish| !publish.added.is_empty());
        Ok(publish.map(|it| Publish { ports: Vec::new(), served: Vec::new(), ..it }))
    }

    /// Tells the driver of an attachment's link that the link is its sandbox's default gateway in
    /// these families and in no others, where its runtime decides on that. A link that is not
    /// joined is none.
    pub fn set_gateway_of_link(&self, id: &AttachmentId, families: &[Family]) -> Result<()> {
        let _lock = self.host.lock_attachment(id);
        match self.records.record_of(id, Layer::Link)? {
            Some(read) if matches!(read.value.phase, Phase::Attached(_)) => {
                self.driver.set_gateway(&read.value, families)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// As [`Attachments::unpublish`], when it is the caller's turn.
    pub(super) fn withdraw_ports(&self, id: &AttachmentId) -> Result<()> {
        match self.records.record_of(id, Layer::Publish)? {
            Some(read) => self.links.detach_record(read, Meaning::Whatever).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Frees a port whose holder is dead, or has no record.
    fn free_port_of(&self, holder: &AttachmentId) -> Result<bool> {
        if self.records.has_record(holder)? {
            return self.links.free_if_gone(holder);
        }
        self.records.orphaned_claims(crate::Mode::Mend, &mut Vec::new()).map(|()| true)
    }

    fn try_publish(
        &self,
        id: &AttachmentId,
        wanted: &Publishing,
        refused: &Refused,
    ) -> Result<Tried> {
        let lock = self.host.lock_attachment(id);
        match self.plan(id, wanted, refused)? {
            Planned::Held(map, holder) => Ok(Tried::Held(map, holder)),
            Planned::Plan(plan) if plan.losers.is_empty() => self.perform(plan, wanted),
            Planned::Plan(plan) => {
                drop(lock);
                let _locks = self.locks(id, &plan);
                match self.plan(id, wanted, refused)? {
                    Planned::Held(map, holder) => Ok(Tried::Held(map, holder)),
                    Planned::Plan(again) if again.losers.keys().eq(plan.losers.keys()) => {
                        self.perform(again, wanted)
                    }
                    Planned::Plan(_) => Ok(Tried::Lost),
                }
            }
        }
    }

    /// One after the other in the order of the identities, so that no two wait for each other.
    fn locks(&self, id: &AttachmentId, plan: &Plan) -> Vec<AttachmentLock> {
        let mut ids: Vec<&AttachmentId> = plan.losers.keys().chain([id]).collect();
        ids.sort();
        ids.into_iter().map(|id| self.host.lock_attachment(id)).collect()
    }

    fn perform(&self, plan: Plan, wanted: &Publishing) -> Result<Tried> {
        if plan.is_done(&wanted.publish) {
            self.links.restore_now(&plan.served(&wanted.publish))?;
            return Ok(Tried::Published(plan.maps));
        }
        let Some(mut read) = self.announce(&plan, &wanted.publish)? else { return Ok(Tried::Lost) };
        match self.carry_out(&plan, &mut read, &wanted.publish) {
            Ok(()) => Ok(Tried::Published(plan.maps)),
            Err(error) => {
                let id = plan.link.id.clone();
                // What cannot be undone now stays in the record, which says that it is unfinished.
                let _ = self.take_back(&plan, read);
                self.links.let_go(&id, Layer::Publish);
                match error.kind() {
                    Kind::Conflict => Ok(Tried::Refused(error, plan.chosen)),
                    _ => Err(error),
                }
            }
        }
    }

    /// Commits the intent: a record of what is and what will be published, and claims for it.
    fn announce(&self, plan: &Plan, publish: &Publish) -> Result<Option<Read<Box<Attachment>>>> {
        let mut all = plan.before().to_vec();
        all.extend(plan.maps.iter().filter(|map| !plan.before().contains(map)).cloned());
        let phase = Phase::Attaching { by: self.host.me() };
        let record = Box::new(plan.record(publish, all, phase));
        let key = Key::Attachment(record.id.clone(), Layer::Publish);
        let link = Key::Attachment(record.id.clone(), Layer::Link);
        let txn = Txn::new()
            .require(key.clone(), unchanged(plan.old.as_ref()))
            .require(link, Expect::At(plan.revision));
        let claims = plan.claims_for_maps();
        let txn = self.addresses.hold_ports(&record, record.published(), &claims, txn);
        match self.store.commit(&txn.put(key, Record::Attachment(record.clone())))? {
            Outcome::Done(revision) => Ok(Some(Read { value: record, revision })),
            Outcome::Lost(_) => Ok(None),
        }
    }

    fn carry_out(
        &self,
        plan: &Plan,
        read: &mut Read<Box<Attachment>>,
        publish: &Publish,
    ) -> Result<()> {
        for (loser, lost) in &plan.losers {
            self.give_up(loser, lost)?;
        }
        self.withdraw_before(plan, publish)?;
        let served = plan.served(publish);
        let attached = self.driver.attach(&served)?;
        self.conclude(read, Attachment { phase: Phase::Attached(attached), ..served })
    }

    /// Removes what is no longer published. From where the ports are reached that stay, one element says for all of
    /// them: it stays too.
    fn withdraw_before(&self, plan: &Plan, publish: &Publish) -> Result<()> {
        let gone = without(plan.before(), &plan.maps);
        let stay = without(plan.before(), &gone);
        let only_served = match (stay.is_empty(), gone.is_empty()) {
            (true, _) => gone,
            (false, true) => Vec::new(),
            (false, false) => {
                self.driver.withdraw_ports(&plan.only_before(publish, stay), &gone)?;
                Vec::new()
            }
        };
        match only_served.is_empty() && plan.serves_as_before(publish) {
            true => Ok(()),
            false => self.driver.detach(&plan.only_before(publish, only_served)),
        }
    }

    /// The same of an attachment that has the ports `gone` and others that stay in `rest`.
    fn withdraw_from(&self, rest: &Attachment, gone: Vec<PortMap>) -> Result<()> {
        match (gone.is_empty(), rest.published().is_empty()) {
            (true, _) => Ok(()),
            (false, true) => self.driver.detach(&with_ports(rest, gone)),
            (false, false) => self.driver.withdraw_ports(rest, &gone),
        }
    }

    /// Takes from a sibling what is served by another from now on: from the kernel first.
    fn give_up(&self, loser: &AttachmentId, lost: &[(Key, Option<IpAddr>)]) -> Result<()> {
        let Some(mut read) = self.records.record_of(loser, Layer::Publish)? else { return Ok(()) };
        let is_lost = |map: &PortMap| lost.contains(&(key_of(map), map.host));
        let (gone, rest): (Vec<PortMap>, Vec<PortMap>) =
            read.value.published().iter().cloned().partition(is_lost);
        let shrunk = with_ports(&read.value, rest);
        self.withdraw_from(&shrunk, gone)?;
        self.conclude(&mut read, shrunk)
    }

    /// Writes what is published now, and claims for nothing else. A record of nothing goes.
    fn conclude(&self, read: &mut Read<Box<Attachment>>, now: Attachment) -> Result<()> {
        let before = read.value.published().to_vec();
        for _ in 0..RACES {
            let claims = self.addresses.claims_on(before.iter().chain(now.published()))?;
            let key = Key::Attachment(now.id.clone(), now.layer);
            let txn = Txn::new().require(key.clone(), unchanged(Some(&*read)));
            let txn = match before.iter().eq(now.published()) {
                true => txn,
                false => self.addresses.hold_ports(&now, now.published(), &claims, txn),
            };
            let value = Box::new(now.clone());
            let is_over = now.wiring.publish.as_ref().is_none_or(Publish::is_empty);
            let txn = match is_over {
                true => txn.delete(key.clone()),
                false => txn.put(key.clone(), Record::Attachment(value.clone())),
            };
            match self.store.commit(&txn)? {
                Outcome::Done(revision) => {
                    *read = Read { value, revision };
                    return Ok(());
                }
                Outcome::Lost(lost) if lost == key => break,
                Outcome::Lost(_) => {}
            }
        }
        Err(Error::try_again(format!("the ports of {} were changed meanwhile", now.id)))
    }

    /// After a failure: publishes what was published before, and nothing else.
    fn take_back(&self, plan: &Plan, mut read: Read<Box<Attachment>>) -> Result<()> {
        let old = plan.old.as_ref().filter(|old| matches!(old.value.phase, Phase::Attached(_)));
        let Some(old) = old else {
            return self.links.detach_record(read, Meaning::Classified).map(|_| ());
        };
        let added = without(&plan.maps, plan.before());
        self.withdraw_from(&with_ports(&read.value, plan.before().to_vec()), added)?;
        self.links.restore_now(&old.value)?;
        self.conclude(&mut read, (*old.value).clone())
    }
}

enum Tried {
    Published(Vec<PortMap>),
    Lost,
    Held(PortMap, AttachmentId),
    /// By the dataplane, with the numbers that were chosen.
    Refused(Error, Vec<(Protocol, NonZeroU16)>),
}

fn with_ports(attachment: &Attachment, ports: Vec<PortMap>) -> Attachment {
    let mut changed = attachment.clone();
    if let Some(publish) = &mut changed.wiring.publish {
        publish.ports = ports;
    }
    changed
}

fn without(ports: &[PortMap], others: &[PortMap]) -> Vec<PortMap> {
    ports.iter().filter(|map| !others.contains(map)).cloned().collect()
}
