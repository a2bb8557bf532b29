//! A program that removes the table again and again. It is put back at once a few times, and then after pauses:
//! neither side can win, and it must not cost the host a processor. Without the table published ports would be
//! open, so from then on they are withdrawn until the table stays.

use std::time::{Duration, Instant};

/// So many times it is put back at once.
const AT_ONCE: u32 = 5;
/// The pause before it is put back from then on.
const PAUSE: Duration = Duration::from_secs(1);
/// Published ports come back when the table has stayed this long.
pub(super) const STAYED: Duration = Duration::from_secs(5);
/// A table that stays this long is no longer contested.
const HELD: Duration = Duration::from_secs(60);

/// How often the table was lost lately.
#[derive(Debug, Default)]
pub(super) struct Lost {
    times: u32,
    last: Option<Instant>,
}

impl Lost {
    /// Of a daemon that starts at `now`: where it finds published ports withdrawn, the table was contested when
    /// the one before it ended.
    pub(super) fn at_start(is_withdrawn: bool, now: Instant) -> Self {
        match is_withdrawn {
            true => Self { times: AT_ONCE + 1, last: Some(now) },
            false => Self::default(),
        }
    }

    /// It is lost at `now`: how long to wait before it is put back.
    pub(super) fn again(&mut self, now: Instant) -> Duration {
        let is_lately = self.last.is_some_and(|last| now.saturating_duration_since(last) < HELD);
        self.times = if is_lately { self.times.saturating_add(1) } else { 1 };
        self.last = Some(now);
        if self.is_contested() { PAUSE } else { Duration::ZERO }
    }

    /// Whether it is put back after pauses.
    pub(super) fn is_contested(&self) -> bool {
        self.times > AT_ONCE
    }

    /// Whether published ports are to be withdrawn at `now`.
    pub(super) fn withdraws(&self, now: Instant) -> bool {
        let is_new = |last| now.saturating_duration_since(last) < STAYED;
        self.is_contested() && self.last.is_some_and(is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_put_back_at_once_but_not_for_ever() {
        let (mut lost, start) = (Lost::default(), Instant::now());
        let pauses: Vec<Duration> = (0..8).map(|_| lost.again(start)).collect();
        assert_eq!(pauses, [[Duration::ZERO; 5].as_slice(), &[PAUSE; 3]].concat());
        assert!(lost.withdraws(start) && !lost.withdraws(start + STAYED));
        // A single loss later is enough to withdraw them again.
        lost.again(start + STAYED);
        assert!(lost.withdraws(start + STAYED));
        assert_eq!(lost.again(start + STAYED + HELD), Duration::ZERO);
        assert!(!lost.withdraws(start + STAYED + HELD));
        assert!(!lost.is_contested());
    }

    #[test]
    fn what_a_daemon_before_withdrew_stays_withdrawn_until_the_table_has_stayed() {
        let start = Instant::now();
        let lost = Lost::at_start(true, start);
        assert!(lost.withdraws(start) && !lost.withdraws(start + STAYED));
        assert!(!Lost::at_start(false, start).withdraws(start));
    }
}
