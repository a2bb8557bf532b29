//! The holder of an address or a port, as people read it: its container by the name in lists, its network by
//! its title.

use std::collections::BTreeSet;

use model::{
    Attachment, AttachmentId, Error, Handoff, Holder, Layer, NetworkName, OwnerName, Result,
};

use crate::Records;
use crate::records::book::Read;

impl Records<'_> {
    /// The error that names the holder of an address.
    pub(crate) fn held(&self, holder: &Holder) -> Error {
        let address = holder.lease.address.addr();
        Error::conflict(format!(
            "address {address} is held by {} (runtime {}); `spoke ipam show {address}` says since when",
            self.tenant(holder),
            holder.runtime,
        ))
    }

    /// What an error calls the tenant of an address.
    pub fn tenant(&self, holder: &Holder) -> String {
        match holder.attachment() {
            Some(id) => self.whose(id, holder.owner.as_ref()),
            // Docker requests an address before it says for which container.
            None => holder.tenant.to_string(),
        }
    }

    /// What an error calls an attachment. What cannot be read is left out: the sentence says something else.
    pub(crate) fn whose(&self, id: &AttachmentId, owner: Option<&OwnerName>) -> String {
        let of_layer = |layer: &Layer| self.record_of(id, *layer).ok().flatten();
        let records: Vec<_> = Layer::ALL.iter().filter_map(of_layer).collect();
        let records: Vec<&Attachment> = records.iter().map(|read| &*read.value).collect();
        called(id, &records, owner)
    }

    /// The lasting name of an attachment's container: one of its layers has it.
    pub(crate) fn owner_of(&self, id: &AttachmentId) -> Result<Option<OwnerName>> {
        for layer in Layer::ALL {
            if let Some(owner) = self.record_of(id, layer)?.and_then(|read| read.value.owner) {
                return Ok(Some(owner));
            }
        }
        Ok(None)
    }
}

/// Its container's name, which one of its layers knows. The identity of Docker's has only the start of the
/// interface's name: where Spoke made the interface, the wiring has the name, and where Docker does, no record has.
fn called(id: &AttachmentId, layers: &[&Attachment], owner: Option<&OwnerName>) -> String {
    let owner = layers.iter().find_map(|record| record.owner.as_ref()).or(owner);
    let name = owner.map_or(id.container.as_str(), OwnerName::as_str);
    let network = layers.first().map_or(&id.network, |record| record.network());
    match layers.iter().any(|record| record.handoff == Handoff::Caller) {
        true => format!("container {name} on network {network}"),
        false => {
            let chosen =
                layers.iter().find_map(|record| record.wiring.link.as_ref()?.name.as_ref());
            format!("container {name} ({}) on network {network}", chosen.unwrap_or(&id.ifname))
        }
    }
}

/// Refuses to remove a network with these records: an attachment has one for each of its layers.
pub(crate) fn refuse_attached(name: &NetworkName, records: &[Read<Box<Attachment>>]) -> Result<()> {
    let Some(first) = records.first() else { return Ok(()) };
    let ids: BTreeSet<&AttachmentId> = records.iter().map(|read| &read.value.id).collect();
    let id = &first.value.id;
    let layers = records.iter().map(|read| &*read.value).filter(|record| record.id == *id);
    let one = called(id, &layers.collect::<Vec<_>>(), None);
    let message = match ids.len() {
        1 => format!("network {name} still has an attachment, {one}"),
        count => format!("network {name} still has {count} attachments, {one} among them"),
    };
    Err(Error::conflict(message))
}
