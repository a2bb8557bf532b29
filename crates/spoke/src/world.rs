//! Where everything is wired: the ports of the engine and what stands behind each.

use std::path::PathBuf;

use engine::Engine;
use linux::{Life, Linux};
use model::Result;
use store::{Embedded, Roots};

use crate::config::{self, Config};
use crate::host::ThisHost;

/// What stands behind the engine's ports.
pub struct World {
    /// The configuration of this host.
    pub config: Config,
    store: Embedded,
    driver: Linux,
    sources: cni::Delegates,
    host: ThisHost,
}

impl World {
    /// Reads the configuration and opens what it names, for a process of this life.
    pub fn open(life: Life) -> Result<Self> {
        let path = std::env::var_os("SPOKE_CONFIG").map_or_else(|| config::PATH.into(), PathBuf::from);
        let config = Config::read(&path)?;
        let roots = Roots {
            runtime: config.store.runtime.clone(),
            state: config.store.state.clone(),
        };
        Ok(Self {
            store: Embedded::open(roots, &store::boot_id()?)?,
            driver: Linux::new(life),
            sources: cni::Delegates::new(),
            host: ThisHost::new()?,
            config,
        })
    }

    /// The facts of this host.
    pub fn host(&self) -> &ThisHost {
        &self.host
    }

    /// The directories that the book is kept in.
    pub fn directories(&self) -> Vec<PathBuf> {
        vec![self.config.store.runtime.clone(), self.config.store.state.clone()]
    }

    /// The engine over all of it.
    pub fn engine(&self) -> Engine<'_> {
        Engine::new(&self.store, &self.driver, &self.sources, &self.host)
    }
}
