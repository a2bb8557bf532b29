//! The state that the threads of a process share: what is opened once, and who works on which attachment.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use model::AttachmentId;

use crate::dataplane::Opened;
use crate::neighbours::Neighbours;

/// The state that the threads of a process share.
#[derive(Clone, Debug)]
pub struct Shared {
    pub(crate) locks: Arc<AttachmentLocks>,
    /// The networks of others, as Docker Engines listed them last.
    pub neighbours: Arc<Neighbours>,
    /// What is opened once.
    pub opened: Opened,
}

impl Shared {
    /// The state for `opened`, still empty.
    pub fn with(opened: Opened) -> Self {
        Self { locks: Arc::default(), neighbours: Arc::default(), opened }
    }
}

/// Which thread works on an attachment, and how often it has taken the lock.
type Taken = BTreeMap<AttachmentId, (ThreadId, usize)>;

/// The threads that work on attachments. A thread that has the turn may take it again.
#[derive(Debug, Default)]
pub(crate) struct AttachmentLocks {
    taken: Mutex<Taken>,
    freed: Condvar,
}

/// The right to work on an attachment, until it is dropped.
struct LockGuard {
    locks: Arc<AttachmentLocks>,
    id: AttachmentId,
}

impl AttachmentLocks {
    /// Waits until no other thread works on the attachment.
    pub(crate) fn take(self: &Arc<Self>, id: &AttachmentId) -> Box<dyn Any> {
        let me = thread::current().id();
        let mut taken = locked(&self.taken);
        while taken.get(id).is_some_and(|(who, _)| *who != me) {
            taken = self.freed.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        self.taken_by(me, id, &mut taken)
    }

    /// The same without waiting; none where another thread works on it.
    pub(crate) fn try_take(self: &Arc<Self>, id: &AttachmentId) -> Option<Box<dyn Any>> {
        let me = thread::current().id();
        let mut taken = locked(&self.taken);
        let is_free = taken.get(id).is_none_or(|(who, _)| *who == me);
        is_free.then(|| self.taken_by(me, id, &mut taken))
    }

    fn taken_by(
        self: &Arc<Self>,
        me: ThreadId,
        id: &AttachmentId,
        taken: &mut Taken,
    ) -> Box<dyn Any> {
        taken.entry(id.clone()).or_insert((me, 0)).1 += 1;
        Box::new(LockGuard { locks: Arc::clone(self), id: id.clone() })
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        let mut taken = locked(&self.locks.taken);
        let last = match taken.get_mut(&self.id) {
            Some((_, depth)) if *depth > 1 => {
                *depth -= 1;
                false
            }
            Some(_) | None => true,
        };
        if last {
            taken.remove(&self.id);
            self.locks.freed.notify_all();
        }
    }
}

/// Also after a thread that had it panicked: what it holds is whole at each step.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn id(container: &str) -> AttachmentId {
        doubles::attachment_id("n", container)
    }

    #[test]
    fn one_thread_at_a_time_for_each_attachment() {
        let locks = Arc::new(AttachmentLocks::default());
        let inside = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _outer = locks.take(&id("a"));
                        let _again = locks.take(&id("a"));
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(locked(&locks.taken).is_empty());
    }

    #[test]
    fn others_are_not_kept_waiting() {
        let locks = Arc::new(AttachmentLocks::default());
        let _mine = locks.take(&id("a"));
        thread::scope(|scope| {
            scope.spawn(|| {
                drop(locks.take(&id("b")));
                assert!(locks.try_take(&id("a")).is_none(), "another thread works on it");
                assert!(locks.try_take(&id("b")).is_some());
            });
        });
        assert!(locks.try_take(&id("a")).is_some(), "its own thread may take it again");
    }
}
