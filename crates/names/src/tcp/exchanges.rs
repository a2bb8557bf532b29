//! What connections ask other servers: each question once, however many connections wait for its answer. As many wait as
//! there are connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::exchange::Key;

/// What a server says, once it is known; `None` where none says anything.
type Answer = OnceLock<Option<Vec<u8>>>;

/// All that are under way.
#[derive(Default)]
pub(super) struct Exchanges(Mutex<HashMap<Key, Arc<Answer>>>);

/// One of those who wait for an exchange.
pub(super) struct Joined<'a> {
    all: &'a Exchanges,
    key: Key,
    answer: Arc<Answer>,
}

impl Exchanges {
    /// The exchange of an equal question that is under way, or a new one.
    pub(super) fn join(&self, key: Key) -> Joined<'_> {
        let answer = Arc::clone(self.all().entry(key.clone()).or_default());
        Joined { all: self, key, answer }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Key, Arc<Answer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Joined<'_> {
    /// Waits for the answer. The first one asks. Who comes afterwards begins a new exchange.
    pub(super) fn answer(self, ask: impl FnOnce() -> Option<Vec<u8>>) -> Option<Vec<u8>> {
        let answer = self.answer.get_or_init(ask).clone();
        let mut all = self.all.all();
        if all.get(&self.key).is_some_and(|it| Arc::ptr_eq(it, &self.answer)) {
            all.remove(&self.key);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;
    use crate::fixture::Open;
    use crate::upstream::{Servers, Upstream};

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
            own.answer(ask)
        };
        let answers: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..MANY).map(|_| scope.spawn(wait)).collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        });
        assert_eq!(answers, vec![Some(b"answer".to_vec()); MANY]);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert!(all.all().is_empty());
        let other = all.join(key(b"..other"));
        assert!(all.join(key(b"..question")).answer(|| None).is_none(), "nothing is kept");
        assert_eq!(other.answer(ask), Some(b"answer".to_vec()));
        assert!(all.all().is_empty());
    }
}
