//! Endpoints that users keep, and single attachments, as the store has them.

use model::{
    Attachment, AttachmentId, ContainerId, Error, Layer, NetworkName, Phase, Result, Runtime,
};

use crate::Records;
use crate::port::{Key, Prefix, Record};
use crate::records::book::Read;

impl Records<'_> {
    /// Another process works on the record right now.
    pub(crate) fn refuse_if_busy(&self, attachment: &Attachment) -> Result<()> {
        match &attachment.phase {
            Phase::Attaching { by } if *by != self.host.me() && self.host.is_running(by) => {
                let what = format!("process {} works on {} right now", by.pid, attachment.id);
                Err(Error::try_again(what))
            }
            Phase::Attaching { .. }
            | Phase::Reserved
            | Phase::Attached(_)
            | Phase::Detaching { .. } => Ok(()),
        }
    }

    /// The record of the attachment's link.
    pub fn attachment(&self, id: &AttachmentId) -> Result<Option<Attachment>> {
        Ok(self.record_of(id, Layer::Link)?.map(|read| *read.value))
    }

    pub(crate) fn kept_of(&self, id: &AttachmentId) -> Result<Option<Read<Box<Attachment>>>> {
        let key = Key::Endpoint(id.clone());
        let Some(found) = self.store.get(&key)? else { return Ok(None) };
        match found.record {
            Record::Attachment(value) => Ok(Some(Read { value, revision: found.revision })),
            _ => Err(Error::bug(format!("the store holds something else under {key:?}"))),
        }
    }

    /// The endpoint of this name on a network, whether it is in a sandbox or not, and whether it was made
    /// apart from that or connected at once; also one that a dead process has not finished. Of several the
    /// first.
    pub fn endpoint_named(
        &self,
        network: &NetworkName,
        name: &ContainerId,
    ) -> Result<Option<AttachmentId>> {
        let is_it = |record: &Attachment| {
            record.id.container == *name
                && record.id.network == *network
                && (record.layer, record.runtime) == (Layer::Link, Runtime::Spoke)
        };
        let here = self.attachments_of(name)?.into_iter();
        let kept = self.kept_endpoints(Some(network))?.into_iter();
        Ok(here.chain(kept).find(is_it).map(|record| record.id))
    }

    /// The endpoints that users keep apart from sandboxes, on one network or on all, in the state
    /// of one that is in no sandbox. Damaged records are reported elsewhere
    /// ([`crate::port::Store::damaged`]).
    pub fn kept_endpoints(&self, network: Option<&NetworkName>) -> Result<Vec<Attachment>> {
        let prefix = network.map_or(Prefix::Endpoints, |name| Prefix::EndpointsOf(name.clone()));
        let found = self.store.list(&prefix)?.into_iter();
        Ok(found
            .filter_map(|(_, found)| match found.record {
                Record::Attachment(kept) => Some(*kept),
                _ => None,
            })
            .collect())
    }
}

/// As users call it.
pub(crate) fn shown(id: &AttachmentId) -> String {
    format!("endpoint {} of network {}", id.container, id.network)
}

/// One of the same name is there.
pub(crate) fn standing(there: &Attachment) -> Error {
    let id = &there.id;
    let what = match there.phase {
        Phase::Attached(_) => format!("`spoke endpoint leave {} {}`", id.network, id.container),
        _ => format!("`spoke endpoint join {} {} SANDBOX`", id.network, id.container),
    };
    Error::conflict(format!(
        "{} is there already; {what}, or `spoke endpoint rm {} {}`",
        shown(id),
        id.network,
        id.container
    ))
}
