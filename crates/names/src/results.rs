//! What other threads have done for the loop of the server.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use model::{Error, Result};
use rustix::event::{EventfdFlags, eventfd};

/// Readable as long as something is in it.
pub(crate) struct Results<T> {
    all: Mutex<Vec<T>>,
    wakes: OwnedFd,
}

impl<T> Results<T> {
    /// # Errors
    /// Where the process may not open more files.
    pub(crate) fn new() -> Result<Self> {
        let wakes = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wakes = wakes.map_err(|cause| Error::os("making an eventfd", cause.into()))?;
        Ok(Self { all: Mutex::default(), wakes })
    }

    pub(crate) fn put(&self, result: T) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(result);
        // It fails only where its counter is full: then it is readable too.
        let _ = rustix::io::write(&self.wakes, &1u64.to_ne_bytes());
    }

    /// Everything that is there by now.
    pub(crate) fn take(&self) -> Vec<T> {
        // What is put afterwards makes it readable again. It fails where nothing was put.
        let _ = rustix::io::read(&self.wakes, &mut [0; 8]);
        std::mem::take(&mut *self.all.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> AsFd for Results<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakes.as_fd()
    }
}
