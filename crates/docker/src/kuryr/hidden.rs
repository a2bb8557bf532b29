//! Endpoints of which it is known that nothing lets others in, so that the cloud need not be asked
//! when they go: engines do not always revoke what they programmed.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libnetwork::EndpointId;

/// More than any host has; one that is not stored only costs a request.
const MOST: usize = 65_536;

/// Endpoints that were made in this life, and are not exposed.
#[derive(Debug, Default)]
pub(super) struct Hidden(Mutex<BTreeSet<EndpointId>>);

impl Hidden {
    /// Nothing lets others in.
    pub(super) fn add(&self, endpoint: &EndpointId) {
        let mut all = self.all();
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(endpoint.clone());
    }

    /// Something does, or will; or it goes. Whether it was known that nothing did.
    pub(super) fn remove(&self, endpoint: &EndpointId) -> bool {
        self.all().remove(endpoint)
    }

    /// Whether it is known that nothing does.
    pub(super) fn has(&self, endpoint: &EndpointId) -> bool {
        self.all().contains(endpoint)
    }

    fn all(&self) -> MutexGuard<'_, BTreeSet<EndpointId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
