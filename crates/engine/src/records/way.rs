//! Containers that are the way (`via`) of a network: by which attachment and addresses they are reached.

use model::{Attachment, Error, LinkKind, Network, Result};

use crate::Records;

impl Records<'_> {
    /// Refuses a container as the way of the one network that it is on: what it forwarded would come back to it, so
    /// nothing would leave. One that is on no network yet may come to another one.
    ///
    /// # Errors
    /// [`model::Kind::Conflict`], with what to do.
    pub(crate) fn refuse_own_container(&self, network: &Network) -> Result<()> {
        let Some(via) = &network.wiring.via else { return Ok(()) };
        let mut places = self.attachments()?;
        places.retain(|attachment| attachment.is_container_of(via));
        let is_on = |place: &Attachment| place.id.network == network.name;
        if !places.iter().any(is_on) || places.iter().any(|it| !is_on(it) && forwards(it)) {
            return Ok(());
        }
        let name = network.called();
        Err(Error::conflict(format!(
            "network {name}: via {via}: that container is on network {name} itself, and on no other one of Spoke's \
             by which it would forward; connect it to another network first"
        )))
    }
}

/// Whether the link ends in this host.
fn forwards(place: &Attachment) -> bool {
    let kind = place.wiring.link.as_ref().map(|link| &link.kind);
    matches!(kind, Some(LinkKind::Bridge(_) | LinkKind::Ptp(_)))
}
