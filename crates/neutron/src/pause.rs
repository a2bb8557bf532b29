//! Leaving a Neutron alone that has enough to do, or that has refused.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// A pause, longer each time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pause {
    until: Option<Instant>,
    length: Duration,
}

impl Pause {
    /// The first and the longest pause where Neutron is busy or away.
    pub(crate) const BUSY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(300)];

    /// The same where Neutron has refused to make a port: an operator must change something first.
    pub(crate) const REFUSED: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(600)];

    /// How much of it is left.
    pub(crate) fn remaining(&self, now: Instant) -> Option<Duration> {
        let remaining = self.until?.saturating_duration_since(now);
        Some(remaining).filter(|remaining| !remaining.is_zero())
    }

    /// Begins, if none is on: of several failures at the same time one counts.
    pub(crate) fn begin(&mut self, now: Instant, [first, longest]: [Duration; 2]) {
        if self.remaining(now).is_some() {
            return;
        }
        self.length = (self.length * 2).clamp(first, longest);
        self.until = Some(now + spread(self.length));
    }
}

/// Half of it at least: many hosts that lost Neutron together should not come back together.
fn spread(length: Duration) -> Duration {
    let part = u32::from(RandomState::new().hash_one(0).to_ne_bytes()[0]);
    length / 2 + length * part / 512
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_bounded() {
        let mut pause = Pause::default();
        let mut now = Instant::now();
        assert_eq!(pause.remaining(now), None);
        for expected in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            pause.begin(now, Pause::BUSY);
            let remaining = pause.remaining(now).unwrap();
            let longest = Duration::from_secs(expected);
            assert!(
                remaining >= longest / 2 && remaining <= longest,
                "{remaining:?} of {longest:?}"
            );
            pause.begin(now, Pause::BUSY);
            assert_eq!(pause.remaining(now), Some(remaining), "one failure more at the same time");
            now += longest;
            assert_eq!(pause.remaining(now), None);
        }
    }
}
