//! The engine for many threads: each borrows a world of its own, and they take turns at an
//! attachment.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use config::Config;
use linux::Life;
use model::{AttachmentId, Result};
use neutron::Neutron;

use crate::dataplane::{Foreign, Opened};
use crate::host_context::HostContext;
use crate::neighbours::Neighbours;

/// No more than this many are kept for later.
const IDLE: usize = 12;

/// Worlds for the threads of the daemon. Nothing is remembered in them that could be wrong: they
/// only hold open sockets and directories.
pub(crate) struct ContextPool {
    config: Arc<Config>,
    idle: Mutex<Vec<HostContext>>,
    shared: Shared,
}

/// The state that the threads of a process share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) locks: Arc<AttachmentLocks>,
    pub(crate) neighbours: Arc<Neighbours>,
    pub(crate) opened: Opened,
}

impl Shared {
    /// The state for `opened`, still empty.
    pub(crate) fn with(opened: Opened) -> Self {
        Self { locks: Arc::default(), neighbours: Arc::default(), opened }
    }
}

impl ContextPool {
    /// None is opened yet.
    pub(crate) fn new(config: Config) -> Self {
        let shared = Shared::with(Opened::new(Life::Long));
        Self { config: Arc::new(config), idle: Mutex::default(), shared }
    }

    /// How this host is configured.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The networks of others that this host's Docker Engines list.
    pub(crate) fn neighbours(&self) -> &Neighbours {
        &self.shared.neighbours
    }

    /// Neutron, opened now if this is the first use.
    pub(crate) fn neutron(&self) -> Result<Arc<Neutron>> {
        self.shared.opened.neutron(&self.config)
    }

    /// The third-party Docker plugins.
    pub(crate) fn foreign(&self) -> Result<Arc<Foreign>> {
        self.shared.opened.foreign(&self.config)
    }

    /// Works in a context that no other thread uses meanwhile.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&HostContext) -> Result<T>) -> Result<T> {
        let idle = locked(&self.idle).pop();
        let host_context = match idle {
            Some(host_context) => host_context,
            None => HostContext::shared(&self.config, self.shared.clone())?,
        };
        let result = work(&host_context);
        let mut idle = locked(&self.idle);
        if idle.len() < IDLE {
            idle.push(host_context);
        }
        result
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
struct Held {
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
        Box::new(Held { locks: Arc::clone(self), id: id.clone() })
    }
}

impl Drop for Held {
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

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn id(container: &str) -> AttachmentId {
        AttachmentId {
            network: "n".parse().unwrap(),
            container: container.parse().unwrap(),
            ifname: "eth0".parse().unwrap(),
        }
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
