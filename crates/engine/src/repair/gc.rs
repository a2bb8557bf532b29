//! Garbage: what a runtime no longer lists, and what has no owner that could remove it.

use std::collections::BTreeSet;

use model::{Attachment, Holder, Layer, Network, NetworkName, Phase, Result, Tenant, Timestamp};

use crate::failures::all_of;
use crate::finding::{Finding, Garbage, Mode, Reconciled, Remedy};
use crate::links::detach::Meaning;
use crate::links::rewind::is_rewindable;
use crate::links::settings::Following;
use crate::port::{Key, Outcome, Prefix, Presence, Record, Txn};
use crate::records::book::{Read, passable, unchanged};
use crate::{Members, Repair};

impl Repair<'_> {
    /// Removes every attachment of the network that is not listed, all layers of it. Those that
    /// another runtime than the network's made stay: this one could not list them. An error does
    /// not end the work; all errors are reported.
    pub fn gc(&self, network: &Network, valid: &Members) -> Result<()> {
        let mut failures = Vec::new();
        let mut kept = valid.clone();
        kept.extend(self.subnets.stand_ins(network)?);
        for read in self.records.attachments_in(&Prefix::AttachmentsOf(network.name.clone()))? {
            let member = (read.value.id.container.clone(), read.value.id.ifname.clone());
            let is_listed_elsewhere = read.value.kept
                || read.value.alias.is_some()
                || read.value.runtime != network.runtime;
            if is_listed_elsewhere || self.is_being_attached(&read.value) {
                kept.insert(member);
            } else if !valid.contains(&member) {
                let _lock = self.host.lock_attachment(&read.value.id);
                failures.extend(self.links.detach_record(read, Meaning::Classified).err());
            }
        }
        failures.extend(self.ipam.gc(network, &kept).err());
        all_of(failures)
    }

    /// The attachments of the network that have a record and are not provably gone, as their runtime
    /// names them: what a call made on further networks goes by its first interface.
    pub fn remaining(&self, network: &NetworkName) -> Result<Members> {
        let mut remaining = Members::new();
        for record in self.records.attachments()? {
            let origin = record.origin.as_ref().filter(|origin| origin.config == *network);
            let is_its = origin.is_some() || record.id.network == *network;
            if is_its && !self.links.is_gone(&record) {
                let ifname = origin.map_or(&record.id.ifname, |origin| &origin.ifname);
                remaining.insert((record.id.container.clone(), ifname.clone()));
            }
        }
        Ok(remaining)
    }

    pub(super) fn is_being_attached(&self, attachment: &Attachment) -> bool {
        match &attachment.phase {
            Phase::Attaching { by } => self.host.is_running(by),
            Phase::Reserved | Phase::Attached(_) | Phase::Detaching { .. } => false,
        }
    }

    /// As [`Repair::reconcile_each`], where anything that cannot be mended is an error.
    pub fn reconcile(&self, mode: Mode) -> Result<Vec<Finding>> {
        let found = self.reconcile_each(mode);
        all_of(found.failures).map(|()| found.findings)
    }

    /// Finds what has no owner any more and, in [`Mode::Mend`], frees what is proved to be dead
    /// and quarantines what is in doubt. Never frees what may be alive. A failure does not end the work.
    pub fn reconcile_each(&self, mode: Mode) -> Reconciled {
        let mut found = Reconciled::default();
        if mode == Mode::Mend {
            found.note(self.networks.revive_endpoints(None).map(|_| ()));
        }
        match self.records.attachments_in(&Prefix::Attachments) {
            Ok(records) => self.classify_all(records, mode, &mut found),
            Err(error) => found.failures.push(error),
        }
        let examined = [
            self.networks.undetermined(mode, &mut found),
            self.orphaned_leases(mode, &mut found),
            self.records.orphaned_claims(mode, &mut found.findings),
            self.networks
                .half_made(mode, &mut found)
                .and_then(|networks| self.networks.abandoned_networks(networks, mode, &mut found)),
            self.strays(mode, &mut found),
            self.damaged_records(&mut found.findings),
        ];
        examined.into_iter().for_each(|examined| found.note(examined));
        if mode == Mode::Mend {
            found.note(self.records.end_all_over());
            found.note(self.networks.name_sandboxes().map(|_| ()));
            found.note(self.attachments.amend_all());
            found.note(self.attachments.forget_used_once());
            found.note(self.networks.follow_all_settings(Following::Whole));
        }
        found
    }

    /// In [`Mode::Mend`] an attachment on which another thread works is left to the next time, with all of its
    /// layers: that thread may wait for a third-party plugin.
    fn classify_all(
        &self,
        mut records: Vec<Read<Box<Attachment>>>,
        mode: Mode,
        found: &mut Reconciled,
    ) {
        // A link proves the death of the other layers, so it goes last.
        records.sort_by_key(|read| read.value.layer == Layer::Link);
        let mut busy = BTreeSet::new();
        for listed in &records {
            let (id, layer) = (&listed.value.id, listed.value.layer);
            if busy.contains(id) {
                continue;
            }
            let lock = match mode {
                Mode::Mend => self.host.try_lock_attachment(id),
                Mode::DryRun => Some(self.host.lock_attachment(id)),
            };
            let Some(_lock) = lock else {
                busy.insert(id);
                continue;
            };
            let read = match self.records.record_of(id, layer) {
                Ok(Some(read)) => read,
                // The previous holder of the lock may have deleted it.
                Ok(None) => continue,
                Err(error) => {
                    found.failures.push(error);
                    continue;
                }
            };
            match (self.classify(&read.value), mode) {
                (Some((finding, _)), Mode::DryRun) => found.findings.push(finding),
                (Some((finding, since)), Mode::Mend) => found.add(finding, self.mend(read, since)),
                (None, Mode::DryRun) => {}
                (None, Mode::Mend) => {
                    found.note(self.attachments.finish_withdrawal(id, layer));
                    found.note(self.quarantine(&read.value, None));
                }
            }
        }
    }

    /// What is wrong with a record, if anything, and since when its addresses are in quarantine if
    /// the record is only in doubt.
    fn classify(&self, attachment: &Attachment) -> Option<(Finding, Option<Timestamp>)> {
        let id = attachment.id.clone();
        let presence = self.links.presence_if_attached(attachment);
        if self.links.is_gone_as(attachment, presence) {
            let what = match is_rewindable(attachment) {
                true => Garbage::Unfinished(id),
                false => Garbage::Attachment(id),
            };
            return Some((Finding { what, remedy: Remedy::Free }, None));
        }
        let doubtful = Finding { what: Garbage::Doubtful(id), remedy: Remedy::Quarantine };
        (presence == Some(Presence::Doubtful)).then(|| (doubtful, Some(self.host.now())))
    }

    fn mend(&self, read: Read<Box<Attachment>>, since: Option<Timestamp>) -> Result<()> {
        if since.is_some() {
            return self.quarantine(&read.value, since);
        }
        match is_rewindable(&read.value) {
            true => self.links.rewind(read).map(|_| ()),
            false => self.links.detach_record(read, Meaning::Classified).map(|_| ()),
        }
    }

    fn damaged_records(&self, findings: &mut Vec<Finding>) -> Result<()> {
        for damaged in self.store.damaged(None)? {
            let what = Garbage::Damaged(damaged);
            findings.push(Finding { what, remedy: Remedy::Quarantine });
        }
        Ok(())
    }

    /// Marks the addresses, so that lists show why they are not allocated; or removes the mark once
    /// the container is known to exist.
    fn quarantine(&self, attachment: &Attachment, since: Option<Timestamp>) -> Result<()> {
        for lease in &attachment.leases {
            let held = self.records.holder_of(&lease.space, lease.address.addr());
            let Some(Some(read)) = passable(held)? else { continue };
            if read.value.quarantined.is_some() == since.is_some() {
                continue;
            }
            let key = Key::Lease(lease.space.clone(), lease.address.addr());
            let holder = Holder { quarantined: since, ..read.value.clone() };
            let expect = unchanged(Some(&read));
            self.store
                .commit(&Txn::new().require(key.clone(), expect).put(key, Record::Lease(holder)))?;
        }
        Ok(())
    }

    fn orphaned_leases(&self, mode: Mode, found: &mut Reconciled) -> Result<()> {
        for read in self.records.holders_in(&Prefix::AllLeases)? {
            // An address that was requested separately is released separately.
            let Tenant::Attachment { id, layer } = &read.value.tenant else { continue };
            if self.records.has_layer(id, *layer)? {
                continue;
            }
            let freed = match mode {
                Mode::DryRun => Ok(true),
                Mode::Mend => self.free_orphan(&read),
            };
            if let Ok(false) = freed {
                continue;
            }
            let what = Garbage::Lease(Box::new(read.value.lease));
            found.add(Finding { what, remedy: Remedy::Free }, freed.map(|_| ()));
        }
        Ok(())
    }

    /// An attach that began since then has written the lease again, and keeps it.
    fn free_orphan(&self, read: &Read<Holder>) -> Result<bool> {
        let lease = &read.value.lease;
        let key = Key::Lease(lease.space.clone(), lease.address.addr());
        let txn = Txn::new().require(key.clone(), unchanged(Some(read))).delete(key);
        Ok(matches!(self.store.commit(&txn)?, Outcome::Done(_)))
    }
}
