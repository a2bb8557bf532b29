//! Putting back what others took away, or what a reboot did.

use model::{Phase, Result};

use crate::Engine;
use crate::gc::all_of;
use crate::port::Prefix;

impl Engine<'_> {
    /// Makes what the attachments of every declared network share: after a reboot, before the first
    /// container comes. Goes on after an error and reports them all.
    pub fn raise_networks(&self) -> Result<()> {
        let declared = self.networks_in(&Prefix::Networks)?;
        let raised = declared.iter().map(|network| {
            let doing = format!("making network {}", network.value.name);
            self.driver.up(&network.value).map_err(|error| error.context(doing))
        });
        all_of(raised.filter_map(Result::err).collect())
    }

    /// Puts the packet filter of every living attachment back. Goes on after an error and reports
    /// them all.
    pub fn restore(&self) -> Result<()> {
        let mut failures = Vec::new();
        for listed in self.records(&Prefix::Attachments)? {
            let (id, layer) = (&listed.value.id, listed.value.layer);
            let _turn = self.host.turn(id);
            let Some(read) = self.record_of(id, layer)? else { continue };
            if matches!(read.value.phase, Phase::Attached(_)) {
                let restored = self.driver.restore(&read.value);
                failures.extend(restored.err().map(|error| error.context(format!("healing {id}"))));
            }
        }
        all_of(failures)
    }
}
