//! Fails at once where a plugin is known not to answer. Docker tries for 15 s with each call.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::calls::Life;
use super::notes::clock;

/// The first pause.
const SHORTEST: Duration = Duration::from_millis(100);
/// The longest one; each is twice as long as the one before.
const LONGEST: Duration = Duration::from_secs(10);

/// What is known about a plugin that does not answer.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    open: Option<Open>,
    /// Whether other processes' notes were read.
    was_reported: bool,
}

#[derive(Debug)]
struct Open {
    /// The life of the plugin; `None` where there was no plugin.
    life: Option<Life>,
    why: String,
    pause: Duration,
    until: Instant,
    /// Another process says so, and seeing for oneself costs no time.
    is_hearsay: bool,
}

/// A note for other processes about a plugin that does not answer.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Silence {
    life: String,
    why: String,
    /// In milliseconds.
    pause: u64,
    /// When the pause is over ([`clock`]).
    until: u64,
    /// It took the caller's time before it failed.
    is_slow: bool,
}

/// How a call may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// Nothing is known that speaks against it: it gets the time in which a plugin restarts.
    Full,
    /// It is to show whether the plugin is back: once, and alone.
    Probe,
}

/// A call is not tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Closed {
    /// Why the last one failed.
    pub why: String,
    /// When the next one will be tried.
    pub remaining: Duration,
}

impl Breaker {
    /// Whether a call to this life may be tried. A probe should end within `timeout`.
    pub(super) fn admit(
        &mut self,
        life: Option<&Life>,
        now: Instant,
        timeout: Duration,
    ) -> Result<Pass, Closed> {
        let Some(open) = &mut self.open else { return Ok(Pass::Full) };
        if open.life.as_ref() != life {
            self.open = None;
            return Ok(Pass::Full);
        }
        let remaining = open.until.saturating_duration_since(now);
        if remaining.is_zero() || std::mem::take(&mut open.is_hearsay) {
            open.until = now + timeout;
            return Ok(Pass::Probe);
        }
        Err(Closed { why: open.why.clone(), remaining })
    }

    /// Records that this life did not answer. Returns the note for other processes.
    pub(super) fn failed(
        &mut self,
        life: Option<Life>,
        now: Instant,
        (why, is_slow): (String, bool),
    ) -> Option<Silence> {
        let before = self.open.take().filter(|open| open.life == life);
        let pause = before.map_or(SHORTEST, |open| (open.pause * 2).min(LONGEST));
        let silence = life.as_ref().map(|life| {
            let (life, why) = (life.0.clone(), why.clone());
            let pause = u64::try_from(pause.as_millis()).unwrap_or_default();
            Silence { life, why, pause, until: clock().saturating_add(pause), is_slow }
        });
        self.open = Some(Open { life, why, pause, until: now + pause, is_hearsay: false });
        silence
    }

    /// It did. Whether it was known not to.
    pub(super) fn answered(&mut self) -> bool {
        self.open.take().is_some()
    }

    /// Reads once what other processes found; this process's own result has precedence.
    pub(super) fn hear(&mut self, now: Instant, reported: impl FnOnce() -> Option<Silence>) {
        if std::mem::replace(&mut self.was_reported, true) || self.open.is_some() {
            return;
        }
        self.open = reported().map(|Silence { life, why, pause, until, is_slow }| {
            let pause = Duration::from_millis(pause).clamp(SHORTEST, LONGEST);
            let remaining = Duration::from_millis(until.saturating_sub(clock())).min(pause);
            let life = Some(Life(life));
            Open { life, why, pause, until: now + remaining, is_hearsay: !is_slow }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    fn life(text: &str) -> Option<Life> {
        Some(Life(text.to_owned()))
    }

    #[test]
    fn pauses_double_and_one_call_shows_whether_it_is_back() {
        let mut breaker = Breaker::default();
        let (a, mut now) = (life("a"), Instant::now());
        assert_eq!(breaker.admit(a.as_ref(), now, TIMEOUT), Ok(Pass::Full));
        for pause in [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
            breaker.failed(a.clone(), now, ("refused".to_owned(), false));
            let closed = breaker.admit(a.as_ref(), now, TIMEOUT).unwrap_err();
            assert_eq!(closed.remaining, Duration::from_millis(pause));
            assert_eq!(closed.why, "refused");
            now += closed.remaining;
            assert_eq!(breaker.admit(a.as_ref(), now, TIMEOUT), Ok(Pass::Probe));
            assert!(breaker.admit(a.as_ref(), now, TIMEOUT).is_err());
        }
        breaker.answered();
        assert_eq!(breaker.admit(a.as_ref(), now, TIMEOUT), Ok(Pass::Full));
    }

    #[test]
    fn other_processes_hear_of_it_and_try_once_themselves() {
        let (a, now) = (life("a"), Instant::now());
        for is_slow in [false, true] {
            let mut first = Breaker::default();
            first.failed(a.clone(), now, ("first".to_owned(), is_slow));
            let silence = first.failed(a.clone(), now, ("refused".to_owned(), is_slow)).unwrap();
            let text = serde_json::to_string(&silence).unwrap();
            let mut other = Breaker::default();
            other.hear(now, || serde_json::from_str(&text).ok());
            if !is_slow {
                assert_eq!(other.admit(a.as_ref(), now, TIMEOUT), Ok(Pass::Probe));
                other.failed(a.clone(), now, ("still".to_owned(), false));
            }
            let closed = other.admit(a.as_ref(), now, TIMEOUT).unwrap_err();
            assert!(closed.remaining <= Duration::from_millis(400), "{closed:?}");
            assert_eq!(other.admit(life("b").as_ref(), now, TIMEOUT), Ok(Pass::Full));
            other.hear(now, || unreachable!());
        }
    }

    #[test]
    fn what_others_say_of_the_clock_delays_no_call() {
        let (a, now) = (life("a"), Instant::now());
        let mut breaker = Breaker::default();
        let (life, why) = ("a".to_owned(), "hangs".to_owned());
        let forged = Silence { life, why, pause: u64::MAX, until: u64::MAX, is_slow: true };
        breaker.hear(now, || Some(forged));
        assert_eq!(breaker.admit(a.as_ref(), now, TIMEOUT).unwrap_err().remaining, LONGEST);
        assert!(breaker.answered());
        assert!(!breaker.answered());
    }

    #[test]
    fn another_life_is_tried_at_once() {
        let mut breaker = Breaker::default();
        let now = Instant::now();
        breaker.failed(life("a"), now, ("refused".to_owned(), false));
        assert!(breaker.admit(life("a").as_ref(), now, TIMEOUT).is_err());
        assert_eq!(breaker.admit(life("b").as_ref(), now, TIMEOUT), Ok(Pass::Full));
        breaker.failed(None, now, ("gone".to_owned(), false));
        assert!(breaker.admit(None, now, TIMEOUT).is_err());
        assert_eq!(breaker.admit(life("b").as_ref(), now, TIMEOUT), Ok(Pass::Full));
    }
}
