//! Networks of third-party plugins: a Docker plugin makes their links, or allocates their
//! addresses.
//!
//! The record says that the network is being made before any plugin is called, and that it is being
//! removed before any plugin is called, so that no caller uses a half of it. The half that a dead
//! process left is removed when it is found: by a call that makes a network of that name, or by the
//! reconciler.

use model::{Error, Network, NetworkName, Result, Stage, Unmaking};

use crate::Networks;
use crate::contention::RACES;
use crate::failures::all_of;
use crate::finding::{Finding, Garbage, Mode, Reconciled, Remedy};
use crate::networks::network::{ended, refuse_if_used};
use crate::port::{Expect, Key, Outcome, Prefix, Record, Txn};
use crate::records::book::{Read, unchanged};
use crate::records::network::exists;

impl Networks<'_> {
    /// Makes a network of third-party plugins. After a failure nothing is left, or a record that
    /// says what is.
    pub(super) fn provision(&self, network: &Network) -> Result<()> {
        let stage = Stage::Making { by: self.host.me() };
        let Some(mut read) = self.intend(&Network { stage, ..network.clone() })? else {
            return Err(exists(network.called()));
        };
        let mut is_created = false;
        self.provision_all(&mut read, &mut is_created).inspect_err(|_| {
            // If this fails the record says so, and the next call continues.
            let _ = self.deprovision(read, is_created, DeprovisionOrder::DriverFirst);
        })
    }

    /// Writes the record of a network that is not there; `None` where there is one.
    ///
    /// # Errors
    /// [`model::Kind::Conflict`] where another network is called so.
    pub(super) fn intend(&self, network: &Network) -> Result<Option<Read<Box<Network>>>> {
        let key = Key::Network(network.name.clone());
        let value = Box::new(network.clone());
        for _ in 0..RACES {
            let txn = Txn::new().require(key.clone(), Expect::Absent);
            let txn = self.records.claim_title(network.called(), &network.name, txn)?;
            let txn = txn.put(key.clone(), Record::Network(value.clone()));
            match self.store.commit(&txn)? {
                Outcome::Done(revision) => return Ok(Some(Read { value, revision })),
                Outcome::Lost(Key::Title(_)) => {}
                Outcome::Lost(_) => return Ok(None),
            }
        }
        Err(Error::try_again(format!("networks are called {} all the time", network.called())))
    }

    fn provision_all(&self, read: &mut Read<Box<Network>>, is_created: &mut bool) -> Result<()> {
        // Another process may have declared an overlapping network meanwhile. Then neither stays.
        self.addresses.overlapping(&read.value)?.map_or(Ok(()), Err)?;
        let given = self.ipam.request(&read.value)?;
        if given != read.value.ipam {
            let mut with = read.value.clone();
            with.ipam = given;
            // It was given, whether or not that can be written down.
            read.value = with.clone();
            self.rewrite(read, with)?;
            self.addresses.overlapping(&read.value)?.map_or(Ok(()), Err)?;
        }
        *is_created = true;
        self.driver.create(&read.value)?;
        self.move_to(read, Stage::Made)
    }

    /// Removes a network from the third-party plugins; what fails stays in its record. `false`:
    /// another process works on it.
    fn deprovision(
        &self,
        mut read: Read<Box<Network>>,
        is_created: bool,
        first: DeprovisionOrder,
    ) -> Result<bool> {
        let network = &read.value;
        let driver = || match is_created {
            true => self.driver.remove(network),
            false => Ok(()),
        };
        let ipam = || self.ipam.remove(network);
        let failures = match first {
            DeprovisionOrder::DriverFirst => [driver(), ipam()],
            DeprovisionOrder::IpamFirst => {
                let given_back = ipam();
                [driver(), given_back]
            }
        };
        let failures: Vec<Error> = failures.into_iter().filter_map(Result::err).collect();
        if !failures.is_empty() {
            // Where this fails too, the process that the record names ends some day.
            let _ = self.move_to(&mut read, Stage::Failed);
            let doing = format!("taking network {} down", read.value.name);
            return all_of(failures).map_err(|error| error.context(doing)).map(|()| false);
        }
        let name = &read.value.name;
        let txn = ended(&read).delete(Key::Configured(name.clone()));
        let pools = read.value.ipam.pools().iter();
        let txn = pools.fold(txn, |txn, pool| txn.delete(Key::Cursor(pool.id.clone())));
        Ok(matches!(
            self.store.commit(&self.subnets.forget_auxiliary(name, txn)?)?,
            Outcome::Done(_)
        ))
    }

    /// Removes a network of third-party plugins, with its attachments if `detach_all`. Docker's
    /// order: its addresses are released before its driver is called.
    pub(super) fn unmake(&self, name: &NetworkName, detach_all: bool) -> Result<()> {
        let Some(mut read) = self.records.network_under(&Key::Network(name.clone()))? else {
            return Err(Error::not_found(format!("network {name} was just removed")));
        };
        self.records.refuse_if_worked_on(&read.value)?;
        if !detach_all {
            self.refuse_if_in_use(name)?;
        }
        self.records.refuse_if_unreadable(name)?;
        let was = read.value.stage;
        self.move_to(&mut read, Stage::Unmaking { by: self.host.me(), why: Unmaking::Removed })?;
        // No attachment can begin any more, but one may have begun just before.
        let emptied = match detach_all {
            true => self.empty(name),
            false => self.refuse_if_in_use(name),
        };
        if let Err(error) = emptied {
            // The first error is returned. If this fails, the record names this process until it
            // ends.
            let _ = self.move_to(&mut read, was);
            return Err(error);
        }
        let is_created = is_perhaps_created(&read.value);
        self.deprovision(read, is_created, DeprovisionOrder::IpamFirst).map(|_| ())
    }

    fn refuse_if_in_use(&self, name: &NetworkName) -> Result<()> {
        let records = self.records.attachments_in(&Prefix::AttachmentsOf(name.clone()))?;
        refuse_if_used(name, &records, &self.records.aliases_of(name)?)
    }

    /// Detaches every attachment of a network, and removes its ids.
    fn empty(&self, name: &NetworkName) -> Result<()> {
        self.detach_all(self.records.attachments_in(&Prefix::AttachmentsOf(name.clone()))?)?;
        let ids = self.records.aliases_of(name)?.into_iter().map(|alias| Key::Alias(alias.id));
        self.store.commit(&ids.fold(Txn::new(), Txn::delete)).map(|_| ())
    }

    /// Removes what is left of a half-made network of this name, if there is one. Fails where
    /// another process works on it.
    pub(super) fn clear_remains(&self, name: &NetworkName) -> Result<()> {
        match self.records.network_under(&Key::Network(name.clone()))? {
            Some(read) if self.records.is_failed(&read.value) => self.take_down(read).map(|_| ()),
            Some(read) => self.records.refuse_if_worked_on(&read.value),
            None => Ok(()),
        }
    }

    fn take_down(&self, mut read: Read<Box<Network>>) -> Result<bool> {
        let first = match read.value.stage {
            Stage::Making { .. } => DeprovisionOrder::DriverFirst,
            Stage::Unmaking { .. }
            | Stage::Failed
            | Stage::Made
            | Stage::Draining
            | Stage::Template => DeprovisionOrder::IpamFirst,
        };
        self.move_to(&mut read, Stage::Unmaking { by: self.host.me(), why: Unmaking::Removed })?;
        if let Err(error) = self.empty(&read.value.name) {
            // The first error is returned. If this fails, the record names this process until it
            // ends.
            let _ = self.move_to(&mut read, Stage::Failed);
            return Err(error);
        }
        let is_created = is_perhaps_created(&read.value);
        self.deprovision(read, is_created, first)
    }

    /// Networks that a dead process left half made or half taken down; returns the others.
    pub(crate) fn half_made(
        &self,
        mode: Mode,
        found: &mut Reconciled,
    ) -> Result<Vec<Read<Box<Network>>>> {
        let networks = self.records.networks_in(&Prefix::Networks)?.into_iter();
        let (halves, whole): (Vec<_>, Vec<_>) =
            networks.partition(|read| self.records.is_failed(&read.value));
        for read in halves {
            let what = Garbage::Network(read.value.name.clone());
            let removed = match mode {
                Mode::Mend => self.take_down(read),
                Mode::DryRun => Ok(true),
            };
            if let Ok(false) = removed {
                continue;
            }
            found.add(Finding { what, remedy: Remedy::Free }, removed.map(|_| ()));
        }
        Ok(whole)
    }

    fn move_to(&self, read: &mut Read<Box<Network>>, stage: Stage) -> Result<()> {
        let mut with = read.value.clone();
        with.stage = stage;
        self.rewrite(read, with)
    }

    fn rewrite(&self, read: &mut Read<Box<Network>>, with: Box<Network>) -> Result<()> {
        let key = Key::Network(with.name.clone());
        let txn = Txn::new().require(key.clone(), unchanged(Some(read)));
        match self.store.commit(&txn.put(key, Record::Network(with.clone())))? {
            Outcome::Done(revision) => {
                *read = Read { value: with, revision };
                Ok(())
            }
            Outcome::Lost(_) => {
                Err(Error::try_again(format!("another process is changing network {}", with.name)))
            }
        }
    }
}

/// Which plugin is called first when a network is removed.
#[derive(Clone, Copy)]
enum DeprovisionOrder {
    /// When what was made is released in reverse order.
    DriverFirst,
    /// When the network is removed, as Docker does.
    IpamFirst,
}

/// Whether the driver may know the network: it is called when the addresses are known.
fn is_perhaps_created(network: &Network) -> bool {
    let pools = network.ipam.remote().into_iter().flat_map(|remote| &remote.pools);
    pools.into_iter().all(|pool| pool.given.is_some())
}
