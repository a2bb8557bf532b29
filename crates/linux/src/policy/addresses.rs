//! Addresses that an attachment has lost.

use model::{Attachment, Family, InterfaceAddress, Result};

use super::Policy;
use super::expected::{ExpectedElements, gateway_route};
use crate::filter;

impl Policy {
    /// Removes the elements of addresses that `before` had and `now`, the same attachment made anew, has not. A
    /// port that leads to `now` by now stays. The rules of iptables are those of the attachment: it
    /// replaces them itself.
    pub(crate) fn withdraw_addresses(&self, before: &Attachment, now: &Attachment) -> Result<()> {
        let is_kept = |held: &InterfaceAddress| {
            now.addresses.iter().any(|other| other.address.addr() == held.address.addr())
        };
        let mut lost = before.clone();
        lost.addresses.retain(|held| !is_kept(held));
        if lost.addresses.is_empty() {
            return Ok(());
        }
        let both = [Family::V4, Family::V6];
        let (lost, now) = (gateway_route(&lost, &both), gateway_route(now, &both));
        self.deleted.set(true);
        if let Some(gone) = ExpectedElements::of(&lost)? {
            let rest = ExpectedElements::of(&now)?.map(|wanted| wanted.elements);
            let elements = match &rest {
                Some(rest) => gone.elements.without(rest),
                None => gone.elements,
            };
            let rest = rest.as_ref();
            let uncounted = self.if_there(|it| filter::counted::drop(it, &elements, rest));
            self.if_there(|socket| filter::remove_same(socket, &elements))?;
            self.close_loopback(&elements).and(uncounted)?;
        }
        let Some(sender) = filter::spoof::sender(&lost)? else { return Ok(()) };
        let rest = filter::spoof::sender(&now)?;
        self.if_there(|socket| filter::spoof::withdraw(socket, &sender, rest.as_ref()))
    }
}
