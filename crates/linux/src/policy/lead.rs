//! Published ports of an attachment that leads its sandbox out in some families only.

use model::{Attachment, Family, InterfaceAddress, Result};

use super::Policy;
use super::flows::Stale;
use super::wanted::{self, Wanted};
use crate::filter;
use crate::iptables::{Iptables, Part, Variant, parts_of};

impl Policy {
    /// Lets the published ports lead to the attachment in these families and in no others.
    pub(crate) fn lead(&self, attachment: &Attachment, families: &[Family]) -> Result<()> {
        if attachment.wiring.publish.is_none() {
            return Ok(());
        }
        let leading = wanted::leading(attachment, families);
        let others: Vec<Family> =
            [Family::V4, Family::V6].into_iter().filter(|it| !families.contains(it)).collect();
        self.unpublish(&wanted::leading(attachment, &others))?;
        if families.is_empty() { Ok(()) } else { self.install(&leading) }
    }

    /// Removes what only published ports need, in the families in which the attachment leads.
    fn unpublish(&self, attachment: &Attachment) -> Result<()> {
        let lead = attachment.lead.as_ref();
        let families = lead.map_or(&[][..], |lead| &lead.families);
        let is_meant = |held: &&InterfaceAddress| families.contains(&Family::of(&held.address));
        let held: Vec<_> = attachment.addresses.iter().filter(is_meant).cloned().collect();
        if !held.is_empty() && parts_of(attachment).contains(&Part::Publish) {
            let iptables = Iptables::new(Variant::Host);
            iptables.remove_parts(&attachment.id, &[Part::Publish], &held)?;
        }
        let none = wanted::leading(attachment, &[]);
        let (Some(wanted), Some(rest)) = (Wanted::of(attachment)?, Wanted::of(&none)?) else {
            return Ok(());
        };
        let ports = wanted.elements.without(&rest.elements);
        if ports.is_empty() {
            return Ok(());
        }
        self.deleted.set(true);
        self.if_there(|socket| filter::remove(socket, &ports))?;
        match Stale::after(attachment) {
            Some(stale) => self.if_there(|socket| stale.forget(socket)),
            None => Ok(()),
        }
    }
}
