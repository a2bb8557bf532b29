//! Port updates: telling Neutron the user of a port, while the port's container runs already.
//!
//! A port that this host made is bound by the request that made it: packets pass without another
//! request. What is missing is the port's user (`device_id`, tags). It is only bookkeeping, so it
//! is a port update: recorded before any container gets the port, carried out by the daemon, and
//! cancelled where the port is deleted first. Without a daemon the process that makes the
//! attachment carries it out.

#[cfg(test)]
mod tests;
mod update_files;
mod worker;

use model::{Attachment, AttachmentId, Error, Ownership, ResourceId, Result};
use serde::{Deserialize, Serialize};

use crate::Neutron;
use crate::api::{PortChange, PortResource, Tagged};
pub(crate) use update_files::{Cancelled, Started, UpdateFiles};
pub use worker::{Round, Worker};

/// A pending update of a port in Neutron.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PortUpdate {
    /// The port, as it was.
    pub(crate) port: PortResource,
    /// The port's attachment.
    pub(crate) of: AttachmentId,
    /// How the port ends.
    #[serde(alias = "tenure")]
    pub(crate) ownership: Ownership,
    /// The `device_id` that it is to have; none where it has the right one.
    pub(crate) device_id: Option<String>,
    /// The tags that it is to have; none where it has these.
    pub(crate) tags: Option<Vec<String>>,
}

/// A port that was deleted in Neutron although a container of this host has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Neutron's id of it.
    pub port: ResourceId,
    /// The attachment that had it.
    pub of: AttachmentId,
}

/// The result of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reported {
    /// Neutron knows whose the port is.
    Named,
    /// There is no such port.
    Lost(Lost),
    /// It was cancelled meanwhile, or another process carries it out.
    Nothing,
}

impl Neutron {
    /// Queues an update: the daemon carries it out, or else this process, now.
    ///
    /// # Errors
    /// Without a daemon, Neutron's refusal; then the update stays queued.
    pub(crate) fn enqueue(&self, port_update: &PortUpdate) -> Result<()> {
        let book = self.port_updates();
        book.enqueue(port_update)?;
        if book.is_kept() {
            return Ok(());
        }
        match self.settle(&port_update.port.id)? {
            Reported::Named | Reported::Nothing => Ok(()),
            Reported::Lost(Lost { port, of }) => {
                Err(Error::not_found(format!("port {port} of {of} is gone from Neutron"))
                    .with_status(404))
            }
        }
    }

    /// Cancels every pending update of a port that is to be deleted, and deletes the port. Waits
    /// for a request in progress, so that no request of Spoke's follows the deletion.
    ///
    /// # Errors
    /// Neutron's refusal.
    pub(crate) fn abandon(&self, port: &ResourceId) -> Result<()> {
        let book = self.port_updates();
        let cancelled = book.cancel(port)?;
        self.api().delete_port(port)?;
        match cancelled {
            Some(_) => book.close(port),
            None => Ok(()),
        }
    }

    /// The ports of containers of this host that were deleted in Neutron, as far as updates found
    /// that. No request is made.
    ///
    /// # Errors
    /// Where the files cannot be read.
    pub fn lost_ports(&self) -> Result<Vec<Lost>> {
        let lost = self.port_updates().lost()?.into_iter();
        Ok(lost.map(|port_update| Lost { port: port_update.port.id, of: port_update.of }).collect())
    }

    /// Carries out the pending update of one port.
    fn settle(&self, port: &ResourceId) -> Result<Reported> {
        let book = self.port_updates();
        let Some(started) = book.begin(port)? else { return Ok(Reported::Nothing) };
        match self.report(&book, &started) {
            Ok(()) => {
                if started.is_again {
                    // It is unknown when Neutron finishes the earlier request: the next container
                    // of the port could get this name.
                    self.stock_files().drop_lent(port)?;
                }
                book.done(&started).map(|()| Reported::Named)
            }
            Err(error) if error.status() == Some(404) => {
                let lost = Lost { port: port.clone(), of: started.port_update.of.clone() };
                Ok(if book.lose(&started)? { Reported::Lost(lost) } else { Reported::Nothing })
            }
            Err(error) => {
                Err(error.context(format!("naming port {port} of {}", started.port_update.of)))
            }
        }
    }

    /// The tags first: a port with a `device_id` is in use, and must be found by both.
    fn report(&self, book: &UpdateFiles, started: &Started) -> Result<()> {
        let port_update = &started.port_update;
        let id = &port_update.port.id;
        if let Some(tags) = &port_update.tags {
            self.api().set_tags(Tagged::Ports, id, tags)?;
        }
        let Some(device) = port_update.device_id.clone().filter(|_| !book.is_given_up(started))
        else {
            return Ok(());
        };
        let change = PortChange { device_id: Some(device), ..PortChange::default() };
        let named = self.api().change_port(id, &change, None)?;
        self.statuses.note(&named);
        Ok(())
    }

    /// Whether a port is of some container, besides this one, although Neutron may not know.
    pub(crate) fn is_getting_a_name(
        &self,
        port: &ResourceId,
        besides: Option<&AttachmentId>,
    ) -> bool {
        // A file that cannot be read is left alone.
        self.port_updates().queued_of(port).map_or(true, |port_update| {
            port_update.is_some_and(|port_update| besides.is_none_or(|own| *own != port_update.of))
        })
    }

    /// The pending updates of this attachment's ports, and those that were cancelled.
    ///
    /// # Errors
    /// Where the files cannot be read.
    pub(crate) fn namings_of(&self, attachment: &Attachment) -> Result<Vec<PortUpdate>> {
        let all = self.port_updates().all()?.into_iter();
        Ok(all.filter(|port_update| port_update.of == attachment.id).collect())
    }

    pub(crate) fn port_updates(&self) -> UpdateFiles {
        UpdateFiles::at(&self.directory).by(self.deadlines.mine())
    }
}
