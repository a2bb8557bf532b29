//! How often and how long a request is repeated.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

/// A request is made so often, at most.
const TRIES: u32 = 5;

/// The first pause; each is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(100);

/// The remaining time for one request.
#[derive(Debug)]
pub struct Retries {
    since: Instant,
    limit: Duration,
    longest: Duration,
    tries: u32,
}

impl Retries {
    /// A repetition is begun within `limit`. There is none where the server asks for a pause that is
    /// longer than `longest`.
    pub fn new(limit: Duration, longest: Duration) -> Self {
        Self { since: Instant::now(), limit, longest, tries: 1 }
    }

    /// How long to wait before the next try: as long as the server asks, or twice as long as last
    /// time, and up to half of that more, so that many do not come back at once. None when there is
    /// no next try.
    pub fn pause(&mut self, asked: Option<Duration>) -> Option<Duration> {
        let usual = PAUSE * 2_u32.pow(self.tries - 1);
        let least = asked.map_or(usual, |asked| asked.max(usual)).min(self.longest);
        let pause = least + least.mul_f64(chance() / 2.0);
        let is_over = self.tries >= TRIES
            || asked.is_some_and(|asked| asked > self.longest)
            || self.since.elapsed().saturating_add(pause) > self.limit;
        self.tries += 1;
        (!is_over).then_some(pause)
    }

    /// Whether there was a try before.
    pub fn is_again(&self) -> bool {
        self.tries > 1
    }
}

/// Between 0 and 1. The standard library's hasher is seeded at random.
fn chance() -> f64 {
    let bits = u32::try_from(RandomState::new().build_hasher().finish() >> 32).unwrap_or_default();
    f64::from(bits) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(10);

    #[test]
    fn pauses_grow_and_end() {
        let mut retries = Retries::new(Duration::from_secs(60), LONGEST);
        let pauses: Vec<_> = std::iter::from_fn(|| retries.pause(None)).take(10).collect();
        assert_eq!(pauses.len(), 4);
        for (pause, least) in pauses.iter().zip([100, 200, 400, 800]) {
            let least = Duration::from_millis(least);
            assert!((least..=least * 3 / 2).contains(pause), "{pauses:?}");
        }
    }

    #[test]
    fn does_as_the_server_asks_within_reason() {
        let mut retries = Retries::new(Duration::from_secs(60), LONGEST);
        assert!(retries.pause(Some(Duration::from_secs(2))).unwrap() >= Duration::from_secs(2));
        assert_eq!(retries.pause(Some(Duration::from_secs(11))), None);
        assert_eq!(retries.pause(Some(Duration::MAX)), None);
        assert_eq!(Retries::new(Duration::from_millis(50), LONGEST).pause(None), None);
    }
}
