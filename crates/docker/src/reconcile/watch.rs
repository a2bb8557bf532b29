//! Decides when an object that an engine does not list is believed to be gone.

use std::time::{Duration, Instant, SystemTime};

use engine::Live;

/// If the clocks differ from the monotonic one by more than this, they were set, and ages in the
/// store are not valid for now.
const JUMP: Duration = Duration::from_secs(5);

/// A point in time, on the monotonic clock and on the one that dates the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) at: Instant,
    pub(super) clock: SystemTime,
}

/// What was missing in every snapshot of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// What was listed in at least one of them.
    pub(super) live: Live,
    /// How long the span was.
    pub(super) span: Duration,
}

/// Combines snapshots until they span the grace time.
pub(super) struct Watch {
    grace: Duration,
    calm: Instant,
    span: Option<(Moment, Live)>,
}

impl Watch {
    /// Nothing is believed before the grace time has passed since `now`.
    pub(super) fn new(grace: Duration, now: Instant) -> Self {
        Self { grace, calm: now + grace, span: None }
    }

    /// An engine was out of reach: what was seen before means nothing, and what is seen until the
    /// grace time has passed is an engine that cleans up by itself.
    pub(super) fn disturb(&mut self, now: Instant) {
        self.calm = now + self.grace;
        self.span = None;
    }

    /// Adds a complete snapshot. A verdict ends the span, and begins the next.
    pub(super) fn add(&mut self, now: Moment, live: Live) -> Option<Verdict> {
        if now.at < self.calm {
            return None;
        }
        let Some((begin, before)) = self.span.take().filter(|(begin, _)| !jumped(begin, &now))
        else {
            self.span = Some((now, live));
            return None;
        };
        let span = now.at.saturating_duration_since(begin.at);
        let both = before.or(&live);
        if span < self.grace {
            self.span = Some((begin, both));
            return None;
        }
        self.span = Some((now, live));
        Some(Verdict { live: both, span })
    }

    /// When the next snapshot could bring a verdict.
    pub(super) fn ripe(&self) -> Instant {
        self.span.as_ref().map_or(self.calm, |(begin, _)| begin.at + self.grace)
    }
}

fn jumped(begin: &Moment, now: &Moment) -> bool {
    let passed = now.at.saturating_duration_since(begin.at);
    match now.clock.duration_since(begin.clock) {
        Ok(reported) => reported.abs_diff(passed) > JUMP,
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(30);

    /// A sequence of looks and disturbances, in seconds after the beginning.
    enum Step {
        /// What is alive, and whether there is a verdict: its span, and what is alive in it.
        Snapshot(u64, &'static [&'static str], Option<(u64, &'static [&'static str])>),
        Disturb(u64),
        /// The store's clock is set forward.
        Jump(u64),
    }

    fn live(networks: &[&str]) -> Live {
        let networks = networks.iter().map(|id| (id.parse().unwrap(), None)).collect();
        Live { networks, ..Live::default() }
    }

    fn run(steps: &[Step]) {
        let (start, mut clock) = (Instant::now(), SystemTime::now());
        let mut watch = Watch::new(GRACE, start);
        for (n, step) in steps.iter().enumerate() {
            match step {
                Step::Snapshot(at, alive, expected) => {
                    let passed = Duration::from_secs(*at);
                    let now = Moment { at: start + passed, clock: clock + passed };
                    let expected = expected.map(|(span, alive)| Verdict {
                        live: live(alive),
                        span: Duration::from_secs(span),
                    });
                    assert_eq!(watch.add(now, live(alive)), expected, "step {n}");
                }
                Step::Disturb(at) => watch.disturb(start + Duration::from_secs(*at)),
                Step::Jump(by) => clock += Duration::from_secs(*by),
            }
        }
    }

    use Step::{Disturb, Jump, Snapshot};

    #[test]
    fn believes_what_was_missing_for_the_grace_time() {
        run(&[
            Snapshot(0, &["a"], None),
            Snapshot(30, &["a"], None),
            Snapshot(59, &["a"], None),
            Snapshot(60, &["a"], Some((30, &["a"]))),
            Snapshot(61, &["a"], None),
            Snapshot(120, &["a"], Some((60, &["a"]))),
        ]);
    }

    #[test]
    fn what_was_alive_once_in_the_span_is_alive() {
        run(&[
            Snapshot(30, &[], None),
            Snapshot(40, &["a"], None),
            Snapshot(60, &["b"], Some((30, &["a", "b"]))),
            Snapshot(90, &[], Some((30, &["b"]))),
            Snapshot(120, &[], Some((30, &[]))),
        ]);
    }

    #[test]
    fn forgets_everything_when_an_engine_was_out_of_reach() {
        run(&[
            Snapshot(30, &[], None),
            Disturb(59),
            Snapshot(60, &[], None),
            Snapshot(88, &[], None),
            Snapshot(89, &[], None),
            Snapshot(118, &[], None),
            Snapshot(119, &[], Some((30, &[]))),
        ]);
    }

    #[test]
    fn begins_anew_when_the_clock_was_set() {
        run(&[
            Snapshot(30, &[], None),
            Jump(3600),
            Snapshot(60, &[], None),
            Snapshot(90, &[], Some((30, &[]))),
        ]);
    }
}
