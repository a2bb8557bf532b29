//! Quotas of containers, as records say them.

use engine::port::Metered;
use model::{Attachment, Result};
use netlink::nft::QuotaState;

use super::Policy;
use crate::filter::Owner;
use crate::filter::quota::{self, Interface, Side};
use crate::identity::Identity;
use crate::plan;

impl Policy {
    /// What the kernel counts of the attachment; none where it counts nothing.
    pub(crate) fn metered(&self, attachment: &Attachment) -> Result<Option<Metered>> {
        let interface = interface(attachment)?;
        let state = self.if_there(|socket| quota::read(socket, &interface))?;
        Ok(state.map(|state| Metered { bytes: state.bytes, used: state.used }))
    }

    /// Counts the attachment with this quota.
    pub(crate) fn meter(&self, attachment: &Attachment, metered: Metered) -> Result<()> {
        attachment.refuse_quota()?;
        let Metered { bytes, used } = metered;
        // The kernel takes no quota of which more is used than there is.
        let state = QuotaState { bytes, used: used.min(bytes) };
        let interface = interface(attachment)?;
        self.with(|socket| quota::put(socket, &interface, state))
    }

    /// Ends that where the record has a quota.
    pub(super) fn end_quota(&self, attachment: &Attachment) -> Result<()> {
        attachment.quota().map_or(Ok(()), |_| self.unmeter(attachment))
    }

    /// Ends that; what is not counted is no error.
    pub(crate) fn unmeter(&self, attachment: &Attachment) -> Result<()> {
        let owner = owner(attachment)?;
        self.deleted.set(true);
        self.if_there(|socket| quota::remove_owned(socket, &owner))
    }
}

fn owner(attachment: &Attachment) -> Result<Owner> {
    Identity::of(&attachment.id).mark(attachment.layer).parse()
}

fn interface(attachment: &Attachment) -> Result<Interface> {
    let is_bridged =
        attachment.wiring.link.as_ref().is_some_and(|link| link.kind.bridge().is_some());
    Ok(Interface {
        owner: owner(attachment)?,
        end: plan::host_end(attachment)?,
        side: if is_bridged { Side::Bridged } else { Side::Routed },
    })
}
