//! The wiring: the ports of the engine and their implementations.

use std::sync::Arc;

use config::Config;
use engine::port::Driver;
use engine::{AtOnce, Engine};
use kurma::call::Verb;
use linux::{Life, OwnTable};
use model::{Network, Result};
use store::{Embedded, Roots};

use crate::dataplane::{Dataplane, Opened, Plugins};
use crate::follow::Follow;
use crate::host::ThisHost;
use crate::rivals::Pass;
use crate::shared::Shared;
use crate::sources::Sources;

/// The implementations of the engine's ports.
pub struct HostContext {
    store: Embedded,
    driver: Dataplane,
    sources: Sources,
    host: ThisHost,
}

impl HostContext {
    /// Opens what the configuration names, for a process that answers and exits.
    pub fn open(config: &Config) -> Result<Self> {
        // A pod of network plugins may end with the first process that it did not start itself.
        let args: Vec<_> = std::env::args_os().collect();
        let life = match Verb::of_process(&args) {
            Some(_) => Life::Childless,
            None => Life::Short,
        };
        Self::asking(config, &Opened::new(life))
    }

    /// The same for one thread, with what this process has opened already.
    pub fn asking(config: &Config, opened: &Opened) -> Result<Self> {
        Self::shared(&Arc::new(config.clone()), Shared::with(opened.clone()))
    }

    /// The same for one thread among several.
    pub fn shared(config: &Arc<Config>, shared: Shared) -> Result<Self> {
        Ok(Self {
            store: open_store(config)?,
            driver: Dataplane::new(config, shared.opened.clone()),
            sources: Sources::new(
                Plugins::new(Arc::clone(config), shared.opened.clone()),
                &config.store.runtime,
            ),
            host: ThisHost::new(config, shared)?,
        })
    }

    /// Restores what others took from the packet filter: its rules, and each attachment's elements.
    /// Whether anything was missing.
    pub fn restore(&self) -> Result<bool> {
        let followed = self.driver.follow().ensure_any();
        let mended = self.driver.linux().mend();
        let restored = self.engine().repair.restore(&mut AtOnce)?;
        followed?;
        self.counted()?;
        Ok(mended? || restored)
    }

    /// The same of what it is time for.
    pub fn restore_due(&self, rivals: &mut Pass<'_>) -> Result<bool> {
        // Without it each port stays shut by itself; the rest is put back all the same.
        let followed = self.driver.follow().ensure_any();
        let linux = self.driver.linux();
        // One that cannot be mended keeps no other from it.
        let mended = OwnTable::ALL.map(|table| {
            if !rivals.is_table_due(table) {
                return Ok(false);
            }
            let was_changed = linux.mend_table(table)?;
            rivals.looked_at_table(table, was_changed);
            Ok(was_changed)
        });
        let restored = self.engine().repair.restore(rivals)?;
        followed?;
        self.counted()?;
        mended.into_iter().try_fold(restored, |any, mended: Result<bool>| Ok(mended? || any))
    }

    /// Reports ports that are not counted, once everything else is done: they work all the same.
    fn counted(&self) -> Result<()> {
        self.driver.linux().take_uncounted().map_or(Ok(()), Err)
    }

    /// The firewall that published ports obey.
    pub fn follow(&self) -> &Follow {
        self.driver.follow()
    }

    /// Makes what the attachments of a network share.
    pub fn raise(&self, network: &Network) -> Result<()> {
        self.driver.up(network)
    }

    /// Learns anew which subnets this host is connected to.
    pub fn refresh_lan(&self) -> Result<()> {
        self.driver.linux().refresh_lan()
    }

    /// The engine over all of it.
    pub fn engine(&self) -> Engine<'_> {
        Engine::new(&self.store, &self.driver, &self.sources, &self.host)
    }
}

/// The store of this host.
pub fn open_store(config: &Config) -> Result<Embedded> {
    let roots = Roots { runtime: config.store.runtime.clone(), state: config.store.state.clone() };
    Embedded::open(roots, &store::boot_id()?)
}
