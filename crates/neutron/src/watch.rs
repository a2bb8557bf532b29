//! Reports every request, for metrics.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use model::{Error, Result};
use serde_json::Value;

use crate::api::{Request, Transport, Verb};
use crate::deadline::Deadlines;

/// A request that was made.
#[derive(Debug)]
pub struct Call<'a> {
    /// How.
    pub verb: Verb,
    /// Of which collection: `ports`.
    pub collection: &'a str,
    /// The failure, if there is one; the effect is unknown where an error has no status.
    pub failure: Option<&'a Error>,
    /// How long it took, with every repetition.
    pub took: Duration,
}

/// The callback for a request.
type Hear = dyn Fn(&Call<'_>) + Send + Sync;

/// The observer of requests, once there is one.
#[derive(Default)]
pub(crate) struct Watcher(OnceLock<Box<Hear>>);

/// A transport that is watched.
pub(crate) struct Watched {
    inner: Box<dyn Transport>,
    watcher: Arc<Watcher>,
    deadlines: Arc<Deadlines>,
}

impl Watcher {
    /// Reports every request to `hear` from now on. Only the first call has an effect.
    pub(crate) fn begin(&self, hear: impl Fn(&Call<'_>) + Send + Sync + 'static) {
        // Only the first observer counts.
        let _ = self.0.set(Box::new(hear));
    }
}

impl Watched {
    pub(crate) fn new(
        inner: Box<dyn Transport>,
        watcher: Arc<Watcher>,
        deadlines: Arc<Deadlines>,
    ) -> Self {
        Self { inner, watcher, deadlines }
    }

    /// By when this thread has to be done.
    fn carry_in_time(&self, request: &Request<'_>) -> Result<Value> {
        let until = self.deadlines.mine();
        let done = match until {
            None => self.inner.carry(request),
            Some(_) => self.inner.carry(&Request { until, ..request.clone() }),
        };
        self.deadlines.learn(until, &done);
        done
    }
}

impl Transport for Watched {
    fn carry(&self, request: &Request<'_>) -> Result<Value> {
        let Some(hear) = self.watcher.0.get() else { return self.carry_in_time(request) };
        let started = Instant::now();
        let done = self.carry_in_time(request);
        let collection = request.path.split('/').nth(1).unwrap_or_default();
        let (failure, took) = (done.as_ref().err(), started.elapsed());
        hear(&Call { verb: request.verb, collection, failure, took });
        done
    }

    fn project(&self) -> Result<Option<String>> {
        self.inner.project()
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watcher").field(&self.0.get().is_some()).finish()
    }
}
