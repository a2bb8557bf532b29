//! What connections ask other servers: each question once, however many connections wait for its answer. As many wait as
//! there are connections.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::exchange::Key;

/// What is known of an exchange, for those who wait for it.
#[derive(Default)]
struct Answer {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
enum State {
    /// None of them asks: the first one that sees it does.
    #[default]
    Open,
    Asking,
    Answered(Vec<u8>),
}

/// An exchange that is under way.
#[derive(Default)]
struct Exchange {
    answer: Arc<Answer>,
    /// How many wait for it.
    waiting: usize,
}

/// All that are under way.
#[derive(Default)]
pub(super) struct Exchanges(Mutex<HashMap<Key, Exchange>>);

/// One of those who wait for an exchange.
pub(super) struct Joined<'a> {
    all: &'a Exchanges,
    key: Key,
    answer: Arc<Answer>,
}

impl Exchanges {
    /// The exchange of an equal question that is under way, or a new one.
    pub(super) fn join(&self, key: Key) -> Joined<'_> {
        let mut all = self.all();
        let exchange = all.entry(key.clone()).or_default();
        exchange.waiting += 1;
        let answer = Arc::clone(&exchange.answer);
        drop(all);
        Joined { all: self, key, answer }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Key, Exchange>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Joined<'_> {
    /// Waits for the answer until its own `end`. The first one asks. Where that one gets none the next one does, which
    /// came later and has time left. Who comes after the answer begins a new exchange.
    pub(super) fn answer(
        self,
        end: Instant,
        ask: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        let mut state = self.state();
        loop {
            match &*state {
                State::Answered(answer) => return Some(answer.clone()),
                State::Open => break,
                State::Asking => {}
            }
            let remaining = end.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return None;
            }
            let waited = self.answer.changed.wait_timeout(state, remaining);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        // It may have come to be open at the end of this one.
        if end <= Instant::now() {
            return None;
        }
        *state = State::Asking;
        drop(state);
        let answer = ask();
        *self.state() = answer.clone().map_or(State::Open, State::Answered);
        self.answer.changed.notify_all();
        answer
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.answer.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Joined<'_> {
    /// With an answer the exchange is over, and with the last of those who wait for it.
    fn drop(&mut self) {
        let mut all = self.all.all();
        let exchange = all.get_mut(&self.key);
        // A later one of an equal question may be in its place.
        let own = exchange.filter(|it| Arc::ptr_eq(&it.answer, &self.answer));
        let Some(exchange) = own else { return };
        exchange.waiting -= 1;
        let is_over = matches!(*self.state(), State::Answered(_));
        if is_over || exchange.waiting == 0 {
            all.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::fixture::Open;
    use crate::upstream::{Servers, Upstream};

    fn late() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn key(asked: &[u8]) -> Key {
        Key::new(asked, Upstream::Servers(Servers::new(Vec::new(), None, &Open)))
    }

    #[test]
    fn many_connections_ask_one_question_once() {
        const MANY: usize = 8;
        let (all, asked, joined) = (Exchanges::default(), AtomicUsize::new(0), Barrier::new(MANY));
        let ask = || {
            asked.fetch_add(1, Ordering::Relaxed);
            Some(b"answer".to_vec())
        };
        let wait = || {
            let own = all.join(key(b"..question"));
            joined.wait();
            own.answer(late(), ask)
        };
        let answers: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..MANY).map(|_| scope.spawn(wait)).collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        });
        assert_eq!(answers, vec![Some(b"answer".to_vec()); MANY]);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert!(all.all().is_empty());
        let other = all.join(key(b"..other"));
        let question = all.join(key(b"..question"));
        assert!(question.answer(late(), || None).is_none(), "nothing is kept");
        assert_eq!(other.answer(late(), ask), Some(b"answer".to_vec()));
        assert!(all.all().is_empty());
    }

    /// The first one's time is over when the later one has still its own.
    #[test]
    fn who_comes_late_has_its_own_time() {
        let (all, is_asking, has_joined) = (Exchanges::default(), Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                let first = all.join(key(b"..question")).answer(late(), || {
                    is_asking.wait();
                    has_joined.wait();
                    None
                });
                assert!(first.is_none());
            });
            is_asking.wait();
            let second = all.join(key(b"..question"));
            has_joined.wait();
            let answer = second.answer(late(), || Some(b"answer".to_vec()));
            assert_eq!(answer, Some(b"answer".to_vec()));
        });
        assert!(all.all().is_empty());
    }

    /// Two may end at once: one has counted itself out, and still holds the answer, when the other one counts.
    #[test]
    fn an_exchange_ends_with_the_last_who_waits() {
        let all = Exchanges::default();
        let (first, last) = (all.join(key(b"..question")), all.join(key(b"..question")));
        let held = Arc::clone(&first.answer);
        drop(first);
        assert_eq!(all.all().len(), 1);
        drop(last);
        assert!(all.all().is_empty());
        drop(held);
    }

    /// Nor does one wait longer than its own time for what another one asks.
    #[test]
    fn who_has_waited_long_enough_waits_no_more() {
        let (all, is_asking, is_over) = (Exchanges::default(), Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                all.join(key(b"..question")).answer(late(), || {
                    is_asking.wait();
                    is_over.wait();
                    None
                })
            });
            is_asking.wait();
            let second = all.join(key(b"..question"));
            assert!(second.answer(Instant::now(), || unreachable!()).is_none());
            is_over.wait();
        });
        assert!(all.all().is_empty());
    }
}
