//! The places of connections. Where none is free, the connection that has been silent the longest
//! is closed: engines send their request at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use super::pace::Pace;

/// How soon another one gives way, where the one that was asked to has begun to speak.
const AGAIN: Duration = Duration::from_millis(50);

/// The places, and the connections that have them.
pub(super) struct ConnectionSlots {
    free: Arc<Semaphore>,
    held: Arc<Mutex<Connections>>,
}

#[derive(Default)]
struct Connections {
    next: u64,
    /// Those that have not spoken yet, the oldest first.
    silent: BTreeMap<u64, Arc<Silent>>,
}

#[derive(Default)]
struct Silent {
    pace: Arc<Pace>,
    leave: Notify,
}

/// One place; free again when it is dropped.
pub(super) struct Slot {
    number: u64,
    silent: Arc<Silent>,
    held: Arc<Mutex<Connections>>,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionSlots {
    pub(super) fn new(most: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(most)), held: Arc::default() }
    }

    /// A place, within `timeout`; and whether another connection was closed for it.
    pub(super) async fn take(&self, timeout: Duration) -> (Option<Slot>, bool) {
        let deadline = Instant::now() + timeout;
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return (Some(self.place(permit)), false);
        }
        let mut shed = false;
        loop {
            let asked = self.shed();
            shed |= asked;
            let soon = Instant::now() + AGAIN;
            let until = if asked { soon } else { soon.min(deadline) };
            match timeout_at(until, Arc::clone(&self.free).acquire_owned()).await {
                Ok(permit) => return (permit.ok().map(|permit| self.place(permit)), shed),
                Err(_) if Instant::now() >= deadline && !asked => return (None, shed),
                Err(_) => {}
            }
        }
    }

    /// Waits until all places are free.
    pub(super) async fn all(&self, most: usize, limit: Duration) -> bool {
        let all = u32::try_from(most).unwrap_or(u32::MAX);
        timeout(limit, self.free.acquire_many(all)).await.is_ok()
    }

    fn place(&self, permit: OwnedSemaphorePermit) -> Slot {
        let silent = Arc::new(Silent::default());
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let number = held.next;
        held.next = held.next.wrapping_add(1);
        held.silent.insert(number, Arc::clone(&silent));
        Slot { number, silent, held: Arc::clone(&self.held), _permit: permit }
    }

    /// Asks the one that has been silent for longest to leave; `false` where all have spoken.
    fn shed(&self) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((_, silent)) = held.silent.pop_first() {
            if !silent.pace.has_started() {
                silent.leave.notify_one();
                return true;
            }
        }
        false
    }
}

impl Slot {
    /// When the connection's requests begin and end.
    pub(super) fn pace(&self) -> Arc<Pace> {
        Arc::clone(&self.silent.pace)
    }

    /// Ends when the connection is to give way, and has still not spoken.
    pub(super) async fn wanted(&self) {
        self.silent.leave.notified().await;
        if self.silent.pace.has_started() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.silent.remove(&self.number);
    }
}
