//! Carrying out what is owed: on the way back from a failure, on detaching, and again later.

use std::collections::BTreeSet;

use model::{DriverName, Kind, NetworkName, Result, Timestamp};

use super::calls::{Failed, Fate};
use super::ledger::{Entry, Owed, Page, Place, PoolAsked, Record, Subject, Undo};
use super::{Remote, Urgency, sandbox};
use crate::wire::{Answer, Call};

/// A call that was refused as often as this is in nobody's way any more.
pub(super) const PATIENT: u32 = 5;
/// So many answers for one pool may be lost before no more are counted.
const MOST_UNKNOWN: usize = 8;
/// The longest pause between two tries, in seconds; the first ones double.
const LONGEST_PAUSE: u64 = 300;

/// How calls are tried.
#[derive(Clone, Copy)]
struct Manner {
    urgency: Urgency,
    /// Nobody can have tried them before.
    is_first: bool,
}

/// What one pass over a page met.
#[derive(Default)]
struct Pass {
    /// What is still owed and comes before what follows, with how often it was tried.
    failed: Vec<(Undo, u32)>,
    /// Who did not answer.
    silent: BTreeSet<DriverName>,
    /// What was sent and done.
    done: Vec<Undo>,
}

/// A page after what was due on it was carried out.
#[derive(Default)]
pub(super) struct After {
    /// What is left of it.
    pub(super) record: Option<Record>,
    /// What was sent and done.
    pub(super) done: Vec<Undo>,
}

impl Remote {
    /// Announces the end of all that `which` says on a subject's page, and carries it out. What fails
    /// is owed.
    pub(super) fn announce(&self, subject: &Subject, which: impl Fn(&Undo) -> bool) -> Result<()> {
        let Some(mut page) = self.ledger.find(&subject.key())? else { return Ok(()) };
        self.announce_on(&mut page, which)
    }

    /// The same on a page that is open.
    pub(super) fn announce_on(&self, page: &mut Page, which: impl Fn(&Undo) -> bool) -> Result<()> {
        let is_first = !page.owes();
        if !page.owe(self.now(), &which) {
            return Ok(());
        }
        // To release an address twice may take it from whoever got it in between.
        if page.record.entries.iter().any(|entry| entry.owed.is_some() && entry.undo.is_of_ipam()) {
            page.save()?;
        }
        let is_clear = match &page.record.subject {
            Subject::Network(network) => self.clear(network)?,
            Subject::Attachment(..) => true,
        };
        if is_clear {
            self.carry_out(page, Manner { urgency: Urgency::Now, is_first }, which)?;
        }
        self.finish(page)
    }

    /// Carries out what is owed on a page to whoever begins there anew; fails where something is
    /// left.
    pub(super) fn clean(&self, page: &mut Page) -> Result<()> {
        if page.record.is_of_another_boot(&self.ledger) {
            page.owe(self.now(), |_| true);
            page.record.joined = None;
        }
        page.renew();
        if !page.owes() {
            return Ok(());
        }
        self.carry_out(page, Manner { urgency: Urgency::Now, is_first: false }, |_| true)?;
        self.finish(page)?;
        let mut left = page.record.entries.iter().filter(|entry| !entry.is_lost());
        let left = left.find_map(|entry| Some((&entry.undo, entry.owed.as_ref()?)));
        left.map_or(Ok(()), |(undo, owed)| {
            Err(model::Error::try_again(format!(
                "{}: plugin {} is still owed {undo}: {}",
                name(&page.record.subject),
                undo.driver(),
                owed.error
            )))
        })
    }

    /// Settles what the network's attachments still owe; whether nothing is in the network's way.
    fn clear(&self, network: &NetworkName) -> Result<bool> {
        let mut is_clear = true;
        for place in [Place::Held, Place::Owed] {
            for (key, record) in self.ledger.records(place)? {
                let is_its =
                    matches!(&record.subject, Subject::Attachment(id, _) if id.network == *network);
                if is_its && (place == Place::Owed || record.is_of_another_boot(&self.ledger)) {
                    is_clear &= self
                        .settle_page(&key, Urgency::Now)?
                        .record
                        .is_none_or(|left| left.entries.iter().all(|entry| !is_in_the_way(entry)));
                }
            }
        }
        Ok(is_clear)
    }

