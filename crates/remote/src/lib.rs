//! Back end: remote drivers of libnetwork, third-party plugins that speak the protocol of
//! [`libnetwork`]. Here Spoke is libnetwork (moby `libnetwork/docs/remote.md` and `ipam.md`).
//!
//! Each call to a driver is undone by another call. The undo call is in the undo log before the
//! first is sent, or as soon as its answer says what was allocated. It is deleted once it was
//! carried out: rolling back, detaching and retrying are the same. A failure to undo is no failure
//! for the caller that detaches: the call stays in the undo log as *pending*, and [`Remote::retry`]
//! tries it again, in any process.

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
mod pending;
pub mod plugins;
mod pool;
mod program_gateway;
mod replay;
mod request;
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
use undo_log::UndoLog;

/// Where plugins are, where the undo log is, and what time it is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a plugin has for an answer.
    pub timeout: Duration,
    /// The ledger's directory: durable, our own. It is made when the first call is written down.
    pub undo_log: PathBuf,
    /// The directory of sandboxes for drivers: links to these, with names as Docker's. It is made
    /// when the first is needed. Drivers that were written for Docker may refuse any other than
    /// `/var/run/docker/netns`.
    pub sandboxes: PathBuf,
    /// This boot's id (`/proc/sys/kernel/random/boot_id`): cleanups of endpoints of another boot
    /// are pending at once, as their sandboxes are gone.
    pub boot: String,
    /// The clock: for showing, and for pauses between retries.
    pub now: fn() -> Timestamp,
}

/// The networks and addresses of remote drivers. Cheap to make; may be shared by threads.
pub struct Remote {
    calls: Arc<dyn Calls>,
    settings: Settings,
    undo_log: UndoLog,
    /// Whether log files of another boot were searched.
    is_swept: AtomicBool,
}

/// The result of an endpoint's Join.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The kernel's part of the attachment: its link is [`model::LinkKind::ExternalInterface`], or
    /// none where the driver put an interface into the sandbox. It has every default route that the
    /// driver named. The kernel gets only those of the families of its gateway role
    /// ([`model::Attachment::gateway_role`]).
    pub kernel: Attachment,
    /// For [`model::Attached::keeps_in`], as the driver answered.
    pub keeps_in: bool,
    /// The families for which the driver named a gateway or a default route.
    pub gateways: Vec<Family>,
    /// The prefix of the interface's name, as the driver answered (libnetwork's `DstPrefix`).
    pub prefix: Option<IfName>,
}

/// An undo call that a plugin has not carried out yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCleanup {
    /// On whose behalf.
    pub who: CleanupSubject,
    /// The driver to call; `None` where the undo log cannot be read.
    pub driver: Option<DriverName>,
    /// Which call, for a person to read.
    pub what: String,
    /// Since when.
    pub since: Timestamp,
    /// How often it was tried.
    pub tries: u32,
    /// Why the last try failed; empty before the first.
    pub error: String,
    /// What the plugin holds until then, for a person to read.
    pub held: String,
    /// Why no call will succeed, as far as that is known: it may be written off
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
    /// Its entry in the undo log cannot be read.
    Unreadable,
}

/// The object of a pending cleanup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CleanupSubject {
    /// A network's.
    Network(NetworkName),
    /// An attachment's.
    Attachment(AttachmentId),
    /// Unknown: the log file cannot be read.
    Unreadable,
}

/// Which pending cleanups are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Those whose pause is over.
    Due,
    /// All of them, at once.
    Now,
}

/// The result of [`Remote::retry`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retried {
    /// Cleanups that are done: the plugin was called.
    pub done: Vec<PendingCleanup>,
    /// Cleanups that ended without a call: they ended with another one, or another process has
    /// carried them out or holds their object now.
    pub moot: Vec<PendingCleanup>,
    /// Cleanups that are still pending.
    pub remaining: Vec<PendingCleanup>,
}

impl Remote {
    /// Over these plugins, as these settings say. Does no I/O.
    pub fn over(calls: Arc<dyn Calls>, settings: Settings) -> Self {
        let Settings { undo_log, boot, timeout, .. } = &settings;
        let undo_log = UndoLog::new(undo_log.clone(), boot.clone(), *timeout);
        Self { calls, settings, undo_log, is_swept: AtomicBool::new(false) }
    }

    fn now(&self) -> Timestamp {
        (self.settings.now)()
    }

    /// Whether log files of another boot were searched before; sets that.
    fn was_swept(&self) -> bool {
        self.is_swept.swap(true, Ordering::Relaxed)
    }
}
