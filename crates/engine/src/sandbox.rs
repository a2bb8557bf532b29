//! Sandboxes that Spoke itself connects to networks: libnetwork's controller.
//!
//! Such an attachment is made like any other, but the sandbox's default gateway is chosen among all
//! of its attachments, whenever one comes or goes. The sandbox has a record of its own, with its
//! attachments, and with the state of that choice.

mod choice;
mod default_gateway;
mod gateway_network;
mod ports;

use model::{Attachment, AttachmentId, Error, Family, GatewayState, Layer, PortMap, Result};

use self::choice::Candidate;

use crate::attach::overtaken;
use crate::begin::Role;
use crate::book::{passable, unchanged};
use crate::port::{Key, Record, Txn};
use crate::{Connecting, Engine, Request};

pub use gateway_network::GATEWAY_NETWORK;
pub(crate) use gateway_network::is_gateway_endpoint;
pub(crate) use ports::{is_carrier, named};

impl Engine<'_> {
    /// Connects a sandbox to a network, and chooses its default gateway again: for each family the
    /// first of its attachments that has a default route, those of the greatest
    /// [`Connecting::priority`] first.
    ///
    /// The request names the sandbox, and in its wiring ports of the host. Those belong to the
    /// sandbox from then on, as long as it is on any network: its default-gateway endpoint
    /// publishes them. Where no attachment has a default route, and the sandbox may have one, it
    /// gets another attachment, on the network [`GATEWAY_NETWORK`].
    ///
    /// The returned record is in phase [`model::Phase::Attached`]. Fails as [`Engine::attach`]
    /// does; after a failure the sandbox is as it was before.
    pub fn connect(&self, request: &Request, how: impl Into<Connecting>) -> Result<Attachment> {
        let how = how.into();
        refuse_senseless(request)?;
        // Before anything else names it, with a number that others may get after it.
        let _ = request.sandbox.as_ref().and_then(|sandbox| self.driver.namespace(sandbox));
        // From here on the default gateway may change. The turn excludes other threads.
        let _lock = self.lock_of(&request.container)?;
        let before = self.sandbox_record_of(&request.container)?.map(|read| read.value);
        let attached = self.attach_as(request, Role::GatewayRoute(&how));
        let id = attached.inspect_err(|_| self.leave_undetermined(&request.container))?.id;
        match self.update_gateway_locked(&id.container, &[], before.is_none()) {
            Ok(()) => match self.record_of(&id, Layer::Link)? {
                Some(read) => Ok(*read.value),
                None => Err(overtaken(&id)),
            },
            Err(error) => {
                // What stays is found by the next call for this sandbox, as after a crash.
                let _ = self.remove(&id);
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
        let read = passable(self.record_of(id, Layer::Link)).ok().flatten().flatten();
        let sandbox = read.map(|read| read.value.sandbox_name().clone());
        let removed = self.remove(id);
        let settled = self.update_gateway_after_leave(sandbox.as_ref().unwrap_or(&id.container));
        removed.and(settled)
    }

    /// Whether the namespace of an attachment is provably gone, although its path and its link
    /// prove nothing.
    pub(crate) fn is_ended(&self, attachment: &Attachment) -> bool {
        let (Some(_), Some(sandbox)) = (&attachment.gateway_role, &attachment.sandbox) else {
            return false;
        };
        let sandbox_record = self.sandbox_record_of(attachment.sandbox_name()).ok().flatten();
        let known = sandbox_record.and_then(|read| read.value.namespace);
        let its = known.filter(|namespace| namespace.inode == sandbox.inode);
        its.is_some_and(|namespace| self.driver.is_ended(&namespace))
    }

    /// Adds the attachment to its sandbox's record in the transaction, where Spoke connects the
    /// sandbox.
    ///
    /// The first attachment becomes the default gateway at once, where its driver can do that,
    /// because there is no other candidate. That changes the default gateway, and the record says
    /// so.
    pub(crate) fn enlist(&self, attachment: &mut Attachment, txn: Txn) -> Result<Txn> {
        if attachment.gateway_role.is_none() {
            return Ok(txn);
        }
        let read = self.sandbox_record_of(attachment.sandbox_name())?;
        let mut sandbox_record = read.as_ref().map(|read| read.value.clone()).unwrap_or_default();
        sandbox_record.members.insert(attachment.id.clone());
        let publish = attachment.wiring.publish.as_ref();
        for map in publish.into_iter().flat_map(|publish| &publish.added) {
            for list in [&mut sandbox_record.ports, &mut sandbox_record.added] {
                if !list.contains(map) {
                    list.push(map.clone());
                }
            }
        }
        let sets_gateway_at_once = read.is_none() && self.driver.sets_gateway_at_once(attachment);
        if let Some(gateway_role) =
            attachment.gateway_role.as_mut().filter(|_| sets_gateway_at_once)
        {
            gateway_role.families = vec![Family::V4, Family::V6];
            sandbox_record.gateway_state = GatewayState::By(self.host.me());
        }
        let key = Key::Sandbox(attachment.sandbox_name().clone());
        Ok(txn
            .expect(key.clone(), unchanged(read.as_ref()))
            .put(key, Record::Sandbox(sandbox_record)))
    }

    /// Removes the attachment from its sandbox's record in the transaction, with the ports that
    /// only it brought.
    pub(crate) fn dismiss(
        &self,
        attachment: &Attachment,
        withdrawn: &[PortMap],
        txn: Txn,
    ) -> Result<Txn> {
        if attachment.gateway_role.is_none() {
            return Ok(txn);
        }
        let container = attachment.sandbox_name();
        let Some(read) = self.sandbox_record_of(container)? else { return Ok(txn) };
        let expect = unchanged(Some(&read));
        let mut sandbox_record = read.value;
        if !sandbox_record.members.remove(&attachment.id) {
            return Ok(txn);
        }
        sandbox_record.ports.retain(|map| !withdrawn.contains(map));
        let key = Key::Sandbox(container.clone());
        let txn = txn.expect(key.clone(), expect);
        Ok(match sandbox_record.members.is_empty() {
            true => txn.delete(key),
            false => txn.put(key, Record::Sandbox(sandbox_record)),
        })
    }
}

/// Of the families in which it became default gateway at once, those that have a default route.
pub(crate) fn set_gateway_where_it_can(complete: &mut Attachment) {
    let Some(candidate) = Candidate::of(complete) else { return };
    if let Some(gateway_role) = &mut complete.gateway_role {
        gateway_role.families.retain(|family| candidate.ways.contains(family));
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
            "network {GATEWAY_NETWORK} is for sandboxes that nothing else leads out, and they get \
             it by themselves; name another"
        )));
    }
    Ok(())
}
