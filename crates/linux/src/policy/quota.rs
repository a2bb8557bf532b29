//! Quotas of containers, as records say them.

use engine::port::Metered;
use model::{Attachment, Layer, Result};
use netlink::nft::QuotaState;

use super::Policy;
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

    /// Ends that, whether or not the record still has a quota: a killed command may have taken it out of there only.
    pub(super) fn end_quota(&self, attachment: &Attachment) -> Result<()> {
        match attachment.layer == Layer::Link && attachment.refuse_quota().is_ok() {
            true => self.unmeter(attachment),
            false => Ok(()),
        }
    }

    /// Ends that; what is not counted is no error.
    pub(crate) fn unmeter(&self, attachment: &Attachment) -> Result<()> {
        let interface = interface(attachment)?;
        if self.if_there(|socket| quota::remove(socket, &interface))? {
            self.deleted.set(true);
        }
        Ok(())
    }
}

fn interface(attachment: &Attachment) -> Result<Interface> {
    let is_bridged =
        attachment.wiring.link.as_ref().is_some_and(|link| link.kind.bridge().is_some());
    Ok(Interface {
        owner: Identity::of(&attachment.id).mark(attachment.layer).parse()?,
        end: plan::host_end(attachment)?,
        side: if is_bridged { Side::Bridged } else { Side::Routed },
    })
}
