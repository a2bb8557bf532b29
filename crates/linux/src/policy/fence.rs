//! The fences of networks: made before the first interface, and gone with the bridge.

use model::{Attachment, Error, IfName, Ipam, NetworkName, Result, Wiring};
use netlink::{At, Socket};

use super::Policy;
use crate::filter::fence::{self, Fenced};
use crate::identity::GROUP;

impl Policy {
    /// Makes the fence of the attachment's network, before there is a link that could leave without one.
    pub(crate) fn fence(&self, attachment: &Attachment) -> Result<()> {
        self.fence_network(&attachment.id.network, &attachment.wiring, &attachment.ipam)
    }

    /// Makes the fence of a network, where it has one.
    pub(crate) fn fence_network(
        &self,
        network: &NetworkName,
        wiring: &Wiring,
        ipam: &Ipam,
    ) -> Result<()> {
        let Some(fenced) = Fenced::of(network, wiring, ipam)? else { return Ok(()) };
        refuse_foreign(network, &fenced.bridge, "egress")?;
        self.with(|socket| fence::ensure(socket, &fenced))
    }

    /// Closes the fence of what is attached where somebody removed it. Its rules are the network's.
    pub(super) fn refence(&self, attachment: &Attachment) -> Result<bool> {
        let (id, wiring) = (&attachment.id, &attachment.wiring);
        match Fenced::of(&id.network, wiring, &attachment.ipam)? {
            Some(fenced) => self.with(|socket| fence::close(socket, &fenced)),
            None => Ok(false),
        }
    }

    /// Closes what names opened for the container.
    pub(super) fn forget_opened(&self, attachment: &Attachment) -> Result<()> {
        let link = attachment.wiring.link.as_ref();
        let bridge = link.and_then(|link| link.kind.bridge());
        let Some((_, bridge)) = attachment.wiring.fence.as_ref().zip(bridge) else { return Ok(()) };
        let addresses: Vec<_> =
            attachment.addresses.iter().map(|held| held.address.addr()).collect();
        self.deleted.set(true);
        self.if_there(|socket| fence::forget_source(socket, &bridge.name, &addresses))
    }
}

/// A bridge that is not Spoke's may have ports that lead elsewhere, past this host.
pub(super) fn refuse_foreign(network: &NetworkName, bridge: &IfName, what: &str) -> Result<()> {
    let there = Socket::route()?.link(At::Name(bridge))?;
    match there.filter(|link| link.group != GROUP) {
        Some(_) => Err(Error::unsupported(format!(
            "network {network}: {what} needs a bridge that Spoke makes, and {bridge} is not: it may have \
             other ways out"
        ))),
        None => Ok(()),
    }
}
