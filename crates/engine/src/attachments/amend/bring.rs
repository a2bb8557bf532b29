//! The return of an amendment: the next attachment of the container's name gets what is kept under that name.

use model::{
    Amendment, Attachment, AttachmentId, Bandwidth, Kind, Layer, LinkKind, Phase, PortMap, Publish,
    Result, hosts_clash,
};

use crate::Attachments;
use crate::addresses::claim::key_of;
use crate::attachments::amend::limit::completed;
use crate::attachments::amend::{Remember, Tried};
use crate::contention::RACES;
use crate::failures::all_of;
use crate::records::book::key_of_amendment;

impl Attachments<'_> {
    /// Gives an attachment that is to be made what its container's name keeps. A port that another
    /// container or a program has by now is left out: the container comes without it.
    pub(crate) fn amend(&self, blank: &mut Attachment) -> Result<()> {
        if !matches!(blank.layer, Layer::Link | Layer::Publish | Layer::Bandwidth) {
            return Ok(());
        }
        let Ok(meant) = Amendment::of(blank) else { return Ok(()) };
        let Some(read) = self.records.amendment_under(&key_of_amendment(&meant))? else {
            return Ok(());
        };
        if let Some(limits) = &read.value.bandwidth {
            self.amend_limits(blank, limits)?;
        }
        if let Some(rules) = read.value.egress.as_ref().filter(|_| blank.layer == Layer::Link) {
            let fence = rules.staying_strict(blank.wiring.own_fence.as_ref());
            blank.wiring.own_fence = Some(fence);
            blank.refuse_own_fence()?;
        }
        if read.value.layer != blank.layer || !takes_ports(blank) {
            return Ok(());
        }
        for map in &read.value.ports {
            if self.is_free_for(blank, map)? {
                let fresh = self.usual_publish(blank, None)?;
                let publish = blank.wiring.publish.get_or_insert(fresh);
                publish.ports.push(map.clone());
                publish.added.push(map.clone());
            }
        }
        Ok(())
    }

    /// The link has the limits; where another program made that, the layer that limits has them. One
    /// device is limited once: a plugin that limits besides does nothing then. Where the name keeps only a quota,
    /// the link has the rates that such a plugin asks for.
    fn amend_limits(&self, blank: &mut Attachment, limits: &Bandwidth) -> Result<()> {
        if blank.layer == Layer::Link {
            blank.wiring.bandwidth = Some(completed(limits, blank));
            limits.quota.map_or(Ok(()), |_| blank.refuse_quota())?;
        }
        if blank.layer == Layer::Bandwidth {
            let link = self.records.record_of(&blank.id, Layer::Link)?;
            let asked = blank.wiring.bandwidth.clone().unwrap_or_default();
            let limits = match link.is_some_and(|link| is_limited(&link.value)) {
                true => {
                    if !limits.has_rates() {
                        self.limit_for_plugin(&blank.id, &asked)?;
                    }
                    Bandwidth::default()
                }
                // Only the link's record has one.
                false => Bandwidth { quota: None, ..completed(limits, blank) },
            };
            let device = asked.device;
            blank.wiring.bandwidth = Some(Bandwidth { device, ..limits });
        }
        Ok(())
    }

    fn is_free_for(&self, blank: &Attachment, map: &PortMap) -> Result<bool> {
        let own = blank.wiring.publish.as_ref().map_or(&[][..], |publish| &publish.ports);
        let is_own = own
            .iter()
            .any(|other| key_of(other) == key_of(map) && hosts_clash(other.host, map.host));
        if is_own {
            return Ok(false);
        }
        let claims =
            self.records.claims_of(&key_of(map))?.map(|read| read.value).unwrap_or_default();
        let clash = |holder: &AttachmentId| *holder != blank.id;
        if claims.iter().any(|claim| claim.clashes(map.host) && clash(&claim.holder)) {
            return Ok(false);
        }
        Ok(self.driver.refuse_port(blank, map).is_ok())
    }

    /// Publishes what a complete attachment's name keeps, where its name became known only after it
    /// was made (Docker's). What cannot be published is left out.
    pub(in crate::attachments) fn bring_back(&self, id: &AttachmentId) -> Result<()> {
        let Some(read) = self.records.record_of(id, Layer::Link)? else { return Ok(()) };
        if !matches!(read.value.phase, Phase::Attached(_)) {
            return Ok(());
        }
        let Ok(meant) = Amendment::of(&read.value) else { return Ok(()) };
        let Some(kept) = self.records.amendment_under(&key_of_amendment(&meant))? else {
            return Ok(());
        };
        let limited = kept.value.bandwidth.iter().map(|limits| self.limit_again(id, limits));
        let fenced = kept.value.egress.iter().map(|rules| self.fence_again(id, rules));
        let published = kept.value.ports.iter().map(|map| self.publish_again(id, map));
        let failures = limited.chain(fenced).chain(published).filter_map(Result::err);
        all_of(failures.filter(|error| error.kind() == Kind::TryAgain).collect())
    }

    fn publish_again(&self, id: &AttachmentId, map: &PortMap) -> Result<()> {
        let _lock = self.lock_of_ports(id)?;
        for _ in 0..RACES {
            let holders = self.port_holders(id)?;
            if holders.has_added(map) {
                // A killed command may have left it to the next look.
                return self.serve(&holders);
            }
            match self.try_add(&holders, map, Remember::Known)? {
                Tried::Done(holders) => return self.serve(&holders),
                Tried::Held(_) | Tried::Forgotten => return Ok(()),
                Tried::Lost => {}
            }
        }
        Ok(())
    }

    /// The same for every complete attachment: what a killed daemon left, and ports that others had.
    pub(crate) fn amend_all(&self) -> Result<()> {
        let kept = self.amendments()?;
        if kept.is_empty() {
            return Ok(());
        }
        let mut failures = Vec::new();
        for record in self.records.attachments()? {
            let is_kept = |it: &Amendment| {
                (&it.network, it.runtime) == (&record.id.network, record.runtime)
                    && Amendment::name_of(&record).is_ok_and(|name| name == it.name)
            };
            if record.layer == Layer::Link && kept.iter().any(is_kept) {
                failures.extend(self.bring_back(&record.id).err());
            }
        }
        all_of(failures)
    }
}

/// Whether the record itself limits.
pub(super) fn is_limited(record: &Attachment) -> bool {
    let limits = record.wiring.bandwidth.as_ref();
    limits.is_some_and(Bandwidth::is_any)
}

/// Whether ports of the host can lead to it.
fn takes_ports(blank: &Attachment) -> bool {
    let kind = blank.wiring.link.as_ref().map(|link| &link.kind);
    let is_published = |publish: &Publish| !publish.ports.is_empty();
    match blank.layer {
        Layer::Publish => blank.wiring.publish.as_ref().is_some_and(is_published),
        _ => kind.is_some_and(LinkKind::has_ports) && blank.wiring.address_space.is_none(),
    }
}
