//! Threads that wait for the kernel in place of their callers.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use model::{IfName, Result};

use super::{Doomed, LINKS, ReapWait, delete, delete_each, find, pipe};
use crate::socket::{ROUTE, Socket};

/// So many deletions of one [`Reaper`] wait for the kernel at once: twice as many as it buries in
/// the time in which one after the other is asked for.
const THREADS: usize = 48;
/// Of a thread that only waits, in bytes.
const STACK: usize = 64 << 10;
/// A thread without work ends after so long.
const IDLE: Duration = Duration::from_secs(5);

/// Deletes links for a long-lived process. Threads wait for the kernel, a bounded number of them,
/// which are kept for a while; beyond that the caller waits itself.
#[derive(Debug, Default)]
pub struct Reaper {
    work_queue: Arc<WorkQueue>,
}

/// Where work lies.
#[derive(Debug, Default)]
struct WorkQueue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    /// How many of them have nothing to do.
    idle: usize,
    closed: bool,
}

/// Links to be deleted, in the namespace of the socket.
#[derive(Debug)]
struct Job {
    links: Vec<Doomed>,
    route: Socket,
    writer: OwnedFd,
}

/// The worker that takes a job.
enum Worker {
    There,
    New,
    None,
}

impl Reaper {
    /// Without any thread yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// As [`super::reap`], without forking.
    ///
    /// # Errors
    /// As [`super::reap`].
    pub fn reap(&self, links: &[IfName]) -> Result<()> {
        if links.is_empty() {
            return Ok(());
        }
        let mut route = Socket::route()?;
        let doomed = find(links, &mut route)?;
        if doomed.is_empty() {
            return Ok(());
        }
        let monitor = Socket::notified(ROUTE, LINKS)?;
        let (reader, writer) = pipe()?;
        match self.give(Job { links: doomed.clone(), route, writer }) {
            true => ReapWait::new(&doomed, monitor, reader).keep(),
            // Too many threads: slower, but as well.
            false => doomed.iter().try_for_each(delete),
        }
    }

    /// Leaves the job to a thread; `false` where there is none for it.
    fn give(&self, job: Job) -> bool {
        let mut state = self.work_queue.state();
        match state.worker() {
            Worker::There => state.jobs.push_back(job),
            Worker::New => {
                let work_queue = Arc::clone(&self.work_queue);
                let thread = thread::Builder::new().name("reaper".into()).stack_size(STACK);
                if thread.spawn(move || work_queue.work()).is_err() {
                    return false;
                }
                state.threads += 1;
                state.jobs.push_back(job);
            }
            Worker::None => return false,
        }
        drop(state);
        self.work_queue.changed.notify_one();
        true
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.work_queue.state().closed = true;
        self.work_queue.changed.notify_all();
    }
}

impl State {
    fn worker(&self) -> Worker {
        match (self.idle > self.jobs.len(), self.threads < THREADS) {
            (true, _) => Worker::There,
            (false, true) => Worker::New,
            (false, false) => Worker::None,
        }
    }
}

impl WorkQueue {
    /// A thread's whole life.
    fn work(&self) {
        while let Some(Job { links, route, writer }) = self.next() {
            delete_each(&links, route, &writer);
        }
    }

    /// The next job; none where there was none for long.
    fn next(&self) -> Option<Job> {
        let mut state = self.state();
        state.idle += 1;
        while state.jobs.is_empty() && !state.closed {
            let waited = self.changed.wait_timeout(state, IDLE);
            let (again, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            state = again;
            if waited.timed_out() {
                break;
            }
        }
        state.idle -= 1;
        let job = state.jobs.pop_front();
        if job.is_none() {
            state.threads -= 1;
        }
        job
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
