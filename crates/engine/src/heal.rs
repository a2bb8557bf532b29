//! Repairs the packet filter and links that others removed, or that a reboot took.

use std::collections::BTreeSet;

use model::{
    Attachment, AttachmentId, Error, InterfaceAddress, Layer, NetworkName, Phase, PortMap, Publish,
    Result,
};

use crate::Engine;
use crate::amend::has_leaving;
use crate::attach::RACES;
use crate::book::Read;
use crate::gc::all_of;
use crate::port::Prefix;

/// One unit of repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Healed<'a> {
    /// The attachment's own part of the packet filter.
    Own(&'a AttachmentId, Layer),
    /// What attachments share.
    Shared,
}

/// Decides when a unit that is removed again and again is repaired.
pub trait Backoff {
    /// Whether it is checked now.
    fn is_due(&mut self, what: Healed<'_>) -> bool;

    /// Called after a check: whether anything was missing and is restored.
    fn looked(&mut self, what: Healed<'_>, was_missing: bool);

    /// Called instead where another thread works on it all the time: it is to be checked soon.
    fn is_busy(&mut self, what: Healed<'_>);
}

/// Puts everything back at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct AtOnce;

impl Backoff for AtOnce {
    fn is_due(&mut self, _: Healed<'_>) -> bool {
        true
    }

    fn looked(&mut self, _: Healed<'_>, _: bool) {}

    fn is_busy(&mut self, _: Healed<'_>) {}
}

/// One pass over all attachments.
pub(crate) struct Healing<'b> {
    backoff: &'b mut dyn Backoff,
    /// Whether what attachments share is checked.
    shares: bool,
    missed: bool,
    shared_missed: bool,
    pub(crate) failures: Vec<Error>,
}

impl<'b> Healing<'b> {
    pub(crate) fn new(backoff: &'b mut dyn Backoff, shares: bool) -> Self {
        Self { backoff, shares, missed: false, shared_missed: false, failures: Vec::new() }
    }

    /// The result; a failure is kept for the end of the pass.
    pub(crate) fn noted<T: Default>(&mut self, id: &AttachmentId, result: Result<T>) -> T {
        result.unwrap_or_else(|error| {
            self.failures.push(error.context(format!("healing {id}")));
            T::default()
        })
    }
}

impl Engine<'_> {
    /// Makes what the attachments of a network share, for every network that a runtime knows by an
    /// id. After a reboot the runtime assumes that it exists. Other networks get theirs with their
    /// first container; until then no route leads to them, so that Docker accepts their subnets. An
    /// error does not end the work; all errors are reported.
    pub fn raise_networks(&self) -> Result<()> {
        let known: BTreeSet<NetworkName> =
            self.aliases()?.into_iter().map(|alias| alias.network).collect();
        let mut declared = self.networks_in(&Prefix::Networks)?;
        declared.retain(|network| {
            network.value.stage.is_whole() && known.contains(&network.value.name)
        });
        let raised = declared.iter().map(|network| {
            let doing = format!("making network {}", network.value.name);
            self.driver.up(&network.value).map_err(|error| error.context(doing))
        });
        all_of(raised.filter_map(Result::err).collect())
    }

    /// Puts the packet filter of every living attachment back where it is time, and says whether
    /// anything of it was missing. An error does not end the work; all errors are reported. An
    /// attachment on which another thread works is tried again after all others, and is not waited for.
    pub fn restore(&self, backoff: &mut dyn Backoff) -> Result<bool> {
        let shares = backoff.is_due(Healed::Shared);
        let mut healing = Healing::new(backoff, shares);
        // First, because the filter of a record that has yet to follow is no more the right one.
        if shares {
            healing.failures.extend(self.follow_all_settings().err());
        }
        let mut busy = Vec::new();
        for Read { value: listed, .. } in self.records(&Prefix::Attachments)? {
            if !self.restore_if_idle(&mut healing, &listed.id, listed.layer) {
                busy.push((listed.id, listed.layer));
            }
        }
        for (id, layer) in busy {
            if !self.restore_if_idle(&mut healing, &id, layer) {
                healing.backoff.is_busy(Healed::Own(&id, layer));
            }
        }
        if shares {
            healing.backoff.looked(Healed::Shared, healing.shared_missed);
        }
        all_of(healing.failures).map(|()| healing.missed || healing.shared_missed)
    }

    /// The same of one attachment; `false` where another thread works on it.
    pub(crate) fn restore_if_idle(
        &self,
        healing: &mut Healing<'_>,
        id: &AttachmentId,
        layer: Layer,
    ) -> bool {
        let own = Healed::Own(id, layer);
        let is_due = healing.backoff.is_due(own);
        if !is_due && !healing.shares {
            return true;
        }
        let Some(_lock) = self.host.try_lock_attachment(id) else { return false };
        let living = self.living(id, layer);
        let Some(living) = healing.noted(id, living) else { return true };
        if has_leaving(&living.value) {
            let finished = self.finish_withdrawal(id, layer);
            healing.noted(id, finished);
            return true;
        }
        if is_due {
            let lost = healing.noted(id, self.restore_as_recorded(&living));
            healing.backoff.looked(own, lost);
            healing.missed |= lost;
        }
        if healing.shares {
            let made = self.serving(&living.value);
            let lost = made.and_then(|it| self.driver.restore_shared(&it));
            healing.shared_missed |= healing.noted(id, lost);
        }
        true
    }

    /// Puts back what the record says, and removes again what it no longer says then: another process may
    /// change or detach it meanwhile, and has removed that before. Whether anything was missing. A part that
    /// cannot be put back keeps nothing that is to go.
    pub(crate) fn restore_as_recorded(&self, read: &Read<Box<Attachment>>) -> Result<bool> {
        let made = self.serving(&read.value)?;
        let mut lost = self.restore_metered(&made);
        let (id, layer) = (&read.value.id, read.value.layer);
        let (mut before, mut made) = (read.clone(), made.into_owned());
        for _ in 0..RACES {
            match self.record_of(id, layer)? {
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
        if made.wiring.own_fence != now.wiring.own_fence {
            self.driver.fence(now)?;
        }
        Ok(())
    }

    fn living(&self, id: &AttachmentId, layer: Layer) -> Result<Option<Read<Box<Attachment>>>> {
        let read = self.record_of(id, layer)?;
        Ok(read.filter(|read| matches!(read.value.phase, Phase::Attached(_))))
    }
}

/// Whether one attachment was changed between these; otherwise it was attached anew.
fn is_one_attachment(one: &Attachment, other: &Attachment) -> bool {
    one.since == other.since && one.addresses == other.addresses
}
