//! Virtual machines: interfaces that a program outside of any sandbox completes.

use model::{Attachment, ContainerId, Error, NetworkName, Result, Runtime};

use crate::attachments::begin::Role;
use crate::port::Prefix;
use crate::{Attachments, Connecting, Request};

/// The interface of every machine on a network, in identities.
pub const GUEST: &str = "tap0";

impl Attachments<'_> {
    /// Connects a virtual machine to a network. The request names no sandbox, and its link is a tap device
    /// ([`model::BridgePort::tap`]); its ports of the host are the machine's own. The machine learns its
    /// addresses over the device.
    ///
    /// The returned record is in phase [`model::Phase::Attached`]. Fails as [`Attachments::attach`] does.
    pub fn connect_guest(&self, request: &Request, how: &Connecting) -> Result<Attachment> {
        if request.ipam.asks_over_link() {
            return Err(Error::unsupported(format!(
                "network {}: a DHCP server beyond gives the addresses; a virtual machine asks it by itself: \
                 connect it to the parent with a macvtap device",
                request.network.name
            )));
        }
        if request.wiring.tap().is_none() || request.sandbox.is_some() {
            return Err(Error::bug(format!("{} is no virtual machine", request.id())));
        }
        self.attach_as(request, Role::Guest(how))
    }

    /// The machines of this name on a network.
    pub fn guests(&self, network: &NetworkName, name: &ContainerId) -> Result<Vec<Attachment>> {
        let records = self.records.attachments_in(&Prefix::AttachmentsOf(network.clone()))?;
        let is_it = |record: &Attachment| {
            record.runtime == Runtime::Spoke
                && record.tap().is_some()
                && record.id.container == *name
        };
        let all = records.into_iter().map(|read| *read.value);
        Ok(all.filter(is_it).collect())
    }
}