    /// Carries out what is owed on a page by now; what is left of it. Nothing is done where somebody
    /// else works on it.
    pub(super) fn settle_page(&self, key: &str, urgency: Urgency) -> Result<After> {
        let mut page = match self.ledger.find_idle(key) {
            Ok(Some(page)) => page,
            Ok(None) => return Ok(After::default()),
            Err(error) if error.kind() == Kind::TryAgain => {
                return Ok(After { record: self.ledger.peek(key)?, done: Vec::new() });
            }
            Err(error) => return Err(error),
        };
        if page.record.is_of_another_boot(&self.ledger) {
            page.owe(self.now(), |_| true);
        }
        let done = self.carry_out(&mut page, Manner { urgency, is_first: false }, |_| true)?;
        self.finish(&mut page)?;
        Ok(After { record: (!page.is_empty()).then_some(page.record), done })
    }

    pub(super) fn finish(&self, page: &mut Page) -> Result<()> {
        self.bequeath(page);
        sandbox::unname(page);
        page.save()?;
        page.end()
    }

    /// An address that nobody can name goes with its pool.
    fn bequeath(&self, page: &mut Page) {
        let is_lost =
            |entry: &Entry| entry.owed.is_some() && matches!(entry.undo, Undo::UnknownAddress(..));
        let network = match &page.record.subject {
            Subject::Attachment(id, _) if page.record.entries.iter().any(is_lost) => {
                Subject::Network(id.network.clone())
            }
            Subject::Attachment(..) | Subject::Network(_) => return,
        };
        let Ok(heir) = self.ledger.find_idle(&network.key()) else { return };
        let lost: Vec<Entry> = page.record.entries.iter().filter(|e| is_lost(e)).cloned().collect();
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
        page.record.entries.retain(|entry| !is_lost(entry));
    }

    /// One pass over what is owed and `which` says, in Docker's order; what was done. The page is not
    /// saved.
    fn carry_out(
        &self,
        page: &mut Page,
        how: Manner,
        which: impl Fn(&Undo) -> bool,
    ) -> Result<Vec<Undo>> {
        let mut pass = Pass::default();
        for undo in order(&page.record.entries) {
            let found = page.record.entries.iter().find(|e| e.undo == undo && e.owed.is_some());
            let Some(owed) = found.and_then(|entry| entry.owed.clone()) else { continue };
            if !is_due(&owed, how.urgency, self.now()) {
                // What comes after it waits as long.
                pass.silent.insert(undo.driver().clone());
            }
            if !which(&undo) || pass.is_in_the_way_of(&undo) {
                pass.failed.push((undo, owed.refusals));
                continue;
            }
            // It may have been carried out before, and be somebody else's by now.
            let is_doubtful = !how.is_first || owed.tries > 0;
            if is_doubtful && self.is_somebody_elses(page, &undo)? {
                strike(page, &undo);
                continue;
            }
            match self.undo(page, &undo)? {
                Ok(done) => {
                    strike(page, &done);
                    pass.done.push(undo);
                }
                Err((undo, failed)) => {
                    if !matches!(failed.fate, Fate::Refused | Fate::Done) {
                        pass.silent.insert(undo.driver().clone());
                    }
                    let refusals = note(page, &undo, &failed, self.now());
                    pass.failed.push((undo, refusals));
                }
            }
        }
        Ok(pass.done)
    }

    /// Whether an address or a pool that is to be given back is in use on another page.
    fn is_somebody_elses(&self, page: &Page, undo: &Undo) -> Result<bool> {
        let is_named = undo.is_of_ipam() && !matches!(undo, Undo::UnknownPool(..));
        Ok(is_named && self.ledger.is_in_use(undo, page.key())?)
    }

