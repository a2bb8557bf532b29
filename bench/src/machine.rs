//! Where it was measured: absolute figures belong to the machine and to what else it did.

use std::fs;

/// Enough to judge a run by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    /// The kernel's release.
    pub(crate) kernel: String,
    /// Processors.
    pub(crate) processors: usize,
    /// The load average before.
    pub(crate) load_before: String,
    /// The load average after.
    pub(crate) load_after: String,
}

impl Machine {
    /// Looks around before.
    pub(crate) fn start(&mut self) {
        self.kernel = read("/proc/sys/kernel/osrelease");
        self.processors = std::thread::available_parallelism().map_or(0, usize::from);
        self.load_before = load();
    }

    /// And after.
    pub(crate) fn end(&mut self) {
        self.load_after = load();
    }
}

/// Of the last minute.
fn load() -> String {
    read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}
