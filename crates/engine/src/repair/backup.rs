//! The durable part of the book as one piece: read out for a backup, and put back.
//!
//! What a boot holds (attachments, leases, ports) describes the kernel of that boot and is never part
//! of it. So a restore changes no running container: it puts back the records that its network needs.

mod meanwhile;
mod possible;

use std::collections::{BTreeMap, BTreeSet};

use model::{Error, Network, NetworkName, Result};

use crate::Repair;
use crate::addresses::overlap::clash;
use crate::addresses::shared::is_of_hosts;
use crate::port::{Damaged, Expect, Key, Outcome, Prefix, Record, Revision, Txn};
use crate::records::book::key_of_amendment;
use crate::repair::backup::meanwhile::{DurableRecords, is_address_of, is_misfit};

/// How often the book is read anew because another process wrote meanwhile.
const ATTEMPTS: usize = 50;

/// The records of one transaction.
const AT_ONCE: usize = 1000;

/// Where durable records are, beside networks and what is kept for each of them.
const OTHERS: [Prefix; 6] = [
    Prefix::Reservations,
    Prefix::Subnets,
    Prefix::Aliases,
    Prefix::Endpoints,
    Prefix::Amendments,
    Prefix::Usages,
];

/// How a backup is restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreMode {
    /// What is there and differs stays, and the rest is put back; else it is a conflict.
    pub keep_existing: bool,
    /// Nothing is written.
    pub dry_run: bool,
}

/// What a restore did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// What was missing and is there now.
    pub restored: Vec<Key>,
    /// How many records are there as they were.
    pub unchanged: usize,
    /// What is there, but different, and stays as it is.
    pub kept: Vec<Key>,
    /// What was missing and stays so, because its addresses do not fit what is kept.
    pub left_out: Vec<Key>,
}

impl Repair<'_> {
    /// What stands where a durable record should, and is none: no backup has it.
    pub fn damaged_durable(&self) -> Result<Vec<Damaged>> {
        let mut damaged = Vec::new();
        for prefix in std::iter::once(Prefix::Networks).chain(OTHERS) {
            damaged.extend(self.store.damaged(Some(&prefix))?);
        }
        Ok(damaged)
    }

    /// Every durable record, as of one moment: networks first, so that a restore that is killed leaves
    /// nothing without its network.
    ///
    /// Fails with `TryAgain` where other processes write all the time.
    pub fn backup(&self) -> Result<Vec<(Key, Record)>> {
        let mut before = self.durable()?;
        for _ in 0..ATTEMPTS {
            let now = self.durable()?;
            if revisions(&now) == revisions(&before) {
                let all = now.into_iter().map(|(key, (record, _))| (key, record));
                return Ok(all.filter(|(_, record)| !is_of_hosts(record)).collect());
            }
            before = now;
        }
        Err(Error::try_again(
            "the book is written all the time; back it up when the host is calmer",
        ))
    }

    /// Puts back what a backup holds and the book does not. All of it, or, where something else has a
    /// name or an address of it, nothing: then it fails with `Conflict` and names what. A
    /// restore that was killed is repeated.
    pub fn restore_backup(&self, backup: &[(Key, Record)], mode: RestoreMode) -> Result<Restored> {
        let here = self.durable()?;
        let mut result = Restored::default();
        let mut missing = Vec::new();
        for (key, record) in backup {
            refuse_misplaced(key, record)?;
            match here.get(key) {
                None => missing.push((key, record)),
                Some((present, _)) if present == record => result.unchanged += 1,
                // Counted on since the backup was taken.
                Some((Record::Usage(_), _)) => result.unchanged += 1,
                Some(_) => result.kept.push(key.clone()),
            }
        }
        if let (false, Some(key)) = (mode.keep_existing, result.kept.first()) {
            return Err(Error::conflict(format!(
                "{} is in the book already, and differs{}; --keep-existing leaves what is there and \
                 restores the rest",
                describe(key),
                others(result.kept.len() - 1)
            )));
        }
        let kept: Vec<&Key> = result.kept.iter().collect();
        let (left_out, missing): (Vec<_>, Vec<_>) =
            missing.into_iter().partition(|(_, record)| is_misfit(record, &kept, &here));
        let (with_them, missing): (Vec<_>, Vec<_>) =
            missing.into_iter().partition(|(_, record)| is_address_of(record, &left_out));
        let left_out = left_out.into_iter().chain(with_them);
        result.left_out = left_out.map(|(key, _)| key.clone()).collect();
        self.refuse_impossible(&missing)?;
        self.refuse_overlaps(&missing)?;
        self.refuse_taken_meanwhile(&missing)?;
        if !mode.dry_run {
            missing.chunks(AT_ONCE).try_for_each(|part| self.put_back(part))?;
        }
        result.restored = missing.into_iter().map(|(key, _)| key.clone()).collect();
        Ok(result)
    }

    fn put_back(&self, part: &[(&Key, &Record)]) -> Result<()> {
        let mut txn = Txn::new();
        for (key, record) in part {
            txn =
                txn.require((*key).clone(), Expect::Absent).put((*key).clone(), (*record).clone());
            if let Record::Network(network) = record {
                txn = self.records.claim_title(network.called(), &network.name, txn)?;
            }
        }
        match self.store.commit(&txn)? {
            Outcome::Done(_) => Ok(()),
            Outcome::Lost(key) => Err(Error::try_again(format!(
                "{} was made while the backup was restored; restore it again",
                describe(&key)
            ))),
        }
    }

    /// A subnet belongs to one network: of the book, or of the backup.
    fn refuse_overlaps(&self, missing: &[(&Key, &Record)]) -> Result<()> {
        let networks: Vec<&Network> = missing
            .iter()
            .filter_map(|(_, record)| match record {
                Record::Network(network) => Some(&**network),
                _ => None,
            })
            .collect();
        for (at, network) in networks.iter().enumerate() {
            let among = networks.iter().take(at).find_map(|other| clash(network, other));
            if let Some(error) =
                among.map_or_else(|| self.addresses.overlapping(network), |it| Ok(Some(it)))?
            {
                let message = format!("network {} cannot be restored: {error}", network.name);
                return Err(Error::conflict(message));
            }
        }
        Ok(())
    }

    fn durable(&self) -> Result<DurableRecords> {
        let mut found = BTreeMap::new();
        let mut take = |prefix: &Prefix| -> Result<Vec<Key>> {
            let listed = self.store.list(prefix)?;
            let keys = listed.iter().map(|(key, _)| key.clone()).collect();
            found.extend(listed.into_iter().map(|(key, it)| (key, (it.record, it.revision))));
            Ok(keys)
        };
        let declared = take(&Prefix::Networks)?;
        for prefix in &OTHERS {
            take(prefix)?;
        }
        // Networks of configurations have owners too, and are in no durable record but these.
        let reserved = found.values().filter_map(|(record, _)| match record {
            Record::Reservation(reservation) => reservation.network.clone(),
            _ => None,
        });
        let declared = declared.into_iter().filter_map(|key| match key {
            Key::Network(name) => Some(name),
            _ => None,
        });
        let networks: BTreeSet<NetworkName> = reserved.chain(declared).collect();
        for name in networks {
            let sticky = self.store.list(&Prefix::StickyOf(name))?.into_iter();
            found.extend(sticky.map(|(key, it)| (key, (it.record, it.revision))));
        }
        Ok(found)
    }
}

