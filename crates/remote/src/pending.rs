//! Carries out pending cleanups: after a failure, on detach, and on later retries.

use std::collections::BTreeSet;

use model::{DriverName, Kind, NetworkName, Result, Timestamp};

use super::calls::{Failed, Fate};
use super::undo_log::{
    CleanupPending, Entry, LogDirectory, LogFile, PoolAsked, Record, Subject, Undo,
};
use super::{Remote, Urgency, sandbox};
use libnetwork::{Answer, Call};

/// A call that was refused this often no longer blocks others.
pub(super) const REFUSALS: u32 = 5;
/// So many answers for one pool may be lost before no more are counted.
const MOST_UNKNOWN: usize = 8;
/// The longest pause between two tries, in seconds; the first ones double.
const LONGEST_PAUSE: u64 = 300;

/// How calls are tried.
#[derive(Clone, Copy)]
struct Manner {
    urgency: Urgency,
    /// Whether they were not tried before.
    is_first: bool,
}

/// The state of one pass over a log file.
#[derive(Default)]
struct Pass {
    /// What is still pending and comes before what follows, with its number of tries.
    failed: Vec<(Undo, u32)>,
    /// The drivers that did not answer.
    silent: BTreeSet<DriverName>,
    /// The calls that were sent and done.
    done: Vec<Undo>,
}

/// A log file after what was due on it was carried out.
#[derive(Default)]
pub(super) struct After {
    /// The rest of the log file.
    pub(super) record: Option<Record>,
    /// The calls that were sent and done.
    pub(super) done: Vec<Undo>,
}

impl Remote {
    /// Marks all of a subject's calls that `which` selects as pending, and carries them out. What
    /// fails stays pending.
    pub(super) fn announce(&self, subject: &Subject, which: impl Fn(&Undo) -> bool) -> Result<()> {
        let Some(mut log_file) = self.undo_log.find(&subject.key())? else { return Ok(()) };
        self.announce_on(&mut log_file, which)
    }

    /// The same on a log file that is open.
    pub(super) fn announce_on(
        &self,
        log_file: &mut LogFile,
        which: impl Fn(&Undo) -> bool,
    ) -> Result<()> {
        let is_first = !log_file.has_pending();
        if !log_file.mark_pending(self.now(), &which) {
            return Ok(());
        }
        // A second release of an address may take it from its next holder.
        if log_file
            .record
            .entries
            .iter()
            .any(|entry| entry.pending.is_some() && entry.undo.is_of_ipam())
        {
            log_file.save()?;
        }
        let is_clear = match &log_file.record.subject {
            Subject::Network(network) => self.clear(network)?,
            Subject::Attachment(..) => true,
        };
        if is_clear {
            self.carry_out(log_file, Manner { urgency: Urgency::Now, is_first }, which)?;
        }
        self.finish(log_file)
    }

    /// Carries out the pending calls of a log file for a caller that begins there again; fails
    /// where one remains.
    pub(super) fn clean(&self, log_file: &mut LogFile) -> Result<()> {
        if log_file.record.is_of_another_boot(&self.undo_log) {
            log_file.mark_pending(self.now(), |_| true);
            log_file.record.joined = None;
        }
        log_file.renew();
        if !log_file.has_pending() {
            return Ok(());
        }
        self.carry_out(log_file, Manner { urgency: Urgency::Now, is_first: false }, |_| true)?;
        self.finish(log_file)?;
        let mut remaining = log_file.record.entries.iter().filter(|entry| !entry.is_lost());
        let remaining = remaining.find_map(|entry| Some((&entry.undo, entry.pending.as_ref()?)));
        remaining.map_or(Ok(()), |(undo, pending)| {
            Err(model::Error::try_again(format!(
                "{}: a cleanup is pending at plugin {}: {undo}: {}",
                name(&log_file.record.subject),
                undo.driver(),
                pending.error
            )))
        })
    }

