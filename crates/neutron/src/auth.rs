//! Authentication: one token for all threads, and for all processes of this host.

mod cache;
mod keystone;
mod time;

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use model::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::config::{Access, Identity};
use crate::deadline;
use crate::exchange::Wire;
use cache::Cache;

/// The name of the token among the files that processes share.
const TOKEN: &str = "token";

/// A token is renewed so long before its end, or at four fifths of its life if that is later.
const AHEAD: Duration = Duration::from_secs(120);

/// A request that waits longer than this is answered, or will never be.
const LONGEST: Duration = Duration::from_secs(3600);

/// How long after a failure a token that is still good is not renewed ahead of its end.
const PAUSE: Duration = Duration::from_secs(10);

/// Where Neutron is, and what opens it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Session {
    endpoint: String,
    token: Option<String>,
    project: Option<String>,
    /// From when on it should be renewed, and from when on it must be.
    #[serde(default)]
    life: Option<Life>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Life {
    ahead: SystemTime,
    end: SystemTime,
}

impl Session {
    /// Neutron's URL, without version and slash at the end.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The id of the project that things are made in, where that is known.
    pub(crate) fn project(&self) -> Option<&str> {
        self.project.as_deref().filter(|project| !project.is_empty())
    }

    /// The headers of each request.
    pub(crate) fn headers(&self) -> Vec<(&'static str, &str)> {
        match (&self.token, &self.project) {
            (Some(token), _) => vec![("x-auth-token", token)],
            (None, Some(project)) => vec![("x-project-id", project)],
            (None, None) => Vec::new(),
        }
    }

    fn is_good(&self, now: SystemTime) -> bool {
        self.life.is_none_or(|life| now < life.end)
    }

    fn is_fresh(&self, now: SystemTime) -> bool {
        self.life.is_none_or(|life| now < life.ahead)
    }
}

/// The session of this process.
pub(crate) struct Auth {
    access: Access,
    cache: Cache,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    session: Option<Arc<Session>>,
    /// One thread asks Keystone; the others wait for the result.
    is_asking: bool,
    /// The number of requests.
    rounds: u64,
    /// The failure of the last attempt, if it failed.
    failed: Option<Failed>,
}

struct Failed {
    at: SystemTime,
    kind: Kind,
    what: String,
    status: Option<u16>,
}

impl Auth {
    /// Nothing is read or sent before it is needed.
    pub(crate) fn new(access: &Access, directory: &Path) -> Result<Self> {
        check(access)?;
        let cache = Cache::new(directory, digest(access));
        let (access, state) = (access.clone(), Mutex::default());
        Ok(Self { access, cache, state, changed: Condvar::new() })
    }

    /// Whether another token can be had.
    pub(crate) fn is_renewable(&self) -> bool {
        !matches!(self.access.identity, Identity::None { .. })
    }

    /// A session that should be taken.
    pub(crate) fn session(&self, wire: &Wire, until: Option<Instant>) -> Result<Arc<Session>> {
        let now = SystemTime::now();
        let known = {
            let state = self.lock();
            let known = state.session.clone().filter(|session| session.is_good(now));
            let is_busy =
                state.is_asking || state.failed.as_ref().is_some_and(|it| it.is_recent(now));
            match known {
                Some(session) if session.is_fresh(now) || is_busy => return Ok(session),
                known => known,
            }
        };
        match (self.renew_from((wire, until), state_of(known.as_ref())), known) {
            (Err(_), Some(good)) => Ok(good),
            (outcome, _) => outcome,
        }
    }

    /// A session instead of one that was not taken.
    pub(crate) fn renew(
        &self,
        wire: &Wire,
        stale: &Arc<Session>,
        until: Option<Instant>,
    ) -> Result<Arc<Session>> {
        self.renew_from((wire, until), Some(stale.as_ref()))
    }

