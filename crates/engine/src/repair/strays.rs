//! Removes what is in the kernel and has no record.
//!
//! Kernel names depend on the identity alone. An attach that begins under the identity of a stray makes things of
//! the same names, so the records are read again before each removal and after the last one.

use model::{Attachment, Layer, Result};

use crate::Repair;
use crate::failures::all_of;
use crate::finding::{Finding, Garbage, Mode, Reconciled, Remedy};
use crate::port::{Prefix, Presence, Stray};
use crate::repair::heal::{AtOnce, Healing};

impl Repair<'_> {
    /// Records are committed before anything is made, so they are read after what exists. While the record of
    /// an attachment is damaged, anything without a record may be that one's: nothing goes.
    pub(super) fn strays(&self, mode: Mode, found: &mut Reconciled) -> Result<()> {
        let mut strays = self.driver.strays(&|| self.records.attachments())?;
        strays.extend(
            self.driver.switch_strays(&self.records.networks()?, &|| self.records.attachments())?,
        );
        let is_known = !self.records.has_damaged(&Prefix::Attachments)?;
        let mut removed = Vec::new();
        for (stray, presence) in strays {
            let remedy = match presence {
                Presence::Gone if is_known => Remedy::Free,
                Presence::Gone | Presence::Alive | Presence::Doubtful => Remedy::Quarantine,
            };
            let done = match (mode, remedy) {
                (Mode::Mend, Remedy::Free) => self.remove_if_stray(&stray),
                _ => Ok(true),
            };
            if let Ok(false) = done {
                continue;
            }
            if (mode, remedy) == (Mode::Mend, Remedy::Free) {
                removed.push(stray.clone());
            }
            found.add(Finding { what: Garbage::Stray(stray), remedy }, done.map(drop));
        }
        self.restore_owners(&removed)
    }

    /// `false` where it has a record by now.
    fn remove_if_stray(&self, stray: &Stray) -> Result<bool> {
        let is_owned =
            self.records.attachments()?.iter().any(|record| self.driver.is_of(stray, record));
        if is_owned {
            return Ok(false);
        }
        self.driver.remove_stray(stray).map(|()| true)
    }

    /// Puts the packet filter back for attachments that began while something of their names was removed.
    fn restore_owners(&self, removed: &[Stray]) -> Result<()> {
        if removed.is_empty() {
            return Ok(());
        }
        let is_owner =
            |record: &Attachment| removed.iter().any(|stray| self.driver.is_of(stray, record));
        let mut backoff = AtOnce;
        let mut healing = Healing::new(&mut backoff, false);
        for record in self.records.attachments()?.into_iter().filter(is_owner) {
            // What is still being made may have been made already.
            if record.layer == Layer::Link {
                let finished = self.links.let_finish(&record.id).map(drop);
                healing.noted(&record.id, finished);
            }
            self.restore_if_idle(&mut healing, &record.id, record.layer);
        }
        all_of(healing.failures)
    }
}
