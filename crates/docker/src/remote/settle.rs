//! What plugins are owed, told and settled by whoever comes by.

use std::collections::BTreeSet;

use model::{Kind, NetworkName, Result, Timestamp};

use super::ledger::{Entry, Place, Record, Subject};
use super::owed::{PATIENT, is_in_the_way};
use super::{DeadEnd, Debt, Debtor, Remote, Settled, Urgency};

impl Remote {
    /// What plugins are owed. Calls nobody.
    pub fn owed(&self) -> Result<Vec<Debt>> {
        let mut debts = Vec::new();
        for place in [Place::Held, Place::Owed] {
            for key in self.ledger.keys(place)? {
                match self.ledger.peek(&key) {
                    Ok(Some(record)) => debts.extend(self.debts(&key, &record)),
                    Ok(None) => {}
                    Err(error) => debts.push(unreadable(&key, error.to_string())),
                }
            }
        }
        let odd = self.ledger.odd()?;
        debts.extend(odd.iter().map(|name| self::odd(name)));
        Ok(debts)
    }

    /// Carries out what is owed. Safe beside other processes that do the same.
    pub fn settle(&self, urgency: Urgency) -> Result<Settled> {
        let mut settled = Settled::default();
        let mut keys = self.ledger.keys(Place::Owed)?;
        if urgency == Urgency::Now || !self.was_swept() {
            self.ledger.tidy();
            let held = self.ledger.records(Place::Held)?.into_iter();
            let void = held.filter(|(_, record)| record.is_of_another_boot(&self.ledger));
            keys.extend(void.map(|(key, _)| key));
        }
        // Endpoints come before networks.
        keys.sort_unstable();
        let mut waiting = BTreeSet::new();
        for key in keys {
            match self.settle_one(&key, urgency, &mut waiting) {
                Ok(one) => {
                    settled.done.extend(one.done);
                    settled.moot.extend(one.moot);
                    settled.left.extend(one.left);
                }
                Err(error) => settled.left.push(unreadable(&key, error.to_string())),
            }
        }
        Ok(settled)
    }

    fn settle_one(
        &self,
        key: &str,
        urgency: Urgency,
        waiting: &mut BTreeSet<NetworkName>,
    ) -> Result<Settled> {
        let Some(before) = self.ledger.peek(key)? else { return Ok(Settled::default()) };
        let owed = self.debts(key, &before);
        if matches!(&before.subject, Subject::Network(network) if waiting.contains(network)) {
            return Ok(Settled { left: owed, ..Settled::default() });
        }
        let after = self.settle_page(key, urgency)?;
        let left: Vec<Debt> =
            after.record.iter().flat_map(|record| self.debts(key, record)).collect();
        if let Some(Record { subject: Subject::Attachment(id, _), entries, .. }) = &after.record
            && entries.iter().any(is_in_the_way)
        {
            waiting.insert(id.network.clone());
        }
        let was_sent = |debt: &Debt| after.done.iter().any(|undo| undo.to_string() == debt.what);
        let gone = owed.into_iter().filter(|debt| left.iter().all(|left| left.what != debt.what));
        let (done, moot) = gone.partition(was_sent);
        Ok(Settled { done, moot, left })
    }

    /// Forgets every debt that no call will settle ([`Debt::dead_end`]), and tells which: whatever
    /// plugins have because of these stays theirs. A page that somebody works on, or that a later
    /// Spoke wrote, is left as it is. Calls nobody.
    pub fn write_off(&self) -> Result<Vec<Debt>> {
        let mut given = Vec::new();
        for key in self.ledger.keys(Place::Owed)? {
            let Ok(Some(mut page)) = self.ledger.find_idle(&key) else { continue };
            let debts = self.debts(&key, &page.record).into_iter();
            given.extend(debts.filter(|debt| debt.dead_end.is_some()));
            page.record.entries.retain(|entry| self.dead_end(entry).is_none());
            self.finish(&mut page)?;
        }
        for name in self.ledger.odd()? {
            self.ledger.forget_odd(&name)?;
            given.push(odd(&name));
        }
        Ok(given)
    }

    /// Why no call will settle what is owed.
    fn dead_end(&self, entry: &Entry) -> Option<DeadEnd> {
        let owed = entry.owed.as_ref()?;
        if entry.is_lost() {
            return Some(DeadEnd::Lost);
        }
        if owed.refusals >= PATIENT {
            return Some(DeadEnd::Refused);
        }
        let life = self.calls.life(entry.undo.driver());
        let is_gone = life.is_err_and(|failed| failed.kind() == Kind::NotFound);
        is_gone.then_some(DeadEnd::Uninstalled)
    }

    fn debts(&self, key: &str, record: &Record) -> Vec<Debt> {
        let is_void = record.is_of_another_boot(&self.ledger);
        let entries = record.entries.iter().filter(|entry| is_void || entry.owed.is_some());
        let debts = entries.map(|entry| {
            let mut entry = entry.clone();
            entry.owe(self.now());
            let dead_end = self.dead_end(&entry);
            let (since, tries, error) = entry.owed.map_or((self.now(), 0, String::new()), |owed| {
                (owed.since, owed.tries, owed.error)
            });
            let who = match &record.subject {
                Subject::Network(network) => Debtor::Network(network.clone()),
                Subject::Attachment(id, _) => Debtor::Attachment(id.clone()),
            };
            let driver = Some(entry.undo.driver().clone());
            let (what, held) = (entry.undo.to_string(), entry.undo.held());
            let page = key.to_owned();
            Debt { who, driver, what, since, tries, error, held, dead_end, page }
        });
        debts.collect()
    }
}

fn odd(name: &str) -> Debt {
    let error = "it is no page of the ledger".to_owned();
    Debt { dead_end: Some(DeadEnd::Unreadable), ..unreadable(name, error) }
}

fn unreadable(key: &str, error: String) -> Debt {
    Debt {
        who: Debtor::Unreadable,
        driver: None,
        what: "what it says".to_owned(),
        since: Timestamp(0),
        tries: 0,
        error,
        held: "what nobody knows".to_owned(),
        dead_end: None,
        page: key.to_owned(),
    }
}
