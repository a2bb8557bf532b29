//! The few facts of this host that decisions depend on.

use std::time::Duration;

use model::{Process, Timestamp};

/// What the engine cannot know without reading clocks or processes.
pub trait Host {
    /// The process that works.
    fn me(&self) -> Process;

    /// The time, for showing only.
    fn now(&self) -> Timestamp;

    /// Whether the process still lives.
    fn is_running(&self, process: &Process) -> bool;

    /// Waits until the process has ended; `false` when it still lives after `limit`.
    fn wait_for_end(&self, process: &Process, limit: Duration) -> bool;
}
