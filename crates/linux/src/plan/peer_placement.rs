//! The namespace and the name with which the container's end of a link is created.

use model::{Attachment, Handoff, IfName, InterfaceNamespace, Result};

use super::{Connected, Step};
use crate::identity::Identity;

/// Where the container's end is made, and under which name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeerPlacement {
    pub(crate) name: IfName,
    pub(crate) place: InterfaceNamespace,
}

impl PeerPlacement {
    /// In the container, under its name there; or in the host, as long as there is no container, or
    /// where the runtime moves and names it.
    pub(crate) fn of(attachment: &Attachment) -> Result<Self> {
        match (attachment.handoff, &attachment.sandbox) {
            (Handoff::Finish, Some(_)) => Ok(Self {
                name: super::device(attachment).clone(),
                place: InterfaceNamespace::Sandbox,
            }),
            (Handoff::Finish, None) | (Handoff::Caller, _) => {
                let name = Identity::of(&attachment.id).guest_link()?;
                Ok(Self { name, place: InterfaceNamespace::Host })
            }
        }
    }

    /// Brings a link that was made before to its place.
    pub(super) fn bring(&self, there: &Connected, attachment: &Attachment) -> Result<Option<Step>> {
        if there.place == self.place || self.place == InterfaceNamespace::Host {
            return Ok(None);
        }
        let from = Identity::of(&attachment.id).guest_link()?;
        Ok(Some(Step::Move { from, to: self.name.clone(), remembers: false }))
    }
}
