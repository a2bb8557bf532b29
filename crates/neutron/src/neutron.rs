//! The cloud of this host.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::Result;

use crate::allocated::Allocated;
use crate::answer_cache::AnswerCache;
use crate::api::{Api, Transport};
use crate::config::Settings;
use crate::deadline::Deadlines;
use crate::http::Http;
use crate::pool_memory::PoolMemory;
use crate::port_statuses::PortStatuses;
use crate::watch::{Call, Watched, Watcher};

/// Neutron, as this process knows it. One for all threads.
pub struct Neutron {
    pub(crate) settings: Settings,
    pub(crate) transport: Box<dyn Transport>,
    /// Where this host's processes share what goes with the boot.
    pub(crate) directory: PathBuf,
    pub(crate) deadlines: Arc<Deadlines>,
    pub(crate) allocated: Allocated,
    pub(crate) memory: PoolMemory,
    pub(crate) known: AnswerCache,
    pub(crate) statuses: PortStatuses,
    pub(crate) watcher: Arc<Watcher>,
    /// Whether a resource of Spoke's stayed without an owner.
    has_orphans: AtomicBool,
}

impl Neutron {
    /// In the cloud that the settings name. Nothing is read or sent before the first request, so that
    /// a daemon starts while the cloud is down. Processes of this host share tokens below
    /// `directory`.
    ///
    /// # Errors
    /// Settings that can never work: `Invalid`.
    pub fn connect(settings: Settings, directory: PathBuf) -> Result<Self> {
        let http = Http::new(&settings.access, &directory)?;
        Ok(Self::over(Box::new(http), settings, directory))
    }

    /// Over this transport; processes of this host share what they must know below `directory`.
    pub fn over(transport: Box<dyn Transport>, settings: Settings, directory: PathBuf) -> Self {
        let watcher = Arc::new(Watcher::default());
        let deadlines = Arc::new(Deadlines::default());
        let watched = Watched::new(transport, Arc::clone(&watcher), Arc::clone(&deadlines));
        Self {
            settings,
            transport: Box::new(watched),
            directory,
            deadlines,
            allocated: Allocated::default(),
            memory: PoolMemory::default(),
            known: AnswerCache::default(),
            statuses: PortStatuses::default(),
            watcher,
            has_orphans: AtomicBool::new(false),
        }
    }

    /// The calls.
    pub fn api(&self) -> Api<'_> {
        Api::new(self.transport.as_ref())
    }

    /// Notes that a resource of Spoke's stays without an owner: the reconciler searches for it.
    pub(crate) fn leave_behind(&self) {
        self.has_orphans.store(true, Ordering::Relaxed);
        self.given_up().ring();
    }

    /// Whether a resource was left behind since the last search.
    pub fn is_left_behind(&self) -> bool {
        self.has_orphans.load(Ordering::Relaxed)
    }

    /// Whether a resource was left behind since the last call.
    pub fn has_left_behind(&self) -> bool {
        self.has_orphans.swap(false, Ordering::Relaxed)
    }

    /// Reports every request to `hear` from now on. Only the first call has an effect.
    pub fn watched_by(&self, hear: impl Fn(&Call<'_>) + Send + Sync + 'static) {
        self.watcher.begin(hear);
    }

    /// Does work that takes something away. All its requests together have some seconds; what takes
    /// longer fails, as where Neutron does not answer, and goes later.
    ///
    /// # Errors
    /// Those of the work.
    pub fn promptly<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let _deadline = self.deadlines.begin();
        work()
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}
