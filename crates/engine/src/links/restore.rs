//! Puts back what the kernel lost of an attachment.

use model::{
    Attachment, AttachmentId, Error, InterfaceAddress, Layer, Phase, PortMap, Publish, Reach,
    Result,
};

use crate::Links;
use crate::contention::RACES;
use crate::records::book::Read;

impl Links<'_> {
    /// Puts back what the record says, and removes again what it no longer says then: another process may
    /// change or detach it meanwhile, and has removed that before. Whether anything was missing. A part that
    /// cannot be put back keeps nothing that is to go.
    pub(crate) fn restore_as_recorded(&self, read: &Read<Box<Attachment>>) -> Result<bool> {
        let made = self.serving(&read.value)?;
        let mut lost = self.restore_metered(&made);
        let (id, layer) = (&read.value.id, read.value.layer);
        let (mut before, mut made) = (read.clone(), made.into_owned());
        for _ in 0..RACES {
            match self.records.record_of(id, layer)? {
                Some(now) if now.revision == before.revision => return lost,
                // Its next attachment makes its own, and knows nothing of other addresses.
                Some(now) if matches!(now.value.phase, Phase::Attaching { .. }) => {
                    self.forget_addresses(&made, &now.value)?;
                    return lost;
                }
                Some(now)
                    if matches!(now.value.phase, Phase::Attached(_))
                        && is_one_attachment(&now.value, &made) =>
                {
                    let next = self.serving(&now.value)?.into_owned();
                    self.revert(&made, &next)?;
                    (before, made) = (now, next);
                }
                Some(_) | None => {
                    self.driver.unfilter(&made)?;
                    let Some(next) = self.living(id, layer)? else { return lost };
                    // What was removed may be its successor's, which has the same name in the packet filter.
                    made = self.serving(&next.value)?.into_owned();
                    let again = self.restore_metered(&made);
                    lost = lost.and_then(|lost| again.map(|_| lost));
                    before = next;
                }
            }
        }
        lost.and(Err(Error::try_again(format!("{id} changes all the time"))))
    }

    /// The driver's part, and what it counts: neither keeps the other from being put back.
    fn restore_metered(&self, made: &Attachment) -> Result<bool> {
        let restored = self.restore_now(made);
        let metered = self.meter(made)?;
        Ok(restored? | metered)
    }

    /// Takes out what stands for addresses that the attachment has lost. Where others give the addresses, it may get
    /// them again.
    fn forget_addresses(&self, made: &Attachment, now: &Attachment) -> Result<()> {
        let is_kept = |held: &InterfaceAddress| {
            now.addresses.iter().any(|other| other.address.addr() == held.address.addr())
        };
        match now.addresses.is_empty() || made.addresses.iter().all(is_kept) {
            true => Ok(()),
            false => self.driver.withdraw_addresses(made, now),
        }
    }

    /// Makes what `made` had restored what `now` says.
    fn revert(&self, made: &Attachment, now: &Attachment) -> Result<()> {
        let ports = |it: &Attachment| -> Vec<PortMap> {
            it.wiring.publish.as_ref().map(|publish| publish.ports.clone()).unwrap_or_default()
        };
        let (mut gone, stay) = (ports(made), ports(now));
        gone.retain(|map| !stay.contains(map));
        if !gone.is_empty() {
            let mut rest = now.clone();
            // Where no port is left, the record does not say how ports are published.
            if let (None, Some(publish)) = (&rest.wiring.publish, &made.wiring.publish) {
                rest.wiring.publish = Some(Publish { ports: Vec::new(), ..publish.clone() });
            }
            self.driver.withdraw_ports(&rest, &gone)?;
        }
        if made.wiring.bandwidth != now.wiring.bandwidth {
            self.limit_as_recorded(now)?;
        }
        if reach(made) != reach(now) {
            self.driver.revise(made, now)?;
        }
        if made.wiring.own_fence != now.wiring.own_fence {
            self.driver.fence(now)?;
        }
        Ok(())
    }

    pub(crate) fn living(
        &self,
        id: &AttachmentId,
        layer: Layer,
    ) -> Result<Option<Read<Box<Attachment>>>> {
        let read = self.records.record_of(id, layer)?;
        Ok(read.filter(|read| matches!(read.value.phase, Phase::Attached(_))))
    }
}

fn reach(attachment: &Attachment) -> Option<Reach> {
    attachment.wiring.publish.as_ref().map(|publish| publish.reach)
}

/// Whether one attachment was changed between these; otherwise it was attached anew.
fn is_one_attachment(one: &Attachment, other: &Attachment) -> bool {
    one.since == other.since && one.addresses == other.addresses
}
