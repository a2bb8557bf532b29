//! All plugins of this host.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use model::{DriverName, Error, Kind, Result};

use super::activate::Activated;
use super::breaker::{Breaker, Closed, Pass};
use super::calls::{Calls, Failed, Fate, Life};
use super::client::{Lost, Reply, post};
use super::discover::{Installed, Places};
use super::verdict;
use crate::wire::{Answer, Call, LONGEST_BODY, Method, Profile};

/// A plugin that restarts is waited for as long, once.
const RESTART: Duration = Duration::from_secs(2);
/// The first pause between two tries.
const SHORTEST: Duration = Duration::from_millis(5);
/// The longest one.
const LONGEST: Duration = Duration::from_millis(250);

/// The plugins that are installed on this host, found, activated and called when they are needed.
/// What is known about them lasts as long as this does.
#[derive(Debug)]
pub struct Plugins {
    places: Places,
    patience: Duration,
    known: Mutex<BTreeMap<DriverName, Arc<Plugin>>>,
}

/// What is known about a plugin.
#[derive(Debug, Default)]
struct Plugin {
    /// How it was found.
    found: Mutex<Option<Installed>>,
    breaker: Mutex<Breaker>,
    /// What it said. Locked while it is asked: others wait for the answer.
    activated: Mutex<Option<Activated>>,
}

/// A request that can be sent as often as it takes.
pub(super) struct Request<'a> {
    pub(super) method: Method,
    pub(super) body: &'a [u8],
    /// It does no harm if it is carried out twice.
    pub(super) is_repeatable: bool,
}

/// A request on its way, and how it may be tried once that was asked.
struct Attempt<'a> {
    name: &'a DriverName,
    plugin: &'a Plugin,
    request: &'a Request<'a>,
    deadline: Instant,
    pass: Option<Pass>,
}

impl Plugins {
    /// Those in these places. Each call has `patience` for all of it, from connecting to the
    /// answer's last byte, repetitions included. Does no I/O.
    pub fn new(places: Places, patience: Duration) -> Self {
        Self { places, patience, known: Mutex::default() }
    }

    /// How a plugin is reached. Only looks, and calls nobody.
    pub fn find(&self, name: &DriverName) -> Result<Installed> {
        let plugin = self.plugin(name);
        let mut found = lock(&plugin.found);
        let installed = self.places.find(name, found.as_ref())?;
        *found = Some(installed.clone());
        Ok(installed)
    }

    fn plugin(&self, name: &DriverName) -> Arc<Plugin> {
        Arc::clone(lock(&self.known).entry(name.clone()).or_default())
    }

    fn activated(&self, name: &DriverName) -> Result<Arc<Profile>, Failed> {
        let plugin = self.plugin(name);
        let mut activated = lock(&plugin.activated);
        if let (Some(activated), Ok(installed)) = (&*activated, self.find(name))
            && activated.life == installed.life()
        {
            return Ok(Arc::clone(&activated.profile));
        }
        let fresh = Activated::ask(name, |request| self.exchange(name, request))?;
        let profile = Arc::clone(&fresh.profile);
        *activated = Some(fresh);
        Ok(profile)
    }

    /// Sends a request until there is a reply, or until that is no use any more. Tells also whose
    /// reply it is.
    fn exchange(&self, name: &DriverName, request: &Request<'_>) -> Result<(Reply, Life), Failed> {
        let plugin = self.plugin(name);
        let begin = Instant::now();
        let was_known = lock(&plugin.found).is_some();
        let deadline = begin + self.patience;
        let mut attempt = Attempt { name, plugin: &plugin, request, deadline, pass: None };
        let mut pause = SHORTEST;
        loop {
            let tried = self.try_once(&mut attempt);
            let failed = match tried {
                Ok(answered) => return Ok(answered),
                Err(failed) => failed,
            };
            let may_return = match failed.fate {
                // A plugin that restarts makes its socket anew.
                Fate::Unsent => match failed.kind() {
                    Kind::TryAgain => true,
                    Kind::NotFound => was_known,
                    _ => false,
                },
                Fate::Unknown => request.is_repeatable,
                Fate::Refused | Fate::Done => false,
            };
            let is_over = begin.elapsed() + pause > RESTART.min(self.patience);
            if !may_return || is_over || attempt.pass != Some(Pass::Patient) {
                if failed.kind() == Kind::NotFound {
                    lock(&plugin.breaker).failed(None, Instant::now(), failed.to_string());
                }
                return Err(failed);
            }
            thread::sleep(jittered(pause));
            pause = (pause * 2).min(LONGEST);
        }
    }

