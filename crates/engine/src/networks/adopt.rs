//! Networks that a runtime's file describes, joined before their first container there.

use model::{Error, Network, NetworkName, Result};

use crate::Networks;
use crate::contention::RACES;
use crate::port::{Described, Expect, Key, Outcome, Record, Txn};

impl Networks<'_> {
    /// The network of this name, to be joined: as [`Records::network`](crate::Records::network), and where only a
    /// runtime's file describes it, the book has it from then on.
    ///
    /// # Errors
    /// `NotFound` where there is none, and `Conflict` where another network has its subnet.
    pub fn joined(&self, name: &NetworkName) -> Result<Network> {
        match self.records.find(name)? {
            Some(network) => Ok(network),
            None => {
                self.adopt(name)?;
                self.records.network(name)
            }
        }
    }

    /// Has the book know a network that only a runtime's file describes, as its first container there would. A name
    /// that the book has, or that no file has, is no error.
    ///
    /// # Errors
    /// `Conflict` where another network has its subnet, or a renamed one its name in the kernel.
    pub fn adopt(&self, name: &NetworkName) -> Result<()> {
        for _ in 0..RACES {
            let named = self.records.named(name)?;
            if named.as_ref().is_some_and(|named| named.called() == name) {
                return Ok(());
            }
            let Some(described) = self.records.described_as(name) else { return Ok(()) };
            if let Some(renamed) = named {
                return Err(taken(&described, &renamed));
            }
            let Some(network) = described.network else { return Ok(()) };
            self.addresses.refuse_taken(&network)?;
            let key = Key::Configured(name.clone());
            let txn = Txn::new()
                .require(key.clone(), Expect::Absent)
                .require(Key::Network(name.clone()), Expect::Absent)
                .put(key, Record::Network(network));
            if let Outcome::Done(_) = self.store.commit(&txn)? {
                return Ok(());
            }
        }
        Err(Error::try_again(format!("network {name} changes all the time")))
    }
}

/// The book, and the kernel, have the name for a network that was called so when containers came.
fn taken(Described { name, by, file, .. }: &Described, renamed: &Network) -> Error {
    let called = renamed.called();
    Error::conflict(format!(
        "network {name} of {by}'s ({file}) cannot be made: network {called} had that name and keeps it in the kernel; \
         give {by}'s another name, or make {called} anew"
    ))
}
