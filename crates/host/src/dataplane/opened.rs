//! Clients that all threads of a process share, opened on first use.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use config::Config;
use linux::Life;
use model::Result;
use neutron::Neutron;

use super::remote::Foreign;
use super::{cloud, remote, switch};

/// Neutron, the third-party Docker plugins, and what switches listed.
#[derive(Clone)]
pub struct Opened {
    /// The lifetime of the process.
    pub(crate) life: Life,
    neutron: Arc<OnceLock<Arc<Neutron>>>,
    foreign: Arc<OnceLock<Arc<Foreign>>>,
    switches: Arc<switch::SwitchCache>,
    guard: Arc<Mutex<()>>,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").field("neutron", &self.neutron.get().is_some()).finish()
    }
}

impl Opened {
    /// Nothing yet, in a process of this life.
    pub fn new(life: Life) -> Self {
        Self {
            life,
            neutron: Arc::default(),
            foreign: Arc::default(),
            switches: Arc::default(),
            guard: Arc::default(),
        }
    }

    /// The shared client of Neutron.
    pub fn neutron(&self, config: &Config) -> Result<Arc<Neutron>> {
        self.once(&self.neutron, || cloud::open(config))
    }

    /// The shared client of plugins: all threads know what one found out about a dead plugin.
    pub fn foreign(&self, config: &Config) -> Result<Arc<Foreign>> {
        self.once(&self.foreign, || remote::open(config, self.life))
    }

    /// What the databases of switches listed lately.
    pub(super) fn switches(&self) -> Arc<switch::SwitchCache> {
        Arc::clone(&self.switches)
    }

    fn once<T>(
        &self,
        place: &OnceLock<Arc<T>>,
        open: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        if let Some(there) = place.get() {
            return Ok(Arc::clone(there));
        }
        let _one_at_a_time = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = place.get() {
            return Ok(Arc::clone(there));
        }
        let opened = Arc::new(open()?);
        Ok(Arc::clone(place.get_or_init(|| opened)))
    }
}
