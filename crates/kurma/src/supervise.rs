//! Watching over the networking pod: what a daemon does, and what everything also works without.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::thread;
use std::time::{Duration, Instant};

use model::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::config::{NetworkConfig, PodNetworks};
use crate::plugin::{NetworkingPod, Watched};
use crate::pod::Pods;
use crate::{Name, PodId};

/// How long a plugin that cannot be started rests, at first and at most.
const REST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The interval of checks for pending calls.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a pod's plugins rest that have failed to undo it, at first and at most.
const RETRY_INTERVAL: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(300));

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
}

/// Keeps every network's plugin running, starts again those that end, and calls pending `del`s,
/// until `stop` can be read. The plugins continue running then: the next supervisor finds them.
///
/// # Errors
/// The kernel's refusal to wait.
pub fn supervise(
    plugins: &NetworkingPod,
    networks: &PodNetworks,
    stop: BorrowedFd<'_>,
    report: &(dyn Fn(Event) + Sync),
) -> Result<()> {
    thread::scope(|scope| {
        for network in networks.networks() {
            scope.spawn(move || watch(plugins, network, stop, report));
        }
        settle(&Pods::new(plugins, networks), stop, report)
    })
}

/// Watches over one plugin.
fn watch(
    plugins: &NetworkingPod,
    network: &NetworkConfig,
    stop: BorrowedFd<'_>,
    report: &(dyn Fn(Event) + Sync),
) {
    let name = || network.name.clone();
    let mut rest = REST.0;
    loop {
        let pause = match plugins.watch(network) {
            Ok(Watched::Runs(running)) => {
                rest = REST.0;
                report(Event::Started { network: name(), pid: running.process().pid });
                match wait(stop, Some(running.pidfd()), None) {
                    Ok(Woken::Other) => {}
                    _ => return,
                }
                let process = running.process();
                drop(running);
                let why = plugins.why(network, process);
                report(Event::Ended { network: name(), why });
                Duration::ZERO
            }
            // A stop on purpose, or a start by another caller, is not disturbed.
            Ok(Watched::Stopped) => POLL_INTERVAL,
            Ok(Watched::After(pause)) => pause,
            Err(error) => {
                report(Event::Failed { network: name(), error });
                let pause = rest;
                rest = (rest * 2).min(REST.1);
                pause
            }
        };
        if !matches!(wait(stop, None, Some(pause)), Ok(Woken::Time)) {
            return;
        }
    }
}

/// Calls the pending `del`s of pods.
fn settle(pods: &Pods<'_>, stop: BorrowedFd<'_>, report: &(dyn Fn(Event) + Sync)) -> Result<()> {
    let mut resting: BTreeMap<PodId, (Instant, Duration)> = BTreeMap::new();
    loop {
        let now = Instant::now();
        for pod in pods.unsettled().unwrap_or_default() {
            let (due, rest) = resting.get(&pod).copied().unwrap_or((now, RETRY_INTERVAL.0));
            if due > now {
                continue;
            }
            match pods.settle_one(&pod) {
                Ok(None) => {}
                Ok(Some(())) => {
                    resting.remove(&pod);
                    report(Event::Settled { pod });
                }
                Err(error) => {
                    resting.insert(
                        pod.clone(),
                        (Instant::now() + rest, (rest * 2).min(RETRY_INTERVAL.1)),
                    );
                    report(Event::PendingDel { pod, error });
                }
            }
        }
        match wait(stop, None, Some(POLL_INTERVAL))? {
            Woken::Time => {}
            Woken::Stop | Woken::Other => return Ok(()),
        }
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
