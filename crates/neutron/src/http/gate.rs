//! So many requests at the same time, and no more: Neutron's own processor is what limits it, and
//! more callers only make it slower.

use std::sync::{Condvar, Mutex, PoisonError};

/// Lets so many pass at the same time.
#[derive(Debug)]
pub(super) struct Gate {
    free: Mutex<usize>,
    freed: Condvar,
}

/// Held while a request is under way.
pub(super) struct Passage<'a>(&'a Gate);

impl Gate {
    pub(super) fn new(width: usize) -> Self {
        Self { free: Mutex::new(width.max(1)), freed: Condvar::new() }
    }

    /// Waits until there is room.
    pub(super) fn pass(&self) -> Passage<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free =
            self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Passage(self)
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}
