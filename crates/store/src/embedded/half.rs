//! One half of the store: a root directory, made and opened when it is needed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{Error, Result};
use rustix::io::Errno;

use super::header::Header;
use super::open::{Open, failed};

/// The root of one half, opened when it is first needed.
#[derive(Debug)]
pub(super) struct Half {
    root: PathBuf,
    durable: bool,
    open: Mutex<Option<Arc<Open>>>,
}

/// An open root whose lock is held, and what its lock file says.
#[derive(Debug)]
pub(super) struct Locked {
    pub(super) open: Arc<Open>,
    pub(super) header: Header,
}

impl Half {
    pub(super) fn new(root: PathBuf, durable: bool) -> Self {
        Self { root, durable, open: Mutex::new(None) }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The root, if there is one. A root without a lock file gets one: its records are there all the same.
    pub(super) fn existing(&self) -> Result<Option<Arc<Open>>> {
        let mut slot = self.slot();
        if slot.is_none() {
            *slot = self.try_open()?;
        }
        Ok(slot.clone())
    }

    /// The root, made if there is none; the flag says whether it was made now.
    fn made(&self) -> Result<(Arc<Open>, bool)> {
        if let Some(open) = self.existing()? {
            return Ok((open, false));
        }
        let new = self.make_root()?;
        let Some(open) = self.try_open()? else {
            return Err(Error::try_again(format!(
                "store {} vanished while it was being made; repeat the command",
                self.root.display()
            )));
        };
        *self.slot() = Some(open.clone());
        Ok((open, new))
    }

    /// Locks the root against every other process, after waiting for it.
    /// `None` where there is none and it was not to be made.
    pub(super) fn lock(&self, make: bool) -> Result<Option<(Locked, bool)>> {
        loop {
            let (open, new) = match make {
                true => self.made()?,
                false => match self.existing()? {
                    Some(open) => (open, false),
                    None => return Ok(None),
                },
            };
            open.acquire()?;
            if open.is_alive()? {
                let header = open.header()?;
                return Ok(Some((Locked { open, header }, new)));
            }
            open.unlock();
            self.forget();
        }
    }

    /// Closes a root that was removed; the next use opens the new one.
    pub(super) fn forget(&self) {
        *self.slot() = None;
    }

    fn try_open(&self) -> Result<Option<Arc<Open>>> {
        Ok(Open::at(&self.root, self.durable)?.map(Arc::new))
    }

    /// Whether the root's own directory is new.
    fn make_root(&self) -> Result<bool> {
        let Some(parent) = self.root.parent() else { return Ok(false) };
        let mut make = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut make, 0o700);
        let failed = |cause: io::Error| match Errno::from_io_error(&cause) {
            Some(errno) => failed("cannot make store", &self.root, errno),
            None => Error::os(format!("cannot make store {}", self.root.display()), cause),
        };
        make.recursive(true).create(parent).map_err(failed)?;
        match make.recursive(false).create(&self.root) {
            Ok(()) if self.durable => {
                let synced = std::fs::File::open(parent).and_then(|above| above.sync_all());
                synced.map_err(failed).map(|()| true)
            }
            Ok(()) => Ok(true),
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(cause) => Err(failed(cause)),
        }
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<Open>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.open.unlock();
    }
}
