//! What plugins are owed, told and settled by whoever comes by.

use std::collections::BTreeSet;

use model::{NetworkName, Result, Timestamp};

use super::ledger::{Place, Record, Subject};
use super::owed::is_in_the_way;
use super::{Debt, Debtor, Remote, Settled, Urgency};

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
        let why = || "it is no page of the ledger".to_owned();
        debts.extend(odd.iter().map(|key| unreadable(key, why())));
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
                Ok((done, left)) => {
                    settled.done.extend(done);
                    settled.left.extend(left);
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
    ) -> Result<(Vec<Debt>, Vec<Debt>)> {
        let Some(before) = self.ledger.peek(key)? else { return Ok((Vec::new(), Vec::new())) };
        let mut owed = self.debts(key, &before);
        if matches!(&before.subject, Subject::Network(network) if waiting.contains(network)) {
            return Ok((Vec::new(), owed));
        }
        let after = self.settle_page(key, urgency)?;
        let left: Vec<Debt> = after.iter().flat_map(|record| self.debts(key, record)).collect();
        if let Some(Record { subject: Subject::Attachment(id, _), entries, .. }) = &after
            && entries.iter().any(is_in_the_way)
        {
            waiting.insert(id.network.clone());
        }
        owed.retain(|debt| left.iter().all(|left| left.what != debt.what));
        Ok((owed, left))
    }

    /// Forgets what is owed on a page of the ledger: whatever the plugin holds stays there. Fails
    /// with [`Kind::NotFound`] where there is no such page.
    pub fn forget(&self, page: &str) -> Result<()> {
        self.ledger.forget(page)
    }

    fn debts(&self, key: &str, record: &Record) -> Vec<Debt> {
        let is_void = record.is_of_another_boot(&self.ledger);
        let entries = record.entries.iter().filter(|entry| is_void || entry.owed.is_some());
        let debts = entries.map(|entry| {
            let mut entry = entry.clone();
            entry.owe(self.now());
            let is_lost = entry.is_lost();
            let (since, tries, error) = entry.owed.map_or((self.now(), 0, String::new()), |owed| {
                (owed.since, owed.tries, owed.error)
            });
            let who = match &record.subject {
                Subject::Network(network) => Debtor::Network(network.clone()),
                Subject::Attachment(id, _) => Debtor::Attachment(id.clone()),
            };
            let driver = Some(entry.undo.driver().clone());
            let (what, page) = (entry.undo.to_string(), key.to_owned());
            Debt { who, driver, what, since, tries, error, is_lost, page }
        });
        debts.collect()
    }
}

fn unreadable(key: &str, error: String) -> Debt {
    Debt {
        who: Debtor::Unreadable,
        driver: None,
        what: "what it says".to_owned(),
        since: Timestamp(0),
        tries: 0,
        error,
        is_lost: true,
        page: key.to_owned(),
    }
}
