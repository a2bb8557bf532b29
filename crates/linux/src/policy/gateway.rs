//! Published ports of an attachment that is its sandbox's default gateway in some families only.

use model::{Attachment, Family, InterfaceAddress, Result};

use super::Policy;
use super::expected::{self, ExpectedElements};
use super::flows::Stale;
use crate::iptables::{Variant, WiringPart, parts_of};

impl Policy {
    /// Serves the published ports at the attachment in these families and in no others.
    pub(crate) fn set_gateway(&self, attachment: &Attachment, families: &[Family]) -> Result<()> {
        if attachment.wiring.publish.is_none() {
            return Ok(());
        }
        let gateway_route = expected::gateway_route(attachment, families);
        let others: Vec<Family> =
            [Family::V4, Family::V6].into_iter().filter(|it| !families.contains(it)).collect();
        self.unpublish(&expected::gateway_route(attachment, &others))?;
        if families.is_empty() { Ok(()) } else { self.install(&gateway_route) }
    }

    /// Removes what only published ports need, in the families of the gateway role.
    fn unpublish(&self, attachment: &Attachment) -> Result<()> {
        let gateway_role = attachment.gateway_role.as_ref();
        let families = gateway_role.map_or(&[][..], |gateway_role| &gateway_role.families);
        let is_meant = |held: &&InterfaceAddress| families.contains(&Family::of(&held.address));
        let held: Vec<_> = attachment.addresses.iter().filter(is_meant).cloned().collect();
        if !held.is_empty() && parts_of(attachment).contains(&WiringPart::Publish) {
            let iptables = self.iptables(Variant::Host);
            iptables.remove_parts(&attachment.id, &[WiringPart::Publish], &held)?;
        }
        let none = expected::gateway_route(attachment, &[]);
        let (Some(wanted), Some(rest)) =
            (ExpectedElements::of(attachment)?, ExpectedElements::of(&none)?)
        else {
            return Ok(());
        };
        let ports = wanted.elements.without(&rest.elements);
        if ports.is_empty() {
            return Ok(());
        }
        self.deleted.set(true);
        self.take_out(&ports, Some(&rest.elements))?;
        match Stale::after(attachment) {
            Some(stale) => self.if_there(|socket| stale.forget(socket)),
            None => Ok(()),
        }
    }
}
