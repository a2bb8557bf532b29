//! Addresses that names keep on a network of many hosts, outside and inside the blocks of this host; their
//! end.

use std::net::IpAddr;

use model::{Error, NetworkName, OwnerName, Reservation, Result, Space};

use super::kept::is_learned;
use super::shared::is_pin;
use crate::Addresses;
use crate::port::{Expect, Key, Outcome, Prefix, Record, Txn};
use crate::records::book::{Read, unchanged};
use crate::records::reservation::PINNED;

/// An address, and the name that keeps it.
type AddressOwner = (IpAddr, OwnerName);

/// So many are changed in one transaction.
const BATCH: usize = 100;

impl Addresses<'_> {
    /// Has names keep these addresses apart from this host's blocks, as those that the others gave to this host; whether
    /// they do. Where an operator has reserved one, nothing changes. Repeating it is no error.
    ///
    /// # Errors
    /// `TryAgain` where another process changes one of them.
    pub fn keep_apart(&self, network: &NetworkName, kept: &[AddressOwner]) -> Result<bool> {
        let mut changed = Vec::new();
        for (address, name) in kept {
            match self.records.reservation_of(&Space::Host, *address)? {
                Some(read) if is_learned(&read.value, network, name) => changed.push(Read {
                    value: Reservation {
                        owner: Some(PINNED.parse()?),
                        learned: false,
                        ..read.value
                    },
                    ..read
                }),
                Some(read) if !is_pin(&read.value) => return Ok(false),
                Some(_) | None => {}
            }
        }
        self.rewrite(changed).map(|()| true)
    }

    /// Has a name keep an address as one of this host's blocks that it kept apart from them. Repeating it is no error.
    ///
    /// # Errors
    /// `TryAgain` where another process changes it.
    pub fn keep_within(&self, network: &NetworkName, (address, name): &AddressOwner) -> Result<()> {
        let read = self.records.reservation_of(&Space::Host, *address)?;
        let read =
            read.filter(|read| is_pin(&read.value) && read.value.network.as_ref() == Some(network));
        let changed = read.map(|read| Read {
            value: Reservation { owner: Some(name.clone()), learned: true, ..read.value },
            ..read
        });
        self.rewrite(changed.into_iter().collect())
    }

    /// Writes reservations that are as they were read but for what is new.
    fn rewrite(&self, changed: Vec<Read<Reservation>>) -> Result<()> {
        for some in changed.chunks(BATCH) {
            let txn = some.iter().fold(Txn::new(), |txn, read| {
                let key = Key::Reservation(Space::Host, read.value.address);
                let txn = txn.require(key.clone(), unchanged(Some(read)));
                txn.put(key, Record::Reservation(read.value.clone()))
            });
            if let Outcome::Lost(_) = self.store.commit(&txn)? {
                return Err(Error::try_again("addresses that names keep change right now"));
            }
        }
        Ok(())
    }

    /// Forgets what names keep on a network that is not on this host any more. An operator's reservations stay. Repeating
    /// it is no error.
    ///
    /// # Errors
    /// `TryAgain` where another process changes it.
    pub fn forget_names(&self, network: &NetworkName) -> Result<()> {
        for (key, versioned) in self.store.list(&Prefix::StickyOf(network.clone()))? {
            let (Key::Sticky(_, name), Record::Sticky(addresses)) = (&key, versioned.record) else {
                continue;
            };
            let mut txn = Txn::new().require(key.clone(), Expect::At(versioned.revision));
            let mut rest = Vec::new();
            for address in addresses {
                match self.records.reservation_of(&Space::Host, address)? {
                    Some(read) if is_learned(&read.value, network, name) => {
                        let key = Key::Reservation(Space::Host, address);
                        txn = txn.require(key.clone(), unchanged(Some(&read))).delete(key);
                    }
                    Some(read) if read.value.owner.as_ref() == Some(name) => rest.push(address),
                    // What the others gave to this host ends with their record of it.
                    Some(_) | None => {}
                }
            }
            let txn = match rest.is_empty() {
                true => txn.delete(key.clone()),
                false => txn.put(key.clone(), Record::Sticky(rest)),
            };
            if let Outcome::Lost(_) = self.store.commit(&txn)? {
                return Err(Error::try_again(format!(
                    "what name {name} keeps on network {network} changes right now"
                )));
            }
        }
        Ok(())
    }
}
