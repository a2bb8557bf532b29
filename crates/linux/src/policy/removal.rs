//! The end of what an attachment or a bridge has in the packet filters.

use model::{Attachment, Family, IfName, Layer, LinkKind, Result, Runtime};

use super::expected::{ExpectedElements, gateway_route, names_interface, owner, uses_table};
use super::flows::Stale;
use super::forward::in_iptables;
use super::{Policy, in_zone, is_checked_to_the_end, or_nothing};
use crate::filter::{self, Elements, Owner};
use crate::identity::Identity;
use crate::iptables::{Iptables, Variant, WiringPart};
use crate::{firewalld, reference};

impl Policy {
    /// Removes them; what is gone is no error. For an attachment without a record also what the
    /// reference plugins would have made for it. Everything is tried; the first failure is
    /// returned.
    pub(crate) fn remove(&self, attachment: &Attachment) -> Result<()> {
        // More may be published than the gateway role in the record says.
        let attachment = &gateway_route(attachment, &[Family::V4, Family::V6]);
        let rules = match attachment.runtime {
            Runtime::Reference => self.remove_reference(attachment),
            _ => self.iptables(Variant::Host).remove(attachment),
        };
        let elements = self.remove_elements(attachment);
        let flows = match Stale::after(attachment) {
            Some(stale) => self.if_there(|socket| stale.forget(socket)),
            None => Ok(()),
        };
        let ways = self.forget_ways(attachment).and(self.forget_opened(attachment));
        let ways = ways.and(self.end_quota(attachment));
        let ways = ways.and(self.guard_again());
        let zone = in_zone(attachment, firewalld::remove_sources);
        rules.and(elements).and(self.uncheck(attachment)).and(flows).and(ways).and(zone)
    }

    /// What leads to a bridge stays as long as the bridge; what leads to one container is removed
    /// with it.
    fn forget_ways(&self, attachment: &Attachment) -> Result<()> {
        let Some(LinkKind::Ptp(ptp)) = attachment.wiring.link.as_ref().map(|link| &link.kind)
        else {
            return Ok(());
        };
        let end = Identity::of(&attachment.id).host_link()?;
        self.if_there(|socket| {
            firewalld::forget(socket, &end)?;
            if ptp.direct { filter::transit::forget(socket, &end) } else { Ok(()) }
        })
    }

    /// Ends the check of the sender on the container's port.
    pub(super) fn uncheck(&self, attachment: &Attachment) -> Result<()> {
        match is_checked_to_the_end(attachment) {
            true => Ok(()),
            false => self.uncheck_sender(attachment),
        }
    }

    pub(super) fn uncheck_sender(&self, attachment: &Attachment) -> Result<()> {
        // Without a record the port's address is unknown.
        if attachment.runtime == Runtime::Reference && attachment.layer == Layer::Link {
            let owner = Identity::of(&attachment.id).mark(attachment.layer).parse()?;
            return self.if_there(|socket| filter::spoof::remove_owned(socket, &owner));
        }
        let Some(sender) = filter::spoof::sender(attachment)? else { return Ok(()) };
        self.deleted.set(true);
        self.if_there(|socket| filter::spoof::remove(socket, &sender))
    }

    fn remove_reference(&self, attachment: &Attachment) -> Result<()> {
        let part = match attachment.layer {
            Layer::Link => WiringPart::Masquerade,
            Layer::Publish => WiringPart::Publish,
            Layer::Firewall => WiringPart::Firewall,
            Layer::Address
            | Layer::Tuning
            | Layer::Bandwidth
            | Layer::Vrf
            | Layer::SourceRouting => return Ok(()),
        };
        self.deleted.set(true);
        let (id, addresses) = (&attachment.id, &attachment.addresses);
        let rules = self.if_there(|socket| reference::remove(socket, id, attachment.layer));
        let chains = self.each_variant(|iptables| iptables.remove_parts(id, &[part], addresses));
        rules.and(chains)
    }