    /// One thread asks. Others that come meanwhile wait for the outcome, good or bad.
    fn renew_from(
        &self,
        (wire, until): (&Wire, Option<Instant>),
        stale: Option<&Session>,
    ) -> Result<Arc<Session>> {
        let mut state = self.lock();
        loop {
            let is_stale =
                |session: &Session| stale.is_some_and(|stale| stale.token == session.token);
            if let Some(session) = state.session.as_ref().filter(|session| !is_stale(session))
                && session.is_good(SystemTime::now())
            {
                return Ok(Arc::clone(session));
            }
            if !state.is_asking {
                break;
            }
            let round = state.rounds;
            let limit = deadline::remaining(until, LONGEST);
            let is_same = |state: &mut State| state.rounds == round;
            let waiting = self.changed.wait_timeout_while(state, limit, is_same);
            state = waiting.unwrap_or_else(PoisonError::into_inner).0;
            if state.rounds == round && until.is_some() {
                return Err(deadline::late("signing on"));
            }
            if let Some(failed) = state.failed.as_ref() {
                return Err(failed.error());
            }
        }
        state.is_asking = true;
        drop(state);
        let outcome = self.ask((wire, until), stale);
        let mut state = self.lock();
        state.is_asking = false;
        state.rounds += 1;
        state.failed = outcome.as_ref().err().map(Failed::new);
        if let Ok(session) = &outcome {
            state.session = Some(Arc::clone(session));
        }
        drop(state);
        self.changed.notify_all();
        outcome
    }

    /// Another process's token, if it is a new one; else a token from Keystone.
    fn ask(
        &self,
        (wire, until): (&Wire, Option<Instant>),
        stale: Option<&Session>,
    ) -> Result<Arc<Session>> {
        if let Identity::None { project } = &self.access.identity {
            let endpoint = self.access.endpoint.as_deref().unwrap_or_default();
            let endpoint = keystone::neutron(endpoint)?;
            let project = project.clone();
            return Ok(Arc::new(Session { endpoint, token: None, project, life: None }));
        }
        let cached = self.cache.read::<Session>(TOKEN).filter(|session| {
            session.token.is_some()
                && session.is_fresh(SystemTime::now())
                && stale.is_none_or(|stale| stale.token != session.token)
        });
        if let Some(session) = cached {
            return Ok(Arc::new(session));
        }
        let now = SystemTime::now();
        let grant = keystone::grant((wire, until), &self.access)?;
        let lifetime = Duration::from_secs(grant.lifetime.min(10 * 365 * 86_400));
        let early = AHEAD.min(lifetime / 5);
        let life = Life { ahead: now + (lifetime - early), end: now + lifetime };
        let session = Session {
            endpoint: grant.endpoint,
            token: Some(grant.token),
            project: grant.project,
            life: Some(life),
        };
        self.cache.write(TOKEN, &session);
        Ok(Arc::new(session))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn state_of(session: Option<&Arc<Session>>) -> Option<&Session> {
    session.map(AsRef::as_ref)
}

impl Failed {
    fn new(error: &Error) -> Self {
        let (kind, what, status) = (error.kind(), error.to_string(), error.status());
        Self { at: SystemTime::now(), kind, what, status }
    }

    fn is_recent(&self, now: SystemTime) -> bool {
        now.duration_since(self.at).is_ok_and(|since| since < PAUSE)
    }

    fn error(&self) -> Error {
        let error = Error::new(self.kind, self.what.clone());
        match self.status {
            Some(status) => error.with_status(status),
            None => error,
        }
    }
}

/// Refuses settings that can never work, without a request.
fn check(access: &Access) -> Result<()> {
    if let Some(endpoint) = &access.endpoint {
        keystone::neutron(endpoint)?;
    }
    match &access.identity {
        Identity::None { .. } if access.endpoint.is_none() => Err(Error::invalid(
            "endpoint is missing: without Keystone it alone says where Neutron is",
        )),
        Identity::None { .. } => Ok(()),
        Identity::Password { url, .. }
        | Identity::Application { url, .. }
        | Identity::Token { url, .. } => keystone::v3(url).map(|_| ()),
    }
}

/// A digest of the cloud and the account. Each text is preceded by its length, so that no two
/// settings have the same digest.
fn digest(access: &Access) -> String {
    let mut digest = Sha256::new();
    for text in access.identity.texts().into_iter().chain([
        access.region.as_deref().unwrap_or_default(),
        access.endpoint.as_deref().unwrap_or_default(),
        match access.interface {
            crate::config::Interface::Public => "public",
            crate::config::Interface::Internal => "internal",
            crate::config::Interface::Admin => "admin",
        },
    ]) {
        digest.update(u64::try_from(text.len()).unwrap_or_default().to_be_bytes());
        digest.update(text.as_bytes());
    }
    digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
