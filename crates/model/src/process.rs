//! Processes, by which records say who is at work.

use serde::{Deserialize, Serialize};

/// A process of this boot. The start time distinguishes it from a later one with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its id. Bit 31 says that another PID namespace counts it; bits 22 to 30 are then that one's last bits.
    pub pid: u32,
    /// Clock ticks from boot to its start (`/proc/PID/stat`, field 22).
    pub start: u64,
}

impl Process {
    /// No process, as if of one that has ended: none has this id.
    pub const NONE: Self = Self { pid: 0, start: 0 };
}
