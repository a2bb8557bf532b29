//! What is pending: pods that are not undone, and what no pod needs any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use model::Result;

use super::{Event, Message, POLL_INTERVAL, spawn};
use crate::config::PodNetworks;
use crate::plugin::NetworkingPod;
use crate::pod::Pods;
use crate::{Name, PodId};

/// How long what has failed rests, at first and at most.
const RETRY_INTERVAL: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(300));
/// The interval of checks for replaced containers whose last call is over.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// Something that is repeated where it fails.
#[derive(Clone, Copy)]
struct Retry {
    due: Instant,
    rest: Duration,
}

impl Retry {
    fn now() -> Self {
        Self { due: Instant::now(), rest: RETRY_INTERVAL.0 }
    }

    fn again(self) -> Self {
        let rest = (self.rest * 2).min(RETRY_INTERVAL.1);
        Self { due: Instant::now() + self.rest, rest }
    }
}

/// What is done, and what has to wait. One pod of a network is undone at a time: a plugin that does
/// not answer keeps no thread but one, and no pod of other networks.
pub(super) struct Pending {
    plugins: Arc<NetworkingPod>,
    networks: Arc<PodNetworks>,
    sender: Sender<Message>,
    /// When the pods are listed again.
    listing: Retry,
    resting: BTreeMap<PodId, Retry>,
    /// The pods that are being undone, and their networks.
    working: BTreeMap<PodId, BTreeSet<Name>>,
    sweep: Retry,
    is_sweeping: bool,
    /// Whether everything that no pod needs was removed: it becomes no more before the networks change.
    is_swept: bool,
}

impl Pending {
    pub(super) fn new(
        plugins: &Arc<NetworkingPod>,
        networks: &Arc<PodNetworks>,
        sender: Sender<Message>,
    ) -> Self {
        Self {
            plugins: Arc::clone(plugins),
            networks: Arc::clone(networks),
            sender,
            listing: Retry::now(),
            resting: BTreeMap::new(),
            working: BTreeMap::new(),
            sweep: Retry::now(),
            is_sweeping: false,
            is_swept: false,
        }
    }

    /// Begins what is due.
    pub(super) fn begin(&mut self, report: &dyn Fn(Event)) -> Result<()> {
        let now = Instant::now();
        if !self.is_sweeping && self.sweep.due <= now {
            self.begin_sweep()?;
        }
        if self.listing.due > now {
            return Ok(());
        }
        match Pods::new(&self.plugins, &self.networks).unsettled() {
            Ok(unsettled) => {
                self.listing = Retry { due: now + POLL_INTERVAL, ..Retry::now() };
                // One that another process has undone rests no more.
                self.resting.retain(|pod, _| unsettled.iter().any(|(other, _)| other == pod));
                unsettled.into_iter().try_for_each(|(pod, networks)| self.begin_one(pod, networks))
            }
            Err(error) => {
                self.listing = self.listing.again();
                report(Event::Unswept { error });
                Ok(())
            }
        }
    }

    fn begin_sweep(&mut self) -> Result<()> {
        self.is_sweeping = true;
        let (plugins, networks) = (Arc::clone(&self.plugins), Arc::clone(&self.networks));
        let (sender, is_swept) = (self.sender.clone(), self.is_swept);
        spawn(move || {
            let done = match is_swept {
                true => plugins.retire_all().map(|()| true),
                false => Pods::new(&plugins, &networks).sweep(),
            };
            // If the receiver is gone, the next supervisor sweeps.
            let _ = sender.send(Message::Swept(done));
        })
    }

    /// Undoes a pod, unless it rests, or one of its networks is busy with another.
    fn begin_one(&mut self, pod: PodId, networks: BTreeSet<Name>) -> Result<()> {
        let rests = self.resting.get(&pod).is_some_and(|retry| retry.due > Instant::now());
        let is_busy = self.working.values().any(|other| !other.is_disjoint(&networks));
        if rests || is_busy || self.working.contains_key(&pod) {
            return Ok(());
        }
        self.working.insert(pod.clone(), networks);
        let (plugins, networks) = (Arc::clone(&self.plugins), Arc::clone(&self.networks));
        let sender = self.sender.clone();
        spawn(move || {
            let done = Pods::new(&plugins, &networks).settle_one(&pod);
            // If the receiver is gone, the next supervisor sees what became of the pod.
            let _ = sender.send(Message::Settled(pod, done));
        })
    }

    /// Takes the result of a pod.
    pub(super) fn settled(&mut self, pod: PodId, done: Result<Option<()>>, report: &dyn Fn(Event)) {
        self.working.remove(&pod);
        match done {
            // Another process works on it, and may do so for long.
            Ok(None) => return,
            Ok(Some(())) => {
                self.resting.remove(&pod);
                report(Event::Settled { pod });
            }
            Err(error) => {
                let retry = self.resting.get(&pod).copied().unwrap_or_else(Retry::now);
                self.resting.insert(pod.clone(), retry.again());
                report(Event::PendingDel { pod, error });
            }
        }
        // Its networks are free for the next pod.
        self.listing.due = self.listing.due.min(Instant::now());
    }

    /// Takes the result of a sweep.
    pub(super) fn swept(&mut self, done: Result<bool>, report: &dyn Fn(Event)) {
        self.is_sweeping = false;
        match done {
            Ok(is_whole) => {
                self.is_swept = is_whole;
                self.sweep = Retry { due: Instant::now() + SWEEP_INTERVAL, ..Retry::now() };
            }
            Err(error) => {
                self.sweep = self.sweep.again();
                report(Event::Unswept { error });
            }
        }
    }
}
