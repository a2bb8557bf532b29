//! Deadlines for a piece of work, however long Neutron takes. Docker waits for the end of a
//! container, and the reconciler removes what is left of it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use model::{Error, Result};

/// As long as Neutron may take for all requests of one piece of work.
const PROMPT: Duration = Duration::from_secs(20);

/// The same while it hangs: an engine makes several calls for the end of a container.
const HANGING: Duration = Duration::from_secs(2);

/// So long after it did not answer in time it counts as hanging, unless it answers.
const MEMORY: Duration = Duration::from_secs(60);

/// The deadlines of threads.
#[derive(Debug, Default)]
pub(crate) struct Deadlines(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    of: HashMap<ThreadId, Instant>,
    /// When Neutron last took longer than there was time.
    hung: Option<Instant>,
}

/// A deadline of this thread's, until it is dropped.
pub(crate) struct Deadline<'a>(&'a Deadlines);

impl Deadlines {
    /// Of work within work the outer one counts.
    pub(crate) fn begin(&self) -> Option<Deadline<'_>> {
        let mut state = self.state();
        let me = thread::current().id();
        if state.of.contains_key(&me) {
            return None;
        }
        let is_hanging = state.hung.is_some_and(|at| at.elapsed() < MEMORY);
        let limit = if is_hanging { HANGING } else { PROMPT };
        state.of.insert(me, Instant::now() + limit);
        Some(Deadline(self))
    }

    /// When this thread has to be done.
    pub(crate) fn mine(&self) -> Option<Instant> {
        self.state().of.get(&thread::current().id()).copied()
    }

    /// Adapts to the result of a request that had a deadline.
    pub(crate) fn learn<T>(&self, until: Option<Instant>, done: &Result<T>) {
        let is_answered = done.as_ref().map_or_else(|error| error.status().is_some(), |_| true);
        let mut state = self.state();
        if is_answered {
            state.hung = None;
        } else if until.is_some_and(|until| Instant::now() >= until) {
            state.hung = Some(Instant::now());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Deadline<'_> {
    fn drop(&mut self) {
        self.0.state().of.remove(&thread::current().id());
    }
}

/// How much time is left; all of it where there is no deadline.
pub(crate) fn remaining(until: Option<Instant>, limit: Duration) -> Duration {
    until.map_or(limit, |until| limit.min(until.saturating_duration_since(Instant::now())))
}

/// There is no time left for what was to be done.
pub(crate) fn late(doing: &str) -> Error {
    Error::try_again(format!("{doing}: Neutron takes too long; it is tried again later"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_met_a_hanging_neutron_has_less_time_the_next_time() {
        let deadlines = Deadlines::default();
        assert_eq!(deadlines.mine(), None);
        let outer = deadlines.begin();
        let first = deadlines.mine().unwrap();
        assert!(deadlines.begin().is_none());
        assert_eq!(deadlines.mine(), Some(first), "the outer one counts");
        drop(outer);
        assert_eq!(deadlines.mine(), None);
        let now = Instant::now();
        deadlines.learn(Some(now), &Err::<(), _>(Error::try_again("no answer")));
        let second = deadlines.begin();
        assert!(deadlines.mine().unwrap() < first);
        drop(second);
        deadlines.learn(None, &Err::<(), _>(Error::conflict("refused").with_status(409)));
        let _third = deadlines.begin();
        assert!(deadlines.mine().unwrap() > first);
    }

    #[test]
    fn what_is_left_is_never_more_than_the_limit() {
        let limit = Duration::from_secs(5);
        assert_eq!(remaining(None, limit), limit);
        assert_eq!(remaining(Some(Instant::now()), limit), Duration::ZERO);
        assert!(remaining(Some(Instant::now() + limit * 2), limit) == limit);
    }
}
