//! The loop of the thread that renews leases.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use model::{AttachmentId, Error, Kind, Mac, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::read;
use rustix::rand::{GetRandomFlags, getrandom};

use super::task::Task;
use super::{Command, Door, News};
use crate::ContainerLocator;
use crate::lease_store::MOST;
use crate::{Client, LeaseStore, Pace, Subject, Terms, Time, link};

/// No sleep is longer: a clock that counts sleep is not what poll(2) waits by.
const SLEEP: Duration = Duration::from_secs(60);

/// The environment of the thread.
pub(super) struct Surroundings {
    pub(super) places: Box<dyn ContainerLocator>,
    pub(super) report: Box<dyn Fn(News) + Send>,
}

impl Surroundings {
    pub(super) fn trouble(&self, subject: &Subject, error: &Error) {
        (self.report)(News::Trouble(subject.id.clone(), error.to_string()));
    }
}

pub(super) struct Run {
    door: Arc<Door>,
    lease_store: LeaseStore,
    pace: Pace,
    surroundings: Surroundings,
    tasks: BTreeMap<AttachmentId, Task>,
}

impl Run {
    pub(super) fn new(
        door: Arc<Door>,
        lease_store: LeaseStore,
        pace: Pace,
        surroundings: Surroundings,
    ) -> Result<Self> {
        let now = Time::now();
        let mut tasks = BTreeMap::new();
        let leases = lease_store.leases()?;
        leases
            .unread
            .iter()
            .for_each(|error| (surroundings.report)(News::Unread(error.to_string())));
        for (name, lease) in leases.read {
            let random = random();
            // All at once would be a storm on the link.
            let pause = Duration::from_millis(random % 1000);
            let client =
                Client::new(lease.subject.clone(), lease.mac, pace, now.after(pause), random)
                    .resume(&lease);
            let task = Task::known(lease.subject.clone(), client, lease.mac, name);
            tasks.insert(lease.subject.id.clone(), task.resumed(&lease));
        }
        Ok(Self { door, lease_store, pace, surroundings, tasks })
    }

    /// Runs until it is stopped.
    pub(super) fn run(&mut self) {
        loop {
            while let Some(command) = self.door.take() {
                if !self.obey(command) {
                    return;
                }
            }
            let now = Time::now();
            let (lease_store, surroundings) = (&self.lease_store, &self.surroundings);
            self.tasks.values_mut().for_each(|task| {
                if now >= task.due() || task.sockets().next().is_some() {
                    task.run_once(now, lease_store, surroundings);
                }
            });
            self.tasks.retain(|_, task| !task.is_over());
            self.sleep();
        }
    }

    fn sleep(&self) {
        let due = self.tasks.values().map(Task::due).min().unwrap_or(Time::NEVER);
        let remaining = due.since(Time::now()).min(SLEEP);
        let timeout = Timespec::try_from(remaining).ok();
        let sockets = self.tasks.values().flat_map(Task::sockets).map(AsFd::as_fd);
        let mut fds: Vec<PollFd<'_>> = std::iter::once(self.door.wake.as_fd())
            .chain(sockets)
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        // An interrupted sleep was only shorter.
        let _ = poll(&mut fds, timeout.as_ref());
        let _ = read(&self.door.wake, &mut [0u8; 8]);
    }

    /// `false` where it is the end.
    fn obey(&mut self, command: Command) -> bool {
        match command {
            Command::Allocate(subject, answer) => self.allocate(*subject, answer),
            Command::Release(id, answer) => drop(answer.send(self.release(&id))),
            Command::Check(id, answer) => {
                drop(answer.send(self.tasks.get(&id).and_then(Task::reported)));
            }
            Command::Collect(network, keep, answer) => {
                let gone: Vec<AttachmentId> = self
                    .tasks
                    .keys()
                    .filter(|id| id.network == network && !keep(id))
                    .cloned()
                    .collect();
                // One that fails does not keep the others from being released.
                let released = gone.iter().map(|id| self.release(id));
                drop(answer.send(released.fold(Ok(()), Result::and)));
            }
            Command::Stop => return false,
        }
        true
    }

    fn allocate(&mut self, subject: Subject, answer: Sender<Result<Terms>>) {
        let id = subject.id.clone();
        let known = self.tasks.get_mut(&id).filter(|task| !task.is_lost() && task.is_of(&subject));
        if let Some(task) = known {
            // The container may have another namespace by now.
            task.subject.netns.clone_from(&subject.netns);
            return task.wait(answer);
        }
        // A repeated request for a lost lease waits no longer than the first one.
        match self.release(&id).and_then(|()| self.begin(subject)) {
            Ok(mut task) => {
                task.wait(answer);
                self.tasks.insert(id, task);
            }
            Err(error) => drop(answer.send(Err(error.context(id)))),
        }
    }

    fn begin(&self, subject: Subject) -> Result<Task> {
        if self.tasks.len() >= MOST {
            let what = format!("there are {MOST} leases, and no more are kept");
            return Err(Error::new(Kind::Exhausted, what));
        }
        let known: Option<Mac> = subject.mac;
        let found = link::find(&subject, known, &*self.surroundings.places)?.ok_or_else(|| {
            Error::invalid(format!("its interface {} is not there", subject.id.ifname))
        })?;
        let random = random();
        let now = Time::now();
        let client = Client::new(subject.clone(), found.mac, self.pace, now, random);
        Ok(Task::new(subject, client, &found, format!("{random:016x}")))
    }

    fn release(&mut self, id: &AttachmentId) -> Result<()> {
        let Some(task) = self.tasks.get_mut(id) else { return Ok(()) };
        task.release(Time::now(), &self.lease_store, &self.surroundings)?;
        self.tasks.remove(id);
        Ok(())
    }
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    let read = getrandom(&mut bytes, GetRandomFlags::empty());
    match read {
        Ok(8) => u64::from_ne_bytes(bytes),
        _ => Time::now().0.wrapping_mul(0x9e37_79b9_7f4a_7c15),
    }
}
