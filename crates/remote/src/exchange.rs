//! A request and its reply, with all attempts.

mod driver_call;
mod profile;

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use model::{DriverName, Error, Kind, Result};

use super::breaker::{Closed, Pass};
use super::calls::{Failed, Fate, Life};
use super::client::{Lost, Reply, post};
use super::discover::Installed;
use super::notes::Matter;
use super::plugins::{Plugin, Plugins, lock};
use super::request::{CLOSED, Replied, Request, Until};
use libnetwork::{Method, Question};

/// The first pause between two tries.
const SHORTEST: Duration = Duration::from_millis(5);
/// The longest one.
const LONGEST: Duration = Duration::from_millis(250);

/// Why a plugin does not answer.
struct Against {
    /// The life of the plugin; `None` where there was no plugin.
    life: Option<Life>,
    why: String,
    /// That took time to find out.
    is_slow: bool,
}

/// A request on its way.
struct Attempt<'a> {
    name: &'a DriverName,
    plugin: &'a Plugin,
    request: &'a Request<'a>,
    until: &'a Until,
    /// How it may be tried, once that was asked.
    pass: Option<Pass>,
    /// The evidence against the plugin, or against its address.
    against: Option<Against>,
    /// What would be evidence after repetitions.
    closed: Option<Against>,
    was_taken: bool,
}

impl Plugins {
    /// Sends a request until there is a reply, or until that is no use any more.
    pub(super) fn exchange(
        &self,
        name: &DriverName,
        request: &Request<'_>,
        until: &Until,
    ) -> Result<Replied, Failed> {
        let plugin = &*self.plugin(name);
        let was_known = lock(&plugin.found).is_some();
        let mut attempt = Attempt::new(name, plugin, request, until);
        let (mut dead, mut closed) = (SHORTEST, CLOSED);
        loop {
            let failed = match self.try_once(&mut attempt) {
                Ok((reply, life)) => {
                    return Ok(Replied { reply, life, was_taken: attempt.was_taken });
                }
                Err(failed) => failed,
            };
            attempt.was_taken |= failed.fate == Fate::Unknown;
            let may_be = attempt.may_be_tried_again(&failed, was_known);
            let (pause, last) = match failed.fate {
                Fate::Unknown => (closed, until.closed),
                Fate::Unsent | Fate::Refused | Fate::Done => (dead, until.restart),
            };
            if !may_be || Instant::now() + pause > last {
                let is_closed = may_be && failed.fate == Fate::Unknown;
                let closed = attempt.closed.take().filter(|_| is_closed);
                attempt.against = attempt.against.take().or(closed);
                return Err(self.end(&mut attempt, failed));
            }
            match failed.fate {
                Fate::Unknown => {
                    thread::sleep(pause);
                    closed *= 2;
                }
                Fate::Unsent | Fate::Refused | Fate::Done => {
                    thread::sleep(jittered(pause));
                    dead = (dead * 2).min(LONGEST);
                }
            }
            self.greet(&attempt).map_err(|failed| self.end(&mut attempt, failed))?;
        }
    }

    /// A plugin that restarted is asked for its profile before any other call.
    fn greet(&self, attempt: &Attempt<'_>) -> Result<(), Failed> {
        if Question::of(attempt.request.method).is_some() {
            return Ok(());
        }
        self.activated(attempt.name, attempt.until).map(drop)
    }

    /// The last failure, as the whole call's. What speaks against the plugin is counted once.
    fn end(&self, attempt: &mut Attempt<'_>, failed: Failed) -> Failed {
        if let Some(Against { life, why, is_slow }) = attempt.against.take() {
            let mut breaker = lock(&attempt.plugin.breaker);
            if let Some(silence) = breaker.failed(life, Instant::now(), (why, is_slow)) {
                self.notes.write(attempt.name, Matter::Silence, &silence);
                // The next plugin there may be another one.
                self.notes.remove(attempt.name, Matter::Manifest);
            }
        }
        // Whatever hindered the last try, an earlier one may have come through.
        if attempt.was_taken {
            return Failed::new(Error::try_again(failed.error.to_string()), Fate::Unknown);
        }
        failed
    }

