//! Sandboxes that Spoke itself connects to networks: libnetwork's controller.
//!
//! Such an attachment is made like any other, but the sandbox's default gateway is chosen among all
//! of its attachments, whenever one comes or goes. The sandbox has a record of its own, with its
//! attachments, and with the state of that choice.

mod default_gateway;
pub(in crate::networks) mod gateway_network;

use model::{Attachment, AttachmentId, Error, Layer, Result};

use crate::attachments::begin::Role;
use crate::contention::overtaken;
use crate::links::gateway_choice::GATEWAY_NETWORK;
use crate::records::book::passable;
use crate::{Connecting, Networks, Request};

impl Networks<'_> {
    /// Connects a sandbox to a network, and chooses its default gateway again: for each family the
    /// first of its attachments that has a default route, those of the greatest
    /// [`Connecting::priority`] first.
    ///
    /// The request names the sandbox, and in its wiring ports of the host. Those belong to the
    /// sandbox from then on, as long as it is on any network: its default-gateway endpoint
    /// publishes them. Where no attachment has a default route, and the sandbox may have one, it
    /// gets another attachment, on the network [`GATEWAY_NETWORK`].
    ///
    /// The returned record is in phase [`model::Phase::Attached`]. Fails as
    /// [`Attachments::attach`](crate::Attachments::attach) does; after a failure the sandbox is as it
    /// was before.
    pub fn connect(&self, request: &Request, how: impl Into<Connecting>) -> Result<Attachment> {
        let how = how.into();
        refuse_senseless(request)?;
        // Before anything else names it, with a number that others may get after it.
        let _ = request.sandbox.as_ref().and_then(|sandbox| self.driver.namespace(sandbox));
        // From here on the default gateway may change. The turn excludes other threads.
        let _lock = self.links.lock_of(&request.container)?;
        let before = self.records.sandbox_record_of(&request.container)?.map(|read| read.value);
        let attached = self.attachments.attach_as(request, Role::GatewayRoute(&how));
        let id = attached.inspect_err(|_| self.leave_undetermined(&request.container))?.id;
        match self.update_gateway_locked(&id.container, &[], before.is_none()) {
            Ok(()) => match self.records.record_of(&id, Layer::Link)? {
                Some(read) => Ok(*read.value),
                None => Err(overtaken(&id)),
            },
            Err(error) => {
                // What stays is found by the next call for this sandbox, as after a crash.
                let _ = self.links.remove(&id);
                let had = before.map(|sandbox_record| sandbox_record.ports).unwrap_or_default();
                let ports = request.wiring.publish.iter().flat_map(|publish| &publish.ports);
                let named: Vec<_> = ports.filter(|map| !had.contains(map)).cloned().collect();
                // If this fails, the record says so, and the reconciler repairs it.
                let _ = self.update_gateway_locked(&id.container, &named, false);
                Err(error)
            }
        }
    }

    /// Takes a sandbox off a network, and chooses its default gateway again. Repeating it is no
    /// error, and neither is a sandbox or a network that is gone. After the last network that the
    /// sandbox was connected to, its gateway network is removed from it too.
    pub fn disconnect(&self, id: &AttachmentId) -> Result<()> {
        // It may be in a sandbox of another name.
        let read = passable(self.records.record_of(id, Layer::Link)).ok().flatten().flatten();
        let sandbox = read.map(|read| read.value.sandbox_name().clone());
        let removed = self.links.remove(id);
        let settled = self.update_gateway_after_leave(sandbox.as_ref().unwrap_or(&id.container));
        removed.and(settled)
    }
}

fn refuse_senseless(request: &Request) -> Result<()> {
    let id = request.id();
    if request.layer != Layer::Link || request.sandbox.is_none() {
        return Err(Error::invalid(format!(
            "{id}: only an interface can be connected, and only to a sandbox that is there"
        )));
    }
    if id.network.as_str() == GATEWAY_NETWORK {
        return Err(Error::invalid(format!(
            "network {GATEWAY_NETWORK} is for sandboxes without another default gateway, and they get \
             it by themselves; name another"
        )));
    }
    Ok(())
}
