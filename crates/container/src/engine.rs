//! The engine's verbs.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{Error, Result};

use crate::ending::{Ended, Ending};
use crate::spec::{Bounds, Process, Spec};

/// What runs containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Engine {
    /// This program itself.
    Native,
    /// An OCI runtime: runc, crun or what takes the same arguments. A name is looked for in `PATH`.
    Runtime(PathBuf),
}

/// A container that was running when this was made.
#[derive(Debug)]
pub struct Running {
    process: model::Process,
    pidfd: OwnedFd,
}

impl Engine {
    /// Starts a container whose records are in `directory` (made if missing, and the engine's alone),
    /// with `stdin` as its main process's standard input. If one runs there already, it is that one.
    ///
    /// # Errors
    /// [`model::Kind::Invalid`] if `spec` cannot be; [`model::Kind::Denied`] without the rights;
    /// the kernel's refusal.
    pub fn start(&self, directory: &Path, spec: &Spec, stdin: &[u8]) -> Result<Running> {
        let _ = (directory, spec, stdin);
        Err(Error::unsupported("starting a container"))
    }

    /// The container that runs in `directory`, if one does.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub fn adopt(&self, directory: &Path) -> Result<Option<Running>> {
        let _ = directory;
        Err(Error::unsupported("finding a container"))
    }

    /// How the last container in `directory` ended; `None` if none did.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub fn last_end(&self, directory: &Path) -> Result<Option<Ending>> {
        let _ = directory;
        Err(Error::unsupported("finding how a container ended"))
    }
}

impl Running {
    /// The first process of the container. It ends when the container does.
    pub fn process(&self) -> model::Process {
        self.process
    }

    /// Readable when the container has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Runs `process` in the container with `input` as its standard input, and waits for its end,
    /// not for that of what it left in the background. When the limit is over, or the caller is
    /// killed, it and all its descendants are ended.
    ///
    /// # Errors
    /// [`model::Kind::TryAgain`] if the container has ended; [`model::Kind::NotFound`] if there is
    /// no such program in it.
    pub fn exec(&self, process: &Process, input: &[u8], bounds: &Bounds) -> Result<Ended> {
        let _ = (process, input, bounds);
        Err(Error::unsupported("calling into a container"))
    }

    /// Ends the container: SIGTERM to its main process, and SIGKILL to all after `grace`. Done if
    /// it has ended.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn stop(&self, grace: Duration) -> Result<()> {
        let _ = grace;
        Err(Error::unsupported("ending a container"))
    }

    /// How the container ended; `None` while it runs.
    pub fn ended(&self) -> Option<Ending> {
        None
    }
}