    /// Works on every iptables that has chains of the reference plugins; the first failure.
    pub(super) fn each_variant(&self, work: impl Fn(Iptables) -> Result<()>) -> Result<()> {
        let nft = self.if_there(reference::nft_in_use);
        let used = [
            (Variant::Nft, matches!(nft, Ok(true))),
            (Variant::Legacy, reference::legacy_in_use()),
        ];
        let used = used.into_iter().filter(|(_, used)| *used);
        let worked = used.map(|(variant, _)| work(self.iptables(variant)));
        worked.fold(nft.map(drop), Result::and)
    }

    pub(super) fn remove_elements(&self, attachment: &Attachment) -> Result<()> {
        let Some(owner) = owner(attachment)? else { return Ok(()) };
        let has_legacy = uses_table(attachment) && attachment.wiring.firewall.is_some();
        let legacy = match has_legacy && reference::legacy_in_use() {
            true => self.iptables(Variant::Legacy).remove(&in_iptables(attachment)),
            false => Ok(()),
        };
        // Without a record the addresses may be unknown, and the host's routes may have changed
        // since: then what bears the mark is removed.
        let wanted = match attachment.runtime != Runtime::Reference && names_interface(attachment) {
            true => ExpectedElements::of(attachment)?,
            false => None,
        };
        if wanted.as_ref().is_some_and(|wanted| wanted.elements.is_empty()) {
            return legacy;
        }
        self.deleted.set(true);
        let elements = match wanted {
            Some(wanted) => Ok(wanted.elements),
            None => self.owned(&owner),
        };
        legacy.and(elements.and_then(|elements| self.take_out(&elements, None)))
    }

    pub(super) fn owned(&self, owner: &Owner) -> Result<Elements> {
        let found = self.if_there(|socket| filter::find_owned(socket, owner).map(Some))?;
        Ok(found.unwrap_or_else(|| Elements::new(owner.clone())))
    }

    /// Removes the elements, and what they were the last to need; the `rest` stays.
    pub(super) fn take_out(&self, elements: &Elements, rest: Option<&Elements>) -> Result<()> {
        let at_once = |socket: &mut _| filter::counted::drop_with_elements(socket, elements, rest);
        let uncounted = match self.if_there(at_once) {
            Ok(()) => Ok(()),
            Err(_) => self.take_out_apart(elements, rest)?,
        };
        self.close_loopback(elements).and(uncounted)
    }

    /// The same where what counts keeps failing, and says how: the elements go all the same.
    fn take_out_apart(&self, elements: &Elements, rest: Option<&Elements>) -> Result<Result<()>> {
        // First: a process that is killed between the two leaves the elements, by which the counters are found.
        let uncounted = self.if_there(|socket| filter::counted::drop(socket, elements, rest));
        self.if_there(|socket| filter::remove(socket, elements))?;
        Ok(uncounted)
    }

    /// Removes what attachments of a bridge shared, and with Spoke's last bridge everything without
    /// an owner.
    pub(crate) fn forget_bridge(&self, bridge: &IfName, is_last: bool) -> Result<()> {
        let passed = self.if_there(|socket| {
            filter::disallow_forwarding(socket, Some(bridge))?;
            firewalld::forget(socket, bridge)?;
            filter::transit::forget(socket, bridge)
        });
        let left = passed.and_then(|()| {
            or_nothing(self.with_calm(|socket| {
                filter::fence::forget_bridge(socket, bridge)?;
                crate::way::forget_bridge(socket, bridge)
            }))
        });
        let ours = left.and_then(|()| {
            self.if_there(|socket| {
                filter::forget_bridge(socket, bridge)?;
                filter::spoof::forget_bridge(socket, bridge)
            })
        });
        let ours = ours.and_then(|()| match is_last {
            true => self.forget_unowned_but(Some(bridge)),
            false => Ok(()),
        });
        ours.and(self.each_variant(|iptables| iptables.remove_bridge(bridge)))
    }
}