    /// Sends one call: what was done by it, or what remains to be done and why.
    fn undo(&self, page: &mut Page, undo: &Undo) -> Result<Result<Undo, (Undo, Failed)>> {
        if let Undo::UnknownPool(driver, asked) = undo {
            return self.undo_unknown(page, undo, driver, asked);
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

    /// A pool whose name was lost with an answer: who asks for the same gets the same, and has it
    /// twice then where the driver counts.
    fn undo_unknown(
        &self,
        page: &mut Page,
        undo: &Undo,
        driver: &DriverName,
        asked: &PoolAsked,
    ) -> Result<Result<Undo, (Undo, Failed)>> {
        let before = page.record.entries.clone();
        // This answer may be lost as well.
        if before.iter().filter(|entry| entry.undo == *undo).count() < MOST_UNKNOWN {
            page.record.entries.extend(before.iter().find(|entry| entry.undo == *undo).cloned());
            page.save()?;
        }
        let pool = match self.calls.call(driver, &asked.call()?) {
            Ok(Answer::Pool(pool)) => pool.key,
            Err(Failed { undo: Some(release), .. }) => match *release {
                Call::ReleasePool(key) => key,
                _ => return Ok(Ok(undo.clone())),
            },
            Err(failed) => {
                if !failed.may_be_done() {
                    page.record.entries = before;
                }
                return Ok(Err((undo.clone(), failed)));
            }
            Ok(_) => return Ok(Ok(undo.clone())),
        };
        page.record.entries = before;
        let known = Undo::ReleasePool(driver.clone(), pool.to_string(), asked.clone());
        page.put(undo, known.clone());
        if !self.ledger.is_in_use(&known, page.key())? {
            page.hold(known.clone());
            page.owe(self.now(), |held| *held == known);
        }
        page.save()?;
        if let Err(failed) = self.send(&known) {
            return Ok(Err((known, failed)));
        }
        if page.record.entries.iter().filter(|entry| entry.undo == known).count() > 1 {
            page.strike(&known);
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
        let fresh =
            || self.failed.iter().filter(|(_, refusals)| *refusals < PATIENT).map(|(undo, _)| undo);
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

/// What is owed and can be called, as Docker sends it: what leads out, the sandbox, the endpoint, its
/// addresses or those of each pool and then the pool, the network.
fn order(entries: &[Entry]) -> Vec<Undo> {
    let owed = entries.iter().filter(|entry| entry.owed.is_some() && !entry.is_lost());
    let mut order: Vec<&Undo> = owed.map(|entry| &entry.undo).collect();
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
fn strike(page: &mut Page, done: &Undo) {
    page.strike(done);
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
    page.record.entries.retain(|entry| entry.owed.is_none() || !goes_with(&entry.undo));
    // The kernel's part is undone between Leave and this.
    if matches!(done, Undo::DeleteEndpoint(..)) {
        page.record.joined = None;
    }
}

/// Writes down that a call failed; how often the plugin has refused it by now.
fn note(page: &mut Page, undo: &Undo, failed: &Failed, now: Timestamp) -> u32 {
    let mut entries = page.record.entries.iter_mut();
    let Some(entry) = entries.find(|entry| entry.undo == *undo) else { return 0 };
    entry.owe(now);
    let Some(owed) = &mut entry.owed else { return 0 };
    owed.tries = owed.tries.saturating_add(1);
    owed.refusals = owed.refusals.saturating_add(u32::from(is_refusal(failed)));
    owed.tried = now;
    owed.error = failed.error.to_string();
    // Who refuses the same request again holds what it gave before, and will not name it.
    owed.is_hopeless = matches!(undo, Undo::UnknownPool(..))
        && failed.fate == Fate::Refused
        && owed.tries >= PATIENT;
    owed.refusals
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
    !entry.is_lost() && entry.owed.as_ref().is_some_and(|owed| owed.refusals < PATIENT)
}

fn is_due(owed: &Owed, urgency: Urgency, now: Timestamp) -> bool {
    let pause = 1_u64.checked_shl(owed.tries).unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE);
    // A clock that was put back is no reason to wait for it.
    urgency == Urgency::Now || owed.tries == 0 || now < owed.tried || now.0 - owed.tried.0 >= pause
}

fn name(subject: &Subject) -> String {
    match subject {
        Subject::Network(network) => format!("network {network}"),
        Subject::Attachment(id, _) => id.to_string(),
    }
}
