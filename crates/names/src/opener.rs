//! Adds the addresses of answers to the fence, one answer after the other, in a thread of its own.
//!
//! The packet filter may keep an opening waiting for a second: a change of rules asks for that. Queries of
//! others do not wait for it, and neither do those of the same container that open nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use model::{Error, Result};

use crate::fenced_answer::{FenceHost, Unopened};
use crate::holder::{Client, who_has_most};
use crate::pending::From;
use crate::results::Results;

/// More answers do not wait at once, of everybody and of one container.
const MOST: usize = 512;
const MOST_OF_ONE: usize = 64;
/// Who has waited longer has asked again, or has given up.
const LONGEST: Duration = Duration::from_secs(5);
/// What the thread needs, in bytes.
const STACK: usize = 512 << 10;

/// An answer to a datagram, and where it goes to.
pub(crate) type Answer = (From, Vec<u8>);

/// The end at which answers are given to the thread.
#[derive(Clone)]
pub(crate) struct Opener(Arc<Waiting>);

/// The thread, which ends with this value: what waits then gets no answer.
pub(crate) struct Running(Opener);

/// An answer that is given once its addresses are open.
struct Job {
    unopened: Box<Unopened>,
    to: To,
    since: Instant,
}

/// Who waits for it.
enum To {
    /// The loop, which sends it.
    Loop(Box<From>, Arc<Results<Answer>>),
    /// The thread of a connection.
    Connection(SyncSender<Vec<u8>>),
}

#[derive(Default)]
struct Waiting {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// Containers take turns.
#[derive(Default)]
struct Queue {
    jobs: HashMap<Client, VecDeque<Job>>,
    turns: VecDeque<Client>,
    count: usize,
    is_over: bool,
}

impl Running {
    /// # Errors
    /// Where there is no thread for it.
    pub(crate) fn start(gate: Arc<dyn FenceHost>) -> Result<Self> {
        let waiting = Arc::new(Waiting::default());
        let running = Self(Opener(Arc::clone(&waiting)));
        let thread = thread::Builder::new().name("names-opener".into()).stack_size(STACK);
        let started = thread.spawn(move || {
            while let Some(Job { unopened, to, since }) = waiting.next() {
                let is_late = since.elapsed() > LONGEST;
                to.give(if is_late { unopened.failed() } else { unopened.open(&*gate) });
            }
        });
        started.map_err(|cause| Error::os("starting the thread names-opener", cause))?;
        Ok(running)
    }

    pub(crate) fn opener(&self) -> Opener {
        self.0.clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut queue = self.0.0.queue();
        *queue = Queue { is_over: true, ..Queue::default() };
        drop(queue);
        self.0.0.changed.notify_all();
    }
}

impl Opener {
    /// Opens it, and gives the answer to the loop then; that there is none, where too many wait.
    pub(crate) fn start(
        &self,
        unopened: Box<Unopened>,
        (from, answers): (From, &Arc<Results<Answer>>),
    ) {
        let to = To::Loop(Box::new(from), Arc::clone(answers));
        self.0.put(Job { unopened, to, since: Instant::now() });
    }

    /// Opens it, and waits for that. Empty where the server ends.
    pub(crate) fn open(&self, unopened: Box<Unopened>) -> Vec<u8> {
        let (to, answer) = sync_channel(1);
        self.0.put(Job { unopened, to: To::Connection(to), since: Instant::now() });
        answer.recv().unwrap_or_default()
    }
}

impl To {
    fn give(self, message: Vec<u8>) {
        match self {
            To::Loop(from, answers) => answers.put((*from, message)),
            // A connection that is closed meanwhile needs no answer.
            To::Connection(to) => drop(to.send(message)),
        }
    }
}

impl Waiting {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has no room, which may be what waited before it, is answered at once.
    fn put(&self, job: Job) {
        let refused = self.queue().put(job);
        self.changed.notify_one();
        if let Some(Job { unopened, to, .. }) = refused {
            to.give(unopened.failed());
        }
    }

    /// The next one; `None` where it is over.
    fn next(&self) -> Option<Job> {
        let mut queue = self.queue();
        loop {
            if queue.is_over {
                return None;
            }
            if let Some(job) = queue.take() {
                return Some(job);
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Queue {
    /// What has no room: this one, or the oldest of the container that has most.
    fn put(&mut self, job: Job) -> Option<Job> {
        let client = job.unopened.client.clone();
        let of_one = self.jobs.get(&client).map_or(0, VecDeque::len);
        if self.is_over || of_one >= MOST_OF_ONE {
            return Some(job);
        }
        let mut displaced = None;
        if self.count >= MOST {
            let counts = self.jobs.iter().map(|(client, jobs)| (client, jobs.len()));
            displaced = who_has_most(counts, of_one).and_then(|most| self.take_of(&most));
            if displaced.is_none() {
                return Some(job);
            }
        }
        let waiting = self.jobs.entry(client.clone()).or_default();
        if waiting.is_empty() {
            self.turns.push_back(client);
        }
        waiting.push_back(job);
        self.count += 1;
        displaced
    }

    /// The oldest one of a container, which has no turn where it has no other one.
    fn take_of(&mut self, client: &Client) -> Option<Job> {
        let job = self.pop(client)?;
        if !self.jobs.contains_key(client) {
            self.turns.retain(|it| it != client);
        }
        Some(job)
    }

    fn take(&mut self) -> Option<Job> {
        let client = self.turns.pop_front()?;
        let job = self.pop(&client)?;
        if self.jobs.contains_key(&client) {
            self.turns.push_back(client);
        }
        Some(job)
    }

    fn pop(&mut self, client: &Client) -> Option<Job> {
        let waiting = self.jobs.get_mut(client)?;
        let job = waiting.pop_front()?;
        self.count -= 1;
        if waiting.is_empty() {
            self.jobs.remove(client);
        }
        Some(job)
    }
}

#[cfg(test)]
mod tests;