    /// Carries out the pending calls of the network's attachments. Returns whether none blocks the
    /// network.
    fn clear(&self, network: &NetworkName) -> Result<bool> {
        let mut is_clear = true;
        for place in [LogDirectory::Held, LogDirectory::CleanupPending] {
            for (key, record) in self.undo_log.records(place)? {
                let is_its =
                    matches!(&record.subject, Subject::Attachment(id, _) if id.network == *network);
                if is_its
                    && (place == LogDirectory::CleanupPending
                        || record.is_of_another_boot(&self.undo_log))
                {
                    is_clear &=
                        self.retry_log_file(&key, Urgency::Now)?.record.is_none_or(|remaining| {
                            remaining.entries.iter().all(|entry| !is_in_the_way(entry))
                        });
                }
            }
        }
        Ok(is_clear)
    }

    /// Carries out the pending calls of a log file that are due; returns the rest. Nothing is done
    /// where another process works on it.
    pub(super) fn retry_log_file(&self, key: &str, urgency: Urgency) -> Result<After> {
        let mut log_file = match self.undo_log.find_idle(key) {
            Ok(Some(log_file)) => log_file,
            Ok(None) => return Ok(After::default()),
            Err(error) if error.kind() == Kind::TryAgain => {
                return Ok(After { record: self.undo_log.peek(key)?, done: Vec::new() });
            }
            Err(error) => return Err(error),
        };
        if log_file.record.is_of_another_boot(&self.undo_log) {
            log_file.mark_pending(self.now(), |_| true);
        }
        let done = self.carry_out(&mut log_file, Manner { urgency, is_first: false }, |_| true)?;
        self.finish(&mut log_file)?;
        Ok(After { record: (!log_file.is_empty()).then_some(log_file.record), done })
    }

    pub(super) fn finish(&self, log_file: &mut LogFile) -> Result<()> {
        self.bequeath(log_file);
        sandbox::unname(log_file);
        log_file.save()?;
        log_file.end()
    }

    /// An address that cannot be named is released with its pool.
    fn bequeath(&self, log_file: &mut LogFile) {
        let is_lost = |entry: &Entry| {
            entry.pending.is_some() && matches!(entry.undo, Undo::UnknownAddress(..))
        };
        let network = match &log_file.record.subject {
            Subject::Attachment(id, _) if log_file.record.entries.iter().any(is_lost) => {
                Subject::Network(id.network.clone())
            }
            Subject::Attachment(..) | Subject::Network(_) => return,
        };
        let Ok(heir) = self.undo_log.find_idle(&network.key()) else { return };
        let lost: Vec<Entry> =
            log_file.record.entries.iter().filter(|e| is_lost(e)).cloned().collect();
        if let Some(mut heir) = heir {
            for entry in lost {
                let is_its = |undo: &Undo| {
                    matches!(undo, Undo::ReleasePool(driver, pool, _)
                        if driver == entry.undo.driver() && Some(pool.as_str()) == entry.undo.pool())
                };
                if heir.holds(is_its) {
                    heir.record.entries.push(entry);
                }
            }
            if heir.save().is_err() {
                return;
            }
        }
        log_file.record.entries.retain(|entry| !is_lost(entry));
    }

    /// One pass over the pending calls that `which` selects, in Docker's order; returns what was
    /// done. The log file is not saved.
    fn carry_out(
        &self,
        log_file: &mut LogFile,
        how: Manner,
        which: impl Fn(&Undo) -> bool,
    ) -> Result<Vec<Undo>> {
        let mut pass = Pass::default();
        for undo in order(&log_file.record.entries) {
            let found =
                log_file.record.entries.iter().find(|e| e.undo == undo && e.pending.is_some());
            let Some(pending) = found.and_then(|entry| entry.pending.clone()) else { continue };
            if !is_due(&pending, how.urgency, self.now()) {
                // Later calls to it wait as well.
                pass.silent.insert(undo.driver().clone());
            }
            if !which(&undo) || pass.is_in_the_way_of(&undo) {
                pass.failed.push((undo, pending.refusals));
                continue;
            }
            // It may have been carried out before, and its object may have another holder by now.
            let is_doubtful = !how.is_first || pending.tries > 0;
            if is_doubtful && self.is_in_use_elsewhere(log_file, &undo)? {
                strike(log_file, &undo);
                continue;
            }
            match self.undo(log_file, &undo)? {
                Ok(done) => {
                    strike(log_file, &done);
                    pass.done.push(undo);
                }
                Err((undo, failed)) => {
                    if !matches!(failed.fate, Fate::Refused | Fate::Done) {
                        pass.silent.insert(undo.driver().clone());
                    }
                    let refusals = note(log_file, &undo, &failed, self.now());
                    pass.failed.push((undo, refusals));
                }
            }
        }
        Ok(pass.done)
    }

