//! Fails at once where it is known that nobody answers. Docker tries for 15 s with each call.

use std::time::{Duration, Instant};

use super::calls::Life;

/// The first pause.
const SHORTEST: Duration = Duration::from_millis(100);
/// The longest one; each is twice as long as the one before.
const LONGEST: Duration = Duration::from_secs(10);

/// What is known about a plugin that does not answer.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    /// Of whom it is known; of nobody where nobody was there.
    life: Option<Life>,
    why: String,
    pause: Duration,
    until: Instant,
}

/// How a call may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// Nothing is known that speaks against it: it is worth the time in which a plugin restarts.
    Patient,
    /// It is to show whether the plugin is back: once, and alone.
    Probe,
}

/// A call is not tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Closed {
    /// Why the last one failed.
    pub why: String,
    /// When the next one will be tried.
    pub left: Duration,
}

impl Breaker {
    /// Whether a call to this life may be tried. A probe is expected to be over after `patience`.
    pub(super) fn admit(
        &mut self,
        life: Option<&Life>,
        now: Instant,
        patience: Duration,
    ) -> Result<Pass, Closed> {
        let Some(open) = &mut self.open else { return Ok(Pass::Patient) };
        if open.life.as_ref() != life {
            self.open = None;
            return Ok(Pass::Patient);
        }
        let left = open.until.saturating_duration_since(now);
        if left.is_zero() {
            open.until = now + patience;
            return Ok(Pass::Probe);
        }
        Err(Closed { why: open.why.clone(), left })
    }

    /// This life did not answer.
    pub(super) fn failed(&mut self, life: Option<Life>, now: Instant, why: String) {
        let before = self.open.take().filter(|open| open.life == life);
        let pause = before.map_or(SHORTEST, |open| (open.pause * 2).min(LONGEST));
        self.open = Some(Open { life, why, pause, until: now + pause });
    }

    /// It did.
    pub(super) fn answered(&mut self) {
        self.open = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn life(text: &str) -> Option<Life> {
        Some(Life(text.to_owned()))
    }

    #[test]
    fn pauses_double_and_one_call_shows_whether_it_is_back() {
        let mut breaker = Breaker::default();
        let (a, mut now) = (life("a"), Instant::now());
        assert_eq!(breaker.admit(a.as_ref(), now, PATIENCE), Ok(Pass::Patient));
        for pause in [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
            breaker.failed(a.clone(), now, "refused".to_owned());
            let closed = breaker.admit(a.as_ref(), now, PATIENCE).unwrap_err();
            assert_eq!(closed.left, Duration::from_millis(pause));
            assert_eq!(closed.why, "refused");
            now += closed.left;
            assert_eq!(breaker.admit(a.as_ref(), now, PATIENCE), Ok(Pass::Probe));
            assert!(breaker.admit(a.as_ref(), now, PATIENCE).is_err());
        }
        breaker.answered();
        assert_eq!(breaker.admit(a.as_ref(), now, PATIENCE), Ok(Pass::Patient));
    }

    #[test]
    fn another_life_is_tried_at_once() {
        let mut breaker = Breaker::default();
        let now = Instant::now();
        breaker.failed(life("a"), now, "refused".to_owned());
        assert!(breaker.admit(life("a").as_ref(), now, PATIENCE).is_err());
        assert_eq!(breaker.admit(life("b").as_ref(), now, PATIENCE), Ok(Pass::Patient));
        breaker.failed(None, now, "gone".to_owned());
        assert!(breaker.admit(None, now, PATIENCE).is_err());
        assert_eq!(breaker.admit(life("b").as_ref(), now, PATIENCE), Ok(Pass::Patient));
    }
}