fn revisions(records: &BTreeMap<Key, (Record, Revision)>) -> Vec<(&Key, Revision)> {
    records.iter().map(|(key, (_, revision))| (key, *revision)).collect()
}

/// A record under another one's name would not be found, or by the wrong object.
fn refuse_misplaced(key: &Key, record: &Record) -> Result<()> {
    let is_its_own = match (key, record) {
        (Key::Network(name), Record::Network(network)) => *name == network.name,
        (Key::Reservation(space, address), Record::Reservation(held)) => {
            *space == held.space && *address == held.address
        }
        (Key::Subnet(id), Record::Subnet(subnet)) => *id == subnet.id,
        (Key::Alias(id), Record::Alias(alias)) => *id == alias.id,
        (Key::Endpoint(id), Record::Attachment(held)) => *id == held.id,
        (Key::Amendment(..), Record::Amendment(held)) => *key == key_of_amendment(held),
        (Key::Sticky(..), Record::Sticky(_)) | (Key::Usage(..), Record::Usage(_)) => true,
        _ => false,
    };
    match is_its_own {
        true => Ok(()),
        false => Err(Error::invalid(format!("the backup has another record as {}", describe(key)))),
    }
}

/// What a key names, for people.
pub fn describe(key: &Key) -> String {
    let of = |network: &NetworkName| format!("of network {network}");
    match key {
        Key::Network(name) | Key::Configured(name) => format!("network {name}"),
        Key::Title(name) => format!("the network name {name}"),
        Key::Attachment(id, _) => format!("attachment {} {}", id.container, of(&id.network)),
        Key::Endpoint(id) => format!("endpoint {} {}", id.container, of(&id.network)),
        Key::Lease(_, address) => format!("the lease of {address}"),
        Key::Reservation(_, address) => format!("the reservation of {address}"),
        Key::Cursor(pool) => format!("the cursor of pool {} {}", pool.index, of(&pool.network)),
        Key::Port(protocol, port) => format!("port {port}/{protocol}"),
        Key::Sticky(network, owner) => format!("the addresses that {owner} had {}", of(network)),
        Key::Subnet(id) => format!("the allocated subnet {id}"),
        Key::Alias(id) => format!("a runtime's network {id}"),
        Key::Sandbox(container) => format!("sandbox {container}"),
        Key::Amendment(network, runtime, name) => {
            format!("what was changed of {runtime}'s container {name} {}", of(network))
        }
        Key::Usage(network, runtime, name, ifname) => {
            let of = of(network);
            format!("what {runtime}'s container {name} ({ifname}) has used of its quota {of}")
        }
    }
}

fn others(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => ", as does one more record".to_owned(),
        count => format!(", as do {count} more records"),
    }
}