    fn try_once(&self, attempt: &mut Attempt<'_>) -> Result<(Reply, Life), Failed> {
        let Attempt { name, plugin, request, until, .. } = *attempt;
        let found = self.find(name);
        let life = found.as_ref().ok().map(Installed::life);
        if attempt.pass.is_none() {
            let (mut breaker, now) = (lock(&plugin.breaker), Instant::now());
            breaker.hear(now, || self.notes.read(name, Matter::Silence));
            let admitted = breaker.admit(life.as_ref(), now, until.timeout);
            attempt.pass = Some(admitted.map_err(|closed| shut(name, &found, &closed))?);
        }
        attempt.against = None;
        let installed = found.map_err(|error| {
            attempt.against = Some(Against { life: None, why: error.to_string(), is_slow: false });
            Failed::new(error, Fate::Unsent)
        })?;
        let idle = lock(&plugin.idle).take().filter(|(of, _)| Some(of) == life.as_ref());
        let over = (&installed.address, idle.map(|(_, idle)| idle), self.after);
        match post(over, request.method.name(), request.body, until.deadline) {
            Ok((reply, idle)) => {
                *lock(&plugin.idle) = life.clone().zip(idle);
                if lock(&plugin.breaker).answered() {
                    self.notes.remove(name, Matter::Silence);
                }
                Ok((reply, installed.life()))
            }
            Err(lost) => {
                let is_slow = lost.error.kind() == io::ErrorKind::TimedOut;
                let why = lost.error.to_string();
                match !lost.was_sent || is_slow {
                    true => attempt.against = Some(Against { life, why, is_slow }),
                    false => attempt.closed = Some(Against { life, why, is_slow: true }),
                }
                Err(gone(name, request.method, &installed, lost))
            }
        }
    }
}

impl<'a> Attempt<'a> {
    fn new(
        name: &'a DriverName,
        plugin: &'a Plugin,
        request: &'a Request<'a>,
        until: &'a Until,
    ) -> Self {
        let (pass, against, closed) = (None, None, None);
        Self { name, plugin, request, until, pass, against, closed, was_taken: false }
    }

    fn may_be_tried_again(&self, failed: &Failed, was_known: bool) -> bool {
        let may_be = match failed.fate {
            Fate::Unsent => match failed.kind() {
                Kind::TryAgain => true,
                // A plugin that restarts makes its socket again.
                Kind::NotFound => was_known,
                _ => false,
            },
            Fate::Unknown => true,
            Fate::Refused | Fate::Done => false,
        };
        let may_be = may_be && (!self.was_taken || self.request.is_repeatable);
        may_be && self.pass == Some(Pass::Full)
    }
}

/// A call that is not tried.
fn shut(name: &DriverName, found: &Result<Installed>, closed: &Closed) -> Failed {
    let Closed { why, remaining } = closed;
    let what = match found {
        Ok(installed) => format!(
            "plugin {name} does not answer at {}: {why}; it is tried again in {:.1} s, or when its \
             socket or description changes",
            installed.address,
            remaining.as_secs_f32()
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
        // Longer than a socket's path can be.
        io::ErrorKind::InvalidFilename => Kind::Invalid,
        _ if is_distrust => Kind::Invalid,
        _ => Kind::TryAgain,
    };
    let what = format!("plugin {name} does not answer at {at}");
    Failed::new(Error::new(kind, what).because(error), Fate::Unsent)
}

/// Between half of it and all of it, so that many do not come at once.
fn jittered(pause: Duration) -> Duration {
    let part = RandomState::new().hash_one(0_u8) % 128;
    pause / 256 * (128 + u32::try_from(part).unwrap_or_default())
}
