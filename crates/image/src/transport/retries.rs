//! How often and how long a busy server is asked again.

use std::time::{Duration, Instant};

/// A server is asked so often, at most.
const TRIES: u32 = 5;

/// The first pause; each is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(100);

/// Whoever asks for more than that gets an error instead.
const LONGEST: Duration = Duration::from_secs(30);

/// All tries are begun within that time.
const WHOLE: Duration = Duration::from_secs(60);

/// What is left of it for one call.
#[derive(Debug)]
pub(super) struct Retries {
    since: Instant,
    tries: u32,
}

impl Default for Retries {
    fn default() -> Self {
        Self { since: Instant::now(), tries: 1 }
    }
}

impl Retries {
    /// How long to wait before the next try: as long as the server asks, or twice as long as last
    /// time. None when there is no next try.
    pub(super) fn pause(&mut self, asked: Option<Duration>) -> Option<Duration> {
        let usual = PAUSE * 2_u32.pow(self.tries - 1);
        let pause = asked.map_or(usual, |asked| asked.max(usual));
        let is_over = self.tries >= TRIES
            || pause > LONGEST
            || self.since.elapsed().saturating_add(pause) > WHOLE;
        self.tries += u32::from(!is_over);
        (!is_over).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends() {
        let mut retries = Retries::default();
        let pauses: Vec<_> = std::iter::from_fn(|| retries.pause(None)).take(10).collect();
        assert_eq!(pauses, [100, 200, 400, 800].map(Duration::from_millis));
        assert_eq!(Retries::default().pause(Some(Duration::from_secs(31))), None);
        let asked = Some(Duration::from_secs(2));
        assert_eq!(Retries::default().pause(asked), asked);
        assert_eq!(Retries::default().pause(Some(Duration::MAX)), None);
    }
}
