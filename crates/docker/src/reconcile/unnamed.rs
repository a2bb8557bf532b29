//! Containers of an engine whose names are to be asked for.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use model::ContainerId;

use crate::api::Named;

/// The pause after the first failure; twice as long after each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// No pause is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// So often a container is asked for in vain before it is given up: five minutes.
const MOST_TRIES: u32 = 10;
/// So many are asked for at once.
const AT_ONCE: usize = 50;

/// The containers, each once.
#[derive(Debug, Default)]
pub(super) struct Unnamed(BTreeMap<ContainerId, Entry>);

#[derive(Clone, Copy, Debug)]
struct Entry {
    runs: bool,
    tries: u32,
    due: Instant,
}

impl Unnamed {
    /// These have other names since `now`.
    pub(super) fn add(&mut self, named: Vec<Named>, now: Instant) {
        let entry =
            |named: Named| (named.container, Entry { runs: named.runs, tries: 0, due: now });
        self.0.extend(named.into_iter().map(entry));
    }

    /// Those to ask for now, those that failed last; whether each is being asked for the first time.
    pub(super) fn due(&self, now: Instant) -> Vec<(Named, bool)> {
        let mut due: Vec<_> = self.0.iter().filter(|(_, entry)| entry.due <= now).collect();
        due.sort_by_key(|(_, entry)| entry.tries);
        let named = |(container, entry): (&ContainerId, &Entry)| {
            (Named { container: container.clone(), runs: entry.runs }, entry.tries == 0)
        };
        due.into_iter().take(AT_ONCE).map(named).collect()
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.values().map(|entry| entry.due).min()
    }

    /// Its names are known, or it runs no more.
    pub(super) fn remove(&mut self, container: &ContainerId) {
        self.0.remove(container);
    }

    /// One that runs is to be asked for later; `false` where it is given up.
    pub(super) fn failed(&mut self, container: &ContainerId, now: Instant) -> bool {
        let Some(entry) = self.0.get_mut(container) else { return true };
        let factor = 1_u32.checked_shl(entry.tries).unwrap_or(u32::MAX);
        let pause = FIRST_PAUSE.saturating_mul(factor).min(LONGEST_PAUSE);
        let tries = entry.tries + 1;
        *entry = Entry { runs: true, tries, due: now + pause };
        if tries >= MOST_TRIES {
            self.remove(container);
        }
        tries < MOST_TRIES
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(container: &str) -> Named {
        Named { container: container.parse().unwrap(), runs: false }
    }

    #[test]
    fn one_that_fails_keeps_no_other_waiting_and_is_given_up_at_last() {
        let (mut unnamed, mut now) = (Unnamed::default(), Instant::now());
        unnamed.add(vec![named("a"), named("a"), named("b")], now);
        assert_eq!(unnamed.due(now), [(named("a"), true), (named("b"), true)]);
        assert!(unnamed.failed(&named("a").container, now));
        assert_eq!(unnamed.due(now), [(named("b"), true)]);
        let (mut tries, start) = (1, now);
        unnamed.remove(&named("b").container);
        while let Some(due) = unnamed.next() {
            now = due;
            assert_eq!(unnamed.due(now), [(Named { runs: true, ..named("a") }, false)]);
            tries += 1;
            assert_eq!(unnamed.failed(&named("a").container, now), tries < MOST_TRIES);
        }
        assert_eq!((tries, (now - start).as_secs()), (MOST_TRIES, 243));
    }
}
