//! All plugins of this host.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::{DriverName, Error, Kind, Result};

use super::activate::{Activated, Manuscript};
use super::breaker::Breaker;
use super::calls::{Calls, Failed, Fate, Life};
use super::client::{After, Idle};
use super::discover::{Installed, PluginDirectories};
use super::exchange::{Request, Until};
use super::notes::{Matter, Notes};
use super::verdict;
use libnetwork::{Answer, Call, LONGEST_BODY, Method, Profile};

/// The plugins that are installed on this host, found, activated and called when they are needed.
/// What is known about them lasts as long as this does, and longer where it is noted.
#[derive(Debug)]
pub struct Plugins {
    places: PluginDirectories,
    timeout: Duration,
    pub(super) notes: Notes,
    pub(super) after: After,
    known: Mutex<BTreeMap<DriverName, Arc<Plugin>>>,
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
    activated: Mutex<Option<Activated>>,
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

    pub(super) fn activated(
        &self,
        name: &DriverName,
        until: &Until,
    ) -> Result<Arc<Profile>, Failed> {
        let plugin = self.plugin(name);
        let mut activated = lock(&plugin.activated);
        let found = self.find(name).ok();
        if let (Some(activated), Some(installed)) = (&*activated, &found)
            && activated.life == installed.life()
        {
            return Ok(Arc::clone(&activated.profile));
        }
        let noted = match (&*activated, &found) {
            (None, Some(installed)) => self.noted(name, installed),
            // This process's note has expired, and so have those of others.
            _ => None,
        };
        let fresh = match noted {
            Some(noted) => noted,
            None => self.ask(name, found.as_ref(), until)?,
        };
        let profile = Arc::clone(&fresh.profile);
        *activated = Some(fresh);
        Ok(profile)
    }

    fn noted(&self, name: &DriverName, installed: &Installed) -> Option<Activated> {
        let manuscript: Manuscript = self.notes.read(name, Matter::Manifest)?;
        manuscript.read(name, installed)
    }

    fn ask(
        &self,
        name: &DriverName,
        found: Option<&Installed>,
        until: &Until,
    ) -> Result<Activated, Failed> {
        let mut manuscript = found.map(Manuscript::new);
        let fresh = Activated::ask(name, |request| {
            let replied = self.exchange(name, request, until)?;
            // Another one may have answered by now.
            manuscript =
                manuscript.take().filter(|_| found.is_some_and(|it| it.life() == replied.life));
            if let Some(manuscript) = &mut manuscript {
                manuscript.take(request, &replied.reply);
            }
            Ok(replied)
        })?;
        if let Some(manuscript) = manuscript {
            self.notes.write(name, Matter::Manifest, &manuscript);
        }
        Ok(fresh)
    }
}

impl Calls for Plugins {
    fn pause(&self) {
        for plugin in lock(&self.known).values() {
            *lock(&plugin.idle) = None;
        }
    }

    fn call(&self, driver: &DriverName, call: &Call) -> Result<Answer, Failed> {
        let unsent = |error| Failed::new(error, Fate::Unsent);
        let method = call.method();
        let until = Until::timeout(self.timeout);
        let profile = self.activated(driver, &until).map_err(|mut failed| {
            // Whatever became of the question, the call itself was not made.
            failed.fate = Fate::Unsent;
            failed
        })?;
        let (has, what) = match method.name().starts_with("IpamDriver.") {
            true => (profile.ipam.is_some(), "IPAM"),
            false => (profile.network.is_some(), "network"),
        };
        if !has {
            let what = format!("plugin {driver} is no {what} driver: it does not say so");
            return Err(unsent(Error::unsupported(what)));
        }
        let body = call.encode();
        if body.len() > LONGEST_BODY {
            let what = format!("plugin {driver}: {} is longer than 1 MiB", method.name());
            return Err(unsent(Error::invalid(what)));
        }
        let is_repeatable = may_be_repeated(method);
        let request = Request { method, body: &body, is_repeatable };
        let replied = self.exchange(driver, &request, &until)?;
        match verdict::answer(driver, call, &replied.reply) {
            // Because this process itself did that, and did not get the answer.
            Err(failed) if replied.was_taken && takes_away(method) && is_missing(&failed) => {
                Ok(Answer::Done {})
            }
            answer => answer,
        }
    }

    fn profile(&self, driver: &DriverName) -> Result<Arc<Profile>, Failed> {
        self.activated(driver, &Until::timeout(self.timeout))
    }

    fn life(&self, driver: &DriverName) -> Result<Life, Failed> {
        let found = self.find(driver).map_err(|error| Failed::new(error, Fate::Unsent))?;
        Ok(found.life())
    }

    fn warnings(&self, driver: &DriverName) -> Vec<String> {
        self.find(driver).map(|installed| installed.warnings).unwrap_or_default()
    }

    fn installed(&self) -> Vec<DriverName> {
        self.places.names().into_iter().collect()
    }
}

fn is_missing(failed: &Failed) -> bool {
    failed.fate == Fate::Refused && failed.kind() == Kind::NotFound
}

/// Whether the call removes its object.
fn takes_away(method: Method) -> bool {
    matches!(
        method,
        Method::DeleteNetwork
            | Method::FreeNetwork
            | Method::DeleteEndpoint
            | Method::Leave
            | Method::RevokeConnectivity
            | Method::ReleaseAddress
    )
}

/// By the contract, these calls can be repeated without effect. A pool is counted at each request
/// and release. A repeated request for an address or an endpoint may be refused as taken, by the
/// first one. And an address that was released may have another holder already: the undo log knows
/// the holder before the address is released again.
fn may_be_repeated(method: Method) -> bool {
    match method {
        Method::Activate
        | Method::NetworkCapabilities
        | Method::GwAllocCheck
        | Method::DeleteNetwork
        | Method::FreeNetwork
        | Method::EndpointOperInfo
        | Method::DeleteEndpoint
        | Method::Leave
        | Method::ProgramConnectivity
        | Method::RevokeConnectivity
        | Method::DiscoverNew
        | Method::DiscoverDelete
        | Method::IpamCapabilities
        | Method::AddressSpaces => true,
        Method::CreateNetwork
        | Method::AllocateNetwork
        | Method::CreateEndpoint
        | Method::Join
        | Method::RequestPool
        | Method::ReleasePool
        | Method::RequestAddress
        | Method::ReleaseAddress => false,
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