    /// Whether an address or a pool that is to be released is in use on another log file.
    fn is_in_use_elsewhere(&self, log_file: &LogFile, undo: &Undo) -> Result<bool> {
        let is_named = undo.is_of_ipam() && !matches!(undo, Undo::UnknownPool(..));
        Ok(is_named && self.undo_log.is_in_use(undo, log_file.key())?)
    }

    /// Sends one call: what was done by it, or what remains to be done and why.
    fn undo(&self, log_file: &mut LogFile, undo: &Undo) -> Result<Result<Undo, (Undo, Failed)>> {
        if let Undo::UnknownPool(driver, asked) = undo {
            return self.undo_unknown(log_file, undo, driver, asked);
        }
        Ok(self.send(undo).map(|()| undo.clone()).map_err(|failed| (undo.clone(), failed)))
    }

    fn send(&self, undo: &Undo) -> Result<(), Failed> {
        let call = undo.call().map_err(|error| Failed::new(error, Fate::Refused))?;
        let Some(call) = call else { return Ok(()) };
        match self.calls.call(undo.driver(), &call) {
            Ok(_) => Ok(()),
            Err(failed) if is_as_good_as_done(&failed) => Ok(()),
            Err(failed) => Err(failed),
        }
    }

    /// A pool whose name was lost with an answer: the same request gets the same pool, which then
    /// counts twice with a driver that counts.
    fn undo_unknown(
        &self,
        log_file: &mut LogFile,
        undo: &Undo,
        driver: &DriverName,
        asked: &PoolAsked,
    ) -> Result<Result<Undo, (Undo, Failed)>> {
        let before = log_file.record.entries.clone();
        // This answer may be lost as well.
        if before.iter().filter(|entry| entry.undo == *undo).count() < MOST_UNKNOWN {
            log_file
                .record
                .entries
                .extend(before.iter().find(|entry| entry.undo == *undo).cloned());
            log_file.save()?;
        }
        let pool = match self.calls.call(driver, &asked.call()?) {
            Ok(Answer::Pool(pool)) => pool.key,
            Err(Failed { undo: Some(release), .. }) => match *release {
                Call::ReleasePool(key) => key,
                _ => return Ok(Ok(undo.clone())),
            },
            Err(failed) => {
                if !failed.may_be_done() {
                    log_file.record.entries = before;
                }
                return Ok(Err((undo.clone(), failed)));
            }
            Ok(_) => return Ok(Ok(undo.clone())),
        };
        log_file.record.entries = before;
        let known = Undo::ReleasePool(driver.clone(), pool.to_string(), asked.clone());
        log_file.put(undo, known.clone());
        if !self.undo_log.is_in_use(&known, log_file.key())? {
            log_file.hold(known.clone());
            log_file.mark_pending(self.now(), |held| *held == known);
        }
        log_file.save()?;
        if let Err(failed) = self.send(&known) {
            return Ok(Err((known, failed)));
        }
        if log_file.record.entries.iter().filter(|entry| entry.undo == known).count() > 1 {
            log_file.strike(&known);
            // A driver that does not count knows nothing of it any more.
            if let Err(failed) = self.send(&known) {
                return Ok(Err((known, failed)));
            }
        }
        Ok(Ok(known))
    }
}

impl Pass {
    /// Whether something that failed must be done before.
    fn is_in_the_way_of(&self, undo: &Undo) -> bool {
        let fresh = || {
            self.failed.iter().filter(|(_, refusals)| *refusals < REFUSALS).map(|(undo, _)| undo)
        };
        let is_of_pool = |other: &Undo| {
            (other.driver(), other.pool()) == (undo.driver(), undo.pool())
                && matches!(other, Undo::ReleaseAddress(..))
        };
        self.silent.contains(undo.driver())
            || match undo {
                Undo::ReleaseAddress(..) => {
                    fresh().any(|other| matches!(other, Undo::DeleteEndpoint(..)))
                }
                Undo::ReleasePool(..) => fresh().any(is_of_pool),
                _ => false,
            }
    }
}

