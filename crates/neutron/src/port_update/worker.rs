//! Carries out port updates. One process of a host does it for all others.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use model::{Error, Kind, ResourceId, Result};

use super::{Lost, Reported, UpdateFiles};
use crate::Neutron;
use crate::notifier::Notifier;
use crate::pause::{Pause, Pauses};

/// How many ports are named at the same time: containers that wait for theirs come first.
const WORKERS: usize = 4;

/// The stack of a thread, in bytes.
const STACK: usize = 512 << 10;

/// The interval of checks without a notification.
const IDLE: Duration = Duration::from_secs(60);

/// The age of a half-written file whose writer is gone.
const STALE: Duration = Duration::from_secs(60);

/// The first and the longest pause where Neutron is away, and where it refuses one.
const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(30)];

/// Sends port updates to Neutron. There is one worker on a host.
pub struct Worker<'a> {
    neutron: &'a Neutron,
    /// Of all: Neutron is busy or away.
    pause: Pause,
    /// Of one port.
    pauses: Pauses<ResourceId>,
    _only: File,
}

/// The result of one round.
#[derive(Debug, Default)]
pub struct Round {
    /// How many ports have their names.
    pub named: usize,
    /// Ports that were deleted in Neutron.
    pub lost: Vec<Lost>,
    /// The failures.
    pub failures: Vec<Error>,
    /// When to run again without a notification.
    pub next: Duration,
}

impl Neutron {
    /// The right to send this host's port updates; `None` where another process has it. While it
    /// exists no caller waits for that.
    ///
    /// # Errors
    /// Where the files cannot be written.
    pub fn worker(&self) -> Result<Option<Worker<'_>>> {
        let book = self.port_updates();
        let Some(only) = book.worker()? else { return Ok(None) };
        if let Some(before) = SystemTime::now().checked_sub(STALE) {
            book.sweep(before)?;
        }
        let (pause, pauses) = (Pause::default(), Pauses::default());
        Ok(Some(Worker { neutron: self, pause, pauses, _only: only }))
    }

    /// Notifies from now on of new port updates.
    ///
    /// # Errors
    /// Where the files cannot be watched.
    pub fn port_update_notifier(&self) -> Result<Notifier> {
        Notifier::at(&[self.port_updates().notifier()?])
    }
}

impl Worker<'_> {
    /// Does what is to be done now, until `is_over`.
    pub fn round(&mut self, is_over: &(dyn Fn() -> bool + Sync)) -> Round {
        let mut round = Round { next: IDLE, ..Round::default() };
        if let Some(remaining) = self.pause.remaining(Instant::now()) {
            round.next = remaining;
            return round;
        }
        match self.book().pending_ports() {
            Ok(pending_ports) => self.work(pending_ports, is_over, &mut round),
            Err(error) => {
                self.pause.begin(Instant::now(), PAUSES);
                round.failures.push(error);
            }
        }
        let now = Instant::now();
        let pauses = [self.pause.remaining(now), self.pauses.shortest(now)];
        round.next = pauses.into_iter().flatten().fold(round.next, Duration::min);
        round
    }

    fn work(
        &mut self,
        pending_ports: Vec<ResourceId>,
        is_over: &(dyn Fn() -> bool + Sync),
        round: &mut Round,
    ) {
        self.pauses.retain(|id| pending_ports.contains(id));
        let is_due = |id: &ResourceId| !self.pauses.is_on(id, Instant::now());
        let due: Vec<ResourceId> = pending_ports.into_iter().filter(is_due).collect();
        for (id, reported) in self.report(due, is_over) {
            match reported {
                Ok(Reported::Named) => {
                    round.named += 1;
                    self.pause = Pause::default();
                }
                Ok(Reported::Lost(lost)) => round.lost.push(lost),
                Ok(Reported::Nothing) => {}
                Err(error) => {
                    let now = Instant::now();
                    match error.kind() {
                        Kind::TryAgain => self.pause.begin(now, PAUSES),
                        _ => self.pauses.begin(id, now, PAUSES),
                    }
                    round.failures.push(error);
                }
            }
        }
    }

    /// Several at the same time. Where Neutron has enough to do, what is left is left.
    fn report(
        &self,
        due: Vec<ResourceId>,
        is_over: &(dyn Fn() -> bool + Sync),
    ) -> Vec<(ResourceId, Result<Reported>)> {
        let workers = WORKERS.min(self.neutron.settings.access.concurrency.max(1)).min(due.len());
        let (due, reported) = (Mutex::new(due.into_iter()), Mutex::new(Vec::new()));
        let is_busy = AtomicBool::new(false);
        let work = || {
            while !is_busy.load(Ordering::Relaxed) && !is_over() {
                let Some(id) = locked(&due).next() else { return };
                let done = self.neutron.settle(&id);
                if done.as_ref().is_err_and(|error| error.kind() == Kind::TryAgain) {
                    is_busy.store(true, Ordering::Relaxed);
                }
                locked(&reported).push((id, done));
            }
        };
        thread::scope(|scope| {
            for _ in 1..workers {
                // If a thread cannot be started, the others do its work.
                let _ = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
            }
            work();
        });
        reported.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn book(&self) -> UpdateFiles {
        self.neutron.port_updates()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
