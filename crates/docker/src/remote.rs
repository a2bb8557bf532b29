//! Back end: remote drivers of libnetwork's, third-party plugins that speak the protocol of
//! [`crate::wire`]. Here we are libnetwork (moby `libnetwork/docs/remote.md` and `ipam.md`).
//!
//! Whatever a driver did for us is undone by another call. That call is in the undo log before the
//! first is sent, or as soon as its answer says what it gave, and is struck out once it was carried out:
//! rolling back, detaching and retrying are all the same. Nothing that fails on the way back fails
//! for whoever detaches: it stays in the undo log as *owed*, and [`Remote::retry`] tries it again,
//! in whatever process.

mod activate;
pub mod address;
mod breaker;
pub mod calls;
pub mod client;
pub mod discover;
mod endpoint;
mod exchange;
mod ipam;
mod network;
mod notes;
mod notice;
pub mod parameters;
mod pending;
pub mod plugins;
mod pool;
mod program_gateway;
mod replay;
mod retry;
mod sandbox;
mod undo_log;
mod verdict;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::{Attachment, AttachmentId, DriverName, Family, IfName, NetworkName, Timestamp};

use calls::Calls;
use discover::Places;
pub(crate) use endpoint::ON_LINK;
use plugins::Plugins;
use undo_log::UndoLog;

/// Where plugins are, where the undo log is, and what time it is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where plugins have their sockets: `NAME.sock` or `NAME/NAME.sock`.
    pub sockets: Vec<PathBuf>,
    /// Where files say how to reach plugins, in order: `NAME.spec` or `NAME.json`, or the same in a
    /// directory `NAME`.
    pub descriptions: Vec<PathBuf>,
    /// How long a plugin has for an answer.
    pub timeout: Duration,
    /// The ledger's directory: durable, our own. It is made when the first call is written down.
    pub undo_log: PathBuf,
    /// Where drivers are told that sandboxes are: links to these, with names as Docker's. It is made
    /// when the first is needed. Drivers that were written for Docker may refuse any other than
    /// `/var/run/docker/netns`.
    pub sandboxes: PathBuf,
    /// This boot's id (`/proc/sys/kernel/random/boot_id`): endpoints of another one are owed at
    /// once, as their sandboxes are gone.
    pub boot: String,
    /// The clock: for showing, and for pauses between retries.
    pub now: fn() -> Timestamp,
}

/// The networks and addresses of remote drivers. Cheap to make; may be shared by threads.
pub struct Remote {
    calls: Arc<dyn Calls>,
    settings: Settings,
    undo_log: UndoLog,
    /// Log files of another boot were looked for.
    is_swept: AtomicBool,
}

/// What became of an endpoint that joined its sandbox.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The kernel's part of the attachment: its link is [`model::LinkKind::ExternalInterface`], or none where the
    /// driver put an interface into the sandbox by itself. It has every default route that the driver
    /// named: the kernel withholds those of families in which it does not lead
    /// ([`model::Attachment::gateway_role`]).
    pub kernel: Attachment,
    /// For [`model::Attached::keeps_in`]: the driver said so.
    pub keeps_in: bool,
    /// For which families the driver named a way out: a gateway, or a default route.
    pub gateways: Vec<Family>,
    /// What the name of the interface is to begin with, as the driver said (libnetwork's
    /// `DstPrefix`).
    pub prefix: Option<IfName>,
}

/// A call that a plugin is still owed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCleanup {
    /// On whose behalf.
    pub who: CleanupSubject,
    /// Who is to be called; nobody where the undo log cannot be read.
    pub driver: Option<DriverName>,
    /// Which call, for a person to read.
    pub what: String,
    /// Since when.
    pub since: Timestamp,
    /// How often it was tried.
    pub tries: u32,
    /// Why the last try failed; empty before the first.
    pub error: String,
    /// What the plugin has as long as it is owed, for a person to read.
    pub held: String,
    /// Why no call will settle it, as far as can be told: it may be written off
    /// ([`Remote::write_off`]).
    pub dead_end: Option<DeadEnd>,
    /// Its log file in the undo log.
    pub log_file: String,
}

/// Why it is of no use to try a call again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadEnd {
    /// It is not known what the driver gave, as its answer was lost. It goes with the pool that it
    /// belongs to.
    Lost,
    /// The plugin is there and refuses it, again and again.
    Refused,
    /// The plugin is not installed any more.
    Uninstalled,
    /// What the undo log said of it cannot be read.
    Unreadable,
}

/// On whose behalf a call is owed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CleanupSubject {
    /// A network's.
    Network(NetworkName),
    /// An attachment's.
    Attachment(AttachmentId),
    /// Nobody knows: the log file cannot be read.
    Unreadable,
}

/// Which debts are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Those whose pause is over.
    Due,
    /// All of them, at once.
    Now,
}

/// What [`Remote::retry`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retried {
    /// Debts that are settled: the plugin was called.
    pub done: Vec<PendingCleanup>,
    /// Debts that are none any more although nobody was called for them: they went with another one, or
    /// somebody else has settled them or holds now what they were about.
    pub moot: Vec<PendingCleanup>,
    /// Debts that are left.
    pub left: Vec<PendingCleanup>,
}

impl Remote {
    /// As these settings say. Does no I/O.
    pub fn open(settings: Settings) -> Self {
        let Settings { sockets, descriptions, timeout, .. } = settings.clone();
        let places = Places { sockets, descriptions };
        Self::over(Arc::new(Plugins::new(places, timeout)), settings)
    }

    /// The same, with plugins that are reached in another way.
    pub fn over(calls: Arc<dyn Calls>, settings: Settings) -> Self {
        let Settings { undo_log, boot, timeout, .. } = &settings;
        let undo_log = UndoLog::new(undo_log.clone(), boot.clone(), *timeout);
        Self { calls, settings, undo_log, is_swept: AtomicBool::new(false) }
    }

    fn now(&self) -> Timestamp {
        (self.settings.now)()
    }

    /// Whether log files of another boot were looked for before; from now on they were.
    fn was_swept(&self) -> bool {
        self.is_swept.swap(true, Ordering::Relaxed)
    }
}
