//! Repairs the packet filter and links that others removed, or that a reboot took.

use std::collections::BTreeSet;

use model::{AttachmentId, Error, Layer, NetworkName, Result};

use crate::Repair;
use crate::attachments::amend::has_leaving;
use crate::failures::all_of;
use crate::links::settings::Following;
use crate::port::Prefix;
use crate::records::book::Read;

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

impl Repair<'_> {
    /// Makes what the attachments of a network share, for every network that a runtime knows by an
    /// id. After a reboot the runtime assumes that it exists. Other networks get theirs with their
    /// first container; until then no route leads to them, so that Docker accepts their subnets. An
    /// error does not end the work; all errors are reported.
    pub fn raise_networks(&self) -> Result<()> {
        let known: BTreeSet<NetworkName> =
            self.records.aliases()?.into_iter().map(|alias| alias.network).collect();
        let mut declared = self.records.networks_in(&Prefix::Networks)?;
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
            healing.failures.extend(self.networks.follow_all_settings(Following::Differing).err());
        }
        let mut busy = Vec::new();
        for Read { value: listed, .. } in self.records.attachments_in(&Prefix::Attachments)? {
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
    pub(super) fn restore_if_idle(
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
        let living = self.links.living(id, layer);
        let Some(living) = healing.noted(id, living) else { return true };
        if has_leaving(&living.value) {
            let finished = self.attachments.finish_withdrawal(id, layer);
            healing.noted(id, finished);
            return true;
        }
        if is_due {
            let lost = healing.noted(id, self.links.restore_as_recorded(&living));
            healing.backoff.looked(own, lost);
            healing.missed |= lost;
        }
        if healing.shares {
            let made = self.links.serving(&living.value);
            let lost = made.and_then(|it| self.driver.restore_shared(&it));
            healing.shared_missed |= healing.noted(id, lost);
        }
        true
    }
}
