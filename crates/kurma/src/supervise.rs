//! Watching over the networking pod: what a daemon does, and what everything also works without.
//!
//! Each network has a thread, and each pod that is being undone. None of them is waited for: a
//! registry or a plugin that does not answer keeps nothing but its own network.

mod pending;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use model::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::config::{NetworkConfig, PodNetworks};
use crate::plugin::{NetworkingPod, Watched};
use crate::{Name, PodId};
use pending::Pending;

/// How long a plugin that cannot be started rests, at first and at most.
const REST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The interval of checks for pending calls.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// An event for the watcher.
#[derive(Debug)]
pub enum Event {
    /// A plugin runs.
    Started {
        /// Its network.
        network: Name,
        /// Its first process.
        pid: u32,
    },
    /// A plugin has ended, and is started again.
    Ended {
        /// Its network.
        network: Name,
        /// How.
        why: String,
    },
    /// A plugin cannot be started; it is tried again.
    Failed {
        /// Its network.
        network: Name,
        /// Why.
        error: Error,
    },
    /// A pod that was left half undone is gone.
    Settled {
        /// Which.
        pod: PodId,
    },
    /// A pod cannot be undone; it is tried again.
    PendingDel {
        /// Which.
        pod: PodId,
        /// Why.
        error: Error,
    },
    /// The pods cannot be listed, or what no pod needs cannot be removed; it is tried again.
    Unswept {
        /// Why.
        error: Error,
    },
}

/// What a thread reports.
enum Message {
    Seen(Event),
    /// A pod was worked on; none where another process does.
    Settled(PodId, Result<Option<()>>),
    /// Whether nothing is left that a later sweep could remove.
    Swept(Result<bool>),
    Stop,
}

/// Keeps every network's plugin running, starts again those that end, calls pending `del`s, and
/// removes what no pod needs, until `stop` can be read. The plugins continue running then: the next
/// supervisor finds them. A call that is under way then continues, too, as one of another process does.
///
/// # Errors
/// The kernel's refusal to wait, or to make a thread.
pub fn supervise(
    plugins: &Arc<NetworkingPod>,
    networks: &Arc<PodNetworks>,
    stop: BorrowedFd<'_>,
    report: &dyn Fn(Event),
) -> Result<()> {
    let (sender, messages) = mpsc::channel();
    let stop = stop.try_clone_to_owned();
    let stop = Arc::new(stop.map_err(|error| Error::os("waiting for the end", error))?);
    let (end, watched) = (Arc::clone(&stop), sender.clone());
    spawn(move || {
        // If the receiver is gone, it has ended.
        let _ = wait(end.as_fd(), None, None).map(|_| watched.send(Message::Stop));
    })?;
    for network in networks.networks() {
        let (network, plugins) = (network.clone(), Arc::clone(plugins));
        let watcher = Watcher { network, plugins, stop: Arc::clone(&stop), sender: sender.clone() };
        spawn(move || watcher.watch())?;
    }
    let mut pending = Pending::new(plugins, networks, sender);
    loop {
        pending.begin(report)?;
        match messages.recv_timeout(POLL_INTERVAL) {
            Ok(Message::Seen(event)) => report(event),
            Ok(Message::Settled(pod, done)) => pending.settled(pod, done, report),
            Ok(Message::Swept(done)) => pending.swept(done, report),
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// A thread that nothing waits for.
fn spawn(work: impl FnOnce() + Send + 'static) -> Result<()> {
    let made = thread::Builder::new().name("kurma-plugin".to_owned()).spawn(work);
    made.map(drop).map_err(|error| Error::os("making a thread", error))
}

/// Watches over one plugin.
struct Watcher {
    network: NetworkConfig,
    plugins: Arc<NetworkingPod>,
    stop: Arc<OwnedFd>,
    sender: Sender<Message>,
}

impl Watcher {
    fn watch(&self) {
        let name = || self.network.name.clone();
        let mut rest = REST.0;
        loop {
            let pause = match self.plugins.watch(&self.network, &|| self.is_over()) {
                Ok(Watched::Runs(running)) => {
                    rest = REST.0;
                    self.report(Event::Started { network: name(), pid: running.process().pid });
                    match wait(self.stop.as_fd(), Some(running.pidfd()), None) {
                        Ok(Woken::Other) => {}
                        _ => return,
                    }
                    let process = running.process();
                    drop(running);
                    let why = self.plugins.why(&self.network, process);
                    self.report(Event::Ended { network: name(), why });
                    Duration::ZERO
                }
                // A stop on purpose, or a start by another caller, is not disturbed.
                Ok(Watched::Stopped) => POLL_INTERVAL,
                Ok(Watched::After(pause)) => pause,
                Err(error) => {
                    self.report(Event::Failed { network: name(), error });
                    let pause = rest;
                    rest = (rest * 2).min(REST.1);
                    pause
                }
            };
            if !matches!(wait(self.stop.as_fd(), None, Some(pause)), Ok(Woken::Time)) {
                return;
            }
        }
    }

    fn report(&self, event: Event) {
        // If the receiver is gone, so is this soon.
        let _ = self.sender.send(Message::Seen(event));
    }

    fn is_over(&self) -> bool {
        !matches!(wait(self.stop.as_fd(), None, Some(Duration::ZERO)), Ok(Woken::Time))
    }
}

/// The reason why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    Stop,
    Other,
    Time,
}

fn wait(
    stop: BorrowedFd<'_>,
    other: Option<BorrowedFd<'_>>,
    limit: Option<Duration>,
) -> Result<Woken> {
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let mut fds = vec![PollFd::from_borrowed_fd(stop, PollFlags::IN)];
    fds.extend(other.map(|other| PollFd::from_borrowed_fd(other, PollFlags::IN)));
    loop {
        match poll(&mut fds, limit.as_ref()) {
            Ok(0) => return Ok(Woken::Time),
            Ok(_) => {
                let is_stop = fds.first().is_some_and(|fd| !fd.revents().is_empty());
                return Ok(if is_stop { Woken::Stop } else { Woken::Other });
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::os("waiting for plugins", errno.into())),
        }
    }
}
