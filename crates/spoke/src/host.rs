//! The facts of this host that the engine asks for.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::port::{Host, Occupied};
use model::{Process, Result, Timestamp};

/// This host, seen by this process.
pub(crate) struct ThisHost {
    me: Process,
}

impl ThisHost {
    /// Learns who we are. Fails where `/proc` is not mounted.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { me: netlink::process::me()? })
    }
}

/// The time, for showing only.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Timestamp(since.as_secs())
}

impl Host for ThisHost {
    fn me(&self) -> Process {
        self.me
    }

    fn now(&self) -> Timestamp {
        now()
    }

    fn is_running(&self, process: &Process) -> bool {
        netlink::process::is_running(process)
    }

    fn occupied(&self) -> Result<Vec<Occupied>> {
        Ok(Vec::new())
    }

    fn wait_for_end(&self, process: &Process, limit: Duration) -> bool {
        netlink::process::wait_for_end(process, limit)
    }
}
