//! Leases and port claims whose attachment has no record.

use model::{AttachmentId, Layer, Result};

use crate::Records;
use crate::finding::{Finding, Garbage, Mode, Remedy};
use crate::port::{Prefix, Record, Txn};
use crate::records::book::{passable, unchanged};

impl Records<'_> {
    /// Host ports whose holder has no record at all.
    pub(crate) fn orphaned_claims(&self, mode: Mode, findings: &mut Vec<Finding>) -> Result<()> {
        for (key, _) in self.store.list(&Prefix::Ports)? {
            let Some(read) = self.claims_of(&key)? else { continue };
            let mut held = Vec::new();
            for claim in &read.value {
                match self.has_record(&claim.holder)? {
                    true => held.push(claim.clone()),
                    false => findings
                        .push(Finding { what: Garbage::Port(claim.clone()), remedy: Remedy::Free }),
                }
            }
            if mode == Mode::Mend && held.len() < read.value.len() {
                let txn = Txn::new().require(key.clone(), unchanged(Some(&read)));
                let record = (!held.is_empty()).then_some(Record::Port(held));
                self.store.commit(&Txn { changes: vec![(key, record)], ..txn })?;
            }
        }
        Ok(())
    }

    pub(crate) fn has_record(&self, id: &AttachmentId) -> Result<bool> {
        for layer in Layer::ALL {
            if self.has_layer(id, layer)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A damaged record counts as one: what belongs to it is not allocated again.
    pub(crate) fn has_layer(&self, id: &AttachmentId, layer: Layer) -> Result<bool> {
        Ok(passable(self.record_of(id, layer))?.is_none_or(|read| read.is_some()))
    }
}
