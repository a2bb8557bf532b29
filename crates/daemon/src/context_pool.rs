//! The engine for many threads: each borrows a host context, and a lock for each attachment keeps them apart.

use std::sync::{Arc, Mutex};

use config::Config;
use host::dataplane::{Foreign, Opened};
use host::host_context::HostContext;
use host::neighbours::Neighbours;
use host::shared::{Shared, locked};
use linux::Life;
use model::Result;
use neutron::Neutron;

/// No more than this many are kept for later.
const IDLE: usize = 12;

/// Host contexts for the threads of the daemon. Nothing is remembered in them that could be wrong: they
/// only hold open sockets and directories.
pub(crate) struct ContextPool {
    config: Arc<Config>,
    idle: Mutex<Vec<HostContext>>,
    shared: Shared,
}

impl ContextPool {
    /// None is opened yet.
    pub(crate) fn new(config: Config) -> Self {
        let shared = Shared::with(Opened::new(Life::Long));
        Self { config: Arc::new(config), idle: Mutex::default(), shared }
    }

    /// How this host is configured.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The networks of others that this host's Docker Engines list.
    pub(crate) fn neighbours(&self) -> &Neighbours {
        &self.shared.neighbours
    }

    /// Neutron, opened now if this is the first use.
    pub(crate) fn neutron(&self) -> Result<Arc<Neutron>> {
        self.shared.opened.neutron(&self.config)
    }

    /// The third-party Docker plugins.
    pub(crate) fn foreign(&self) -> Result<Arc<Foreign>> {
        self.shared.opened.foreign(&self.config)
    }

    /// Works in a context that no other thread uses meanwhile.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&HostContext) -> Result<T>) -> Result<T> {
        let idle = locked(&self.idle).pop();
        let host_context = match idle {
            Some(host_context) => host_context,
            None => HostContext::shared(&self.config, self.shared.clone())?,
        };
        let result = work(&host_context);
        let mut idle = locked(&self.idle);
        if idle.len() < IDLE {
            idle.push(host_context);
        }
        result
    }
}
