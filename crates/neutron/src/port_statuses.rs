//! What Neutron last answered about each port: whether it passes traffic.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::ResourceId;

use crate::api::PortResource;

/// How long Neutron's answer about a port is reused.
const FRESH: Duration = Duration::from_secs(5);

/// The limit of the cache; beyond it, everything is dropped.
const MOST: usize = 4096;

/// Neutron's last answer about each port.
#[derive(Debug, Default)]
pub(crate) struct PortStatuses(Mutex<BTreeMap<ResourceId, (Instant, String)>>);

impl PortStatuses {
    /// Keeps the status of a port from the answer to a request.
    pub(crate) fn note(&self, port: &PortResource) {
        let mut reported = self.reported();
        if reported.len() >= MOST {
            reported.retain(|_, (since, _)| since.elapsed() < FRESH);
        }
        if reported.len() < MOST {
            reported.insert(port.id.clone(), (Instant::now(), port.status.clone()));
        }
    }

    pub(crate) fn forget(&self, id: &ResourceId) {
        self.reported().remove(id);
    }

    /// The status of the port, at most five seconds old.
    pub(crate) fn recent(&self, id: &ResourceId) -> Option<String> {
        let reported = self.reported();
        let (since, status) = reported.get(id)?;
        (since.elapsed() < FRESH).then(|| status.clone())
    }

    fn reported(&self) -> MutexGuard<'_, BTreeMap<ResourceId, (Instant, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
