//! Where everything is wired: the ports of the engine and what stands behind each.

use engine::Engine;
use linux::{Life, Linux};
use model::Result;
use store::{Embedded, Roots};

use crate::config::Config;
use crate::host::ThisHost;

/// What stands behind the engine's ports.
pub(crate) struct World {
    store: Embedded,
    driver: Linux,
    sources: cni::Delegates,
    host: ThisHost,
}

impl World {
    /// Opens what the configuration names, for a process of this life.
    pub(crate) fn open(config: &Config, life: Life) -> Result<Self> {
        let roots =
            Roots { runtime: config.store.runtime.clone(), state: config.store.state.clone() };
        Ok(Self {
            store: Embedded::open(roots, &store::boot_id()?)?,
            driver: Linux::new(life),
            sources: cni::Delegates::new(),
            host: ThisHost::new()?,
        })
    }

    /// The engine over all of it.
    pub(crate) fn engine(&self) -> Engine<'_> {
        Engine::new(&self.store, &self.driver, &self.sources, &self.host)
    }
}
