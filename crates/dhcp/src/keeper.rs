//! The one thread that keeps every lease alive, and the handle through which callers use it.

mod run;
mod task;

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use model::{AttachmentId, Error, Ipv4Net, NetworkName, Result};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::write;

use crate::{ContainerLocator, LeaseStore, Pace, Subject, Terms};

/// The stack of the thread, in bytes; only what it uses is allocated.
const STACK: usize = 512 << 10;

/// A change of a lease without a call.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// It is new.
    Bound(AttachmentId, Terms),
    /// It continues.
    Renewed(AttachmentId, Terms),
    /// It ended, because of this; its address was taken from the interface, and another is sought.
    Lost(AttachmentId, Terms, &'static str),
    /// There is one again after that, and its address and routes are on the interface. The last is
    /// the address that was given first.
    Regained(AttachmentId, Terms, Ipv4Net),
    /// A lease on disk that is not continued, because of this.
    Unread(String),
    /// Something went wrong that will be tried again.
    Trouble(AttachmentId, String),
}

/// A question to the thread.
enum Command {
    Allocate(Box<Subject>, Sender<Result<Terms>>),
    Release(AttachmentId, Sender<Result<()>>),
    Check(AttachmentId, Sender<Option<Terms>>),
    Collect(NetworkName, Keep, Sender<Result<()>>),
    Stop,
}

type Keep = Box<dyn Fn(&AttachmentId) -> bool + Send>;

/// The state that the thread and its callers share.
struct Door {
    commands: Mutex<VecDeque<Command>>,
    wake: OwnedFd,
}

/// Keeps leases alive until it is dropped. They stay on disk, for the next one to continue with.
pub struct Keeper {
    door: Arc<Door>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Continues with the leases in the store, and reports their changes.
    ///
    /// # Errors
    /// Where the store cannot be read, or no thread can be started.
    pub fn start(
        lease_store: LeaseStore,
        pace: Pace,
        places: Box<dyn ContainerLocator>,
        report: Box<dyn Fn(News) + Send>,
    ) -> Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|cause| Error::os("making an eventfd", cause.into()))?;
        let door = Arc::new(Door { commands: Mutex::default(), wake });
        let mut run = run::Run::new(
            Arc::clone(&door),
            lease_store,
            pace,
            run::Surroundings { places, report },
        )?;
        let thread = thread::Builder::new()
            .name("dhcp".to_owned())
            .stack_size(STACK)
            .spawn(move || run.run())
            .map_err(|cause| Error::os("starting the thread dhcp", cause))?;
        Ok(Self { door, thread: Some(thread) })
    }

    /// Gets an address, or the one that there is.
    ///
    /// # Errors
    /// [`model::Kind::TryAgain`] where no server gives one; [`model::Kind::Invalid`] without a link.
    pub fn allocate(&self, subject: Subject) -> Result<Terms> {
        self.ask(|answer| Command::Allocate(Box::new(subject), answer))?
    }

    /// Releases an address; nothing happens where there is none.
    ///
    /// # Errors
    /// Where the lease cannot be removed from disk.
    pub fn release(&self, id: &AttachmentId) -> Result<()> {
        self.ask(|answer| Command::Release(id.clone(), answer))?
    }

    /// The address that there is.
    ///
    /// # Errors
    /// [`model::Kind::TryAgain`] where the thread has ended.
    pub fn check(&self, id: &AttachmentId) -> Result<Option<Terms>> {
        self.ask(|answer| Command::Check(id.clone(), answer))
    }

    /// Releases every address of the network that `keep` does not hold.
    ///
    /// # Errors
    /// As [`Keeper::release`].
    pub fn collect(&self, network: NetworkName, keep: Keep) -> Result<()> {
        self.ask(|answer| Command::Collect(network, keep, answer))?
    }

    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Result<T> {
        let (answer, answered) = mpsc::channel();
        self.door.put(command(answer));
        answered.recv().map_err(|_| Error::try_again("the DHCP client has ended"))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.door.put(Command::Stop);
        // A panic of the thread was printed already.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Door {
    fn put(&self, command: Command) {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).push_back(command);
        // It fails only where its counter is full: then it is readable too.
        let _ = write(self.wake.as_fd(), &1u64.to_ne_bytes());
    }

    fn take(&self) -> Option<Command> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}
