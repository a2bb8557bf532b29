//! Changes of a running container by commands: ports of the host, limits.
//!
//! The change stands in the attachment's record, as if its runtime had asked for it, and apart from
//! that in an [`Amendment`] under the container's name, from which the next attachment of that name
//! gets it. Both are committed at once, before the kernel is changed: what a killed command leaves
//! to be made, [`Repair::restore`](crate::Repair::restore) makes. A port that is withdrawn stays in the
//! record as a leaving one, with its claim, until the kernel leads it nowhere.

mod bring;
mod egress;
mod holders;
mod kept;
mod limit;
pub(crate) mod withdraw;

use std::collections::BTreeSet;

use model::{Amendment, Attachment, AttachmentId, Error, PortMap, Result};

use crate::Attachments;
use crate::addresses::claim::{claim, key_of};
use crate::attachments::amend::holders::Holders;
use crate::contention::RACES;
use crate::port::{Outcome, Prefix, Record, Txn};
use crate::records::book::unchanged;

impl Attachments<'_> {
    /// Publishes a port of an attached container, besides those that it has. Of a sandbox that
    /// Spoke connects it is a port of the sandbox. Repeating it is no error.
    ///
    /// Fails with [`model::Kind::Conflict`] where a container or a program of this host has the port,
    /// naming it; with [`model::Kind::Unsupported`] where no port of the host can lead to the
    /// container; with [`model::Kind::NotFound`] where it is not attached. After a failure the port
    /// is not published.
    pub fn add_port(&self, id: &AttachmentId, map: &PortMap) -> Result<()> {
        let mut freed = BTreeSet::new();
        for _ in 0..RACES {
            let lock = self.lock_of_ports(id)?;
            let holders = self.port_holders(id)?;
            let map = &holders.usual(map)?;
            if holders.has_added(map) {
                return self.serve(&holders);
            }
            holders.refuse_familyless(map)?;
            match self.try_add(&holders, map, Remember::Yes)? {
                Tried::Done(holders) => {
                    return self.serve(&holders).inspect_err(|_| {
                        // If this fails, the record says what is to be withdrawn.
                        let _ = self.undo_added(id, *holders, map);
                    });
                }
                Tried::Held(holder) => {
                    drop(lock);
                    if !freed.insert(holder.clone()) || !self.links.free_if_gone(&holder)? {
                        return Err(self.addresses.taken(map, &holder));
                    }
                }
                Tried::Lost | Tried::Forgotten => {}
            }
        }
        Err(Error::try_again(format!("publishing a port of {id}: lost {RACES} races in a row")))
    }

    /// Withdraws a port that could not be led anywhere, whatever others change meanwhile.
    fn undo_added(&self, id: &AttachmentId, mut holders: Holders, map: &PortMap) -> Result<()> {
        for _ in 0..RACES {
            if !holders.has_added(map) || self.take_away(&holders, std::slice::from_ref(map))? {
                return Ok(());
            }
            holders = self.holders_as_they_are(id)?;
        }
        Err(Error::try_again(format!("withdrawing a port of {id}: lost {RACES} races in a row")))
    }

    /// Every change that is kept, of running containers and of those that may come again.
    pub fn amendments(&self) -> Result<Vec<Amendment>> {
        let read = self.records.amendments_in(&Prefix::Amendments)?;
        Ok(read.into_iter().map(|read| *read.value).collect())
    }

    /// Commits the intent, where no other container has the port.
    fn try_add(&self, holders: &Holders, map: &PortMap, remember: Remember) -> Result<Tried> {
        let key = key_of(map);
        let claims = self.records.claims_of(&key)?;
        let mut held = claims.as_ref().map(|read| read.value.clone()).unwrap_or_default();
        if let Some(other) = held.iter().find(|claim| claim.clashes(map.host)) {
            return Ok(Tried::Held(other.holder.clone()));
        }
        self.driver.refuse_port(&holders.link, map)?;
        let mut changed = holders.clone();
        changed.add(map);
        held.extend(changed.records.iter().map(|it| claim(map, &it.record)));
        let txn = changed.write(Txn::new());
        let txn = match remember {
            Remember::Yes => self.remember_port(&changed, map, txn)?,
            Remember::Known => {
                match self.while_kept(&changed.link, txn, |kept| kept.ports.contains(map))? {
                    Some(txn) => txn,
                    None => return Ok(Tried::Forgotten),
                }
            }
        };
        let txn = txn.require(key.clone(), unchanged(claims.as_ref())).put(key, Record::Port(held));
        self.settle(changed, &txn)
    }

    /// Commits changed records, and learns their revisions.
    fn settle(&self, mut changed: Holders, txn: &Txn) -> Result<Tried> {
        match self.store.commit(txn)? {
            Outcome::Done(revision) => {
                changed.committed(revision);
                Ok(Tried::Done(Box::new(changed)))
            }
            Outcome::Lost(_) => Ok(Tried::Lost),
        }
    }

    fn remember_port(&self, holders: &Holders, map: &PortMap, txn: Txn) -> Result<Txn> {
        self.remember_change(&holders.link, txn, |kept| {
            kept.layer = holders.layer();
            if !kept.ports.contains(map) {
                kept.ports.push(map.clone());
            }
        })
    }

    /// Leads the ports there.
    fn serve(&self, holders: &Holders) -> Result<()> {
        holders
            .records
            .iter()
            .try_for_each(|held| self.links.restore_as_recorded(&held.read()?).map(drop))
    }
}

/// Whether the container's name keeps the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remember {
    Yes,
    /// It does already.
    Known,
}

enum Tried {
    Done(Box<Holders>),
    /// This attachment has the port.
    Held(AttachmentId),
    /// The container's name does not keep the change any more.
    Forgotten,
    Lost,
}

/// Whether ports of the record are being withdrawn.
pub(crate) fn has_leaving(attachment: &Attachment) -> bool {
    attachment.wiring.publish.as_ref().is_some_and(|publish| !publish.leaving.is_empty())
}
