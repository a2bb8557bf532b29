//! All plugins of this host.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::{DriverName, Result};

use super::activate::Activated;
use super::breaker::Breaker;
use super::calls::Life;
use super::client::{After, Idle};
use super::discover::{Installed, PluginDirectories};
use super::notes::Notes;

/// The plugins that are installed on this host, found, activated and called when they are needed.
/// What is known about them lasts as long as this does, and longer where it is noted.
#[derive(Debug)]
pub struct Plugins {
    pub(super) places: PluginDirectories,
    pub(super) timeout: Duration,
    pub(super) notes: Notes,
    pub(super) after: After,
    pub(super) known: Mutex<BTreeMap<DriverName, Arc<Plugin>>>,
}

/// What is known about a plugin.
#[derive(Debug, Default)]
pub(super) struct Plugin {
    /// How it was found.
    pub(super) found: Mutex<Option<Installed>>,
    pub(super) breaker: Mutex<Breaker>,
    /// A connection to the plugin of this life.
    pub(super) idle: Mutex<Option<(Life, Idle)>>,
    /// Its profile. Locked during the request: others wait for the answer.
    pub(super) activated: Mutex<Option<Activated>>,
}

impl Plugins {
    /// The plugins in these places. Each whole call has `timeout`, from connecting to the answer's
    /// last byte, repetitions included. Does no I/O.
    pub fn new(places: PluginDirectories, timeout: Duration) -> Self {
        let (notes, known) = (Notes::default(), Mutex::default());
        Self { places, timeout, notes, after: After::Close, known }
    }

    /// The same, with one connection for all calls to a plugin that allows it: for a short process.
    /// Some plugins serve only one connection.
    #[must_use]
    pub fn keeping_connections(self) -> Self {
        Self { after: After::Keep, ..self }
    }

    /// The same, with notes for other processes in `folder`, which is Spoke's and which a reboot
    /// may empty: the plugins' profiles, and which do not answer. The folder is made in its parent
    /// when it is needed.
    #[must_use]
    pub fn noting(self, folder: PathBuf) -> Self {
        Self { notes: Notes::at(folder), ..self }
    }

    /// The address of a plugin. Reads files only.
    pub fn find(&self, name: &DriverName) -> Result<Installed> {
        let plugin = self.plugin(name);
        let mut found = lock(&plugin.found);
        let installed = self.places.find(name, found.as_ref())?;
        *found = Some(installed.clone());
        Ok(installed)
    }

    pub(super) fn plugin(&self, name: &DriverName) -> Arc<Plugin> {
        Arc::clone(lock(&self.known).entry(name.clone()).or_default())
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
