//! Time since boot.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Milliseconds since boot, those asleep included: leases continue there (clock_gettime(2),
/// CLOCK_BOOTTIME).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Time(pub u64);

impl Time {
    /// A time that never comes.
    pub const NEVER: Time = Time(u64::MAX);

    /// Now.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        let thousandths = u64::try_from(now.tv_nsec / 1_000_000).unwrap_or_default();
        Self(seconds.saturating_mul(1000).saturating_add(thousandths))
    }

    /// So much later.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)))
    }

    /// So many seconds later; [`u32::MAX`] of them is never (RFC 2131 §3.3).
    #[must_use]
    pub fn after_seconds(self, seconds: u32) -> Self {
        match seconds {
            u32::MAX => Self::NEVER,
            seconds => self.after(Duration::from_secs(u64::from(seconds))),
        }
    }

    /// How long after `earlier` it is; nothing where it is before.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}