/// The pending calls that can be made, in Docker's order: the gateway role, the sandbox, the
/// endpoint, its addresses or those of each pool and then the pool, the network.
fn order(entries: &[Entry]) -> Vec<Undo> {
    let pending = entries.iter().filter(|entry| entry.pending.is_some() && !entry.is_lost());
    let mut order: Vec<&Undo> = pending.map(|entry| &entry.undo).collect();
    let place = |undo: &Undo| match undo.pool() {
        Some(pool) => entries.iter().position(|entry| {
            entry.undo.pool() == Some(pool) && entry.undo.driver() == undo.driver()
        }),
        None => entries.iter().position(|entry| entry.undo == *undo),
    };
    order.sort_by_key(|undo| {
        let is_pool = matches!(undo, Undo::ReleasePool(..));
        (undo.class(), if undo.is_of_ipam() { place(undo) } else { None }, is_pool)
    });
    order.into_iter().cloned().collect()
}

/// Strikes what was done, and what goes with it.
fn strike(log_file: &mut LogFile, done: &Undo) {
    log_file.strike(done);
    let goes_with = |other: &Undo| match done {
        Undo::DeleteEndpoint(driver, at) => {
            matches!(other, Undo::Revoke(of, one) | Undo::Leave(of, one) if of == driver && one == at)
        }
        Undo::ReleasePool(driver, pool, _) => {
            matches!(other, Undo::ReleaseAddress(of, from, _) | Undo::UnknownAddress(of, from)
                if of == driver && from == pool)
        }
        _ => false,
    };
    log_file.record.entries.retain(|entry| entry.pending.is_none() || !goes_with(&entry.undo));
    // The kernel's part is undone between Leave and this.
    if matches!(done, Undo::DeleteEndpoint(..)) {
        log_file.record.joined = None;
    }
}

/// Writes down that a call failed; how often the plugin has refused it by now.
fn note(log_file: &mut LogFile, undo: &Undo, failed: &Failed, now: Timestamp) -> u32 {
    let mut entries = log_file.record.entries.iter_mut();
    let Some(entry) = entries.find(|entry| entry.undo == *undo) else { return 0 };
    entry.mark_pending(now);
    let Some(pending) = &mut entry.pending else { return 0 };
    pending.tries = pending.tries.saturating_add(1);
    pending.refusals = pending.refusals.saturating_add(u32::from(is_refusal(failed)));
    pending.tried = now;
    pending.error = failed.error.to_string();
    // A driver that refuses the same request again holds what it allocated before, and will not
    // name it.
    pending.is_hopeless = matches!(undo, Undo::UnknownPool(..))
        && failed.fate == Fate::Refused
        && pending.tries >= REFUSALS;
    pending.refusals
}

/// The plugin is there, and this is its answer.
fn is_refusal(failed: &Failed) -> bool {
    failed.fate == Fate::Refused
        || failed.error.status().is_some()
        || (failed.fate == Fate::Unsent && failed.kind() == Kind::Unsupported)
}

/// The driver does not know what is to be undone, or has no word for it.
fn is_as_good_as_done(failed: &Failed) -> bool {
    match failed.fate {
        Fate::Done => true,
        Fate::Refused => matches!(failed.kind(), Kind::NotFound | Kind::Unsupported),
        Fate::Unsent | Fate::Unknown => false,
    }
}

pub(super) fn is_in_the_way(entry: &Entry) -> bool {
    !entry.is_lost() && entry.pending.as_ref().is_some_and(|pending| pending.refusals < REFUSALS)
}

fn is_due(pending: &CleanupPending, urgency: Urgency, now: Timestamp) -> bool {
    let pause = 1_u64.checked_shl(pending.tries).unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE);
    // After a clock was set back there is no reason to wait for it.
    urgency == Urgency::Now
        || pending.tries == 0
        || now < pending.tried
        || now.0 - pending.tried.0 >= pause
}

fn name(subject: &Subject) -> String {
    match subject {
        Subject::Network(network) => format!("network {network}"),
        Subject::Attachment(id, _) => id.to_string(),
    }
}
