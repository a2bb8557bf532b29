//! Putting back what others took away, or what a reboot did.

use std::collections::BTreeSet;

use model::{NetworkName, Phase, Result};

use crate::Engine;
use crate::gc::all_of;
use crate::port::Prefix;

impl Engine<'_> {
    /// Makes what the attachments of a network share, for every network that a runtime knows by an
    /// id: after a reboot it takes it for made. The others are made when their first container
    /// comes; until then no route leads to them, so that Docker accepts their subnets. Goes on
    /// after an error and reports them all.
    pub fn raise_networks(&self) -> Result<()> {
        let known: BTreeSet<NetworkName> =
            self.aliases()?.into_iter().map(|alias| alias.network).collect();
        let mut declared = self.networks_in(&Prefix::Networks)?;
        declared
            .retain(|network| network.value.stage.is_made() && known.contains(&network.value.name));
        let raised = declared.iter().map(|network| {
            let doing = format!("making network {}", network.value.name);
            self.driver.up(&network.value).map_err(|error| error.context(doing))
        });
        all_of(raised.filter_map(Result::err).collect())
    }

    /// Puts the packet filter of every living attachment back, and tells whether anything of it was
    /// missing. Goes on after an error and reports them all.
    pub fn restore(&self) -> Result<bool> {
        let mut failures = Vec::new();
        let mut missed = false;
        for listed in self.records(&Prefix::Attachments)? {
            let (id, layer) = (&listed.value.id, listed.value.layer);
            let _turn = self.host.turn(id);
            let Some(read) = self.record_of(id, layer)? else { continue };
            if matches!(read.value.phase, Phase::Attached(_)) {
                match self.serving(&read.value).and_then(|it| self.driver.restore(&it)) {
                    Ok(lost) => missed |= lost,
                    Err(error) => failures.push(error.context(format!("healing {id}"))),
                }
            }
        }
        all_of(failures).map(|()| missed)
    }
}
