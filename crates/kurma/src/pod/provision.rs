//! Connecting a pod to its networks.

use model::{Error, IfName, Kind, Result};
use netlink::Netns;
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use super::deprovision::{failures, reported};
use super::record_store::PodLock;
use super::{Attachment, Pods, Record, Stage, State};
use crate::config::{Choice, HOST, NetworkConfig, OnError};
use crate::reply::Reply;
use crate::template::Facts;
use crate::{Name, PodId};

/// How often a random name is tried that is taken.
const TRIES: usize = 16;

impl Pods<'_> {
    /// Makes a pod's network namespace, and connects it to the networks `names`, in that order, or
    /// to the default ones; `host` alone is the host's own namespace, for which no plugin is
    /// called. A pod that is complete already stays as it is. The remains of a killed call are
    /// undone before.
    ///
    /// # Errors
    /// A network's error, after everything was undone (unless it is to be skipped);
    /// [`Kind::NotFound`] for a network that is not configured; [`Kind::Conflict`] where the pod
    /// has other networks; [`Kind::TryAgain`] where a `del` of it is still pending.
    pub fn provision(&self, pod: &PodId, names: &[Name]) -> Result<Record> {
        let choice = self.networks.choice(names)?;
        let new = Record::new(pod.clone(), self.plugins.directories.netns_of(pod), &choice);
        self.volume().prepare()?;
        let lock = self.record_store().lock(pod)?;
        if let Some(record) = lock.read()?
            && let Some(complete) = self.settled(&lock, record, &new)?
        {
            return Ok(complete);
        }
        let mut record = new;
        lock.write(&record)?;
        let Err(error) = self.connect(&lock, &mut record, &choice) else { return Ok(record) };
        let kind = error.kind();
        let and = |worse: String| Error::new(kind, format!("{error}; undoing it: {worse}"));
        match self.undo(lock, record) {
            Ok(remaining) if remaining.is_empty() => Err(error),
            Ok(remaining) => Err(and(reported(&remaining))),
            Err(worse) => Err(and(worse.to_string())),
        }
    }

    /// The pod as it is, where it is as wanted; none where nothing is left of it.
    fn settled(&self, lock: &PodLock, record: Record, new: &Record) -> Result<Option<Record>> {
        let pod = record.pod.clone();
        if record.stage == Stage::Ready && self.volume().has(&pod) {
            if (record.is_host, &record.wanted) == (new.is_host, &new.wanted) {
                return Ok(Some(record));
            }
            let has: Vec<&str> = match record.is_host {
                true => vec![HOST],
                false => record.wanted.iter().map(Name::as_str).collect(),
            };
            let what =
                format!("pod {pod} has other networks ({}): deprovision it first", has.join(", "));
            return Err(Error::conflict(what));
        }
        let remaining = self.undo_attachments(lock, record)?;
        if remaining.attachments.is_empty() {
            return Ok(None);
        }
        let what = format!(
            "pod {pod} is not undone yet, deprovision it first: {}",
            reported(&failures(&remaining))
        );
        Err(Error::new(Kind::TryAgain, what))
    }

    fn connect(&self, lock: &PodLock, record: &mut Record, choice: &Choice<'_>) -> Result<()> {
        let networks = match choice {
            Choice::Host => {
                self.volume().show(record.pod.as_str(), &Netns::current()?)?;
                &[][..]
            }
            Choice::Networks(networks) => {
                self.volume().make(&record.pod)?;
                networks
            }
        };
        for network in networks {
            let about = |error: Error| error.context(format!("network \"{}\"", network.name));
            match self.attach(lock, record, network).map_err(about) {
                Ok(()) => {}
                Err(error) if network.on_error == OnError::Skip && error.kind() != Kind::Bug => {}
                Err(error) => return Err(error),
            }
        }
        record.stage = Stage::Ready;
        lock.write(record)
    }

    fn attach(&self, lock: &PodLock, record: &mut Record, network: &NetworkConfig) -> Result<()> {
        let interface = match interface(record, network) {
            Ok(interface) => interface,
            Err(error) => {
                record.skipped.push((network.name.clone(), error.to_string()));
                return Err(error);
            }
        };
        let attachment = Attachment { network: network.clone(), interface, state: State::Adding };
        let call = attachment.call(&record.pod)?;
        record.attachments.push(attachment);
        lock.write(record)?;
        let added = match self.plugins.add(network, &call, lock.file()) {
            Ok(added) => added.and_then(|answer| Reply::read(&answer)),
            // There is nothing to undo.
            Err(error) => {
                record.attachments.pop();
                record.skipped.push((network.name.clone(), error.to_string()));
                lock.write(record)?;
                return Err(error);
            }
        };
        let state = match &added {
            Ok(reply) => State::Added(reply.clone()),
            Err(error) => State::Failed { why: error.to_string(), had: None },
        };
        if let Some(attachment) = record.attachments.last_mut() {
            attachment.state = state;
        }
        lock.write(record)?;
        added.map(drop)
    }
}

/// The name of the interface that a network makes in the pod.
fn interface(record: &Record, network: &NetworkConfig) -> Result<Option<IfName>> {
    let facts = Facts { pod: &record.pod, num: record.num() };
    for _ in 0..TRIES {
        let rendered = network.interface.render(facts, &mut random)?;
        let Some(name) = rendered.interface else { return Ok(None) };
        if !record.has(&name) {
            return Ok(Some(name));
        }
        if !rendered.is_random {
            let what = format!("interface \"{name}\" is not unique on the container");
            return Err(Error::conflict(what));
        }
    }
    let template = network.interface.source();
    Err(Error::conflict(format!("containerInterface {template:?} gives only names that are taken")))
}

fn random() -> Result<u8> {
    let mut byte = [0];
    loop {
        match getrandom(&mut byte, GetRandomFlags::empty()) {
            Ok(_) => return Ok(byte[0]),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::os("asking for random numbers", errno.into())),
        }
    }
}
