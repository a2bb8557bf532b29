//! How the back end speaks to plugins, apart from sockets.

use std::fmt;
use std::sync::Arc;

use model::{DriverName, Error, Kind};

use libnetwork::{Answer, Call, Profile};

/// Carries calls to remote drivers.
///
/// Every method may block until the call's deadline, and none does so for long where a plugin is
/// known to be dead. Callers need not repeat anything: repeatable calls were repeated.
pub trait Calls: Send + Sync {
    /// Carries one call to a driver and its answer back.
    ///
    /// Where the driver lacks a method that it may lack, ProgramExternalConnectivity and
    /// RevokeExternalConnectivity, the answer is [`Answer::Done`]. Otherwise the answer's variant
    /// is the call's own: Skip for GwAllocCheck, Allocated for AllocateNetwork, Endpoint for
    /// CreateEndpoint, Info for EndpointOperInfo, Joined for Join, Pool for RequestPool, Address
    /// for RequestAddress, Done for all others.
    fn call(&self, driver: &DriverName, call: &Call) -> Result<Answer, Failed>;

    /// The driver's profile. It is requested once in the plugin's life, as libnetwork does when it
    /// registers a driver.
    fn profile(&self, driver: &DriverName) -> Result<Arc<Profile>, Failed>;

    /// The life of the plugin that answers: another value than before means that the earlier
    /// process is gone. A plugin whose socket another program holds, or that is reached over TCP,
    /// has one life. Reads files only.
    fn life(&self, driver: &DriverName) -> Result<Life, Failed>;

    /// Warnings for an administrator about a driver's address: for example that its certificate is
    /// not checked. Empty for one that is not installed. Reads files only.
    fn warnings(&self, driver: &DriverName) -> Vec<String> {
        let _ = driver;
        Vec::new()
    }

    /// The caller waits for another process: idle connections are closed, since some plugins serve
    /// only one connection.
    fn pause(&self) {}

    /// Every driver that is installed on this host, by its socket or description, whether or not it
    /// runs. Sorted. Reads files only.
    fn installed(&self) -> Vec<DriverName>;
}

/// A life of a plugin, to be compared and kept across processes: opaque, printable, at most 200
/// bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Life(pub String);

/// A call without an answer that is of any use.
#[derive(Debug)]
pub struct Failed {
    /// Why: [`Kind::NotFound`] for a plugin that is not installed (with [`Fate::Unsent`]) or for
    /// what the driver does not know (with [`Fate::Refused`]), [`Kind::TryAgain`] for one that is
    /// dead or says that it failed, [`Kind::Exhausted`] for an IPAM driver without addresses or
    /// pools left, [`Kind::Unsupported`] for a method that the driver lacks, [`Kind::Invalid`] for
    /// an answer that says what cannot be.
    pub error: Error,
    /// What is known about the call itself.
    pub fate: Fate,
    /// Releases what an unusable answer named: the pool whose id was readable, the address without
    /// a prefix length. Only with [`Fate::Done`].
    pub undo: Option<Box<Call>>,
}

/// Whether a call that failed was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It never reached the plugin: nothing is to be undone.
    Unsent,
    /// The driver answered that it did not do it.
    Refused,
    /// It may or may not have been carried out: the answer was lost or never came.
    Unknown,
    /// It was carried out, and the answer cannot be used.
    Done,
}

impl Failed {
    /// With nothing but its cause and fate.
    pub fn new(error: Error, fate: Fate) -> Self {
        Self { error, fate, undo: None }
    }

    /// The kind of the error.
    pub fn kind(&self) -> Kind {
        self.error.kind()
    }

    /// The driver may hold something because of the call.
    pub fn may_be_done(&self) -> bool {
        matches!(self.fate, Fate::Unknown | Fate::Done)
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}