    fn try_once(&self, attempt: &mut Attempt<'_>) -> Result<(Reply, Life), Failed> {
        let Attempt { name, plugin, request, deadline, pass } = attempt;
        let found = self.find(name);
        let life = found.as_ref().ok().map(Installed::life);
        if pass.is_none() {
            let admitted =
                lock(&plugin.breaker).admit(life.as_ref(), Instant::now(), self.patience);
            *pass = Some(admitted.map_err(|closed| shut(name, &found, &closed))?);
        }
        let installed = found.map_err(|error| Failed::new(error, Fate::Unsent))?;
        let method = request.method.name();
        match post(&installed.address, method, request.body, *deadline) {
            Ok(reply) => {
                lock(&plugin.breaker).answered();
                Ok((reply, installed.life()))
            }
            Err(lost) => {
                if !lost.was_sent || lost.error.kind() == io::ErrorKind::TimedOut {
                    let why = lost.error.to_string();
                    lock(&plugin.breaker).failed(life, Instant::now(), why);
                }
                Err(gone(name, request.method, &installed, lost))
            }
        }
    }
}

/// A call that is not tried.
fn shut(name: &DriverName, found: &Result<Installed>, closed: &Closed) -> Failed {
    let Closed { why, left } = closed;
    let what = match found {
        Ok(installed) => format!(
            "plugin {name} does not answer at {}: {why}; it is tried again in {:.1} s, or when its \
             socket or description changes",
            installed.address,
            left.as_secs_f32()
        ),
        Err(error) => {
            return Failed::new(Error::new(error.kind(), error.to_string()), Fate::Unsent);
        }
    };
    Failed::new(Error::try_again(what), Fate::Unsent)
}

/// A call without an answer.
fn gone(name: &DriverName, method: Method, installed: &Installed, lost: Lost) -> Failed {
    let Lost { error, was_sent } = lost;
    let (at, method) = (&installed.address, method.name());
    if was_sent {
        let what = format!(
            "plugin {name} at {at} took {method} and gave no answer: it may have done it or not"
        );
        return Failed::new(Error::try_again(what).because(error), Fate::Unknown);
    }
    let is_distrust = error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>());
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied => Kind::Denied,
        _ if is_distrust => Kind::Invalid,
        _ => Kind::TryAgain,
    };
    let what = format!("plugin {name} does not answer at {at}");
    Failed::new(Error::new(kind, what).because(error), Fate::Unsent)
}

impl Calls for Plugins {
    fn call(&self, driver: &DriverName, call: &Call) -> Result<Answer, Failed> {
        let unsent = |error| Failed::new(error, Fate::Unsent);
        let method = call.method();
        let profile = self.activated(driver).map_err(|mut failed| {
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
        let (reply, _) = self.exchange(driver, &request)?;
        verdict::answer(driver, call, &reply)
    }

    fn profile(&self, driver: &DriverName) -> Result<Arc<Profile>, Failed> {
        self.activated(driver)
    }

    fn life(&self, driver: &DriverName) -> Result<Life, Failed> {
        let found = self.find(driver).map_err(|error| Failed::new(error, Fate::Unsent))?;
        Ok(found.life())
    }

    fn installed(&self) -> Vec<DriverName> {
        self.places.names().into_iter().collect()
    }
}

/// By the contract, carrying these out again changes nothing. A pool is counted as often as it is
/// requested or released; and whoever gets an address or an endpoint again may be told that it is
/// taken, by himself.
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
        | Method::AddressSpaces
        | Method::ReleaseAddress => true,
        Method::CreateNetwork
        | Method::AllocateNetwork
        | Method::CreateEndpoint
        | Method::Join
        | Method::RequestPool
        | Method::ReleasePool
        | Method::RequestAddress => false,
    }
}

/// Between half of it and all of it, so that many do not come at once.
fn jittered(pause: Duration) -> Duration {
    let part = RandomState::new().hash_one(0_u8) % 128;
    pause / 256 * (128 + u32::try_from(part).unwrap_or_default())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
