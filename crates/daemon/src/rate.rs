//! Limits how many lines clients can make the daemon write: otherwise a client of a socket could
//! fill the disk.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// In each second so many.
const MOST: u32 = 10;
const SECOND: Duration = Duration::from_secs(1);

/// Counts lines of one kind.
#[derive(Debug, Default)]
pub(super) struct Rate(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    /// When the second that is counted began.
    since: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl Rate {
    /// Whether a line may be written at `now`; then, how many were left out since the one before.
    pub(super) fn admits(&self, now: Instant) -> Option<u64> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.since.is_none_or(|since| now.duration_since(since) >= SECOND) {
            (counted.since, counted.lines) = (Some(now), 0);
        }
        if counted.lines >= MOST {
            counted.left_out = counted.left_out.saturating_add(1);
            return None;
        }
        counted.lines += 1;
        Some(std::mem::take(&mut counted.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_counted() {
        let (rate, started) = (Rate::default(), Instant::now());
        let written = (0..1000).filter(|_| rate.admits(started) == Some(0)).count();
        assert_eq!(written, 10);
        assert_eq!(rate.admits(started + SECOND / 2), None);
        assert_eq!(rate.admits(started + SECOND), Some(991));
        assert_eq!(rate.admits(started + SECOND), Some(0));
    }
}
