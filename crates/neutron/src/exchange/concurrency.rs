//! So many requests at the same time, and no more: Neutron's own processor is what limits it, and
//! more callers only make it slower.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Lets so many pass at the same time.
#[derive(Debug)]
pub(super) struct Concurrency {
    free: Mutex<usize>,
    freed: Condvar,
}

/// Held while a request is under way.
pub(super) struct Passage<'a>(&'a Concurrency);

impl Concurrency {
    pub(super) fn new(width: usize) -> Self {
        Self { free: Mutex::new(width.max(1)), freed: Condvar::new() }
    }

    /// Waits until there is room, as long as that; none where there was none then.
    pub(super) fn pass(&self, limit: Option<Duration>) -> Option<Passage<'_>> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |free: &mut usize| *free == 0;
        let mut free = match limit {
            None => self.freed.wait_while(free, is_full).unwrap_or_else(PoisonError::into_inner),
            Some(limit) => {
                let waited = self.freed.wait_timeout_while(free, limit, is_full);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        if *free == 0 {
            return None;
        }
        *free -= 1;
        drop(free);
        Some(Passage(self))
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}
