//! Repairs the packet filter and links that others removed, or that a reboot took.

use std::collections::BTreeSet;

use model::{Attachment, AttachmentId, Layer, NetworkName, Phase, Result};

use crate::Engine;
use crate::amend::has_leaving;
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
}

/// Puts everything back at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct AtOnce;

impl Backoff for AtOnce {
    fn is_due(&mut self, _: Healed<'_>) -> bool {
        true
    }

    fn looked(&mut self, _: Healed<'_>, _: bool) {}
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
    /// anything of it was missing. An error does not end the work; all errors are reported.
    pub fn restore(&self, backoff: &mut dyn Backoff) -> Result<bool> {
        let shares = backoff.is_due(Healed::Shared);
        let (mut missed, mut shared_missed) = (false, false);
        // First, because the filter of a record that has yet to follow is no more the right one.
        let followed = if shares { self.follow_all_settings() } else { Ok(()) };
        let mut failures: Vec<_> = followed.err().into_iter().collect();
        let mut note = |id: &AttachmentId, lost: Result<bool>| match lost {
            Ok(lost) => lost,
            Err(error) => {
                failures.push(error.context(format!("healing {id}")));
                false
            }
        };
        for listed in self.records(&Prefix::Attachments)? {
            let (id, layer) = (&listed.value.id, listed.value.layer);
            let own = Healed::Own(id, layer);
            let is_due = backoff.is_due(own);
            if !is_due && !shares {
                continue;
            }
            let _lock = self.host.lock_attachment(id);
            let Some(living) = self.living(id, layer)? else { continue };
            if has_leaving(&living) {
                note(id, self.finish_withdrawal(id, layer).map(|()| true));
                continue;
            }
            let made = match self.serving(&living) {
                Ok(made) => made,
                Err(error) => {
                    note(id, Err(error));
                    continue;
                }
            };
            if is_due {
                let lost = note(id, self.driver.restore(&made));
                backoff.looked(own, lost);
                missed |= lost;
            }
            if shares {
                shared_missed |= note(id, self.driver.restore_shared(&made));
            }
        }
        if shares {
            backoff.looked(Healed::Shared, shared_missed);
        }
        all_of(failures).map(|()| missed || shared_missed)
    }

    fn living(&self, id: &AttachmentId, layer: Layer) -> Result<Option<Box<Attachment>>> {
        let read = self.record_of(id, layer)?.map(|read| read.value);
        Ok(read.filter(|record| matches!(record.phase, Phase::Attached(_))))
    }
}
