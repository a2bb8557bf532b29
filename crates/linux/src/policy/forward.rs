//! What attachments share: the host's own filter accepts their packets.

use model::{Attachment, Backend, Firewall, IfName, Kind, Link, Passage, Result, Wiring};

use super::Policy;
use super::wanted::{behind, owner, switching};
use crate::filter::Open;
use crate::iptables::{Iptables, Variant};
use crate::{filter, firewalld};

impl Policy {
    /// As [`Policy::restore`], for what attachments of a bridge share.
    pub(crate) fn restore_shared(&self, attachment: &Attachment) -> Result<bool> {
        match owner(attachment)? {
            Some(_) => self.let_forward(attachment, &behind(attachment)?),
            None => Ok(false),
        }
    }

    /// Makes the host's own filter let the packets pass, where it drops what it forwards. Whether it
    /// did not.
    pub(super) fn let_forward(
        &self,
        attachment: &Attachment,
        behind: &Option<IfName>,
    ) -> Result<bool> {
        let Some(firewall) = &attachment.wiring.firewall else { return Ok(false) };
        let (Backend::Nftables, Some(behind)) = (firewall.backend, behind) else {
            return Ok(false);
        };
        let wiring = &attachment.wiring;
        let let_by_route = wiring.let_by_route();
        let open = Open { direct: &let_by_route, trusted: wiring.passage().trusted() };
        let (others, forwarding) = self.with(|socket| {
            let switched = match switching(attachment) {
                Some(bridge) => filter::allow_forwarding(socket, bridge, open)?.changed,
                None => false,
            };
            let trusted = firewalld::trust(socket, behind)?;
            Ok((switched || trusted, filter::allow_forwarding(socket, behind, open)?))
        })?;
        let changed = others || forwarding.changed;
        if forwarding.legacy.is_empty() {
            return Ok(changed);
        }
        match Iptables::new(Variant::Legacy).install(&in_iptables(attachment)) {
            // A program that is not installed here made those rules (k3s, Docker in a container).
            // They need not drop anything; `spoke doctor` checks whether they do.
            Err(error) if error.kind() == Kind::Unsupported => Ok(changed),
            installed => installed.map(|legacy| legacy || changed),
        }
    }
}

/// The attachment as far as the old iptables must let its packets pass, which our table cannot make
/// it do.
pub(super) fn in_iptables(attachment: &Attachment) -> Attachment {
    let bridge = attachment.wiring.link.as_ref().and_then(bridge_of);
    let passage = match attachment.wiring.let_by_route()[..] {
        [] => attachment.wiring.passage().clone(),
        [only] => Passage::EverybodyOf(only),
        _ => Passage::Everybody,
    };
    let firewall = attachment.wiring.firewall.clone().map(|part| Firewall {
        backend: Backend::Iptables,
        passage,
        bridge: part.bridge.clone().or(bridge),
        ..part
    });
    Attachment { wiring: Wiring { firewall, ..Wiring::default() }, ..attachment.clone() }
}

fn bridge_of(link: &Link) -> Option<IfName> {
    link.kind.bridge().map(|bridge| bridge.name.clone())
}
