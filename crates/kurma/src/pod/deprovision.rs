//! Undoes a pod. There is one way: from the record, in reverse order, for every caller.

use std::collections::BTreeSet;

use model::{Error, Kind, Result};

use super::record_store::PodLock;
use super::{Attachment, Listed, Pods, Record, Stage, State};
use crate::config::NetworkConfig;
use crate::plugin::Key;
use crate::{Name, PodId};

/// A plugin whose `del` is pending, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingDel {
    /// Which network's.
    pub network: Name,
    /// Its last error.
    pub error: String,
}

/// What [`Pods::abandon`] gave up.
#[derive(Debug, Default)]
pub struct Abandoned {
    /// What plugins did not undo, and their errors.
    pub attachments: Vec<Attachment>,
    /// Why the pending calls are unknown, where the record could not be read.
    pub damage: Option<Error>,
}

impl Pods<'_> {
    /// Disconnects a pod from all its networks, in reverse order, and removes its network
    /// namespace. A plugin's failure does not stop the others; its `del` stays pending, and is
    /// called again by the next deprovision of the pod, or [`Pods::settle`]. What is gone is no
    /// error.
    ///
    /// # Errors
    /// [`Kind::TryAgain`] where a plugin has failed; why the record or the namespace cannot be
    /// removed.
    pub fn deprovision(&self, pod: &PodId) -> Result<()> {
        let lock = self.record_store().lock(pod)?;
        let Some(record) = lock.read()? else {
            self.volume().remove(pod)?;
            return lock.forget();
        };
        let pending = self.undo(lock, record)?;
        if pending.is_empty() {
            return Ok(());
        }
        let what = format!("pod {pod} is gone, but for {}; it is tried again", reported(&pending));
        Err(Error::new(Kind::TryAgain, what))
    }

    /// Disconnects a pod permanently: a `del` that fails now is not pending any more, and neither
    /// is an unreadable one. Returns what may be left of the pod because of that.
    ///
    /// # Errors
    /// Why the record or the namespace cannot be removed.
    pub fn abandon(&self, pod: &PodId) -> Result<Abandoned> {
        let lock = self.record_store().lock(pod)?;
        let abandoned = match lock.read() {
            Ok(None) => Abandoned::default(),
            Ok(Some(record)) => {
                let attachments = self.undo_attachments(&lock, record)?.attachments;
                Abandoned { attachments, damage: None }
            }
            Err(error) => match error.kind() {
                Kind::Denied | Kind::Kernel | Kind::Exhausted | Kind::TryAgain => {
                    return Err(error);
                }
                Kind::Invalid | Kind::Unsupported | Kind::NotFound | Kind::Conflict | Kind::Bug => {
                    Abandoned { attachments: Vec::new(), damage: Some(error) }
                }
            },
        };
        self.volume().remove(pod)?;
        lock.forget().map(|()| abandoned)
    }

    /// Undoes pods whose process was killed, and calls every pending `del`. Pods on which another
    /// process works are left alone.
    ///
    /// # Errors
    /// Where the records cannot be listed; a pod's failure is in the answer.
    pub fn settle(&self) -> Result<Vec<(PodId, Result<()>)>> {
        let mut settled = Vec::new();
        for pod in self.record_store().pods()? {
            let done = self.settle_one(&pod).transpose();
            settled.extend(done.map(|done| (pod, done)));
        }
        Ok(settled)
    }

    /// Pods that are half made or half undone, with or without a process that works on them, and the
    /// networks whose plugins are pending; also those whose record cannot be read.
    pub(crate) fn unsettled(&self) -> Result<Vec<(PodId, BTreeSet<Name>)>> {
        let Listed { records, unreadable } = self.list()?;
        let unsettled = records.into_iter().filter(|record| record.stage != Stage::Ready);
        let of = |record: Record| {
            let attachments = record.attachments.into_iter();
            (record.pod, attachments.map(|attachment| attachment.network.name).collect())
        };
        let unreadable = unreadable.into_iter().map(|(pod, _)| (pod, BTreeSet::new()));
        Ok(unsettled.map(of).chain(unreadable).collect())
    }

    /// None where the pod is not to be undone.
    pub(crate) fn settle_one(&self, pod: &PodId) -> Result<Option<()>> {
        let Some(lock) = self.record_store().try_lock(pod)? else { return Ok(None) };
        let Some(record) = lock.read()? else { return lock.forget().map(|()| None) };
        if record.stage == Stage::Ready {
            return Ok(None);
        }
        let pending = self.undo(lock, record)?;
        match pending.is_empty() {
            true => Ok(Some(())),
            false => Err(Error::new(Kind::TryAgain, reported(&pending))),
        }
    }

    /// Calls every pending `del`, and removes what no pod needs.
    ///
    /// # Errors
    /// As of [`Pods::sweep`]; a pod's failure is in the answer.
    pub fn clear(&self) -> Result<Vec<(PodId, Result<()>)>> {
        let settled = self.settle()?;
        self.sweep().map(|_| settled)
    }

    /// Removes the plugins of networks that are neither configured nor used, replaced containers
    /// without a call, and namespaces without a pod from the volume. What a pod needs whose record
    /// cannot be read is not known: no plugin is removed then, and its namespace stays. Whether
    /// everything was removed: if not, a later sweep may find more to remove.
    ///
    /// # Errors
    /// Where the records cannot be listed; the first one of what cannot be removed, after everything
    /// else was.
    pub fn sweep(&self) -> Result<bool> {
        let listed = self.list()?;
        let attachments = listed.records.iter().flat_map(|record| &record.attachments);
        let used: Vec<Key> =
            attachments.map(|attachment| Key::Network(attachment.network.name.clone())).collect();
        let mut done = match listed.unreadable.is_empty() {
            true => self.plugins.forget(self.networks, &used),
            false => Ok(false),
        };
        let both = |done: Result<bool>, other: Result<bool>| {
            done.and_then(|is_whole| other.map(|is_too| is_whole && is_too))
        };
        done = both(done, self.plugins.retire_all().map(|()| true));
        for name in self.volume().names()? {
            let Ok(pod) = name.parse::<PodId>() else { continue };
            if !listed.unreadable.iter().any(|(unreadable, _)| *unreadable == pod) {
                done = both(done, self.sweep_one(&pod));
            }
        }
        done
    }

    /// Removes a namespace without a pod. Not, where another process works on the pod.
    fn sweep_one(&self, pod: &PodId) -> Result<bool> {
        let Some(lock) = self.record_store().try_lock(pod)? else { return Ok(false) };
        if lock.read()?.is_some() {
            return Ok(true);
        }
        self.volume().remove(pod)?;
        lock.forget().map(|()| true)
    }

    /// Undoes the pod, and deletes its record where nothing is pending.
    pub(super) fn undo(&self, lock: PodLock, record: Record) -> Result<Vec<PendingDel>> {
        let remaining = self.undo_attachments(&lock, record)?;
        if remaining.attachments.is_empty() {
            lock.forget()?;
        }
        Ok(failures(&remaining))
    }

    /// Calls every `del`, and removes the namespace; gives what is left.
    pub(super) fn undo_attachments(&self, lock: &PodLock, mut record: Record) -> Result<Record> {
        record.stage = Stage::Going;
        record.skipped.clear();
        lock.write(&record)?;
        let mut remaining = Vec::new();
        while let Some(mut attachment) = record.attachments.pop() {
            let now = self.now(&attachment.network);
            let call = attachment.call(&record.pod)?;
            if let Err(error) = self.plugins.del(now, &attachment.network, &call, lock.file()) {
                let had = attachment.reply().cloned();
                attachment.state = State::Failed { why: error.to_string(), had };
                remaining.insert(0, attachment);
            }
            let both = record.attachments.iter().chain(&remaining).cloned().collect();
            lock.write(&Record { attachments: both, ..record.clone() })?;
        }
        self.volume().remove(&record.pod)?;
        Ok(Record { attachments: remaining, ..record })
    }

    /// A network as it is configured now; as it was, where it is not any more.
    fn now<'a>(&'a self, then: &'a NetworkConfig) -> &'a NetworkConfig {
        self.networks.network(&then.name).unwrap_or(then)
    }
}

/// The failed calls in a record.
pub(super) fn failures(record: &Record) -> Vec<PendingDel> {
    let failed = record.attachments.iter().map(|attachment| PendingDel {
        network: attachment.network.name.clone(),
        error: attachment.error().to_owned(),
    });
    failed.collect()
}

/// All of them in one sentence.
pub(super) fn reported(pending: &[PendingDel]) -> String {
    let each = pending
        .iter()
        .map(|PendingDel { network, error }| format!("network \"{network}\": {error}"));
    each.collect::<Vec<_>>().join("; ")
}
