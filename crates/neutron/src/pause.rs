//! Pauses requests to a Neutron that is overloaded or has refused one.

use std::collections::BTreeMap;
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

/// The pauses of single things.
#[derive(Debug)]
pub(crate) struct Pauses<K>(BTreeMap<K, Pause>);

impl<K> Default for Pauses<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Pauses<K> {
    /// Whether one rests.
    pub(crate) fn is_on(&self, key: &K, now: Instant) -> bool {
        self.0.get(key).is_some_and(|pause| pause.remaining(now).is_some())
    }

    /// Whether one has failed since it was done last, resting or not.
    pub(crate) fn has_failed(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// As [`Pause::begin`].
    pub(crate) fn begin(&mut self, key: K, now: Instant, bounds: [Duration; 2]) {
        self.0.entry(key).or_default().begin(now, bounds);
    }

    /// It is done.
    pub(crate) fn end(&mut self, key: &K) {
        self.0.remove(key);
    }

    /// Forgets those that are no more.
    pub(crate) fn retain(&mut self, is_there: impl Fn(&K) -> bool) {
        self.0.retain(|key, _| is_there(key));
    }

    /// How much is left of the first that ends.
    pub(crate) fn shortest(&self, now: Instant) -> Option<Duration> {
        self.0.values().filter_map(|pause| pause.remaining(now)).min()
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
