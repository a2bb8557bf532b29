//! A store that ends with its process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::port::{Key, Outcome, Prefix, Revision, Store, Txn, Versioned};
use model::Result;

/// Records in memory: for tests, and the yardstick for every other store.
#[derive(Debug, Default)]
pub struct Memory {
    book: Mutex<MemoryRecords>,
}

#[derive(Debug, Default)]
struct MemoryRecords {
    sequence: u64,
    records: BTreeMap<Key, Versioned>,
    unreported: BTreeSet<Key>,
}

impl Memory {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes what a reboot of the host removes.
    pub fn reboot(&self) {
        self.book().records.retain(|key, _| key.is_durable());
    }

    fn book(&self) -> MutexGuard<'_, MemoryRecords> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Memory {
    fn get(&self, key: &Key) -> Result<Option<Versioned>> {
        Ok(self.book().records.get(key).cloned())
    }

    fn list(&self, prefix: &Prefix) -> Result<Vec<(Key, Versioned)>> {
        let book = self.book();
        let found = book.records.iter().filter(|(key, _)| is_under(key, prefix));
        Ok(found.map(|(key, held)| (key.clone(), held.clone())).collect())
    }

    fn commit(&self, txn: &Txn) -> Result<Outcome> {
        let mut book = self.book();
        for (key, expect) in &txn.expect {
            let found = book.records.get(key).map(|held| held.revision);
            if !expect.holds(found) {
                return Ok(Outcome::Lost(key.clone()));
            }
        }
        book.sequence += 1;
        let revision = Revision(book.sequence);
        for (key, change) in &txn.changes {
            match txn.unreported && change.is_some() {
                true => book.unreported.insert(key.clone()),
                false => book.unreported.remove(key),
            };
            match change {
                Some(record) => {
                    let held = Versioned { record: record.clone(), revision };
                    book.records.insert(key.clone(), held);
                }
                None => drop(book.records.remove(key)),
            }
        }
        Ok(Outcome::Done(revision))
    }

    fn mark_answered(&self, key: &Key) -> Result<()> {
        self.book().unreported.remove(key);
        Ok(())
    }

    fn is_answered(&self, key: &Key) -> Result<bool> {
        Ok(!self.book().unreported.contains(key))
    }
}

fn is_under(key: &Key, prefix: &Prefix) -> bool {
    match (prefix, key) {
        (Prefix::Networks, Key::Network(_))
        | (Prefix::Configured, Key::Configured(_))
        | (Prefix::Attachments, Key::Attachment(..))
        | (Prefix::AllLeases, Key::Lease(..))
        | (Prefix::Ports, Key::Port(..))
        | (Prefix::Reservations, Key::Reservation(..))
        | (Prefix::Subnets, Key::Subnet(_))
        | (Prefix::Aliases, Key::Alias(_))
        | (Prefix::Sandboxes, Key::Sandbox(_))
        | (Prefix::Amendments, Key::Amendment(..))
        | (Prefix::Usages, Key::Usage(..))
        | (Prefix::Endpoints, Key::Endpoint(_)) => true,
        (Prefix::AmendmentsOf(wanted), Key::Amendment(network, ..))
        | (Prefix::UsagesOf(wanted), Key::Usage(network, ..)) => network == wanted,
        (Prefix::EndpointsOf(network), Key::Endpoint(id)) => id.network == *network,
        (Prefix::AttachmentsOf(network), Key::Attachment(id, _)) => id.network == *network,
        (Prefix::AttachmentsOfContainer(wanted), Key::Attachment(id, _)) => id.container == *wanted,
        (Prefix::Leases(wanted), Key::Lease(space, _)) => space == wanted,
        (Prefix::StickyOf(wanted), Key::Sticky(network, _)) => network == wanted,
        _ => false,
    }
}
