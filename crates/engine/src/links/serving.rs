//! Which of a container's attachments serves a port of the host that several of them publish.
//!
//! Podman 4, `podman network connect`, nerdctl and a call that joins several networks publish the
//! container's ports on each of its networks. In the store the claims of a port are in the order in
//! which they were made: the first one serves, and when that goes the next one takes over. The
//! records keep all their ports.
//!
//! Where Spoke chooses the sandbox's default gateway, that attachment serves ([`crate::networks::sandbox`]).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{
    Attachment, AttachmentId, Backend, Claim, Family, Layer, Phase, PortMap, Publish, Result,
};

use crate::Links;
use crate::addresses::claim::{is_sibling, key_of};
use crate::port::Presence;
use crate::records::book::Read;

impl Links<'_> {
    /// The attachment with the ports that it serves now. In an address family in which another
    /// attachment of the container has claimed a port before, that one serves it.
    pub(crate) fn serving<'a>(&self, attachment: &'a Attachment) -> Result<Cow<'a, Attachment>> {
        self.serving_without(attachment, None)
    }

    /// The same as if `gone` were not there.
    fn serving_without<'a>(
        &self,
        attachment: &'a Attachment,
        gone: Option<&AttachmentId>,
    ) -> Result<Cow<'a, Attachment>> {
        let Some(publish) = shareable(attachment) else { return Ok(Cow::Borrowed(attachment)) };
        let mut ports = Vec::with_capacity(publish.ports.len());
        for map in &publish.ports {
            ports.extend(self.served(map, attachment, gone)?);
        }
        if ports == publish.ports {
            return Ok(Cow::Borrowed(attachment));
        }
        let mut serving = attachment.clone();
        if let Some(publish) = &mut serving.wiring.publish {
            publish.ports = ports;
        }
        Ok(Cow::Owned(serving))
    }

    /// The part of a port that the attachment serves: all, nothing, or one address family of it.
    fn served(
        &self,
        map: &PortMap,
        attachment: &Attachment,
        gone: Option<&AttachmentId>,
    ) -> Result<Vec<PortMap>> {
        let Some(read) = self.records.claims_of(&key_of(map))? else {
            return Ok(vec![map.clone()]);
        };
        let own = families(attachment, map.host);
        let mut taken = Vec::new();
        for claim in read.value.iter().take_while(|claim| claim.holder != attachment.id) {
            let is_same = is_sibling(claim, attachment) && exact(claim.host) == exact(map.host);
            if is_same && Some(&claim.holder) != gone {
                taken.extend(self.families_of(claim)?);
            }
        }
        if !own.iter().any(|family| taken.contains(family)) {
            return Ok(vec![map.clone()]);
        }
        let remaining = own.into_iter().filter(|family| !taken.contains(family));
        Ok(remaining
            .map(|family| PortMap { host: Some(family.unspecified()), ..map.clone() })
            .collect())
    }

    /// The address families in which a claim's holder serves the port.
    fn families_of(&self, claim: &Claim) -> Result<Vec<Family>> {
        for layer in Layer::ALL {
            if let Some(read) = self.records.record_of(&claim.holder, layer)?
                && read.value.wiring.publish.is_some()
            {
                return Ok(families(&read.value, claim.host));
            }
        }
        Ok(Vec::new())
    }

    /// Lets other attachments of the container serve the ports of an attachment that is gone from
    /// the kernel. A failure here must not keep the attachment:
    /// [`Repair::restore`](crate::Repair::restore) adds what is missing.
    pub(super) fn hand_over(&self, gone: &Attachment) {
        let Some(publish) = shareable(gone) else { return };
        let mut next = BTreeSet::new();
        for map in &publish.ports {
            let claims = self.records.claims_of(&key_of(map)).ok().flatten();
            let claims = claims.map(|read| read.value).unwrap_or_default();
            next.extend(claims.into_iter().filter(|it| is_sibling(it, gone)).map(|it| it.holder));
        }
        for id in next {
            for layer in Layer::ALL {
                if let Ok(Some(read)) = self.records.record_of(&id, layer) {
                    // If this fails, `Repair::restore` adds what is missing.
                    let _ = self.take_over(&read, &gone.id);
                }
            }
        }
    }

    /// Serves what the attachment that is gone served before it.
    fn take_over(&self, read: &Read<Box<Attachment>>, gone: &AttachmentId) -> Result<()> {
        let heir = &read.value;
        let is_attached = matches!(heir.phase, Phase::Attached(_));
        if !is_attached || shareable(heir).is_none() || self.presence(heir) == Presence::Gone {
            return Ok(());
        }
        let serving = self.serving_without(heir, Some(gone))?;
        self.restore_now(&serving)?;
        // Another process may have detached it meanwhile, before its ports were put in.
        let now = self.records.record_of(&heir.id, heir.layer)?;
        match now.map(|now| now.value.phase) {
            None | Some(Phase::Detaching { .. }) => self.driver.detach(heir),
            Some(_) => Ok(()),
        }
    }

    /// Serves what another attachment stopped to serve while this one was made.
    pub(crate) fn serve_the_rest(&self, made: &Attachment, served: &[PortMap]) -> Result<()> {
        let now = self.serving(made)?;
        let now_served = now.wiring.publish.as_ref().map(|publish| &publish.ports[..]);
        if now_served != Some(served) {
            self.restore_now(&now)?;
        }
        Ok(())
    }
}

/// The ports that may be left to another attachment. In the old iptables each has rules of its own,
/// of which the first serve, as with the reference plugin.
fn shareable(attachment: &Attachment) -> Option<&Publish> {
    let publish = attachment.wiring.publish.as_ref()?;
    let is_ours = publish.backend == Backend::Nftables && attachment.gateway_role.is_none();
    (is_ours && attachment.sandbox.is_some() && !publish.ports.is_empty()).then_some(publish)
}

/// The families in which a port on `host` leads to the attachment.
fn families(attachment: &Attachment, host: Option<IpAddr>) -> Vec<Family> {
    let is_gateway = |family: &Family| {
        attachment.first(*family).is_some()
            && host.is_none_or(|host| Family::of(&model::host_net(host)) == *family)
    };
    [Family::V4, Family::V6].into_iter().filter(is_gateway).collect()
}

/// The one address of the host that is meant, if one is.
fn exact(host: Option<IpAddr>) -> Option<IpAddr> {
    host.filter(|host| !host.is_unspecified())
}
