//! Lists and retries pending cleanups, from any process.

use std::collections::BTreeSet;

use model::{Kind, NetworkName, Result, Timestamp};

use super::pending::{REFUSALS, is_in_the_way};
use super::undo_log::{Entry, LogDirectory, Record, Subject};
use super::{CleanupSubject, DeadEnd, PendingCleanup, Remote, Retried, Urgency};

impl Remote {
    /// The pending cleanups. Makes no call.
    pub fn pending(&self) -> Result<Vec<PendingCleanup>> {
        let mut cleanups = Vec::new();
        for place in [LogDirectory::Held, LogDirectory::CleanupPending] {
            for key in self.undo_log.keys(place)? {
                match self.undo_log.peek(&key) {
                    Ok(Some(record)) => cleanups.extend(self.cleanups(&key, &record)),
                    Ok(None) => {}
                    Err(error) => cleanups.push(unreadable(&key, error.to_string())),
                }
            }
        }
        let odd = self.undo_log.odd()?;
        cleanups.extend(odd.iter().map(|name| self::odd(name)));
        Ok(cleanups)
    }

    /// Carries out pending cleanups. Safe beside other processes that do the same.
    pub fn retry(&self, urgency: Urgency) -> Result<Retried> {
        let mut settled = Retried::default();
        let mut keys = self.undo_log.keys(LogDirectory::CleanupPending)?;
        if urgency == Urgency::Now || !self.was_swept() {
            self.undo_log.tidy();
            let held = self.undo_log.records(LogDirectory::Held)?.into_iter();
            let void = held.filter(|(_, record)| record.is_of_another_boot(&self.undo_log));
            keys.extend(void.map(|(key, _)| key));
        }
        // Endpoints come before networks.
        keys.sort_unstable();
        let mut waiting = BTreeSet::new();
        for key in keys {
            match self.retry_one(&key, urgency, &mut waiting) {
                Ok(one) => {
                    settled.done.extend(one.done);
                    settled.moot.extend(one.moot);
                    settled.remaining.extend(one.remaining);
                }
                Err(error) => settled.remaining.push(unreadable(&key, error.to_string())),
            }
        }
        Ok(settled)
    }

    fn retry_one(
        &self,
        key: &str,
        urgency: Urgency,
        waiting: &mut BTreeSet<NetworkName>,
    ) -> Result<Retried> {
        let Some(before) = self.undo_log.peek(key)? else { return Ok(Retried::default()) };
        let pending = self.cleanups(key, &before);
        if matches!(&before.subject, Subject::Network(network) if waiting.contains(network)) {
            return Ok(Retried { remaining: pending, ..Retried::default() });
        }
        let after = self.retry_log_file(key, urgency)?;
        let remaining: Vec<PendingCleanup> =
            after.record.iter().flat_map(|record| self.cleanups(key, record)).collect();
        if let Some(Record { subject: Subject::Attachment(id, _), entries, .. }) = &after.record
            && entries.iter().any(is_in_the_way)
        {
            waiting.insert(id.network.clone());
        }
        let was_sent = |cleanup: &PendingCleanup| {
            after.done.iter().any(|undo| undo.to_string() == cleanup.what)
        };
        let gone = pending
            .into_iter()
            .filter(|cleanup| remaining.iter().all(|remaining| remaining.what != cleanup.what));
        let (done, moot) = gone.partition(was_sent);
        Ok(Retried { done, moot, remaining })
    }

    /// Deletes every pending cleanup that no call will carry out ([`PendingCleanup::dead_end`]),
    /// and returns them: what plugins hold because of these stays theirs. A log file that another
    /// process works on, or that a later Spoke wrote, is left as it is. Makes no call.
    pub fn write_off(&self) -> Result<Vec<PendingCleanup>> {
        let mut given = Vec::new();
        for key in self.undo_log.keys(LogDirectory::CleanupPending)? {
            let Ok(Some(mut log_file)) = self.undo_log.find_idle(&key) else { continue };
            let cleanups = self.cleanups(&key, &log_file.record).into_iter();
            given.extend(cleanups.filter(|cleanup| cleanup.dead_end.is_some()));
            log_file.record.entries.retain(|entry| self.dead_end(entry).is_none());
            self.finish(&mut log_file)?;
        }
        for name in self.undo_log.odd()? {
            self.undo_log.forget_odd(&name)?;
            given.push(odd(&name));
        }
        Ok(given)
    }

    /// Why no call will carry out the pending cleanup.
    fn dead_end(&self, entry: &Entry) -> Option<DeadEnd> {
        let pending = entry.pending.as_ref()?;
        if entry.is_lost() {
            return Some(DeadEnd::Lost);
        }
        if pending.refusals >= REFUSALS {
            return Some(DeadEnd::Refused);
        }
        let life = self.calls.life(entry.undo.driver());
        let is_gone = life.is_err_and(|failed| failed.kind() == Kind::NotFound);
        is_gone.then_some(DeadEnd::Uninstalled)
    }

    fn cleanups(&self, key: &str, record: &Record) -> Vec<PendingCleanup> {
        let is_void = record.is_of_another_boot(&self.undo_log);
        let entries = record.entries.iter().filter(|entry| is_void || entry.pending.is_some());
        let cleanups = entries.map(|entry| {
            let mut entry = entry.clone();
            entry.mark_pending(self.now());
            let dead_end = self.dead_end(&entry);
            let (since, tries, error) =
                entry.pending.map_or((self.now(), 0, String::new()), |pending| {
                    (pending.since, pending.tries, pending.error)
                });
            let who = match &record.subject {
                Subject::Network(network) => CleanupSubject::Network(network.clone()),
                Subject::Attachment(id, _) => CleanupSubject::Attachment(id.clone()),
            };
            let driver = Some(entry.undo.driver().clone());
            let (what, held) = (entry.undo.to_string(), entry.undo.held());
            let log_file = key.to_owned();
            PendingCleanup { who, driver, what, since, tries, error, held, dead_end, log_file }
        });
        cleanups.collect()
    }
}

fn odd(name: &str) -> PendingCleanup {
    let error = "it is no undo log".to_owned();
    PendingCleanup { dead_end: Some(DeadEnd::Unreadable), ..unreadable(name, error) }
}

fn unreadable(key: &str, error: String) -> PendingCleanup {
    PendingCleanup {
        who: CleanupSubject::Unreadable,
        driver: None,
        what: "what it says".to_owned(),
        since: Timestamp(0),
        tries: 0,
        error,
        held: "unknown".to_owned(),
        dead_end: None,
        log_file: key.to_owned(),
    }
}
