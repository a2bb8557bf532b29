//! The few facts of this host that decisions depend on.

use std::time::Duration;

use model::{AttachmentId, Backend, IpNet, Process, Result, Timestamp};

/// The right to work on an attachment, until it is dropped.
pub type Turn = Box<dyn std::any::Any>;

/// A subnet that is in use on this host, by somebody whom the store does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupied {
    /// The subnet.
    pub net: IpNet,
    /// Who uses it, for a person to read.
    pub by: String,
}

/// What the engine cannot know without reading clocks or processes.
pub trait Host {
    /// The process that works.
    fn me(&self) -> Process;

    /// The time, for showing only.
    fn now(&self) -> Timestamp;

    /// Whether the process still lives.
    fn is_running(&self, process: &Process) -> bool;

    /// Waits until nobody else in this process works on the attachment. Threads of one process are
    /// one to the store, so they take turns by themselves; where a process has one thread, at once.
    fn turn(&self, id: &AttachmentId) -> Turn {
        let _ = id;
        Box::new(())
    }

    /// The subnets of this host that somebody outside the store uses: those of other runtimes'
    /// networks, and those that its routes lead to.
    fn occupied(&self) -> Result<Vec<Occupied>>;

    /// From which unique local IPv6 addresses subnets of our choice are taken: the global id of RFC
    /// 4193 §3.2, always the same on one host and best another one on every host.
    fn site(&self) -> [u8; 5] {
        *b"spoke"
    }

    /// Which packet filter has the rules of a network that nobody describes: the one that leads
    /// sandboxes of ours out.
    fn backend(&self) -> Backend {
        Backend::Nftables
    }

    /// Waits until the process has ended; `false` when it still lives after `limit`.
    fn wait_for_end(&self, process: &Process, limit: Duration) -> bool;
}
